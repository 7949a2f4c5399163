//! Bringing the log home into the database file.
//!
//! The writer does it itself, between two groups, when everyone has been answered. A checkpoint beside a busy
//! writer never catches up with it, so the log would never start over and would grow without end. It is
//! passive: it waits for no reader, and what a reader still needs of the log is left for the next time.
//! Small and often is what keeps it short: about 2 ms for a thousand pages of steady work, 15 ms in a bulk
//! load, where a commit takes 1 to 3 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::Connection;

use crate::sqlite::failure::{During, Failure};

/// New pages in the log from which a checkpoint is worth its two syncs, when nobody waits.
const IDLE_PAGES: i32 = 1_000;
/// New pages from which it is made even though others wait, so that the log stays bounded.
const BUSY_PAGES: i32 = 4_000;

pub(super) struct Log {
    /// How long it is, as the last commit said.
    pages: Arc<AtomicI32>,
    /// How long it was at the last checkpoint.
    tried: i32,
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
        Ok(Log { pages, tried: 0 })
    }

    pub(super) fn checkpoint_if_due(&mut self, connection: &Connection, waiting: usize) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.tried {
            // The whole log had come home, and it has started over.
            self.tried = 0;
        }
        if !is_due(pages, self.tried, waiting) {
            return;
        }
        self.tried = pages;
        let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = done {
            // Nothing is lost: everything is in the log. It is tried again when the log has grown further.
            tracing::warn!(%error, "could not bring the log home into the database");
        }
    }
}

/// Only growth since the last try counts. As long as a reader keeps the log from starting over, trying again
/// after every commit would cost two syncs each and achieve next to nothing.
fn is_due(pages: i32, tried: i32, waiting: usize) -> bool {
    let grown = pages - tried;
    grown >= if waiting == 0 { IDLE_PAGES } else { BUSY_PAGES }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_decides() {
        let check = |pages, tried, waiting, expected| {
            assert_eq!(
                is_due(pages, tried, waiting),
                expected,
                "{pages} {tried} {waiting}"
            );
        };
        check(999, 0, 0, false);
        check(1_000, 0, 0, true);
        check(1_000, 0, 1, false);
        check(4_000, 0, 1, true);
        check(1_500, 1_000, 0, false);
        check(2_000, 1_000, 0, true);
    }
}
