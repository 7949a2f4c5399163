//! Keeps the tasks and hands them out: one file in `calls` for each call, and what the leader does besides.
//!
//! A judicator decides nothing that the store does not decide again under its own conditions, so any number of
//! them can serve any call. What it keeps in memory (who waits, who is hungry) only makes things quick.
//! This room knows no HTTP, no SQL and no wire.

mod calls;
mod error;
mod expire;
mod hints;
mod measure;
mod options;
mod pace;
mod retire;
mod system_errors;
mod waiters;

use std::sync::Arc;
use std::time::SystemTime;

use model::Moment;
use store::TaskStore;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use options::{Options, Roster};

use hints::Hints;
use pace::Pace;
use system_errors::SystemErrors;
use waiters::Waiters;

pub struct Judicator {
    options: Options,
    store: Arc<dyn TaskStore>,
    leading: watch::Receiver<bool>,
    hints: Arc<Hints>,
    waiters: Arc<Waiters>,
    pace: Arc<Pace>,
    system_errors: SystemErrors,
    since: Moment,
}

impl Judicator {
    /// Starts what runs beside the calls, until `stop`:
    ///
    /// | task | fails | told to stop |
    /// |---|---|---|
    /// | `dispatch` passes the store's changes on as hints | never; history it missed is looked up | ends at once |
    /// | `expire` ends sessions that have gone silent, while leading | logs, tries at the next sweep | ends at once |
    /// | `log_system_errors` writes a line for each task that could not be run | never | ends at once |
    /// | `retire` removes what is long done, while leading | logs, tries at the next round | after the batch |
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
            waiters: Arc::default(),
            pace: Arc::default(),
            since: now(),
            store,
        });
        // Subscribed before anyone can call: a change that nobody was there to hear would be a hint lost.
        let changes = judicator.store.changes();
        tracker.spawn(
            stop.clone()
                .run_until_cancelled_owned(judicator.clone().dispatch(changes)),
        );
        tracker.spawn(stop.clone().run_until_cancelled_owned(judicator.clone().expire()));
        let logged = judicator.clone().log_system_errors(ended);
        tracker.spawn(stop.clone().run_until_cancelled_owned(logged));
        tracker.spawn(judicator.clone().retire(stop.clone()));
        judicator
    }

    fn leads(&self) -> bool {
        *self.leading.borrow()
    }
}

fn now() -> Moment {
    SystemTime::now().into()
}
