//! What turns a fresh process into a warden, in this order.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{chdir, dup2_stdin, setsid};

use super::footprint;
use super::signals::{self, SignalError};
use super::tree::Table;

#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error("cannot take the owner's socket from standard input")]
    TakeSocket(#[source] io::Error),
    #[error("cannot leave the working directory")]
    ChangeDirectory(#[source] io::Error),
    #[error("cannot close inherited descriptors")]
    CloseRange(#[source] io::Error),
    #[error("cannot set up signals")]
    Signals(#[from] SignalError),
    #[error("cannot become the reaper of orphaned descendants")]
    Subreaper(#[source] io::Error),
    #[error("cannot take a name")]
    Name(#[source] io::Error),
    #[error("cannot read the process table in /proc, without which no command can be cleaned up")]
    ProcessTable(#[source] io::Error),
}

/// Returns the socket to the owner.
pub(super) fn become_warden() -> Result<UnixStream, SetupError> {
    // Out of the reach of the owner's terminal and process group. Fails only where it is already so.
    let _ = setsid();
    // The owner's directory may be on something that is to be unmounted.
    chdir("/").map_err(|e| SetupError::ChangeDirectory(e.into()))?;
    umask(Mode::from_bits_truncate(0o022));
    close_inherited().map_err(SetupError::CloseRange)?;
    signals::take_over()?;
    // Processes that a command leaves behind come to us instead of to init.
    prctl::set_child_subreaper(true).map_err(|e| SetupError::Subreaper(e.into()))?;
    prctl::set_name(c"conclave-warden").map_err(|e| SetupError::Name(e.into()))?;
    footprint::return_memory_early();
    take_socket().map_err(SetupError::TakeSocket)
}

/// Checked once at the start: later it would be too late to refuse.
pub(super) fn process_table() -> Result<Table, SetupError> {
    Table::new("/proc", std::process::id() as i32).map_err(SetupError::ProcessTable)
}

/// Whatever the owner's own parents let slip through would otherwise be held open for as long as we live.
fn close_inherited() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: `warden::run` is the first thing its process does, so nobody here owns these descriptors.
    match unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves the socket off descriptor 0, so that the standard descriptors are always taken and a command's
/// streams always lie beyond them.
fn take_socket() -> io::Result<UnixStream> {
    // SAFETY: takes numbers only; the result is checked.
    let moved = unsafe { libc::fcntl(libc::STDIN_FILENO, libc::F_DUPFD_CLOEXEC, 3) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let socket = unsafe { OwnedFd::from_raw_fd(moved) };
    dup2_stdin(File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}
