//! Urgent messages of the owner: kills and keep-alives.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::clock::boot_time;
use crate::outcome::CommandEndReason;
use crate::wire::{self, UrgentMessage};

/// The warden's socket for urgent messages, and what its owner has requested through it.
pub(super) struct OwnerMessages {
    socket: OwnedFd,
    requests: OwnerRequests,
}

/// The kills and the keep-alive that a warden's owner has requested by urgent messages. It is separate from the socket
/// so that it can be tested without one.
#[derive(Debug, Default)]
struct OwnerRequests {
    /// Runs to kill that have not ended, including those that have not started, and why.
    killed: Vec<(u64, CommandEndReason)>,
    /// The end of the keep-alive on the boot-time clock. `None` if the owner never sent one: then there is no
    /// deadline.
    keep_alive_deadline: Option<Duration>,
}

impl OwnerMessages {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            requests: OwnerRequests::default(),
        }
    }

    /// Receives all pending messages. An error means that the owner is gone.
    pub(super) fn receive_pending(&mut self) -> io::Result<()> {
        while let Some(message) = wire::receive_urgent(self.socket.as_fd())? {
            self.requests.on_message(message);
        }
        Ok(())
    }

    /// Why this run must stop now, if it must.
    pub(super) fn stop_reason(&mut self, number: u64) -> Option<CommandEndReason> {
        // Without a keep-alive the clock need not be read.
        let now = match self.requests.keep_alive_deadline {
            Some(_) => boot_time(),
            None => Duration::ZERO,
        };
        match self.requests.stop_reason(number, now) {
            // This process may have been suspended while another keep-alive arrived, so pending messages are received
            // first. An owner that is gone has sent none.
            Some(CommandEndReason::Abandoned) if self.receive_pending().is_ok() => {
                self.requests.stop_reason(number, boot_time())
            }
            stop_reason => stop_reason,
        }
    }

    /// How long the owner's keep-alive still lasts.
    pub(super) fn keep_alive_left(&self) -> Option<Duration> {
        self.requests
            .keep_alive_deadline
            .map(|deadline| deadline.saturating_sub(boot_time()))
    }

    pub(super) fn forget_kills_up_to(&mut self, number: u64) {
        self.requests.killed.retain(|(killed, _)| *killed > number);
    }
}

impl AsFd for OwnerMessages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl OwnerRequests {
    fn on_message(&mut self, message: UrgentMessage) {
        match message {
            UrgentMessage::Kill { number, reason } => self.killed.push((number, reason)),
            UrgentMessage::KeepAliveUntil { millis } => {
                self.keep_alive_deadline = Some(Duration::from_millis(millis))
            }
        }
    }

    fn stop_reason(&self, number: u64, now: Duration) -> Option<CommandEndReason> {
        if let Some((_, reason)) = self.killed.iter().find(|(killed, _)| *killed == number) {
            return Some(*reason);
        }
        self.keep_alive_deadline
            .is_some_and(|deadline| now >= deadline)
            .then_some(CommandEndReason::Abandoned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stop_only_the_run_they_name() {
        fn check(messages: &[UrgentMessage], number: u64, seconds: u64, expected: Option<CommandEndReason>) {
            let mut requests = OwnerRequests::default();
            for message in messages {
                requests.on_message(*message);
            }
            assert_eq!(
                requests.stop_reason(number, Duration::from_secs(seconds)),
                expected,
                "{messages:?} {number} {seconds}"
            );
        }
        let kill = |number: u64| UrgentMessage::Kill {
            number,
            reason: CommandEndReason::Cancelled,
        };
        let keep_alive = |seconds: u64| UrgentMessage::KeepAliveUntil {
            millis: seconds * 1000,
        };
        check(&[], 1, u64::MAX, None);
        check(&[kill(1)], 1, 100, Some(CommandEndReason::Cancelled));
        check(&[kill(1)], 2, 100, None);
        check(&[kill(3), kill(2)], 3, 100, Some(CommandEndReason::Cancelled));
        check(&[keep_alive(105)], 1, 104, None);
        check(&[keep_alive(105)], 1, 105, Some(CommandEndReason::Abandoned));
        check(&[keep_alive(105), keep_alive(109)], 1, 105, None);
        check(
            &[keep_alive(109), keep_alive(105)],
            1,
            105,
            Some(CommandEndReason::Abandoned),
        );
        check(
            &[keep_alive(105), kill(1)],
            1,
            105,
            Some(CommandEndReason::Cancelled),
        );
        check(
            &[UrgentMessage::KeepAliveUntil { millis: u64::MAX }],
            1,
            u64::MAX / 2000,
            None,
        );
    }

    #[test]
    fn a_pending_keep_alive_counts() {
        let (ours, theirs) = wire::urgent_pair().unwrap();
        let keep_alive = |until: Duration| UrgentMessage::KeepAliveUntil {
            millis: until.as_millis() as u64,
        };
        let mut messages = OwnerMessages::new(theirs);
        messages.requests.on_message(keep_alive(Duration::ZERO));
        assert_eq!(messages.stop_reason(1), Some(CommandEndReason::Abandoned));
        wire::send_urgent(ours.as_fd(), keep_alive(boot_time() + Duration::from_secs(3600))).unwrap();
        assert_eq!(messages.stop_reason(1), None);
        messages.requests.on_message(keep_alive(Duration::ZERO));
        drop(ours);
        assert_eq!(messages.stop_reason(1), Some(CommandEndReason::Abandoned));
    }
}
