//! `conclave leash PARENT PROGRAM ARGUMENTS...` executes the program so that the kernel kills it when its parent exits.
//!
//! A service that is killed cannot stop the server that it wraps (etcd, mongod), and a server that keeps running would hold
//! the ports and the data folder of its successor. The parent death signal survives `exec`, but a process can only set it for
//! itself. So this step between the service and the server sets it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

/// The subcommand of the binary.
pub const VERB: &str = "leash";

/// The exit code of shells for a program that cannot be started.
const NOT_STARTED: u8 = 127;

/// Executes the program in the command-line arguments. The binary calls this first if its first argument is [`VERB`]. Returns
/// only on failure.
pub fn exec_from_args() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(2).collect();
    let [parent, program, args @ ..] = args.as_slice() else {
        return exit_with_error("usage: leash PARENT PROGRAM [ARGUMENT...]", 2);
    };
    let Some(parent) = parent.to_str().and_then(|text| text.parse::<i32>().ok()) else {
        return exit_with_error("the first argument must be the process id of the parent", 2);
    };
    if let Err(error) = set_pdeathsig(Signal::SIGKILL) {
        return exit_with_error(
            &format!("could not set the parent death signal: {error}"),
            NOT_STARTED,
        );
    }
    // If the parent exited before the signal was set, this process already has another parent.
    if getppid().as_raw() != parent {
        return exit_with_error(&format!("the parent process {parent} has already exited"), 1);
    }
    let error = Command::new(program).args(args).exec();
    let program = program.display();
    let text = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("program not found: {program}; install it, or set its path in the configuration")
        }
        io::ErrorKind::PermissionDenied => format!("permission denied: this user may not execute {program}"),
        _ => format!("could not start {program}: {error}"),
    };
    exit_with_error(&text, NOT_STARTED)
}

fn exit_with_error(text: &str, code: u8) -> ExitCode {
    let _ = writeln!(io::stderr(), "leash: {text}");
    ExitCode::from(code)
}
