//! The command line. Each verb's own arguments stand in its file under `commands`.

mod client;
mod cluster;
mod local;
mod missing_dashes;
mod name;
mod node;
mod task;
mod task_ref;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    add, backup, bench, cancel, completions, config, credentials, executor, executors, gateway, get, hold,
    judicator, judicators, leave, remove, run, sandbox, search, service, stats, status, stop, unhold, up,
    watch,
};

pub(crate) use client::{ClientFlags, ServerFlags};
pub(crate) use cluster::{ClusterFlags, FounderFlags, NameFlag};
pub(crate) use local::LocalFlags;
pub(crate) use name::{executor_name, user_name};
pub(crate) use node::{ExecutorFlags, GatewayFlags, NodeFlags, flag, list_flag};
pub(crate) use task::{LimitFlags, TASK_FLAGS, TaskFlags};
pub(crate) use task_ref::{FindError, TaskRef, task_ref};

/// Runs command-line tasks on many machines, and never loses one.
#[derive(Debug, Parser)]
#[command(name = "conclave", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    server: ServerFlags,
}

impl Cli {
    /// Ends the process if the line cannot be understood, as `Parser::parse` does.
    pub(crate) fn from_process() -> Verb {
        let words: Vec<_> = std::env::args_os().collect();
        match Cli::try_parse_from(&words).and_then(Cli::verb) {
            Ok(verb) => verb,
            Err(error) => missing_dashes::explain(error, &words).exit(),
        }
    }

    /// The verb with the flags that stand before its name.
    fn verb(self) -> Result<Verb, clap::Error> {
        let Cli { mut verb, server } = self;
        match (verb.client_flags(), server.given()) {
            (Some(flags), _) => flags.take_missing(server),
            (None, Some(flag)) => {
                return Err(Cli::command().error(
                    ErrorKind::ArgumentConflict,
                    format!("{flag} is for commands that talk to a server; this one does not"),
                ));
            }
            (None, None) => {}
        }
        Ok(verb)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start everything on this machine: judicator, executor and gateway in one process
    Up(up::Args),
    /// Start a judicator alone
    Judicator(judicator::Args),
    /// Start an executor alone, for judicators elsewhere
    Executor(executor::Args),
    /// Start a gateway alone, for judicators elsewhere
    Gateway(gateway::Args),
    /// Show this machine's node: whether it runs, and how its services are
    Status(status::Args),
    /// Leave a service of this node of a cluster alone, for maintenance, until `unhold`
    Hold(hold::Args),
    /// Keep a service of this node of a cluster alive again
    Unhold(unhold::Args),
    /// Stop this machine's node
    Stop(stop::Args),
    /// Copy the tasks and blobs of this machine's `conclave up` to a folder, while it runs
    Backup(backup::Args),
    /// Take this node out of its cluster for good, and stop it
    Leave(leave::Args),
    /// Take another node, which is lost, out of the cluster for good
    Remove(remove::Args),
    /// Write a file with which MongoDB's own tools reach the cluster's replica set
    Credentials(credentials::Args),
    /// One service of a node; started by boot
    #[command(hide = true)]
    Service(service::Args),
    /// Add a task, wait for it, pass its output through and exit as it did
    Run(run::Args),
    /// Add one task or many, and print their ids
    Add(add::Args),
    /// Show a task, or write out what it printed
    Get(get::Args),
    /// List tasks
    Search(search::Args),
    /// Cancel tasks
    Cancel(cancel::Args),
    /// Follow a task until it is done
    Watch(watch::Args),
    /// List executors
    Executors(executors::Args),
    /// List judicators
    Judicators(judicators::Args),
    /// Show counts and rates
    Stats(stats::Args),
    /// Measure how fast this machine runs tasks
    Bench(bench::Args),
    /// Run one command in a cell, without any judicator; or say what this machine can enforce
    Sandbox(sandbox::Args),
    /// Show every setting, its value and where it came from
    Config(config::Args),
    /// Print a shell's completions
    Completions(completions::Args),
}

impl Verb {
    fn client_flags(&mut self) -> Option<&mut ClientFlags> {
        match self {
            Verb::Run(args) => Some(&mut args.client),
            Verb::Add(args) => Some(&mut args.client),
            Verb::Get(args) => Some(&mut args.client),
            Verb::Search(args) => Some(&mut args.client),
            Verb::Cancel(args) => Some(&mut args.client),
            Verb::Watch(args) => Some(&mut args.client),
            Verb::Executors(args) => Some(&mut args.client),
            Verb::Judicators(args) => Some(&mut args.client),
            Verb::Stats(args) => Some(&mut args.client),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Verb, clap::Error> {
        Cli::try_parse_from(line.split_whitespace()).and_then(Cli::verb)
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_server_flag_is_documented() {
        let page = include_str!("../../../docs/cli.md");
        let cli = Cli::command();
        for command in cli.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = format!("conclave {}", command.get_name());
            let named = |end: &str| page.contains(&format!("`{name}{end}"));
            assert!(named("`") || named(" "), "docs/cli.md does not name `{name}`");
        }
        for flag in cli.get_arguments().filter_map(|arg| arg.get_long()) {
            assert!(
                page.contains(&format!("`--{flag} ")),
                "docs/cli.md does not name --{flag}"
            );
        }
        let code = |word: &str| word.parse::<u8>().is_ok_and(|code| (110..=125).contains(&code));
        for code in crate::exit::HELP.split_whitespace().filter(|word| code(word)) {
            assert!(page.contains(code), "docs/cli.md does not name exit code {code}");
        }
    }

    #[test]
    fn usual_lines_are_understood() {
        for line in [
            "conclave up --data /srv/c --listen 127.0.0.1:0 --rpc 127.0.0.1:0 --slots 4 --isolation none",
            "conclave up --config node.toml --set executor.self_kill=5s --insecure",
            "conclave executor --judicator a:7010 --judicator b:7010 --slots 2",
            "conclave gateway --judicator a:7010 --listen 0.0.0.0:7000",
            "conclave run -- echo --not-ours",
            "conclave run --shell ./main -- first second",
            "conclave run --source main.c --source lib --compile cc --shell ./main --wall 2s --memory 64MiB",
            "conclave run --data table.csv --input - --env A=1 --env B=2 --priority -3 -- cat",
            "conclave add --file task.json",
            "conclave add --lines tasks.jsonl",
            "conclave add --lines - --key 01890a5d-ac96-774b-bcce-b302099a8057",
            "conclave --server https://h --ca-file ca.pem --token-file t --timeout 5s run -- true",
            "conclave run --compile cc --compile-wall 9s --compile-network loopback --shell ./main",
            "conclave get 01890a5d",
            "conclave search --status pending --status running --user ada --oldest --limit 5",
            "conclave config --json",
            "conclave judicator --cluster --name j1 --address 10.0.0.1 --first --print-log",
            "conclave judicator --cluster --members a=h:1,b=i:2 --print-log=etcd,mongodb",
            "conclave judicator --cluster --discover judicators --bootstrap-expect 3",
            "conclave executor --cluster --name e1 --join a:2379,b:2379 --slots 2",
            "conclave gateway --cluster --join a:2379 --join b:2379 --listen 127.0.0.1:0",
            "conclave status --json --data /srv/c",
            "conclave hold etcd --data /srv/c",
            "conclave stop --leave",
            "conclave backup /mnt/b --data /srv/c",
            "conclave remove j2 --data /srv/c",
            "conclave service etcd-proxy --config etcd.toml",
            "conclave bench --quick --json",
        ] {
            assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "conclave run --env A -- b",
            "conclave run --wall soon -- b",
            "conclave add --file a --lines b",
            "conclave add --file a -- b",
            "conclave add --file a --wall 1s",
            "conclave add --lines a --memory 1MiB",
            "conclave add --lines a --compile-wall 1s",
            "conclave get not-an-id",
            "conclave get 018",
            "conclave add --key 01890a5d-ac96-774b-bcce-b302099a8057 -- true",
            "conclave run --compile-wall 9s -- true",
            "conclave stats --timeout 0s",
            "conclave --server http://h up",
            "conclave search --oldest --newest",
            "conclave executor --set nonsense",
            "conclave launch",
            "conclave judicator --first",
            "conclave judicator --cluster --bootstrap-expect 3",
            "conclave executor --cluster --judicator a:7010",
            "conclave service nonsense --config x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
