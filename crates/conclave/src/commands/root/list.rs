//! `conclave root list`: lists the roots of this machine.

use std::process::ExitCode;

use anyhow::Result;
use error_causes::with_causes;

use super::{RootFlags, RootJson, readable_size};
use crate::print::{OutputFormat, Stdout, TextTable, print_message};

/// The arguments of `conclave root list`.
#[derive(clap::Args, Debug)]
pub(super) struct ListRootsArgs {
    #[command(flatten)]
    flags: RootFlags,
}

/// As many digits of a hash as people compare.
const SHORT_HASH: usize = 16;

pub(super) fn run(args: ListRootsArgs) -> Result<ExitCode> {
    let store = args.flags.store()?;
    // Other users may list roots too, but cannot remove anything.
    let _ = store.remove_unused_generations();
    let list = store.list()?;
    let mut out = Stdout::open();
    match args.flags.output_format() {
        OutputFormat::Json => {
            for root in &list.roots {
                let folder = root.folder.display().to_string();
                out.json(&RootJson::new(&root.name, root.record.as_ref(), folder))?;
            }
        }
        OutputFormat::Text => {
            let mut table = TextTable::new(["NAME", "SHA256", "SIZE", "MADE", "FROM"]).right_align([2]);
            for root in &list.roots {
                let cells = match &root.record {
                    Some(record) => [
                        record.sha256.to_string()[..SHORT_HASH].to_string(),
                        readable_size(record.size),
                        api::format_time(record.made()),
                        record.source.clone(),
                    ],
                    None => {
                        let from = format!("the configuration: {}", root.folder.display());
                        ["-".into(), "-".into(), "-".into(), from]
                    }
                };
                table.row([vec![root.name.to_string()], cells.to_vec()].concat());
            }
            out.text(table)?;
        }
    }
    for (_, error) in &list.damaged {
        print_message(with_causes(error));
    }
    match list.damaged.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}
