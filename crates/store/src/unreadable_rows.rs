//! Rows that cannot be decoded. The store skips them and leaves them unchanged, so that everything else keeps working.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

/// Incremented once for each unreadable row that a process encounters.
const UNREADABLE_ROWS_METRIC: &str = "conclave_store_unreadable_rows_total";
/// Bound on the memory for row names. Further unreadable rows are skipped without a log line.
const MAX_RECORDED_ROWS: usize = 100_000;

/// The database rows (or documents) that a store could not decode since it was opened; it logs and counts each once.
#[derive(Debug, Default)]
pub(crate) struct UnreadableRows {
    rows: Mutex<HashSet<String>>,
}

impl UnreadableRows {
    /// Logs and counts the row the first time it is encountered. `row` names it, like "task 01890a5d-...".
    pub(crate) fn record(&self, row: impl Display, problem: impl Display) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let row = row.to_string();
        if rows.len() >= MAX_RECORDED_ROWS || rows.contains(&row) {
            return;
        }
        tracing::error!(
            %row, %problem,
            "skipping an unreadable row of the store; repair the row or restore a backup"
        );
        metrics::counter!(UNREADABLE_ROWS_METRIC).increment(1);
        rows.insert(row);
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
