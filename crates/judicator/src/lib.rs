//! The judicator: keeps tasks in a store and hands them to executors. Each call has its file in `calls`.
//!
//! Every decision of a judicator is checked again by a condition of the store, so any number of judicators can serve any
//! call. What a judicator keeps in memory (waiting calls, watching executors) only makes it faster. This crate knows no
//! HTTP, no SQL and no wire format.

mod calls;
mod error;
mod metric_names;
mod options;

mod change_events;
mod change_ticks;
mod executor_cache;
mod group_watchers;
mod hints;
mod history;
mod live_output_hub;
mod partial_uploads;
mod report_tracker;
mod task_watchers;
mod throughput;

mod blob_scan;
mod expiry;
mod retention;
mod system_error_log;

use std::sync::Arc;
use std::time::SystemTime;

use model::UnixTime;
use store::TaskStore;
use supervise::{Component, ComponentFailure, Supervisor};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use options::{JudicatorLister, JudicatorOptions};

use calls::ReadinessChecks;
use change_ticks::ChangeTicks;
use executor_cache::ExecutorCache;
use group_watchers::GroupWatchers;
use hints::HintBroker;
use history::HistoryRecorder;
use live_output_hub::LiveOutputHub;
use partial_uploads::PartialUploads;
use report_tracker::ReportTracker;
use system_error_log::SystemErrorLog;
use task_watchers::TaskWatchers;
use throughput::ThroughputWindow;

/// A judicator: keeps tasks in a store, hands them to executors, and runs background tasks such as retention. It
/// implements [`rpc::Calls`].
pub struct Judicator {
    options: JudicatorOptions,
    store: Arc<dyn TaskStore>,
    leading: watch::Receiver<bool>,
    hints: Arc<HintBroker>,
    report_tracker: ReportTracker,
    /// Notified when a blob was put or found damaged.
    blobs_changed: Arc<Notify>,
    watchers: Arc<TaskWatchers>,
    change_ticks: ChangeTicks,
    group_watchers: Arc<GroupWatchers>,
    live_output: Arc<LiveOutputHub>,
    partial_uploads: PartialUploads,
    throughput: Arc<ThroughputWindow>,
    history: HistoryRecorder,
    readiness_checks: ReadinessChecks,
    executor_cache: ExecutorCache,
    supervisor: Supervisor,
    system_error_log: SystemErrorLog,
    since: UnixTime,
}

impl Judicator {
    /// Starts the background tasks, which run until `stop`:
    ///
    /// | task | if the store fails | if it panics | on `stop` |
    /// |---|---|---|---|
    /// | `forward_change_events` passes the store's change events on | reads the state again if events were lost | the process ends | ends at once |
    /// | `expire_sessions` ends silent sessions, while leading | logs, tries again at the next sweep | the process ends | ends at once |
    /// | `log_system_errors` logs each task that could not be run | logs a line without details | the process ends | ends at once |
    /// | `run_retention` removes old tasks and blobs, while leading | logs, tries again in the next round | is restarted | ends after the batch |
    /// | `keep_history` saves the figures of each minute | keeps them, tries again | is restarted | saves once more |
    /// | `scan_blobs` finds damaged blobs and orphaned files, while leading | logs, continues with the next part | is restarted | ends at once |
    ///
    /// The caller must end the process when [`Judicator::failure`] returns.
    pub fn start(
        options: JudicatorOptions,
        store: Arc<dyn TaskStore>,
        leading: watch::Receiver<bool>,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) -> Arc<Judicator> {
        metric_names::describe();
        let (system_error_log, ended) = SystemErrorLog::new();
        let judicator = Arc::new(Judicator {
            system_error_log,
            options,
            leading,
            hints: Arc::default(),
            report_tracker: ReportTracker::default(),
            blobs_changed: Arc::default(),
            watchers: Arc::default(),
            change_ticks: ChangeTicks::default(),
            group_watchers: Arc::default(),
            live_output: Arc::default(),
            partial_uploads: PartialUploads::new(store.incoming_folder()),
            throughput: Arc::default(),
            history: HistoryRecorder::default(),
            readiness_checks: ReadinessChecks::default(),
            executor_cache: ExecutorCache::default(),
            supervisor: Supervisor::new(),
            since: now(),
            store,
        });
        // Subscribed before the first call, so that no change event is missed.
        let changes = judicator.store.subscribe();
        let forward = judicator.clone().forward_change_events(changes);
        judicator.guard(Component::Dispatch, forward, tracker, stop);
        judicator.guard(
            Component::Expiry,
            judicator.clone().expire_sessions(),
            tracker,
            stop,
        );
        let logging = judicator.clone().log_system_errors(ended);
        judicator.guard(Component::SystemErrorLog, logging, tracker, stop);
        let (retaining, stopped) = (judicator.clone(), stop.clone());
        tracker.spawn(async move {
            let run = || retaining.clone().run_retention(stopped.clone());
            Supervisor::run_restarting(Component::Retention, &stopped, run).await;
        });
        let (keeping, stopped) = (judicator.clone(), stop.clone());
        tracker.spawn(async move {
            let keep = || keeping.clone().keep_history(stopped.clone());
            Supervisor::run_restarting(Component::History, &stopped, keep).await;
        });
        let (scanning, stopped) = (judicator.clone(), stop.clone());
        tracker.spawn(async move {
            let scan = || {
                let (scanning, stopped) = (scanning.clone(), stopped.clone());
                async move {
                    stopped.run_until_cancelled(scanning.scan_blobs()).await;
                }
            };
            Supervisor::run_restarting(Component::BlobScan, &stopped, scan).await;
        });
        judicator
    }

    fn guard(
        &self,
        component: Component,
        run: impl Future<Output = ()> + Send + 'static,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let (supervisor, stop) = (self.supervisor.clone(), stop.clone());
        tracker.spawn(async move {
            let until_stopped = stop.clone().run_until_cancelled_owned(run);
            let run = async move {
                until_stopped.await;
            };
            supervisor.guard(component, &stop, run).await;
        });
    }

    /// Waits until a component of the judicator or of its store has failed in a way that must end the process.
    pub async fn failure(&self) -> ComponentFailure {
        let (mut own, mut store) = (self.supervisor.failures(), self.store.failures());
        tokio::select! {
            failed = store.wait() => failed,
            failed = own.wait() => failed,
        }
    }

    fn current_failure(&self) -> Option<ComponentFailure> {
        let store = self.store.failures().current();
        store.or_else(|| self.supervisor.failures().current())
    }

    fn leads(&self) -> bool {
        *self.leading.borrow()
    }
}

fn now() -> UnixTime {
    SystemTime::now().into()
}
