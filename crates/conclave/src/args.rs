//! The command line. The arguments of each command are declared in the command's file under `commands`.

mod client;
mod cluster;
mod filter;
mod judging;
mod missing_dashes;
mod node;
mod task;
mod task_ref;
mod task_set;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    add, backup, bench, cancel, completions, config, credentials, drain, executor, executors, export,
    gateway, get, groups, hold, judge, judicator, judicators, languages, leave, problem, remove, retry, root,
    run, sandbox, search, service, stats, status, stop, up, wait, watch,
};

pub(crate) use client::{ClientFlags, ServerFlags};
pub(crate) use cluster::{BootstrapFlags, ClusterFlags, NodeNameFlag};
pub(crate) use filter::{CancelFilterFlags, TaskFilterFlags};
pub(crate) use judging::{ComparisonKind, JudgingFlags, problem_name};
pub(crate) use node::{
    ExecutorFlags, GatewayFlags, LocalNodeFlags, NodeFlags, config_flag, config_list_flag,
};
pub(crate) use task::{
    LimitFlags, TASK_FLAGS, TaskFlags, executor_name, language_name, root_name, user_name,
};
pub(crate) use task_ref::{TaskLookupError, TaskRef, task_ref};
pub(crate) use task_set::{TaskSetFlags, group_name};

/// The parsed command line of `conclave`.
#[derive(Debug, Parser)]
#[command(
    name = "conclave",
    about = "Runs command-line tasks on many machines, and never loses one",
    version,
    max_term_width = 110
)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
    #[command(flatten)]
    server: ServerFlags,
}

impl CommandLine {
    /// Parses the arguments of this process. Exits with a message if they are invalid, as `Parser::parse` does.
    pub(crate) fn parse_or_exit() -> CliCommand {
        let arguments: Vec<_> = std::env::args_os().collect();
        match CommandLine::try_parse_from(&arguments).and_then(CommandLine::into_command) {
            Ok(command) => command,
            Err(error) => missing_dashes::suggest_double_dash(error, &arguments).exit(),
        }
    }

    /// The command, with the server flags that were given before its name.
    fn into_command(self) -> Result<CliCommand, clap::Error> {
        let CommandLine { mut command, server } = self;
        match (command.client_flags(), server.first_given_flag()) {
            (Some(flags), _) => flags.fill_missing_from(server),
            (None, Some(flag)) => {
                return Err(CommandLine::command().error(
                    ErrorKind::ArgumentConflict,
                    format!("{flag} applies only to commands that call a server, and this command does not"),
                ));
            }
            (None, None) => {}
        }
        Ok(command)
    }
}

/// A command of the command line, with its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Start everything on this machine: judicator, executor and gateway in one process
    Up(up::UpArgs),
    /// Start a judicator only
    Judicator(judicator::JudicatorArgs),
    /// Start an executor only, which connects to judicators elsewhere
    Executor(executor::ExecutorArgs),
    /// Start a gateway only, which connects to judicators elsewhere
    Gateway(gateway::GatewayArgs),
    /// Show whether this machine's node runs, and the state of its services
    Status(status::StatusArgs),
    /// Pause the supervision of a service of this cluster node, for maintenance, until `unhold`
    Hold(hold::HoldArgs),
    /// Resume the supervision of a service of this cluster node
    Unhold(hold::HoldArgs),
    /// Stop this machine's node
    Stop(stop::StopArgs),
    /// Copy the tasks and blobs of this machine's `conclave up` to a folder while it runs
    Backup(backup::BackupArgs),
    /// Remove this node from its cluster permanently, and stop it
    Leave(leave::LeaveArgs),
    /// Remove another node, which is lost, from the cluster permanently
    Remove(remove::RemoveArgs),
    /// Write a file of credentials for MongoDB's tools, such as mongodump
    Credentials(credentials::CredentialsArgs),
    /// Run one service of a cluster node; boot starts it
    #[command(hide = true)]
    Service(service::ServiceArgs),
    /// Add a task, pass its output on while it is written, and exit with its exit code
    Run(run::RunArgs),
    /// Add one or more tasks and print their ids
    Add(add::AddArgs),
    /// Show a task, print its output, or download the files that it kept
    Get(get::GetArgs),
    /// List tasks
    Search(search::SearchArgs),
    /// Cancel tasks by their ids, or all that match a filter
    Cancel(cancel::CancelArgs),
    /// Add tasks that repeat others, by their ids or what did not succeed in a group
    Retry(retry::RetryArgs),
    /// Pass the output of a task on while it is written, and print each status until it is done
    Watch(watch::WatchArgs),
    /// Wait until all tasks of a group are done, and show the progress
    Wait(wait::WaitArgs),
    /// List groups of tasks
    Groups(groups::GroupsArgs),
    /// Write the results of many tasks as CSV or JSON Lines
    Export(export::ExportArgs),
    /// Judge submissions by the cases of a problem or of a folder, and print a table
    Judge(judge::JudgeArgs),
    /// Verify problem packages, and keep them on the server under a name
    Problem(problem::ProblemArgs),
    /// List executors
    Executors(executors::ExecutorsArgs),
    /// Drain an executor: it ends the tasks that it has, and gets no new ones until `resume`
    Drain(drain::DrainArgs),
    /// End the drain of an executor, so that it gets tasks again
    Resume(drain::ResumeArgs),
    /// List languages, or check them with --check
    Languages(languages::LanguagesArgs),
    /// List judicators
    Judicators(judicators::JudicatorsArgs),
    /// Show counts and rates
    Stats(stats::StatsArgs),
    /// Measure how fast this machine runs tasks
    Bench(bench::BenchArgs),
    /// Make, list, verify and remove roots of this machine: root file systems that tasks can ask for by name
    Root(root::RootArgs),
    /// Run one command in a cell without a judicator, or show what this machine can enforce
    Sandbox(sandbox::SandboxArgs),
    /// Show every setting, its value and its origin
    Config(config::ConfigArgs),
    /// Print the completion script of a shell
    Completions(completions::CompletionsArgs),
}

impl CliCommand {
    /// The flags of a command that calls a server.
    fn client_flags(&mut self) -> Option<&mut ClientFlags> {
        match self {
            CliCommand::Run(args) => Some(&mut args.client),
            CliCommand::Add(args) => Some(&mut args.client),
            CliCommand::Get(args) => Some(&mut args.client),
            CliCommand::Search(args) => Some(&mut args.client),
            CliCommand::Cancel(args) => Some(&mut args.client),
            CliCommand::Retry(args) => Some(&mut args.client),
            CliCommand::Watch(args) => Some(&mut args.client),
            CliCommand::Wait(args) => Some(&mut args.client),
            CliCommand::Groups(args) => Some(&mut args.client),
            CliCommand::Export(args) => Some(&mut args.client),
            CliCommand::Judge(args) => Some(&mut args.client),
            CliCommand::Problem(args) => Some(args.client_flags()),
            CliCommand::Executors(args) => Some(&mut args.client),
            CliCommand::Drain(args) => Some(&mut args.client),
            CliCommand::Resume(args) => Some(&mut args.client),
            CliCommand::Languages(args) => Some(&mut args.client),
            CliCommand::Judicators(args) => Some(&mut args.client),
            CliCommand::Stats(args) => Some(&mut args.client),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<CliCommand, clap::Error> {
        CommandLine::try_parse_from(line.split_whitespace()).and_then(CommandLine::into_command)
    }

    #[test]
    fn the_declaration_of_the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_and_server_flag_is_documented() {
        let page = include_str!("../../../docs/cli.md");
        let cli = CommandLine::command();
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
        for code in crate::exit_code::EXIT_CODES_HELP
            .split_whitespace()
            .filter(|word| code(word))
        {
            assert!(page.contains(code), "docs/cli.md does not name exit code {code}");
        }
    }

    #[test]
    fn valid_command_lines_are_accepted() {
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
            "conclave add --lines tasks.jsonl --resume ids --group g --label a=b --keep out/* --attempts 9",
            "conclave run -i --keep out/*.csv --keep **/x --to results --force --label a= --group g -- cat",
            "conclave get 01890a5d --follow --only stdout",
            "conclave get 01890a5d --files --to . --force --wait 9s",
            "conclave get 01890a5d --files --json",
            "conclave wait sweep-17 --wait 10m --user ada",
            "conclave wait 01890a5d-ac96-774b-bcce-b302099a8057 01890a5d-ac96-774b-bcce-b302099a8058",
            "conclave wait --group 01890a5d-ac96-774b-bcce-b302099a8057",
            "conclave cancel --group g --yes",
            "conclave cancel --status pending --user ada -y",
            "conclave cancel --label a=b --json",
            "conclave retry 01890a5d 01890a5e",
            "conclave retry --group g --user ada",
            "conclave search --label a=b --label c=d --group g --reason time_limit --reason exited",
            "conclave groups --user ada --json",
            "conclave export --group g --format jsonl --output results.jsonl",
            "conclave export --status run_failed --retried",
            "conclave add --lines - --key 01890a5d-ac96-774b-bcce-b302099a8057",
            "conclave --server https://h --ca-file ca.pem --token-file t --timeout 5s run -- true",
            "conclave run --compile cc --compile-wall 9s --compile-network loopback --shell ./main",
            "conclave drain worker-1 --reason broken_disk --json",
            "conclave --server https://h resume worker-1",
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
            "conclave judge --problem sum a.cpp b.py --csv",
            "conclave judge --cases tests --check lines --stop first_failure --cpu 1s sub/ --html --wait 5m",
            "conclave judge --cases tests --checker check.cpp --protocol testlib --judge-arg -x a.py --json",
            "conclave judge --cases tests --interactor judge.py --language pypy --user ada --group g a.py",
            "conclave problem verify packages/sum --time-limit 2s --csv",
            "conclave --server https://h problem import packages/sum --name sum --json",
            "conclave problem list --json",
            "conclave problem show sum --server https://h",
            "conclave problem remove sum --yes",
            "conclave run a.cpp --cases tests --float-tolerance 1e-6",
            "conclave add a.cpp --problem sum",
            "conclave root build contest --packages g++,python3 --pip numpy==1.26.4,pandas --suite bookworm",
            "conclave root build contest --mirror http://deb.debian.org/debian --max-size 1GiB --data /srv/c",
            "conclave root import image.tar --name contest --max-size 40GiB --config node.toml",
            "conclave root import root.tar.gz --json",
            "conclave root list --json --data /srv/c",
            "conclave root remove contest --yes",
            "conclave root verify",
            "conclave root verify contest --json",
        ] {
            assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
        }
    }

    #[test]
    fn invalid_command_lines_are_refused() {
        for line in [
            "conclave run --env A -- b",
            "conclave run --wall soon -- b",
            "conclave add --file a --lines b",
            "conclave add --file a -- b",
            "conclave add --file a --wall 1s",
            "conclave add --lines a --memory 1MiB",
            "conclave add --lines a --compile-wall 1s",
            "conclave add --resume ids -- true",
            "conclave add --lines a --resume b --key 01890a5d-ac96-774b-bcce-b302099a8057",
            "conclave add --attempts 0 -- true",
            "conclave add --label nonsense -- true",
            "conclave add --keep ../x -- true",
            "conclave add --group a/b -- true",
            "conclave run -i --input file -- true",
            "conclave run --to results -- true",
            "conclave run --keep x --force -- true",
            "conclave get 01890a5d --to results",
            "conclave get 01890a5d --follow --files",
            "conclave get 01890a5d --follow --json",
            "conclave wait",
            "conclave wait g --group g",
            "conclave cancel",
            "conclave cancel 01890a5d --group g",
            "conclave cancel --status success",
            "conclave retry",
            "conclave retry 01890a5d --group g",
            "conclave search --reason tired",
            "conclave export --format xlsx",
            "conclave drain worker-1",
            "conclave drain worker-1 --reason=",
            "conclave drain a/b --reason x",
            "conclave resume",
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
            "conclave root",
            "conclave root build",
            "conclave root build ../x",
            "conclave root build x --packages $(reboot)",
            "conclave root build x --packages a,,b",
            "conclave root build x --pip --index-url",
            "conclave root build x --pip http://x",
            "conclave root build x --suite ../x",
            "conclave root build x --mirror ftp://x",
            "conclave judge a.cpp",
            "conclave judge --problem sum",
            "conclave judge --problem sum --cases tests a.cpp",
            "conclave judge --problem sum --check lines a.cpp",
            "conclave judge --cases tests --check fast a.cpp",
            "conclave judge --cases tests --checker c.py --interactor i.py a.cpp",
            "conclave judge --cases tests --protocol icpc a.cpp",
            "conclave judge --cases tests --float-tolerance -1 a.cpp",
            "conclave judge --cases tests --csv --html a.cpp",
            "conclave judge --cases tests --csv --json a.cpp",
            "conclave problem",
            "conclave problem verify",
            "conclave problem verify x --time-limit 0s",
            "conclave problem import x --name a/b",
            "conclave problem remove",
            "conclave add --file a --cases tests",
            "conclave root import",
            "conclave root import x --name A",
            "conclave root import x --max-size 0",
            "conclave root remove",
            "conclave --server http://h root list",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
