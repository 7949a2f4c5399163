//! `conclave config`: every setting, its value and where it came from.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use serde::Serialize;

use super::up;
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
        Ok(Shown {
            key: setting.key.name,
            value,
            from: setting.origin.to_string(),
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
    layers.config()?;
    Ok(ExitCode::SUCCESS)
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
