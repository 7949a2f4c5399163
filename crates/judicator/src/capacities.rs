//! What the executors can give to a task, as far as this judicator knows.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::Capacity;

use crate::Judicator;

/// What the executors say changes when one joins or leaves; adding tasks must not cost a look at all of them each time.
const VALID_FOR: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Capacities(Mutex<Known>);

#[derive(Default)]
struct Known {
    read: Option<Instant>,
    of_all: Option<Capacity>,
}

impl Judicator {
    /// Of all executors on the list together, whether they are connected now or were until lately: a task may wait for
    /// one that comes back.
    pub(crate) async fn capacity(&self) -> Capacity {
        if self.capacities.begin_reading(Instant::now()) {
            match self.store.executors().await {
                Ok(executors) => {
                    let capacities = executors.into_iter().map(|executor| executor.capacity);
                    self.capacities.lock().of_all = Capacity::of_all(capacities);
                }
                // What was known goes on being used.
                Err(error) => tracing::debug!(%error, "could not read what the executors can give"),
            }
        }
        let of_all = self.capacities.lock().of_all;
        bound(of_all, self.options.capacity)
    }
}

/// Without an executor, here or on the list, nobody knows that a task asks for too much.
fn bound(of_all: Option<Capacity>, own_executor: Option<Capacity>) -> Capacity {
    of_all.or(own_executor).unwrap_or(Capacity::UNKNOWN)
}

impl Capacities {
    /// Whether the caller is to read them: one at a time, so that a slow store is not asked by everyone.
    fn begin_reading(&self, now: Instant) -> bool {
        let mut known = self.lock();
        let is_due = known.read.is_none_or(|read| now >= read + VALID_FOR);
        if is_due {
            known.read = Some(now);
        }
        is_due
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_executor_nothing_is_too_much() {
        let small = Capacity {
            memory: 1 << 30,
            processes: 512,
            open_files: 1024,
        };
        let large = Capacity {
            memory: 8 << 30,
            ..small
        };
        assert_eq!(bound(None, None), Capacity::UNKNOWN);
        assert_eq!(bound(None, Some(small)), small, "before its first report");
        assert_eq!(bound(Some(large), Some(small)), large);
    }

    #[test]
    fn one_caller_reads_for_all_others() {
        let capacities = Capacities::default();
        let now = Instant::now();
        assert!(capacities.begin_reading(now));
        assert!(!capacities.begin_reading(now));
        assert!(!capacities.begin_reading(now + VALID_FOR / 2));
        assert!(capacities.begin_reading(now + VALID_FOR));
    }
}
