//! Rows that cannot be read. They are left as they are and passed over, so that everything else goes on.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

/// Counted once for each row that a process comes upon.
const UNREADABLE: &str = "conclave_store_unreadable_rows_total";
/// How many rows are told apart. Beyond that a row is passed over without a word.
const MOST: usize = 100_000;

/// Which rows were found unreadable since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct SetAside {
    rows: Mutex<HashSet<String>>,
}

impl SetAside {
    /// Logs and counts the row when it is met for the first time. `row` names it, like "task 01890a5d-...".
    pub(crate) fn note(&self, row: impl Display, problem: impl Display) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let row = row.to_string();
        if rows.len() >= MOST || rows.contains(&row) {
            return;
        }
        tracing::error!(
            %row, %problem,
            "a row of the store cannot be read and is set aside; all others go on. Repair it, or restore a backup"
        );
        metrics::counter!(UNREADABLE).increment(1);
        rows.insert(row);
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
