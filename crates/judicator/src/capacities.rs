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
                    let capacities = executors.into_iter().filter_map(|executor| executor.capacity);
                    self.capacities.lock().of_all = Capacity::of_all(capacities);
                }
                // What was known goes on being used.
                Err(error) => tracing::debug!(%error, "could not read what the executors can give"),
            }
        }
        self.capacities.lock().of_all.unwrap_or(self.options.capacity)
    }
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
    fn one_caller_reads_for_all_others() {
        let capacities = Capacities::default();
        let now = Instant::now();
        assert!(capacities.begin_reading(now));
        assert!(!capacities.begin_reading(now));
        assert!(!capacities.begin_reading(now + VALID_FOR / 2));
        assert!(capacities.begin_reading(now + VALID_FOR));
    }
}
