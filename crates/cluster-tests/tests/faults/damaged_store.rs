use std::fs;
use std::path::Path;

use model::TaskStatus;
use nix::sys::signal::Signal;

use crate::harness::{FaultHarness, SOON};

/// Damages the database of a stopped system, and asserts that a start is refused without changing it and that the
/// undamaged database still works.
async fn assert_refused(damage: impl Fn(&Path)) {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let mut up = system.up(&[]).unwrap();
    let task = system.run(harness.short_task()).await;
    up.signal(Signal::SIGTERM);
    assert!(up.wait_for_end(SOON).await.success());

    let database = system.data().join("store/tasks.db");
    let intact = fs::read(&database).unwrap();
    damage(&database);
    let damaged = fs::read(&database).unwrap();
    assert_ne!(damaged, intact);
    let error = system.up(&[]).err().unwrap().to_string();
    assert!(error.contains("exit status: 1"), "{error}");
    let store = system.data().join("store").display().to_string();
    for part in [
        &store[..],
        "tasks.db",
        "damaged",
        "restore a backup",
        "move the folder away",
    ] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    assert!(fs::read(&database).unwrap() == damaged, "it was changed");

    fs::write(&database, intact).unwrap();
    let _up = system.up(&[]).unwrap();
    assert_eq!(harness.get(task.id).await, task);
    assert_eq!(system.run(harness.short_task()).await.status, TaskStatus::Success);
}

#[tokio::test]
async fn a_database_that_is_overwritten_assert_refused() {
    assert_refused(|database| {
        let mut bytes = fs::read(database).unwrap();
        bytes[..512].fill(0x5a);
        fs::write(database, bytes).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_database_that_is_cut_short_assert_refused() {
    assert_refused(|database| {
        let file = fs::File::options().write(true).open(database).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    })
    .await;
}
