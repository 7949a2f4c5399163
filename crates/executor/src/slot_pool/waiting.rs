//! The attempts that wait for a slot.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::AttemptId;

use super::{AttemptEndCause, PreparedAttempt, QueueState, SlotEvent, SlotPool};
use crate::now;
use crate::queue::AttemptQueue;

/// What the thread of an executor's slot does next.
pub(super) enum SlotWork {
    Attempt(Box<PreparedAttempt>),
    /// Roots were added, replaced or removed.
    RootsChanged,
}

impl SlotPool {
    /// Returns an attempt to the queue, because another slot may have a working warden.
    pub(super) fn put_back(&self, prepared: PreparedAttempt) {
        prepared.control.on_put_back();
        self.queue_unless_memory_is_low(prepared, AttemptQueue::put_back);
    }

    /// Drops an attempt that has not started. The next report does not name it, so the judicator hands it out again.
    pub(super) fn give_back(&self, prepared: PreparedAttempt) {
        let attempt_id = prepared.attempt_id;
        drop(prepared);
        self.send_event(SlotEvent::AttemptEnded(attempt_id, AttemptEndCause::NoResult));
        self.cache.evict_in_background();
    }

    /// Wakes the slots. When memory has become low, the report loop gives back the queued attempts.
    pub(crate) fn on_memory_reserve_changed(&self) {
        // Under the lock: otherwise a slot could read the old state and then miss the notification.
        let state = self.lock_queue();
        self.ready.notify_all();
        drop(state);
        self.send_event(SlotEvent::MemoryReserveChanged);
    }

    /// Waits for `close`, up to this time. Returns whether the pool is closed.
    pub(crate) fn wait_for_close(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.lock_queue();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return state.closed;
            }
            (state, _) = self
                .closing
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Queues an attempt for a slot.
    pub(crate) fn enqueue(&self, prepared: PreparedAttempt) {
        self.queue_unless_memory_is_low(prepared, AttemptQueue::push);
    }

    /// While memory is low the attempt is given back instead, because it would be the first to be killed.
    fn queue_unless_memory_is_low(
        &self,
        prepared: PreparedAttempt,
        insert: fn(&mut AttemptQueue<PreparedAttempt>, PreparedAttempt, Instant),
    ) {
        let mut state = self.lock_queue();
        // Checked under the lock: the report loop finds everything that was queued before memory became low.
        if self.reserve.is_low() {
            drop(state);
            return self.give_back(prepared);
        }
        insert(&mut state.queue, prepared, now());
        drop(state);
        self.ready.notify_one();
    }

    /// Wakes the slots: an idle slot ends its wardens in roots that were replaced or removed.
    pub(crate) fn on_roots_changed(&self) {
        self.lock_queue().root_changes += 1;
        self.ready.notify_all();
    }

    /// Waits for something to do; `None` when the pool is closed. `root_changes` is how many changes of roots the slot has
    /// handled.
    pub(super) fn next_work(&self, root_changes: &mut u64) -> Option<SlotWork> {
        let mut state = self.lock_queue();
        loop {
            if !self.reserve.is_low()
                && let Some(prepared) = state.queue.pop_for_slot()
            {
                return Some(SlotWork::Attempt(Box::new(prepared)));
            }
            if state.closed {
                return None;
            }
            if state.root_changes > *root_changes {
                *root_changes = state.root_changes;
                return Some(SlotWork::RootsChanged);
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How many attempts wait for a slot.
    pub(crate) fn waiting(&self) -> usize {
        self.lock_queue().queue.len()
    }

    /// When an attempt will have waited for too long.
    pub(crate) fn overdue_at(&self) -> Option<Instant> {
        self.lock_queue().queue.overdue_at()
    }

    /// Removes the attempts that have waited for too long.
    pub(crate) fn take_overdue(&self, now: Instant) -> Vec<AttemptId> {
        let taken = self.lock_queue().queue.take_overdue(now);
        self.release(taken)
    }

    /// Removes matching attempts that no slot has started.
    pub(crate) fn remove_matching(&self, which: impl Fn(&PreparedAttempt) -> bool) -> Vec<AttemptId> {
        let taken = self.lock_queue().queue.remove_matching(which);
        self.release(taken)
    }

    fn release(&self, prepared: Vec<PreparedAttempt>) -> Vec<AttemptId> {
        let attempt_ids: Vec<_> = prepared.iter().map(|prepared| prepared.attempt_id).collect();
        drop(prepared);
        for attempt_id in &attempt_ids {
            self.live_outputs.on_attempt_ended(attempt_id);
        }
        self.cache.evict_in_background();
        attempt_ids
    }

    /// Ends the threads once the queue is empty.
    pub(crate) fn close(&self) {
        self.lock_queue().closed = true;
        self.ready.notify_all();
        self.closing.notify_all();
    }

    pub(super) fn lock_queue(&self) -> MutexGuard<'_, QueueState> {
        self.queue_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
