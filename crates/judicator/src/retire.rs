//! What nobody needs any more: tasks long done, blobs without a task, executors long gone.
//!
//! How long ago something was is counted in the store's age, which the leader advances here by its own monotonic clock.
//! So no clock that is wrong or jumps, on whatever machine, removes anything early, nor does a time switched off.

use std::sync::Arc;
use std::time::Duration;

use model::{Age, with_causes};
use store::{StoreError, TaskStore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Judicator;
use crate::measure::RETIRED;

/// So many at a time, so that callers get their turn between.
const BATCH: usize = 500;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

impl Judicator {
    pub(crate) async fn retire(self: Arc<Self>, stop: CancellationToken) {
        let kept = self
            .options
            .keep_done
            .unwrap_or(LONGEST_PAUSE)
            .min(self.options.keep_blobs);
        let pause = (kept / 10).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let mut aging = Aging::new(pause * 2);
        while stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_some()
        {
            if !self.leads() {
                aging.pause();
                continue;
            }
            if let Err(error) = self.retire_all(&mut aging, &stop).await {
                tracing::warn!(error = with_causes(&error), "could not remove what is long done");
            }
        }
    }

    async fn retire_all(&self, aging: &mut Aging, stop: &CancellationToken) -> Result<(), StoreError> {
        let age = aging.advance(&*self.store, Instant::now()).await?;
        let kept = |keep| aging.surely_older(age, keep);
        let done_before = self.options.keep_done.map_or(Age(i64::MIN), kept);
        let unused_since = kept(self.options.keep_blobs);
        while !stop.is_cancelled() {
            let retired = self.store.retire(done_before, unused_since, BATCH).await?;
            metrics::counter!(RETIRED).increment(retired.tasks as u64);
            if retired.tasks > 0 || retired.blobs > 0 {
                tracing::info!(retired.tasks, retired.blobs, "removed what was long done");
            }
            if retired.tasks < BATCH && retired.blobs < BATCH {
                break;
            }
        }
        self.store
            .forget_executors(kept(self.options.forget_executors))
            .await?;
        Ok(())
    }
}

/// Advances the store's age while this judicator leads.
struct Aging {
    /// The most that one step adds. What a process did not see, because it was stopped, does not count.
    longest_step: Duration,
    /// The age after the last step, and when that was.
    last: Option<(Age, Instant)>,
}

impl Aging {
    fn new(longest_step: Duration) -> Aging {
        Aging {
            longest_step,
            last: None,
        }
    }

    /// The first step of a leader adds nothing: it has measured nothing yet.
    async fn advance(&mut self, store: &dyn TaskStore, now: Instant) -> Result<Age, StoreError> {
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

    fn pause(&mut self) {
        self.last = None;
    }

    /// What has a smaller stamp than this is at least so old. Between two steps the age stands still, so that a stamp
    /// may be too small by one.
    fn surely_older(&self, age: Age, span: Duration) -> Age {
        age.minus(span).minus(self.longest_step)
    }
}

#[cfg(test)]
mod tests {
    use store::sqlite::{Options, SqliteStore};

    use super::*;

    const STEP: Duration = Duration::from_secs(120);

    fn store() -> (tempfile::TempDir, SqliteStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), Options::default()).unwrap();
        (folder, store)
    }

    fn seconds(seconds: u64) -> Age {
        Age(0).plus(Duration::from_secs(seconds))
    }

    #[tokio::test]
    async fn only_time_that_was_measured_while_leading_counts() {
        let (_folder, store) = store();
        let start = Instant::now();
        let mut aging = Aging::new(STEP);
        let check = async |aging: &mut Aging, at, expected| {
            let age = aging.advance(&store, start + Duration::from_secs(at)).await;
            assert_eq!(age.unwrap(), seconds(expected), "at second {at}");
        };
        check(&mut aging, 0, 0).await;
        check(&mut aging, 60, 60).await;
        check(&mut aging, 130, 130).await;
        // The process was stopped for a week.
        check(&mut aging, 130 + 604_800, 250).await;
        check(&mut aging, 130 + 604_860, 310).await;
        // Another led meanwhile, and this one begins again; or it was restarted.
        aging.pause();
        check(&mut aging, 700_000, 310).await;
        check(&mut aging, 700_060, 370).await;
    }

    #[tokio::test]
    async fn two_leaders_do_not_count_twice() {
        let (_folder, store) = store();
        let start = Instant::now();
        let (mut one, mut other) = (Aging::new(STEP), Aging::new(STEP));
        let mut age = Age(0);
        for minute in 0..10 {
            let at = start + Duration::from_secs(minute * 60);
            one.advance(&store, at).await.unwrap();
            age = other.advance(&store, at + Duration::from_secs(30)).await.unwrap();
        }
        assert_eq!(age, seconds(540));
    }

    #[test]
    fn nothing_is_taken_for_older_than_it_is() {
        let aging = Aging::new(STEP);
        let day = Duration::from_secs(86_400);
        // Stamped just before a step of the longest kind.
        let stamp = seconds(1000);
        let almost = stamp.plus(day).plus(STEP);
        assert!(stamp >= aging.surely_older(almost, day));
        assert!(stamp < aging.surely_older(almost.plus(Duration::from_secs(1)), day));
    }
}
