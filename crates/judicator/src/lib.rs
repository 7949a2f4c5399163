//! Keeps the tasks and hands them out: one file in `calls` for each call, and what the leader does besides.
//!
//! A judicator decides nothing that the store does not decide again under its own conditions, so any number of
//! them can serve any call. What it keeps in memory (who waits, who is hungry) only makes things quick.
//! This room knows no HTTP, no SQL and no wire.

mod calls;
mod capacities;
mod error;
mod expire;
mod heard;
mod hints;
mod measure;
mod options;
mod pace;
mod retire;
mod scan;
mod system_errors;
mod waiters;

use std::sync::Arc;
use std::time::SystemTime;

use model::Moment;
use store::TaskStore;
use supervise::{Component, ComponentFailed, Supervisor};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use options::{Options, Roster};

use calls::Checks;
use capacities::Capacities;
use heard::Heard;
use hints::Hints;
use pace::Pace;
use system_errors::SystemErrors;
use waiters::Waiters;

pub struct Judicator {
    options: Options,
    store: Arc<dyn TaskStore>,
    leading: watch::Receiver<bool>,
    hints: Arc<Hints>,
    heard: Heard,
    /// A blob was put or found damaged.
    blobs_changed: Arc<Notify>,
    waiters: Arc<Waiters>,
    pace: Arc<Pace>,
    checks: Checks,
    capacities: Capacities,
    supervisor: Supervisor,
    system_errors: SystemErrors,
    since: Moment,
}

impl Judicator {
    /// Starts what runs beside the calls, until `stop`:
    ///
    /// | task | the store fails | it panics | told to stop |
    /// |---|---|---|---|
    /// | `dispatch` passes the store's changes on as hints | history it missed is looked up | the process ends | ends at once |
    /// | `expire` ends sessions that have gone silent, while leading | logs, tries at the next sweep | the process ends | ends at once |
    /// | `log_system_errors` writes a line for each task that could not be run | a line without details | the process ends | ends at once |
    /// | `retire` removes what is long done, while leading | logs, tries at the next round | it is started again | after the batch |
    /// | `scan_blobs` finds damaged blobs and orphaned files, while leading | logs, goes on with the next | it is started again | ends at once |
    ///
    /// The process is to end when [`Judicator::failure`] returns.
    pub fn start(
        options: Options,
        store: Arc<dyn TaskStore>,
        leading: watch::Receiver<bool>,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) -> Arc<Judicator> {
        measure::describe();
        let (system_errors, ended) = SystemErrors::new();
        let judicator = Arc::new(Judicator {
            system_errors,
            options,
            leading,
            hints: Arc::default(),
            heard: Heard::default(),
            blobs_changed: Arc::default(),
            waiters: Arc::default(),
            pace: Arc::default(),
            checks: Checks::default(),
            capacities: Capacities::default(),
            supervisor: Supervisor::new(),
            since: now(),
            store,
        });
        // Subscribed before anyone can call: a change that nobody was there to hear would be a hint lost.
        let changes = judicator.store.changes();
        let dispatch = judicator.clone().dispatch(changes);
        judicator.guard(Component::Dispatch, dispatch, tracker, stop);
        judicator.guard(Component::Expiry, judicator.clone().expire(), tracker, stop);
        let logging = judicator.clone().log_system_errors(ended);
        judicator.guard(Component::SystemErrorLog, logging, tracker, stop);
        let (retiring, stopped) = (judicator.clone(), stop.clone());
        tracker.spawn(async move {
            let retire = || retiring.clone().retire(stopped.clone());
            Supervisor::keep_running(Component::Retention, &stopped, retire).await;
        });
        let (scanning, stopped) = (judicator.clone(), stop.clone());
        tracker.spawn(async move {
            let scan = || {
                let (scanning, stopped) = (scanning.clone(), stopped.clone());
                async move {
                    stopped.run_until_cancelled(scanning.scan_blobs()).await;
                }
            };
            Supervisor::keep_running(Component::BlobScan, &stopped, scan).await;
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

    /// Waits until a component of the judicator or of its store has failed for good.
    pub async fn failure(&self) -> ComponentFailed {
        let (mut own, mut store) = (self.supervisor.failures(), self.store.failures());
        tokio::select! {
            failed = store.wait() => failed,
            failed = own.wait() => failed,
        }
    }

    fn failed(&self) -> Option<ComponentFailed> {
        let store = self.store.failures().seen();
        store.or_else(|| self.supervisor.failures().seen())
    }

    fn leads(&self) -> bool {
        *self.leading.borrow()
    }
}

fn now() -> Moment {
    SystemTime::now().into()
}
