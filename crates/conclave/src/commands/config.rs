//! `conclave config`: shows every setting, its value and its origin.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use api::ByteSize;
use serde::Serialize;

use super::up;
use crate::config::{Config, ConfigValue, IsolationMode};
use crate::node::options;
use crate::print::{OutputFormat, Stdout, TextTable};

/// The arguments of `conclave config`. It accepts the flags of `conclave up` and shows their effect.
#[derive(clap::Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    up: up::UpArgs,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// One setting as `conclave config` prints it: key, value, origin, default and documentation.
#[derive(Serialize)]
struct SettingRow {
    key: String,
    value: String,
    from: String,
    default: &'static str,
    variable: String,
    about: &'static str,
}

pub(crate) fn run(args: ConfigArgs) -> Result<ExitCode> {
    let layers = args.up.layers()?;
    let config = layers.config();
    let automatic = config.as_ref().map_or_else(|_| Vec::new(), automatic_values);
    let settings = layers.settings().map(|setting| {
        let value = (setting.key.normalize)(&setting.text).map_err(|problem| {
            anyhow!(
                "{} ({}) is '{}': {problem}; expected {}",
                setting.key.name,
                setting.origin,
                setting.text,
                setting.key.accepts
            )
        })?;
        let chosen = automatic
            .iter()
            .find(|(key, _)| *key == setting.key.name && value == AUTO);
        let from = setting.origin.to_string();
        let (value, from) = match chosen {
            Some((_, chosen)) => (chosen.clone(), format!("{from}: auto, by this machine")),
            None => (value, from),
        };
        Ok(SettingRow {
            key: setting.key.name.to_string(),
            value,
            from,
            default: setting.key.default,
            variable: setting.key.variable(),
            about: setting.key.doc,
        })
    });
    let mut settings: Vec<SettingRow> = settings.collect::<Result<_>>()?;
    settings.extend(layers.roots().map(|root| SettingRow {
        key: root.key(),
        value: root.path.display().to_string(),
        from: root.origin.to_string(),
        default: "",
        variable: String::new(),
        about: "Folder of a root that the operator manages.",
    }));
    let format = match args.json {
        true => OutputFormat::Json,
        false => OutputFormat::Text,
    };
    print_settings(&settings, format)?;
    // An invalid combination is reported after the list, so that the values it names can be seen.
    config?;
    Ok(ExitCode::SUCCESS)
}

const AUTO: &str = "auto";

/// The values that `auto` stands for on this machine.
fn automatic_values(config: &Config) -> Vec<(&'static str, String)> {
    let capacity = options::capacity(config);
    let max_memory = ByteSize(capacity.max_memory()).to_text();
    let open_files = options::open_files(config).to_string();
    let mut values = vec![
        ("executor.reserve", ByteSize(options::reserve(config)).to_text()),
        ("executor.slot_memory", ByteSize(capacity.memory).to_text()),
        ("sandbox.open_files", open_files.clone()),
        ("sandbox.roots", config.roots_folder().display().to_string()),
        // Each applies to a task that leaves the other one of the two at its default.
        ("limits.max.memory", max_memory.clone()),
        ("limits.max.space", max_memory),
        ("limits.max.processes", capacity.processes.to_string()),
    ];
    if config.executor.isolation == IsolationMode::Cell {
        values.push(("limits.max.open_files", open_files));
    }
    values
}

fn print_settings(settings: &[SettingRow], format: OutputFormat) -> Result<()> {
    let mut out = Stdout::open();
    match format {
        OutputFormat::Json => out.json_lines(settings),
        OutputFormat::Text => {
            let mut table = TextTable::new(["KEY", "VALUE", "FROM"]);
            for setting in settings {
                table.row([setting.key.clone(), setting.value.clone(), setting.from.clone()]);
            }
            out.text(table)
        }
    }
}
