//! `conclave leash PARENT PROGRAM ARGUMENTS...` becomes the program, which is killed as soon as its parent ends.
//!
//! A service that is killed cannot take its server along, and a server that lives on keeps ports and data folders
//! from its successor. The kernel remembers the leash across `exec`, but only for a process that asks for it itself:
//! hence this stage between service and server.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

/// The verb by which the binary knows that it is meant.
pub const VERB: &str = "leash";

/// As shells have it for a program that cannot be started.
const NOT_STARTED: u8 = 127;

/// To be called first thing by the binary when its first argument is [`VERB`]. Returns only if it fails.
pub fn run() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(2).collect();
    let [parent, program, args @ ..] = args.as_slice() else {
        return complain("usage: leash PARENT PROGRAM [ARGUMENT...]", 2);
    };
    let Some(parent) = parent.to_str().and_then(|text| text.parse::<i32>().ok()) else {
        return complain("the parent's process number comes first", 2);
    };
    if let Err(error) = set_pdeathsig(Signal::SIGKILL) {
        return complain(
            &format!("could not tie this process to its parent: {error}"),
            NOT_STARTED,
        );
    }
    // Its end is told from now on; one that came before is seen by who our parent is now.
    if getppid().as_raw() != parent {
        return complain(&format!("the parent, process {parent}, is gone already"), 1);
    }
    let error = Command::new(program).args(args).exec();
    let what = program.display();
    let text = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no program {what}; install it, or name it in the configuration")
        }
        io::ErrorKind::PermissionDenied => format!("{what} may not be executed by this user"),
        _ => format!("could not start {what}: {error}"),
    };
    complain(&text, NOT_STARTED)
}

fn complain(text: &str, code: u8) -> ExitCode {
    let _ = writeln!(io::stderr(), "leash: {text}");
    ExitCode::from(code)
}
