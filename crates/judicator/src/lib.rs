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
mod scan;
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
use waiters::Waiters;

pub struct Judicator {
    options: Options,
    store: Arc<dyn TaskStore>,
    leading: watch::Receiver<bool>,
    hints: Arc<Hints>,
    waiters: Arc<Waiters>,
    pace: Arc<Pace>,
    since: Moment,
}

impl Judicator {
    /// Starts what runs beside the calls, until `stop`:
    ///
    /// | task | fails | told to stop |
    /// |---|---|---|
    /// | `dispatch` passes the store's changes on as hints | never; history it missed is looked up | ends at once |
    /// | `expire` ends sessions that have gone silent, while leading | logs, tries at the next sweep | ends at once |
    /// | `retire` removes what is long done, while leading | logs, tries at the next round | after the batch |
    /// | `scan_blobs` finds damaged blobs and orphaned files, while leading | logs, goes on with the next | ends at once |
    pub fn start(
        options: Options,
        store: Arc<dyn TaskStore>,
        leading: watch::Receiver<bool>,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) -> Arc<Judicator> {
        measure::describe();
        let judicator = Arc::new(Judicator {
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
        tracker.spawn(judicator.clone().retire(stop.clone()));
        tracker.spawn(
            stop.clone()
                .run_until_cancelled_owned(judicator.clone().scan_blobs()),
        );
        judicator
    }

    fn leads(&self) -> bool {
        *self.leading.borrow()
    }
}

fn now() -> Moment {
    SystemTime::now().into()
}
