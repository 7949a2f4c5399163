//! Retention: removes tasks that finished long ago, blobs that no task uses, and executors that are long gone.
//!
//! Ages are measured in the age of the store, which the leader advances here by its own monotonic clock. So neither a wall
//! clock that is wrong or jumps, on any machine, nor a time during which the machines are off removes anything early.

use std::sync::Arc;
use std::time::Duration;

use error_causes::with_causes;
use model::StoreAge;
use store::{StoreError, TaskStore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Judicator;
use crate::metric_names::RETIRED;

/// Tasks or blobs removed in one step. Calls to the store get their turn between the steps.
const BATCH: usize = 500;
const MAX_PAUSE: Duration = Duration::from_secs(60);
const MIN_PAUSE: Duration = Duration::from_secs(1);

impl Judicator {
    pub(crate) async fn run_retention(self: Arc<Self>, stop: CancellationToken) {
        let shortest_kept = self
            .options
            .keep_done
            .unwrap_or(MAX_PAUSE)
            .min(self.options.keep_blobs);
        let pause = (shortest_kept / 10).clamp(MIN_PAUSE, MAX_PAUSE);
        let mut age_clock = StoreAgeClock::new(pause * 2);
        while stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_some()
        {
            if !self.leads() {
                age_clock.reset();
                continue;
            }
            if let Err(error) = self.apply_retention(&mut age_clock, &stop).await {
                tracing::warn!(
                    error = with_causes(&error),
                    "could not remove old tasks and blobs"
                );
            }
        }
    }

    async fn apply_retention(
        &self,
        age_clock: &mut StoreAgeClock,
        stop: &CancellationToken,
    ) -> Result<(), StoreError> {
        let age = age_clock.advance(&*self.store, Instant::now()).await?;
        let before = |keep| age_clock.surely_older(age, keep);
        let done_before = self.options.keep_done.map_or(StoreAge(i64::MIN), before);
        let unused_since = before(self.options.keep_blobs);
        while !stop.is_cancelled() {
            let retired = self
                .store
                .apply_retention(done_before, unused_since, BATCH)
                .await?;
            metrics::counter!(RETIRED).increment(retired.tasks as u64);
            if retired.tasks > 0 || retired.blobs > 0 {
                tracing::info!(retired.tasks, retired.blobs, "removed old tasks and unused blobs");
            }
            if !retired.more {
                break;
            }
        }
        self.store
            .remove_ended_executors(before(self.options.forget_executors))
            .await?;
        Ok(())
    }
}

/// Measures the time for which this judicator leads and adds it to the age of the store, for retention.
struct StoreAgeClock {
    /// The most that one step adds. Time during which the process was stopped does not count.
    longest_step: Duration,
    /// The age after the last step, and the time of that step.
    last: Option<(StoreAge, Instant)>,
}

impl StoreAgeClock {
    fn new(longest_step: Duration) -> StoreAgeClock {
        StoreAgeClock {
            longest_step,
            last: None,
        }
    }

    /// The first step of a leader adds nothing, because it has measured nothing yet.
    async fn advance(&mut self, store: &dyn TaskStore, now: Instant) -> Result<StoreAge, StoreError> {
        let age = match self.last {
            None => store.age().await?,
            Some((age, since)) => {
                let measured = now.saturating_duration_since(since);
                store.advance_age(age, measured.min(self.longest_step)).await?
            }
        };
        self.last = Some((age, now));
        Ok(age)
    }

    fn reset(&mut self) {
        self.last = None;
    }

    /// An entry with a smaller stamp than the returned age is at least `span` old. Between two steps the age stands still,
    /// so a stamp may be too small by one step.
    fn surely_older(&self, age: StoreAge, span: Duration) -> StoreAge {
        age.minus(span).minus(self.longest_step)
    }
}

#[cfg(test)]
mod tests {
    use store::sqlite::{SqliteStore, SqliteStoreOptions};

    use super::*;

    const STEP: Duration = Duration::from_secs(120);

    fn store() -> (tempfile::TempDir, SqliteStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), SqliteStoreOptions::default()).unwrap();
        (folder, store)
    }

    fn seconds(seconds: u64) -> StoreAge {
        StoreAge(0).plus(Duration::from_secs(seconds))
    }

    #[tokio::test]
    async fn the_age_advances_only_by_time_measured_while_leading() {
        let (_folder, store) = store();
        let start = Instant::now();
        let mut age_clock = StoreAgeClock::new(STEP);
        let check = async |age_clock: &mut StoreAgeClock, at, expected| {
            let age = age_clock.advance(&store, start + Duration::from_secs(at)).await;
            assert_eq!(age.unwrap(), seconds(expected), "at second {at}");
        };
        check(&mut age_clock, 0, 0).await;
        check(&mut age_clock, 60, 60).await;
        check(&mut age_clock, 130, 130).await;
        // The process was stopped for a week.
        check(&mut age_clock, 130 + 604_800, 250).await;
        check(&mut age_clock, 130 + 604_860, 310).await;
        // Another judicator led meanwhile, or the process was restarted.
        age_clock.reset();
        check(&mut age_clock, 700_000, 310).await;
        check(&mut age_clock, 700_060, 370).await;
    }

    #[tokio::test]
    async fn two_leaders_at_once_do_not_count_time_twice() {
        let (_folder, store) = store();
        let start = Instant::now();
        let (mut one, mut other) = (StoreAgeClock::new(STEP), StoreAgeClock::new(STEP));
        let mut age = StoreAge(0);
        for minute in 0..10 {
            let at = start + Duration::from_secs(minute * 60);
            one.advance(&store, at).await.unwrap();
            age = other.advance(&store, at + Duration::from_secs(30)).await.unwrap();
        }
        assert_eq!(age, seconds(540));
    }

    #[test]
    fn entries_are_never_treated_as_older_than_they_are() {
        let age_clock = StoreAgeClock::new(STEP);
        let day = Duration::from_secs(86_400);
        // Stamped just before a step of the maximum length.
        let stamp = seconds(1000);
        let almost = stamp.plus(day).plus(STEP);
        assert!(stamp >= age_clock.surely_older(almost, day));
        assert!(stamp < age_clock.surely_older(almost.plus(Duration::from_secs(1)), day));
    }
}
