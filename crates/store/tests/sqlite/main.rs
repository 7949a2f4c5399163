//! The SQLite store under the contract that every store keeps, and what is its own to promise.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod blobs;
mod crash;
mod damage;
mod full_disk;
mod grouping;
mod opening;
mod readiness;

use std::path::Path;
use std::sync::Arc;

use store::TaskStore;
use store::sqlite::{Options, SqliteStore};
use tempfile::TempDir;

async fn empty() -> (TempDir, Arc<dyn TaskStore>) {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    (folder, store)
}

fn open(folder: &Path) -> Arc<SqliteStore> {
    let options = Options {
        max_attempts: store::contract::LOSSES,
        search_window: store::contract::WINDOW,
    };
    Arc::new(SqliteStore::open(folder, options).unwrap())
}

mod contract {
    use super::empty;

    store::keeps_the_contract!(empty);
}

#[test]
fn random_interleavings_keep_every_promise() {
    store::contract::interleaving::run(64, empty);
}
