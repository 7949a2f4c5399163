//! Checkpoints of the write-ahead log (WAL).
//!
//! The writer thread runs them itself, between two groups, after all replies. A checkpoint that runs beside a busy
//! writer never catches up with it, so the WAL would never restart and would grow without bound. The checkpoint is
//! passive: it waits for no reader and leaves the pages that a reader still needs for the next time. Frequent
//! checkpoints stay short: about 2 ms for a thousand pages of steady work and 15 ms in a bulk load, where a commit
//! takes 1 to 3 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::Connection;

use crate::sqlite::failure::{SqliteFailure, StepContext};

/// New WAL pages from which a checkpoint is worth its two syncs, when no operation waits.
const IDLE_PAGES: i32 = 1_000;
/// New WAL pages from which the checkpoint runs even if operations wait, so that the WAL stays bounded.
const BUSY_PAGES: i32 = 4_000;

/// The part of the SQLite writer thread that checkpoints the WAL, when it has grown enough since the last time.
pub(super) struct WalCheckpointer {
    /// The length of the WAL after the last commit.
    pages: Arc<AtomicI32>,
    /// The length of the WAL at the last checkpoint.
    pages_at_last_checkpoint: i32,
}

impl WalCheckpointer {
    pub(super) fn install(connection: &mut Connection) -> Result<WalCheckpointer, SqliteFailure> {
        let pages = Arc::new(AtomicI32::new(0));
        let reported = pages.clone();
        connection
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
                reported.store(pages, Ordering::Relaxed);
                Ok(())
            }))
            .during("install the WAL hook")?;
        Ok(WalCheckpointer {
            pages,
            pages_at_last_checkpoint: 0,
        })
    }

    pub(super) fn checkpoint_if_due(&mut self, connection: &Connection, waiting: usize) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.pages_at_last_checkpoint {
            // The last checkpoint was complete, and the WAL has restarted from its beginning.
            self.pages_at_last_checkpoint = 0;
        }
        if !is_due(pages, self.pages_at_last_checkpoint, waiting) {
            return;
        }
        self.pages_at_last_checkpoint = pages;
        let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = done {
            // No data is lost, because the WAL holds it.
            tracing::warn!(%error, "WAL checkpoint failed; retrying when the WAL has grown");
        }
    }
}

/// Only growth since the last checkpoint counts. While a reader keeps the WAL from restarting, a checkpoint after every
/// commit would cost two syncs each and copy almost nothing.
fn is_due(pages: i32, pages_at_last_checkpoint: i32, waiting: usize) -> bool {
    let grown = pages - pages_at_last_checkpoint;
    grown >= if waiting == 0 { IDLE_PAGES } else { BUSY_PAGES }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_due_after_enough_growth() {
        let check = |pages, last, waiting, expected| {
            assert_eq!(is_due(pages, last, waiting), expected, "{pages} {last} {waiting}");
        };
        check(999, 0, 0, false);
        check(1_000, 0, 0, true);
        check(1_000, 0, 1, false);
        check(4_000, 0, 1, true);
        check(1_500, 1_000, 0, false);
        check(2_000, 1_000, 0, true);
    }
}
