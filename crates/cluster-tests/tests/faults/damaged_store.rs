use std::fs;
use std::path::Path;

use model::Status;
use nix::sys::signal::Signal;

use crate::stage::{SOON, Stage};

/// Damages the database of a stopped system; it must be refused and left as it is, and still be there when what
/// was damaged is put back.
async fn is_refused(damage: impl Fn(&Path)) {
    let stage = Stage::new();
    let system = &stage.system;
    let mut up = system.up(&[]).unwrap();
    let task = system.run(stage.quick()).await;
    up.signal(Signal::SIGTERM);
    assert!(up.ended(SOON).await.success());

    let database = system.data().join("store/tasks.db");
    let sound = fs::read(&database).unwrap();
    damage(&database);
    let damaged = fs::read(&database).unwrap();
    assert_ne!(damaged, sound);
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
    assert!(fs::read(&database).unwrap() == damaged, "it was touched");

    fs::write(&database, sound).unwrap();
    let _up = system.up(&[]).unwrap();
    assert_eq!(stage.look(task.id).await, task);
    assert_eq!(system.run(stage.quick()).await.status, Status::Success);
}

#[tokio::test]
async fn a_database_that_is_overwritten_is_refused() {
    is_refused(|database| {
        let mut bytes = fs::read(database).unwrap();
        bytes[..512].fill(0x5a);
        fs::write(database, bytes).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_database_that_is_cut_short_is_refused() {
    is_refused(|database| {
        let file = fs::File::options().write(true).open(database).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    })
    .await;
}
