//! `conclave root remove`: removes a root of this machine.

use std::process::ExitCode;

use anyhow::Result;
use model::RootName;
use roots::RemovedRoot;

use super::{RootFlags, parse_root_name};
use crate::print::{OutputFormat, Stdout, confirm, print_message};

/// The arguments of `conclave root remove`.
#[derive(clap::Args, Debug)]
pub(super) struct RemoveRootArgs {
    /// Name of the root
    #[arg(value_parser = parse_root_name)]
    name: RootName,
    /// Remove it without asking
    #[arg(long, short = 'y')]
    yes: bool,
    #[command(flatten)]
    flags: RootFlags,
}

pub(super) fn run(args: RemoveRootArgs) -> Result<ExitCode> {
    let (store, name) = (args.flags.store()?, &args.name);
    let question = format!("Remove the root {name}?");
    let refusal = format!("the root {name} would be removed; add --yes to remove it without a question");
    if !args.yes && !confirm(&question, &refusal)? {
        print_message("nothing was removed");
        return Ok(ExitCode::FAILURE);
    }
    let removed = store.remove(name)?;
    let mut out = Stdout::open();
    match (args.flags.output_format(), removed) {
        (OutputFormat::Json, _) => {
            let in_use = removed == RemovedRoot::StillInUse;
            out.json(&serde_json::json!({"name": name.as_str(), "files_in_use": in_use}))?;
        }
        (OutputFormat::Text, RemovedRoot::Removed) => out.line(format_args!("{name} removed"))?,
        (OutputFormat::Text, RemovedRoot::StillInUse) => out.line(format_args!(
            "{name} removed; a running executor still uses its files, and removes them when none of its tasks does"
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
