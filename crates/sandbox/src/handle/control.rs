//! What any thread of a warden's owner may do while a command runs: kill the run or the warden, and keep it alive.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::boot_time;
use crate::outcome::CommandEndReason;
use crate::pidfd::PidFd;
use crate::wire::{self, UrgentMessage};

/// Identifies one run of a command in a warden and can kill it from any thread, also before it starts. After the run
/// has ended, it has no effect. It never affects another run.
#[derive(Clone)]
pub struct RunHandle {
    pub(super) number: u64,
    pub(super) channel: Arc<WardenChannel>,
}

/// Lets any thread of a warden's owner keep the warden alive or kill it.
#[derive(Clone)]
pub struct WardenControl {
    pub(super) channel: Arc<WardenChannel>,
}

/// The owner's connection for urgent messages to a warden, and the warden's pidfd, shared by all handles to the warden.
pub(super) struct WardenChannel {
    pub(super) urgent_socket: OwnedFd,
    pub(super) process: Option<PidFd>,
}

impl WardenChannel {
    fn send(&self, message: UrgentMessage) -> io::Result<()> {
        // A command can stop its warden, which then enforces no limit and reads no message.
        if let Some(process) = &self.process {
            let _ = process.send(libc::SIGCONT);
        }
        wire::send_urgent(self.urgent_socket.as_fd(), message)
    }
}

impl fmt::Debug for WardenChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WardenChannel")
    }
}

impl RunHandle {
    /// The number of the run, by which [`LiveOutput`] names it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Kills the run. Never blocks. An error means that the warden is gone or has been stopped for a long time.
    pub fn kill(&self) -> io::Result<()> {
        self.kill_for(CommandEndReason::Cancelled)
    }

    /// Kills the run, as if the warden had found that it exceeds its limit of output. For an owner that reads the output
    /// itself: see [`crate::PassedStreams`].
    pub fn kill_for_output_limit(&self) -> io::Result<()> {
        self.kill_for(CommandEndReason::OutputLimit)
    }

    pub(super) fn kill_for(&self, reason: CommandEndReason) -> io::Result<()> {
        let number = self.number;
        self.channel.send(UrgentMessage::Kill { number, reason })
    }
}

impl WardenControl {
    /// Kills the warden process, and its command with it. For a warden that does not respond any more.
    pub fn kill_warden(&self) -> io::Result<()> {
        let process = self.channel.process.as_ref();
        let process = process.ok_or(io::Error::from(io::ErrorKind::Unsupported))?;
        Ok(process.send(libc::SIGKILL)?)
    }

    /// Keeps the warden running commands for this long from now. If the time passes without another call, the warden
    /// ends its command and starts no other, even if the owner hangs or is stopped. Without any call there is no such
    /// deadline, so an owner that needs it calls this before the first run.
    ///
    /// Never blocks. An error means that the warden is gone or has been stopped for a long time.
    pub fn keep_alive_for(&self, from_now: Duration) -> io::Result<()> {
        let until = boot_time().saturating_add(from_now);
        let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.channel.send(UrgentMessage::KeepAliveUntil { millis })
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunHandle({})", self.number)
    }
}

impl fmt::Debug for WardenControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WardenControl")
    }
}
