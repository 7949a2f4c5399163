//! The `conclave` binary: reads the command line and the configuration, then runs a node or a client command.

mod args;
mod cluster;
mod commands;
mod config;
mod exit_code;
mod follow;
mod group_progress;
mod interrupt;
mod judge;
mod kept_files;
mod node;
mod output_printer;
mod output_tracker;
mod print;
mod task;
mod task_output;

use std::process::ExitCode;

fn main() -> ExitCode {
    // These subcommands run before the command line is parsed. A warden forks for every step, which is cheap only while it
    // is small and has one thread. The same holds for the process that measures the cost of a bare spawn.
    match std::env::args_os().nth(1) {
        Some(name) if name == "warden" => return sandbox::warden::run(),
        Some(name) if name == "leash" => return boot::parent_death::exec_from_args(),
        Some(name) if name == bench::spawns::SUBCOMMAND => return bench::spawns::run(),
        Some(name) if name == bench::burn::SUBCOMMAND => return bench::burn::run(),
        Some(name) if name == bench::task_program::SUBCOMMAND => return bench::task_program::run(),
        Some(name) if node::NODE_COMMANDS.iter().any(|node| name == *node) => {
            if let Err(error) = node::catch_hangups() {
                print::print_error(&error);
                return ExitCode::FAILURE;
            }
        }
        _ => {}
    }
    let command = args::CommandLine::parse_or_exit();
    let failure = match &command {
        args::CliCommand::Run(_) | args::CliCommand::Watch(_) | args::CliCommand::Wait(_) => {
            exit_code::CLIENT_FAILURE
        }
        args::CliCommand::Judge(_) => exit_code::CLIENT_FAILURE,
        args::CliCommand::Problem(problem) if problem.is_verify() => exit_code::CLIENT_FAILURE,
        args::CliCommand::Get(get) if get.wait.is_some() || get.follow => exit_code::CLIENT_FAILURE,
        args::CliCommand::Sandbox(sandbox) if !sandbox.check => exit_code::CLIENT_FAILURE,
        _ => 1,
    };
    match commands::run(command) {
        Ok(code) => code,
        // The reader of stdout, such as `head`, has closed the pipe.
        Err(error) if print::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print::print_error(&error);
            ExitCode::from(failure)
        }
    }
}
