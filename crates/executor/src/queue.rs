//! The jobs that are ready and wait for a slot, in the order in which they came.
//!
//! Pure: times come in as values, and nothing happens but the queue changing.

use std::collections::VecDeque;
use std::time::Instant;

pub(crate) struct Queue<J> {
    jobs: VecDeque<(Instant, J)>,
    /// Slots that run nothing: so many jobs will be begun as soon as the machine lets the slots look.
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

    /// A slot's job is over.
    pub(crate) fn on_ended(&mut self) {
        self.free += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Since when there are more jobs than slots to begin them.
    pub(crate) fn too_many_since(&self) -> Option<Instant> {
        self.jobs.get(self.free).map(|(since, _)| *since)
    }

    /// Takes back all jobs that no slot is free for: were some kept, they would overtake those before them.
    pub(crate) fn take_back_too_many(&mut self) -> Vec<J> {
        let kept = self.free.min(self.jobs.len());
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_free_slot_will_begin_is_not_too_much_however_long_it_waits() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut queue = Queue::new(2);
        for job in 0..5 {
            queue.push(job, at(job));
        }
        assert_eq!(queue.too_many_since(), Some(at(2)));
        assert_eq!(queue.begin(), Some(0));
        assert_eq!(
            queue.too_many_since(),
            Some(at(2)),
            "the other slot is free for 1"
        );
        assert_eq!(queue.begin(), Some(1));
        assert_eq!(queue.too_many_since(), Some(at(2)));
        queue.on_ended();
        assert_eq!(queue.too_many_since(), Some(at(3)));
        assert_eq!(queue.take_back_too_many(), [3, 4]);
        assert_eq!((queue.too_many_since(), queue.len()), (None, 1));
        assert_eq!(queue.take_back_too_many(), [0; 0]);
        assert_eq!(queue.begin(), Some(2));
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
