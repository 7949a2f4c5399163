//! Tests of the assembled programs against the table, and of real processes under the real filter.
#![allow(unsafe_code, clippy::unwrap_used)]

mod bpf_program;
mod docs_page;
mod ordinary_programs;
mod refused_calls;

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::{CommandAffinity, SeccompFilter};
use crate::cell::bare;

/// A process that installs the filter before it executes the program.
fn filtered(program: impl AsRef<Path>) -> Command {
    let filter = SeccompFilter::new(CommandAffinity::Free);
    let mut command = Command::new(program.as_ref());
    let confine = move || {
        // SAFETY: the call takes numbers only.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        [filter.warden_program(), filter.stub_program()]
            .into_iter()
            .try_for_each(bare::install_seccomp_filter)
            .map_err(|errno| io::Error::from_raw_os_error(errno.0))
    };
    // SAFETY: the closure makes three system calls and nothing else.
    unsafe { command.pre_exec(confine) };
    command
}
