//! Look on while the command runs.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};

use super::reap::Tally;
use super::run_command::Owner;
use super::sample::Sampler;
use super::signals;
use super::streams::{Output, is_readable};
use super::tree::Table;
use crate::fault::Errno;
use crate::outcome::Reason;
use crate::spec::Limits;

pub(super) struct Watch<'a> {
    pub(super) owner: Owner<'a>,
    pub(super) number: u64,
    pub(super) limits: &'a Limits,
    pub(super) start: Instant,
    pub(super) scratch: &'a mut [u8],
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

impl Watch<'_> {
    pub(super) fn run(
        &mut self,
        tally: &mut Tally,
        outputs: &mut [Output; 2],
        sampler: &mut Option<Sampler>,
        table: &mut Table,
    ) -> Seen {
        loop {
            let ready = match self.wait(outputs, sampler.as_ref()) {
                Ok(ready) => ready,
                Err(errno) => return Seen::Blind(errno.into()),
            };
            // The owner has nothing to send on this socket before we answer, but its end.
            if ready.owner || ready.word && self.owner.words.take_in().is_err() {
                return Seen::HungUp;
            }
            // In each round, because the signal of a child waits behind descriptors that are ready.
            tally.reap();
            for (output, ready) in outputs.iter_mut().zip(ready.outputs) {
                if ready {
                    output.pull(self.scratch);
                }
            }
            if tally.status.is_some() {
                return Seen::Ended;
            }
            if let Some(reason) = self.exceeded(outputs) {
                return Seen::Exceeded(reason);
            }
            if let Some(reason) = sampler.as_mut().and_then(|sampler| sampler.look_if_due(table)) {
                return Seen::Exceeded(reason);
            }
        }
    }

    fn wait(&self, outputs: &[Output; 2], sampler: Option<&Sampler>) -> nix::Result<Ready> {
        let within = self.time_left(sampler);
        let mut descriptors = [
            PollFd::new(self.owner.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.owner.words.as_fd(), PollFlags::POLLIN),
            outputs[0].poll(),
            outputs[1].poll(),
        ];
        signals::wait(&mut descriptors, within)?;
        let [owner, word, out, err] = &descriptors;
        Ok(Ready {
            owner: owner.any() == Some(true),
            word: word.any() == Some(true),
            outputs: [is_readable(out), is_readable(err)],
        })
    }

    /// Until something has to be looked at that no descriptor tells.
    fn time_left(&self, sampler: Option<&Sampler>) -> Option<Duration> {
        // The kernel does not count the machine's sleep in a wait, but the promise runs on: look in between.
        const AT_LEAST_EVERY: Duration = Duration::from_secs(1);
        let promised = self.owner.words.promised().map(|left| left.min(AT_LEAST_EVERY));
        let wall = self
            .limits
            .wall
            .map(|limit| limit.saturating_sub(self.start.elapsed()));
        let sample = sampler.map(|sampler| sampler.next().saturating_duration_since(Instant::now()));
        [promised, wall, sample].into_iter().flatten().min()
    }

    fn exceeded(&self, outputs: &[Output; 2]) -> Option<Reason> {
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
}
