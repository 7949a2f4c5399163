//! Counts the tasks that this process ends without a result.

use std::sync::atomic::{AtomicU64, Ordering};

use model::TaskStatus;

/// How many tasks a process has ended without a result since it opened its task store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndsWithoutResult {
    pub cancelled: u64,
    /// Tasks that ended as `system_error`.
    pub system_errors: u64,
}

/// Counts the tasks that this process has ended without a result. A store counts them after their commit.
#[derive(Debug, Default)]
pub(crate) struct EndCounter {
    cancelled: AtomicU64,
    system_errors: AtomicU64,
}

impl EndCounter {
    /// Counts a committed transition to this status, if it is an end without a result.
    pub(crate) fn record(&self, status: TaskStatus) {
        match status {
            TaskStatus::Cancelled => drop(self.cancelled.fetch_add(1, Ordering::Relaxed)),
            TaskStatus::SystemError => drop(self.system_errors.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    pub(crate) fn counts(&self) -> EndsWithoutResult {
        EndsWithoutResult {
            cancelled: self.cancelled.load(Ordering::Relaxed),
            system_errors: self.system_errors.load(Ordering::Relaxed),
        }
    }
}
