//! The attempts that are ready to run and wait for a slot, first in, first out.
//!
//! A pure state machine: callers pass the time in.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// An attempt that waits longer than this while all slots are busy is given back: another executor may have a free slot.
pub(crate) const MAX_WAIT_WITHOUT_SLOT: Duration = Duration::from_millis(250);
/// An attempt that waits longer than this is given back even if a slot is free: that slot does not work.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The executor's queue of attempts that wait for a slot, first in, first out, with the number of free slots.
pub(crate) struct AttemptQueue<T> {
    waiting: VecDeque<(Instant, T)>,
    free_slots: usize,
}

impl<T> AttemptQueue<T> {
    pub(crate) fn new(slots: usize) -> AttemptQueue<T> {
        AttemptQueue {
            waiting: VecDeque::new(),
            free_slots: slots,
        }
    }

    pub(crate) fn push(&mut self, item: T, now: Instant) {
        self.waiting.push_back((now, item));
    }

    /// The next attempt, for a slot that was free.
    pub(crate) fn pop_for_slot(&mut self) -> Option<T> {
        let (_, item) = self.waiting.pop_front()?;
        self.free_slots -= 1;
        Some(item)
    }

    /// Returns an attempt to the front, from a slot that cannot run attempts for now.
    pub(crate) fn put_back(&mut self, item: T, now: Instant) {
        self.waiting.push_front((now, item));
    }

    /// A slot has finished its attempt.
    pub(crate) fn on_slot_free(&mut self) {
        self.free_slots += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the first attempt will have waited for too long.
    pub(crate) fn overdue_at(&self) -> Option<Instant> {
        let without_slot = self
            .waiting
            .get(self.free_slots)
            .map(|(since, _)| *since + MAX_WAIT_WITHOUT_SLOT);
        let with_slot = self.waiting.front().map(|(since, _)| *since + MAX_WAIT);
        without_slot.into_iter().chain(with_slot).min()
    }

    /// Removes the attempts that have waited for too long and all behind them, which would otherwise overtake them.
    pub(crate) fn take_overdue(&mut self, now: Instant) -> Vec<T> {
        let waited = |at: usize, max_wait| {
            self.waiting
                .get(at)
                .is_some_and(|(since, _)| *since + max_wait <= now)
        };
        let kept = match (
            waited(0, MAX_WAIT),
            waited(self.free_slots, MAX_WAIT_WITHOUT_SLOT),
        ) {
            (true, _) => 0,
            (false, true) => self.free_slots,
            (false, false) => return Vec::new(),
        };
        self.waiting.drain(kept..).map(|(_, item)| item).collect()
    }

    pub(crate) fn remove_matching(&mut self, which: impl Fn(&T) -> bool) -> Vec<T> {
        let (taken, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(_, item)| which(item));
        self.waiting = left.into();
        taken.into_iter().map(|(_, item)| item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_for_free_slots_are_not_overdue() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut queue = AttemptQueue::new(2);
        for job in 0..5 {
            queue.push(job, at(job));
        }
        assert_eq!(queue.overdue_at(), Some(at(252)));
        assert_eq!(queue.pop_for_slot(), Some(0));
        assert_eq!(queue.pop_for_slot(), Some(1));
        assert_eq!(queue.overdue_at(), Some(at(252)), "no slot is free for 2");
        queue.on_slot_free();
        assert_eq!(queue.overdue_at(), Some(at(253)), "one slot is free for 2");
        assert_eq!(queue.take_overdue(at(252)), [0; 0]);
        // Together with the attempts behind it.
        assert_eq!(queue.take_overdue(at(253)), [3, 4]);
        assert_eq!(queue.overdue_at(), Some(at(10_002)));
        assert_eq!(queue.take_overdue(at(10_001)), [0; 0]);
        assert_eq!(queue.take_overdue(at(10_002)), [2], "the free slot does not work");
        assert_eq!((queue.overdue_at(), queue.len()), (None, 0));
        assert_eq!(queue.pop_for_slot(), None);
    }

    #[test]
    fn removed_attempts_leave_the_others_in_order() {
        let now = Instant::now();
        let mut queue = AttemptQueue::new(1);
        for job in 0..6 {
            queue.push(job, now);
        }
        assert_eq!(queue.remove_matching(|job| job % 2 == 1), [1, 3, 5]);
        assert_eq!(queue.pop_for_slot(), Some(0));
        queue.on_slot_free();
        assert_eq!(queue.pop_for_slot(), Some(2));
        assert_eq!(queue.remove_matching(|_| true), [4]);
        assert_eq!(queue.len(), 0);
    }
}
