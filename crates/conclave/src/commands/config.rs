//! `conclave config`: every setting, its value and where it came from.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use api::Size;
use serde::Serialize;

use super::up;
use crate::config::{Config, Isolation, Value};
use crate::node::options;
use crate::print::{Form, Out, Table};

/// Takes the flags of `conclave up`, to show what they would do.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    up: up::Args,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    key: &'static str,
    value: String,
    from: String,
    default: &'static str,
    variable: String,
    about: &'static str,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let layers = args.up.layers()?;
    let config = layers.config();
    let derived = config.as_ref().map_or_else(|_| Vec::new(), derived);
    let settings = layers.settings().map(|setting| {
        let value = (setting.key.show)(&setting.text).map_err(|problem| {
            anyhow!(
                "{} ({}) is '{}': {problem}; it takes {}",
                setting.key.name,
                setting.origin,
                setting.text,
                setting.key.accepts
            )
        })?;
        let chosen = derived
            .iter()
            .find(|(key, _)| *key == setting.key.name && value == AUTO);
        let from = setting.origin.to_string();
        let (value, from) = match chosen {
            Some((_, chosen)) => (chosen.clone(), format!("{from}: auto, by this machine")),
            None => (value, from),
        };
        Ok(Shown {
            key: setting.key.name,
            value,
            from,
            default: setting.key.default,
            variable: setting.key.variable(),
            about: setting.key.doc,
        })
    });
    let settings: Vec<Shown> = settings.collect::<Result<_>>()?;
    let form = match args.json {
        true => Form::Json,
        false => Form::People,
    };
    show(&settings, form)?;
    // Said last, so that the values it is about can be seen above it.
    config?;
    Ok(ExitCode::SUCCESS)
}

const AUTO: &str = "auto";

/// What `auto` comes to on this machine.
fn derived(config: &Config) -> Vec<(&'static str, String)> {
    let capacity = options::capacity(config);
    let most = Size(capacity.most_memory()).show();
    let open_files = options::open_files(config).to_string();
    let mut derived = vec![
        ("executor.reserve", Size(options::reserve(config)).show()),
        ("executor.slot_memory", Size(capacity.memory).show()),
        ("sandbox.open_files", open_files.clone()),
        // Of a task that leaves the other of the two to its default.
        ("limits.max.memory", most.clone()),
        ("limits.max.space", most),
        ("limits.max.processes", capacity.processes.to_string()),
    ];
    if config.executor.isolation == Isolation::Cell {
        derived.push(("limits.max.open_files", open_files));
    }
    derived
}

fn show(settings: &[Shown], form: Form) -> Result<()> {
    let mut out = Out::open();
    match form {
        Form::Json => out.json_lines(settings),
        Form::People => {
            let mut table = Table::new(["KEY", "VALUE", "FROM"]);
            for setting in settings {
                table.row([
                    setting.key.to_string(),
                    setting.value.clone(),
                    setting.from.clone(),
                ]);
            }
            out.text(table)
        }
    }
}
