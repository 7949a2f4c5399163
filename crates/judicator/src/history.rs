//! The history: the figures of each minute, for people.
//!
//! The calls count in memory what they have committed. One background task writes the counts to the store every few
//! seconds, so no call waits for it. Each process writes rows of its own, which it replaces; a read adds up the rows of all.
//! If the process is killed, the counts since the last write are lost.

mod recorder;

use std::sync::Arc;
use std::time::Duration;

use error_causes::with_causes;
use model::{Health, HistoryMinute, LoadSample, queued_tasks};
use store::StoreError;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub(crate) use self::recorder::{FinishedRun, HistoryRecorder};

use self::recorder::SaveScope;
use crate::{Judicator, now};

const SAVE_INTERVAL: Duration = Duration::from_secs(10);
/// How often the leader removes old figures, in minutes.
const REMOVAL_INTERVAL: i64 = 10;

impl Judicator {
    /// Samples the load while leading, and saves figures. The last time after `stop`.
    pub(crate) async fn keep_history(self: Arc<Self>, stop: CancellationToken) {
        let mut timer = tokio::time::interval(SAVE_INTERVAL);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut removed: Option<HistoryMinute> = None;
        while stop.run_until_cancelled(timer.tick()).await.is_some() {
            if self.leads() {
                match self.sample_load().await {
                    Ok(sample) => self.history.on_load(now(), sample),
                    Err(error) => tracing::debug!(error = with_causes(&error), "could not sample the load"),
                }
            }
            self.save_figures(SaveScope::Due).await;
            let minute = HistoryMinute::of(now());
            let is_due = removed.is_none_or(|at| (minute.0 - at.0).abs() >= REMOVAL_INTERVAL);
            if self.leads() && is_due {
                removed = Some(minute);
                if let Err(error) = self.store.remove_figures(minute.plus(-HistoryMinute::KEPT)).await {
                    tracing::warn!(error = with_causes(&error), "could not remove old figures");
                }
            }
        }
        self.save_figures(SaveScope::All).await;
    }

    /// Figures that could not be saved stay in memory for the next time.
    async fn save_figures(&self, scope: SaveScope) {
        let time = now();
        self.history.on_ends(time, self.store.ends_without_result());
        let unsaved = self.history.begin_saving(HistoryMinute::of(time), scope);
        if unsaved.is_empty() {
            return;
        }
        match self.store.put_figures(unsaved.clone()).await {
            Ok(()) => self.history.on_saved(HistoryMinute::of(time)),
            Err(error) => {
                tracing::debug!(
                    error = with_causes(&error),
                    "could not save figures; trying again later"
                );
                self.history.on_not_saved(&unsaved);
            }
        }
    }

    async fn sample_load(&self) -> Result<LoadSample, StoreError> {
        let totals = self.store.totals().await?;
        let executors = self.store.executors().await?;
        let queued = queued_tasks(&totals.counts, totals.held);
        let oldest = match queued {
            0 => None,
            _ => self.store.oldest_queued().await?,
        };
        let alive = || {
            executors
                .iter()
                .filter(|executor| executor.health == Health::Alive)
        };
        Ok(LoadSample {
            queued,
            oldest_age: oldest.map_or(Duration::ZERO, |added| now().since(added)),
            // An executor also holds tasks in advance, which have no slot yet.
            slots_used: alive()
                .map(|executor| u64::from(executor.tasks.min(executor.slots)))
                .sum(),
            slots: alive().map(|executor| u64::from(executor.slots)).sum(),
            executors: alive().count() as u64,
        })
    }
}
