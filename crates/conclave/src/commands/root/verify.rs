//! `conclave root verify`: compares the files of roots with what they were when the roots were made.

use std::process::ExitCode;

use anyhow::Result;
use error_causes::with_causes;
use model::RootName;
use roots::{RootStore, RootVerification, VerifyError};

use super::{RootFlags, counted, parse_root_name, run_until_signal};
use crate::print::{OutputFormat, Stdout, print_message};

/// The arguments of `conclave root verify`.
#[derive(clap::Args, Debug)]
pub(super) struct VerifyRootsArgs {
    /// Name of the root [default: all that `conclave root` has made]
    #[arg(value_parser = parse_root_name)]
    name: Option<RootName>,
    #[command(flatten)]
    flags: RootFlags,
}

pub(super) fn run(args: VerifyRootsArgs) -> Result<ExitCode> {
    let store = args.flags.store()?;
    let (names, mut has_failed) = match args.name {
        Some(name) => (vec![name], false),
        None => all_names(&store)?,
    };
    let format = args.flags.output_format();
    run_until_signal(|interrupt| {
        let mut out = Stdout::open();
        for name in names {
            match roots::verify(&store, &name, interrupt) {
                Ok(found) => {
                    has_failed |= found.difference_count > 0;
                    print(&mut out, &name, &found, format)?;
                }
                Err(error @ VerifyError::Interrupted) => return Err(error.into()),
                // The other roots are verified nevertheless.
                Err(error) => {
                    print_message(with_causes(&error));
                    has_failed = true;
                }
            }
        }
        Ok(())
    })?;
    match has_failed {
        true => Ok(ExitCode::FAILURE),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// The names of all roots with a listing, and whether others are damaged.
fn all_names(store: &RootStore) -> Result<(Vec<RootName>, bool)> {
    let list = store.list()?;
    for (_, error) in &list.damaged {
        print_message(with_causes(error));
    }
    let installed = list.roots.into_iter().filter(|root| root.record.is_some());
    Ok((
        installed.map(|root| root.name).collect(),
        !list.damaged.is_empty(),
    ))
}

fn print(out: &mut Stdout, name: &RootName, found: &RootVerification, format: OutputFormat) -> Result<()> {
    let count = found.difference_count;
    let differences: Vec<String> = found.differences.iter().map(ToString::to_string).collect();
    if format == OutputFormat::Json {
        return out.json(&serde_json::json!({
            "name": name.as_str(),
            "sha256": found.sha256.to_string(),
            "difference_count": count,
            "differences": differences,
        }));
    }
    if count == 0 {
        return out.line(format_args!("{name}: unchanged, sha256 {}", found.sha256));
    }
    out.line(format_args!(
        "{name}: {}",
        counted(count, "difference", "differences")
    ))?;
    for difference in &differences {
        out.line(format_args!("  {difference}"))?;
    }
    match count > differences.len() as u64 {
        true => out.line("  ..."),
        false => Ok(()),
    }
}
