//! Turns a new process into a warden.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{chdir, dup2_stdin, setsid};

use super::own_memory;
use super::process_table::ProcessTable;
use super::signals::{self, SignalSetupError};

/// Why a new process could not become a warden.
#[derive(Debug, thiserror::Error)]
pub(super) enum WardenSetupError {
    #[error("cannot take the owner's socket from standard input")]
    TakeSocket(#[source] io::Error),
    #[error("cannot change the working directory to /")]
    ChangeDirectory(#[source] io::Error),
    #[error("cannot close inherited descriptors")]
    CloseRange(#[source] io::Error),
    #[error("cannot set up signals")]
    Signals(#[from] SignalSetupError),
    #[error("cannot become a child subreaper")]
    Subreaper(#[source] io::Error),
    #[error("cannot set the process name")]
    Name(#[source] io::Error),
    #[error("cannot read the process table in /proc, which is needed to clean up commands")]
    ProcessTable(#[source] io::Error),
}

/// Sets up the process, in this order, and returns the socket to the owner.
pub(super) fn become_warden() -> Result<UnixStream, WardenSetupError> {
    // Detaches from the owner's terminal and process group. Fails only if this process already leads a group.
    let _ = setsid();
    // The owner's working directory may be on a file system that is to be unmounted.
    chdir("/").map_err(|e| WardenSetupError::ChangeDirectory(e.into()))?;
    umask(Mode::from_bits_truncate(0o022));
    close_inherited().map_err(WardenSetupError::CloseRange)?;
    signals::set_up()?;
    // Orphans of a command become children of this process instead of init.
    prctl::set_child_subreaper(true).map_err(|e| WardenSetupError::Subreaper(e.into()))?;
    prctl::set_name(c"conclave-warden").map_err(|e| WardenSetupError::Name(e.into()))?;
    own_memory::return_freed_memory_early();
    take_socket().map_err(WardenSetupError::TakeSocket)
}

/// Checked once at the start, so that a machine without it is refused before any command runs.
pub(super) fn process_table() -> Result<ProcessTable, WardenSetupError> {
    ProcessTable::new("/proc", std::process::id() as i32).map_err(WardenSetupError::ProcessTable)
}

/// Closes descriptors that the owner inherited from its own parents; otherwise they would stay open as long as the
/// warden lives.
fn close_inherited() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: `warden::run` is called first in its process, so nothing owns these descriptors.
    match unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves the socket away from descriptor 0, so that the standard descriptors are always in use and the streams of a
/// command always have higher numbers.
fn take_socket() -> io::Result<UnixStream> {
    // SAFETY: the call takes numbers only; the result is checked.
    let moved = unsafe { libc::fcntl(libc::STDIN_FILENO, libc::F_DUPFD_CLOEXEC, 3) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(moved) };
    dup2_stdin(File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}
