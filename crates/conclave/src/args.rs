//! The command line. Each verb's own arguments stand in its file under `commands`.

mod client;
mod cluster;
mod local;
mod name;
mod node;
mod task;

use clap::{Parser, Subcommand};

use crate::commands::{
    add, backup, bench, cancel, completions, config, credentials, executor, executors, gateway, get, hold,
    judicator, judicators, leave, remove, run, sandbox, search, service, stats, status, stop, unhold, up,
    watch,
};

pub(crate) use client::ClientFlags;
pub(crate) use cluster::{ClusterFlags, FounderFlags, NameFlag};
pub(crate) use local::LocalFlags;
pub(crate) use name::{executor_name, task_id, user_name};
pub(crate) use node::{ExecutorFlags, GatewayFlags, NodeFlags, flag, list_flag};
pub(crate) use task::{LimitFlags, TaskFlags};

/// Runs command-line tasks on many machines, and never loses one.
#[derive(Debug, Parser)]
#[command(name = "conclave", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
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
            "conclave get not-an-id",
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
