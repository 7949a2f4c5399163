//! A cache of what the executors can give to a task.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::Capacity;

use crate::Judicator;

/// Adding a task must not read all executors each time. Capacities change only when an executor joins or leaves.
const VALID_FOR: Duration = Duration::from_secs(1);

/// A judicator's cache of the combined capacity of all executors, read from the store at most once a second.
#[derive(Default)]
pub(crate) struct CapacityCache(Mutex<CachedCapacity>);

/// The combined capacity of all executors that a judicator last read, and when a caller began to read it.
#[derive(Default)]
struct CachedCapacity {
    read_at: Option<Instant>,
    combined: Option<Capacity>,
}

impl Judicator {
    /// The combined capacity of all executors on the list. It includes executors that are not connected now, because a
    /// task may wait for one that comes back.
    pub(crate) async fn capacity(&self) -> Capacity {
        if self.capacity_cache.begin_reading(Instant::now()) {
            match self.store.executors().await {
                Ok(executors) => {
                    let capacities = executors.into_iter().map(|executor| executor.capacity);
                    self.capacity_cache.lock().combined = Capacity::combined(capacities);
                }
                // The cached capacity stays in use.
                Err(error) => tracing::debug!(%error, "could not read the executors' capacities"),
            }
        }
        let combined = self.capacity_cache.lock().combined;
        effective_capacity(combined, self.options.capacity)
    }
}

/// Without any executor, in this process or on the list, no task asks for too much.
fn effective_capacity(combined: Option<Capacity>, own_executor: Option<Capacity>) -> Capacity {
    combined.or(own_executor).unwrap_or(Capacity::UNKNOWN)
}

impl CapacityCache {
    /// Whether the caller must read the capacities now. Only one caller does, so that a slow store gets few reads.
    fn begin_reading(&self, now: Instant) -> bool {
        let mut cached = self.lock();
        let is_due = cached.read_at.is_none_or(|read_at| now >= read_at + VALID_FOR);
        if is_due {
            cached.read_at = Some(now);
        }
        is_due
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CachedCapacity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_executor_capacity_is_unlimited() {
        let small = Capacity {
            memory: 1 << 30,
            processes: 512,
            open_files: 1024,
        };
        let large = Capacity {
            memory: 8 << 30,
            ..small
        };
        assert_eq!(effective_capacity(None, None), Capacity::UNKNOWN);
        assert_eq!(
            effective_capacity(None, Some(small)),
            small,
            "before its first report"
        );
        assert_eq!(effective_capacity(Some(large), Some(small)), large);
    }

    #[test]
    fn one_caller_at_a_time_reads_the_capacities() {
        let cache = CapacityCache::default();
        let now = Instant::now();
        assert!(cache.begin_reading(now));
        assert!(!cache.begin_reading(now));
        assert!(!cache.begin_reading(now + VALID_FOR / 2));
        assert!(cache.begin_reading(now + VALID_FOR));
    }
}
