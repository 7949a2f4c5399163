//! The one binary: arguments, then configuration, then a node or a client's command.

mod args;
mod bench;
mod cluster;
mod commands;
mod config;
mod exit;
mod follow;
mod node;
mod outputs;
mod print;
mod task;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: a warden forks for every step it runs, and stays cheap to fork only as long as it
    // is small and has one thread. The same goes for the process that measures what a bare spawn costs.
    match std::env::args_os().nth(1) {
        Some(verb) if verb == "warden" => return sandbox::warden::run(),
        Some(verb) if verb == "leash" => return boot::leash::run(),
        Some(verb) if verb == bench::spawns::VERB => return bench::spawns::run(),
        Some(verb) if verb == bench::burn::VERB => return bench::burn::run(),
        Some(verb) if node::VERBS.iter().any(|node| verb == *node) => {
            if let Err(error) = node::survive_hangups() {
                print::complain_about(&error);
                return ExitCode::FAILURE;
            }
        }
        _ => {}
    }
    let verb = args::Cli::from_process();
    let failure = match &verb {
        args::Verb::Run(_) | args::Verb::Watch(_) => exit::OWN_FAILURE,
        args::Verb::Get(get) if get.wait.is_some() => exit::OWN_FAILURE,
        args::Verb::Sandbox(sandbox) if !sandbox.check => exit::OWN_FAILURE,
        _ => 1,
    };
    match commands::run(verb) {
        Ok(code) => code,
        // The reader of our output has seen enough.
        Err(error) if print::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print::complain_about(&error);
            ExitCode::from(failure)
        }
    }
}
