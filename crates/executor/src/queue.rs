//! The jobs that are ready and wait for a slot, in the order in which they came.
//!
//! Pure: times come in as values, and nothing happens but the queue changing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A job that has waited for so long while every slot was at work was taken ahead in error: another executor may have a
/// free one.
pub(crate) const PATIENCE: Duration = Duration::from_millis(250);
/// A slot that is free begins a job as soon as the machine lets it look. One that does not look for so long is not well.
const LONG: Duration = Duration::from_secs(10);

pub(crate) struct Queue<J> {
    jobs: VecDeque<(Instant, J)>,
    /// Slots that run nothing.
    free: usize,
}

impl<J> Queue<J> {
    pub(crate) fn new(slots: usize) -> Queue<J> {
        Queue {
            jobs: VecDeque::new(),
            free: slots,
        }
    }

    pub(crate) fn push(&mut self, job: J, now: Instant) {
        self.jobs.push_back((now, job));
    }

    /// The next job, for a slot that was free until now.
    pub(crate) fn begin(&mut self) -> Option<J> {
        let (_, job) = self.jobs.pop_front()?;
        self.free -= 1;
        Some(job)
    }

    /// A slot cannot run the job that it has begun, nor any other for now.
    pub(crate) fn put_back(&mut self, job: J, now: Instant) {
        self.jobs.push_front((now, job));
    }

    /// A slot's job is over.
    pub(crate) fn on_ended(&mut self) {
        self.free += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// When there will be jobs to take back.
    pub(crate) fn stuck_at(&self) -> Option<Instant> {
        let too_many = self.jobs.get(self.free).map(|(since, _)| *since + PATIENCE);
        let unwell = self.jobs.front().map(|(since, _)| *since + LONG);
        too_many.into_iter().chain(unwell).min()
    }

    /// Takes back what has waited for too long and all behind it: were some kept, they would overtake those before them.
    pub(crate) fn take_back_stuck(&mut self, now: Instant) -> Vec<J> {
        let waited = |at: usize, patience| {
            self.jobs
                .get(at)
                .is_some_and(|(since, _)| *since + patience <= now)
        };
        let kept = match (waited(0, LONG), waited(self.free, PATIENCE)) {
            (true, _) => 0,
            (false, true) => self.free,
            (false, false) => return Vec::new(),
        };
        self.jobs.drain(kept..).map(|(_, job)| job).collect()
    }

    pub(crate) fn take_back(&mut self, which: impl Fn(&J) -> bool) -> Vec<J> {
        let (taken, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.jobs)
            .into_iter()
            .partition(|(_, job)| which(job));
        self.jobs = left.into();
        taken.into_iter().map(|(_, job)| job).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_free_slot_will_begin_is_not_stuck() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut queue = Queue::new(2);
        for job in 0..5 {
            queue.push(job, at(job));
        }
        assert_eq!(queue.stuck_at(), Some(at(252)));
        assert_eq!(queue.begin(), Some(0));
        assert_eq!(queue.begin(), Some(1));
        assert_eq!(queue.stuck_at(), Some(at(252)), "no slot is free for 2");
        queue.on_ended();
        assert_eq!(queue.stuck_at(), Some(at(253)), "one slot is free for 2");
        assert_eq!(queue.take_back_stuck(at(252)), [0; 0]);
        // With those behind it.
        assert_eq!(queue.take_back_stuck(at(253)), [3, 4]);
        assert_eq!(queue.stuck_at(), Some(at(10_002)));
        assert_eq!(queue.take_back_stuck(at(10_001)), [0; 0]);
        assert_eq!(queue.take_back_stuck(at(10_002)), [2], "nobody looks");
        assert_eq!((queue.stuck_at(), queue.len()), (None, 0));
        assert_eq!(queue.begin(), None);
    }

    #[test]
    fn those_taken_back_leave_the_others_in_their_order() {
        let now = Instant::now();
        let mut queue = Queue::new(1);
        for job in 0..6 {
            queue.push(job, now);
        }
        assert_eq!(queue.take_back(|job| job % 2 == 1), [1, 3, 5]);
        assert_eq!(queue.begin(), Some(0));
        queue.on_ended();
        assert_eq!(queue.begin(), Some(2));
        assert_eq!(queue.take_back(|_| true), [4]);
        assert_eq!(queue.len(), 0);
    }
}
