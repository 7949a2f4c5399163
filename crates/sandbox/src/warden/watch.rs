//! Watches a command while it runs.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};

use super::run_process_tree::{CommandRunFailure, OwnerConnection};
use super::signals;
use super::streams::{OutputPipe, is_readable};
use crate::outcome::CommandEndReason;
use crate::platform_error::{Errno, PlatformError};
use crate::spec::CommandLimits;

/// The warden's watch over one running command: its limits, its output and the warden's owner.
pub(super) struct CommandWatch<'a> {
    pub(super) owner: OwnerConnection<'a>,
    pub(super) number: u64,
    pub(super) limits: &'a CommandLimits,
    pub(super) start: Instant,
    pub(super) scratch: &'a mut [u8],
}

/// A running command, as a process tree or in a cell, in the form that the warden's watch loop needs.
pub(super) trait WatchedCommand {
    /// Descriptors that wake the watch, besides the end of a child.
    fn event_descriptors(&self) -> impl Iterator<Item = PollFd<'_>>;
    /// Whether the first process has ended.
    fn has_ended(&mut self) -> bool;
    /// When the next check is due that no event triggers.
    fn next_check(&self) -> Option<Instant>;
    /// Checks the limits if there are events or a check is due, and returns the exceeded one.
    fn check_limits(&mut self, events: PendingEvents) -> Option<CommandEndReason>;
}

/// Whether an event, such as memory running out, makes the warden's watch loop check the limits of the command now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingEvents {
    Some,
    None,
}

/// Why the warden's watch over a running command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchResult {
    /// The first process has ended. Others may be left; they no longer count as the command.
    Ended,
    /// The command must be killed for this reason.
    LimitExceeded(CommandEndReason),
    /// The owner is gone.
    OwnerGone,
    /// The kernel returned an error from the wait.
    PollFailed(Errno),
}

impl WatchResult {
    /// Why the warden ended the command, if it did.
    pub(super) fn stop_reason(self) -> Result<Option<CommandEndReason>, CommandRunFailure> {
        match self {
            Self::Ended => Ok(None),
            Self::LimitExceeded(reason) => Ok(Some(reason)),
            Self::OwnerGone => Err(CommandRunFailure::OwnerGone),
            Self::PollFailed(errno) => Err(PlatformError::Wait(errno).into()),
        }
    }
}

impl CommandWatch<'_> {
    pub(super) fn run(
        &mut self,
        watched: &mut impl WatchedCommand,
        outputs: &mut [OutputPipe<'_>; 2],
    ) -> WatchResult {
        loop {
            let ready = match self.wait(watched, outputs) {
                Ok(ready) => ready,
                Err(errno) => return WatchResult::PollFailed(errno.into()),
            };
            // Until we respond, the owner only closes this socket and sends nothing on it.
            if ready.owner || ready.message && self.owner.messages.receive_pending().is_err() {
                return WatchResult::OwnerGone;
            }
            // Checked in each round, because SIGCHLD is not delivered while descriptors are ready.
            let has_ended = watched.has_ended();
            for (output, ready) in outputs.iter_mut().zip(ready.outputs) {
                if ready {
                    output.read_available(self.scratch);
                }
            }
            if has_ended {
                return WatchResult::Ended;
            }
            if let Some(reason) = self
                .exceeded(outputs)
                .or_else(|| watched.check_limits(ready.events))
            {
                return WatchResult::LimitExceeded(reason);
            }
        }
    }

    fn wait(
        &self,
        watched: &impl WatchedCommand,
        outputs: &[OutputPipe<'_>; 2],
    ) -> nix::Result<ReadyDescriptors> {
        let within = self.time_left(watched.next_check());
        let mut descriptors = vec![
            PollFd::new(self.owner.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.owner.messages.as_fd(), PollFlags::POLLIN),
            outputs[0].poll(),
            outputs[1].poll(),
        ];
        let own_descriptors = descriptors.len();
        descriptors.extend(watched.event_descriptors());
        signals::wait(&mut descriptors, within)?;
        let is_ready = |fd: &PollFd<'_>| fd.any() == Some(true);
        Ok(ReadyDescriptors {
            owner: is_ready(&descriptors[0]),
            message: is_ready(&descriptors[1]),
            outputs: [is_readable(&descriptors[2]), is_readable(&descriptors[3])],
            events: match descriptors[own_descriptors..].iter().any(is_ready) {
                true => PendingEvents::Some,
                false => PendingEvents::None,
            },
        })
    }

    /// The time until the next check that no descriptor triggers.
    fn time_left(&self, next_check: Option<Instant>) -> Option<Duration> {
        // The kernel does not count the time of a suspended machine in a wait, but the keep-alive does, so it is
        // checked regularly.
        const MAX_WAIT: Duration = Duration::from_secs(1);
        let keep_alive_left = self
            .owner
            .messages
            .keep_alive_left()
            .map(|left| left.min(MAX_WAIT));
        let wall = self
            .limits
            .wall
            .map(|limit| limit.saturating_sub(self.start.elapsed()));
        let until_check = next_check.map(|next| next.saturating_duration_since(Instant::now()));
        [keep_alive_left, wall, until_check].into_iter().flatten().min()
    }

    fn exceeded(&mut self, outputs: &[OutputPipe<'_>; 2]) -> Option<CommandEndReason> {
        if let Some(reason) = self.owner.messages.stop_reason(self.number) {
            return Some(reason);
        }
        if self
            .limits
            .output
            .is_some_and(|limit| outputs.iter().any(|output| output.total() > limit))
        {
            return Some(CommandEndReason::OutputLimit);
        }
        self.limits
            .wall
            .is_some_and(|limit| self.start.elapsed() >= limit)
            .then_some(CommandEndReason::WallLimit)
    }
}

/// Which descriptors a wait of the warden's watch loop found ready.
struct ReadyDescriptors {
    owner: bool,
    message: bool,
    outputs: [bool; 2],
    events: PendingEvents,
}
