//! Tests of the SQLite store: the contract tests, and what only this store promises.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod blobs;
mod check;
mod crash;
mod earlier_release;
mod full_disk;
mod group_commit;
mod opening;
mod unreadable_rows;

use std::path::Path;
use std::sync::Arc;

use store::TaskStore;
use store::sqlite::{SqliteStore, SqliteStoreOptions};
use tempfile::TempDir;

async fn empty_store() -> (TempDir, Arc<dyn TaskStore>) {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    (folder, store)
}

fn open(folder: &Path) -> Arc<SqliteStore> {
    let options = SqliteStoreOptions {
        max_attempts: store::contract::MAX_ATTEMPTS,
        search_scan_limit: store::contract::SCAN_LIMIT,
    };
    Arc::new(SqliteStore::open(folder, options).unwrap())
}

mod contract {
    use super::empty_store;

    store::contract_tests!(empty_store);
}

#[test]
fn random_histories_match_the_reference_implementation() {
    store::contract::interleaving::run(64, empty_store);
}
