//! `conclave root`: makes, lists, verifies and removes the roots of this machine, which are root file systems for cells.

mod build;
mod import;
mod list;
mod remove;
mod verify;

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use model::RootName;
use roots::{InterruptFlag, NewRoot, RootRecord, RootStore};
use serde::Serialize;

use crate::args::LocalNodeFlags;
use crate::interrupt::InterruptSignals;
use crate::node::root_store;
use crate::print::{OutputFormat, Stdout, print_error};

/// The arguments of `conclave root`.
#[derive(clap::Args, Debug)]
pub(crate) struct RootArgs {
    #[command(subcommand)]
    command: RootCommand,
}

/// A command of `conclave root`, with its arguments.
#[derive(Debug, Subcommand)]
enum RootCommand {
    /// Make a root of Debian packages, with mmdebstrap or debootstrap
    Build(build::BuildRootArgs),
    /// Make a root of an archive: a tar of a root file system, an OCI image layout, or what `docker save` writes
    Import(import::ImportRootArgs),
    /// List the roots of this machine
    List(list::ListRootsArgs),
    /// Remove a root; tasks that run in it keep its files until they end
    Remove(remove::RemoveRootArgs),
    /// Compare the files of roots with what they were when the roots were made
    Verify(verify::VerifyRootsArgs),
}

/// Flags of every command of `conclave root`.
#[derive(clap::Args, Debug)]
struct RootFlags {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    local: LocalNodeFlags,
}

impl RootFlags {
    fn store(&self) -> Result<RootStore> {
        root_store(&self.local.config()?)
    }

    fn output_format(&self) -> OutputFormat {
        match self.json {
            true => OutputFormat::Json,
            false => OutputFormat::Text,
        }
    }
}

pub(crate) fn run(args: RootArgs) -> Result<ExitCode> {
    match args.command {
        RootCommand::Build(args) => build::run(args),
        RootCommand::Import(args) => import::run(args),
        RootCommand::List(args) => list::run(args),
        RootCommand::Remove(args) => remove::run(args),
        RootCommand::Verify(args) => verify::run(args),
    }
}

/// A root as `conclave root` prints it in JSON.
#[derive(Serialize)]
struct RootJson<'a> {
    name: &'a str,
    sha256: Option<String>,
    size: Option<u64>,
    entries: Option<u64>,
    /// RFC 3339.
    made: Option<String>,
    source: Option<&'a str>,
    folder: String,
    set_id_bits: Option<u64>,
    special_files: Option<u64>,
    capabilities: Option<u64>,
}

impl<'a> RootJson<'a> {
    fn new(name: &'a RootName, record: Option<&'a RootRecord>, folder: String) -> RootJson<'a> {
        RootJson {
            name: name.as_str(),
            sha256: record.map(|record| record.sha256.to_string()),
            size: record.map(|record| record.size),
            entries: record.map(|record| record.entries),
            made: record.map(|record| api::format_time(record.made())),
            source: record.map(|record| record.source.as_str()),
            folder,
            set_id_bits: record.map(|record| record.dropped.set_id_bits),
            special_files: record.map(|record| record.dropped.special_files),
            capabilities: record.map(|record| record.dropped.capabilities),
        }
    }
}

/// How long the clean-up after a signal may take. Removing many files takes time.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs work that SIGINT, SIGTERM and SIGHUP stop. It removes its files before the process ends. Work that a signal cannot stop any more
/// is complete: its result is printed, and the process ends as without a signal.
fn run_until_signal<T>(work: impl FnOnce(&InterruptFlag) -> Result<T>) -> Result<T> {
    let interrupt = InterruptFlag::default();
    let (work_ends, work_end) = mpsc::channel::<()>();
    let flag = interrupt.clone();
    InterruptSignals::listen()?.exit_unless(move || {
        flag.interrupt();
        // The main thread sends a message when the work is complete, and drops the channel when it has stopped.
        work_end.recv_timeout(CLEANUP_TIMEOUT).is_ok()
    });
    let result = work(&interrupt);
    match &result {
        Ok(_) => {
            let _ = work_ends.send(());
        }
        Err(error) if interrupt.is_interrupted() => {
            print_error(error);
            drop(work_ends);
            // The thread that has received the signal ends the process with its exit code.
            std::thread::park_timeout(CLEANUP_TIMEOUT);
        }
        Err(_) => {}
    }
    result
}

fn print_new_root(new: &NewRoot, store: &RootStore, format: OutputFormat) -> Result<()> {
    let mut out = Stdout::open();
    let NewRoot {
        name,
        record,
        has_replaced,
    } = new;
    if format == OutputFormat::Json {
        let folder = new.find(store)?.map(|root| root.folder.display().to_string());
        return out.json(&RootJson::new(name, Some(record), folder.unwrap_or_default()));
    }
    out.line(format_args!("{name}: sha256 {}", record.sha256))?;
    out.line(format_args!(
        "{}, {}",
        counted(record.entries, "file, folder or link", "files, folders and links"),
        readable_size(record.size)
    ))?;
    if let Some(dropped) = describe_dropped(record) {
        out.line(dropped)?;
    }
    if *has_replaced {
        out.line("New tasks use it. Tasks that run in the old one keep its files until they end.")?;
    }
    Ok(())
}

/// What the archive had and the root has not.
fn describe_dropped(record: &RootRecord) -> Option<String> {
    let dropped = record.dropped;
    let counts = [
        (
            dropped.set_id_bits,
            "set-uid or set-gid bit dropped",
            "set-uid or set-gid bits dropped",
        ),
        (
            dropped.capabilities,
            "file capability dropped",
            "file capabilities dropped",
        ),
        (
            dropped.special_files,
            "device node or FIFO left out",
            "device nodes and FIFOs left out",
        ),
    ];
    let texts: Vec<String> = counts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| counted(count, one, many))
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn counted(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    }
}

/// For people: three digits are enough.
fn readable_size(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// The parser of an argument that is the name of a root.
fn parse_root_name(text: &str) -> Result<RootName, String> {
    RootName::new(text).map_err(|error| format!("the name {error}"))
}

/// The parser of `--max-size`.
fn parse_size(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(api::ByteSize(0)) => Err("it must be more than zero".to_string()),
        Ok(api::ByteSize(size)) => Ok(size),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_readable() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (362_387_865, "345.6 MiB"),
            (16 << 30, "16.0 GiB"),
        ] {
            assert_eq!(readable_size(bytes), expected);
        }
        assert_eq!(counted(1, "file", "files"), "1 file");
        assert_eq!(counted(0, "file", "files"), "0 files");
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert!(parse_size("0").is_err() && parse_size("much").is_err());
    }
}
