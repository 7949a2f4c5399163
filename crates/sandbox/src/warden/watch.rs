//! Look on while the command runs.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};

use super::run_command::{Failure, Owner};
use super::signals;
use super::streams::{Output, is_readable};
use crate::fault::{Errno, Fault};
use crate::outcome::Reason;
use crate::spec::Limits;

pub(super) struct Watch<'a> {
    pub(super) owner: Owner<'a>,
    pub(super) number: u64,
    pub(super) limits: &'a Limits,
    pub(super) start: Instant,
    pub(super) scratch: &'a mut [u8],
}

/// What is looked on at: a tree of processes of our own, or a cell.
pub(super) trait Watched {
    /// What wakes the watch beside the end of a child.
    fn notices(&self) -> impl Iterator<Item = PollFd<'_>>;
    /// Whether the first process has ended.
    fn has_ended(&mut self) -> bool;
    /// When there is something to look at that wakes nobody.
    fn next_look(&self) -> Option<Instant>;
    /// Looks at what has been noticed, and at what is due; says which limit is exceeded.
    fn look(&mut self, noticed: Noticed) -> Option<Reason>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noticed {
    Something,
    Nothing,
}

/// What ended the watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The first process has ended. Others may be left; they do not count as the command any more.
    Ended,
    /// It must be ended.
    Exceeded(Reason),
    /// The owner is gone.
    HungUp,
    /// The kernel does not let us wait.
    Blind(Errno),
}

impl Seen {
    /// Which limit has ended it, if one has.
    pub(super) fn stopped(self) -> Result<Option<Reason>, Failure> {
        match self {
            Self::Ended => Ok(None),
            Self::Exceeded(reason) => Ok(Some(reason)),
            Self::HungUp => Err(Failure::HungUp),
            Self::Blind(errno) => Err(Fault::Wait(errno).into()),
        }
    }
}

impl Watch<'_> {
    pub(super) fn run(&mut self, watched: &mut impl Watched, outputs: &mut [Output; 2]) -> Seen {
        loop {
            let ready = match self.wait(watched, outputs) {
                Ok(ready) => ready,
                Err(errno) => return Seen::Blind(errno.into()),
            };
            // The owner has nothing to send on this socket before we answer, but its end.
            if ready.owner || ready.word && self.owner.words.take_in().is_err() {
                return Seen::HungUp;
            }
            // In each round, because the signal of a child waits behind descriptors that are ready.
            let has_ended = watched.has_ended();
            for (output, ready) in outputs.iter_mut().zip(ready.outputs) {
                if ready {
                    output.pull(self.scratch);
                }
            }
            if has_ended {
                return Seen::Ended;
            }
            if let Some(reason) = self.exceeded(outputs).or_else(|| watched.look(ready.noticed)) {
                return Seen::Exceeded(reason);
            }
        }
    }

    fn wait(&self, watched: &impl Watched, outputs: &[Output; 2]) -> nix::Result<Ready> {
        let within = self.time_left(watched.next_look());
        let mut descriptors = vec![
            PollFd::new(self.owner.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.owner.words.as_fd(), PollFlags::POLLIN),
            outputs[0].poll(),
            outputs[1].poll(),
        ];
        let own = descriptors.len();
        descriptors.extend(watched.notices());
        signals::wait(&mut descriptors, within)?;
        let is_ready = |fd: &PollFd<'_>| fd.any() == Some(true);
        Ok(Ready {
            owner: is_ready(&descriptors[0]),
            word: is_ready(&descriptors[1]),
            outputs: [is_readable(&descriptors[2]), is_readable(&descriptors[3])],
            noticed: match descriptors[own..].iter().any(is_ready) {
                true => Noticed::Something,
                false => Noticed::Nothing,
            },
        })
    }

    /// Until something has to be looked at that no descriptor tells.
    fn time_left(&self, next_look: Option<Instant>) -> Option<Duration> {
        // The kernel does not count the machine's sleep in a wait, but the promise runs on: look in between.
        const AT_LEAST_EVERY: Duration = Duration::from_secs(1);
        let promised = self.owner.words.promised().map(|left| left.min(AT_LEAST_EVERY));
        let wall = self
            .limits
            .wall
            .map(|limit| limit.saturating_sub(self.start.elapsed()));
        let look = next_look.map(|next| next.saturating_duration_since(Instant::now()));
        [promised, wall, look].into_iter().flatten().min()
    }

    fn exceeded(&mut self, outputs: &[Output; 2]) -> Option<Reason> {
        if let Some(reason) = self.owner.words.stop(self.number) {
            return Some(reason);
        }
        if self
            .limits
            .output
            .is_some_and(|limit| outputs.iter().any(|output| output.total() > limit))
        {
            return Some(Reason::OutputLimit);
        }
        self.limits
            .wall
            .is_some_and(|limit| self.start.elapsed() >= limit)
            .then_some(Reason::WallLimit)
    }
}

struct Ready {
    owner: bool,
    word: bool,
    outputs: [bool; 2],
    noticed: Noticed,
}
