//! What nobody needs any more: tasks long done, blobs without a task, executors long gone.

use std::sync::Arc;
use std::time::Duration;

use model::{Moment, with_causes};
use store::StoreError;
use tokio_util::sync::CancellationToken;

use crate::measure::RETIRED;
use crate::{Judicator, now};

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
        while stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_some()
        {
            if !self.leads() {
                continue;
            }
            if let Err(error) = self.retire_all(&stop).await {
                tracing::warn!(error = with_causes(&error), "could not remove what is long done");
            }
        }
    }

    async fn retire_all(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        let done_before = self
            .options
            .keep_done
            .map_or(Moment(i64::MIN), |keep| now().minus(keep));
        let unused_since = now().minus(self.options.keep_blobs);
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
            .forget_executors(now().minus(self.options.forget_executors))
            .await?;
        Ok(())
    }
}
