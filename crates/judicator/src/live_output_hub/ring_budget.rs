//! The memory that the rings of all followed streams may take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes the rings of a judicator may have together, and how many they have.
pub(super) struct RingBudget {
    limit: usize,
    used: AtomicUsize,
}

/// What one ring takes of the budget. Dropping it gives that back.
pub(super) struct RingReservation {
    budget: Arc<RingBudget>,
    bytes: usize,
}

impl RingBudget {
    pub(super) fn new(limit: usize) -> Arc<RingBudget> {
        Arc::new(RingBudget {
            limit,
            used: AtomicUsize::new(0),
        })
    }

    pub(super) fn reservation(self: &Arc<Self>) -> RingReservation {
        RingReservation {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

impl RingReservation {
    /// Reserves this many bytes instead of those before, or as many as the budget allows. Returns the number.
    pub(super) fn resize(&mut self, wanted: usize) -> usize {
        let (before, limit) = (self.bytes, self.budget.limit);
        let granted = |used: usize| wanted.min(limit.saturating_sub(used - before));
        let change = |used: usize| Some(used - before + granted(used));
        let used = self
            .budget
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        self.bytes = used.map_or(0, granted);
        self.bytes
    }
}

impl Drop for RingReservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_never_take_more_than_the_budget() {
        let budget = RingBudget::new(100);
        let (mut one, mut other) = (budget.reservation(), budget.reservation());
        assert_eq!((one.resize(70), other.resize(70)), (70, 30));
        assert_eq!((one.resize(90), other.resize(50)), (70, 30));
        assert_eq!(one.resize(10), 10);
        assert_eq!(other.resize(200), 90);
        drop(one);
        assert_eq!(other.resize(200), 100);
        drop(other);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
