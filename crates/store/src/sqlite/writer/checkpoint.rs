//! Bringing the log home into the database file.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::Connection;

use crate::sqlite::failure::{During, Failure};

/// Pages in the log from which a checkpoint is worth its two syncs, when nobody waits.
const IDLE_PAGES: i32 = 1_000;
/// Pages in the log from which it is made even though others wait, so that the log stays bounded.
const BUSY_PAGES: i32 = 8_000;

/// How long the log is, as the last commit said.
pub(super) struct Log {
    pages: Arc<AtomicI32>,
}

impl Log {
    pub(super) fn follow(connection: &mut Connection) -> Result<Log, Failure> {
        let pages = Arc::new(AtomicI32::new(0));
        let told = pages.clone();
        connection
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
                told.store(pages, Ordering::Relaxed);
                Ok(())
            }))
            .during("follow the log")?;
        Ok(Log { pages })
    }

    /// Between two groups, when everyone has been answered. The writer does it itself: a checkpoint beside a
    /// busy writer never catches up with it, so the log would never start over and grow for ever. A passive
    /// one waits for no reader; what a reader still needs is left for the next time.
    pub(super) fn checkpoint_if_due(&self, connection: &Connection, waiting: usize) {
        let due = if waiting == 0 { IDLE_PAGES } else { BUSY_PAGES };
        if self.pages.load(Ordering::Relaxed) < due {
            return;
        }
        let began = std::time::Instant::now();
        let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        eprintln!("ckpt {} pages {:?}", self.pages.load(Ordering::Relaxed), began.elapsed());
        if let Err(error) = done {
            // Nothing is lost: everything is in the log. It is tried again after the next commit.
            tracing::warn!(%error, "could not bring the log home into the database");
        }
    }
}
