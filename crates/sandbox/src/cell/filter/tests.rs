//! The program against the table, for every number; and real processes under the real filter.
#![allow(unsafe_code, clippy::unwrap_used)]

mod document;
mod ordinary;
mod program;
mod refused;

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::Filter;
use crate::cell::bare;

/// A process that is filtered before it executes the program.
fn filtered(program: impl AsRef<Path>) -> Command {
    let filter = Filter::new();
    let mut command = Command::new(program.as_ref());
    let confine = move || {
        // SAFETY: numbers only.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        [filter.shared(), filter.last()]
            .into_iter()
            .try_for_each(bare::filter_calls)
            .map_err(|errno| io::Error::from_raw_os_error(errno.0))
    };
    // SAFETY: makes three system calls and nothing else.
    unsafe { command.pre_exec(confine) };
    command
}
