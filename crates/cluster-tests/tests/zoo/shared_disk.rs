//! A disk of the host's that tasks can read: no task has it flushed, or its files taken out of memory.

use std::fs::{self, File};
use std::path::Path;

use cluster_tests::{LoopDisk, System, Traffic};
use hostile::HOSTILE;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use tempfile::TempDir;

use crate::stage::Zoo;

const ATTACK_SECONDS: u64 = 2;
const LIBRARY_BYTES: u64 = 4 << 20;
/// A program that is not kept from it does as much many times over. Who has all disks of the machine synced meanwhile
/// flushes this one as well.
const FEW: u64 = 20;

#[tokio::test]
async fn a_task_neither_flushes_a_disk_nor_empties_its_cache() {
    let system = System::new().expect("a folder");
    let beside = TempDir::new_in(system.folder.path().parent().expect("a parent")).expect("a folder");
    let folder = beside.path().join("shared");
    let disk = LoopDisk::mount(&folder);
    let library = folder.join("library");
    fs::write(&library, vec![1; LIBRARY_BYTES as usize]).expect("a library");
    File::open(&library)
        .and_then(|file| file.sync_all())
        .expect("synced");
    what_a_task_is_kept_from_would_be_seen(&disk, &library);

    let bind = format!("sandbox.binds={}:/shared", folder.display());
    let zoo = Zoo::open_with(system, &[bind]).await;
    let hostile = HOSTILE.iter().find(|hostile| hostile.name == "disk_flushes");
    let before = disk.traffic();
    let ended = zoo
        .task(&hostile.expect("in the list").task(ATTACK_SECONDS))
        .await;
    let said = ended["result"]["execute"]["stdout"].as_str().unwrap_or_default();
    let tried = said.split(' ').next().and_then(|count| count.parse().ok());
    assert!(tried > Some(10 * FEW), "{ended:#}");
    let found = read_again(&disk, &library, before);
    assert!(found.flushes < FEW, "{found:?} after {tried:?} attempts");
    assert!(
        found.read_bytes < LIBRARY_BYTES / 2,
        "{found:?} after {tried:?} attempts"
    );
}

/// Outside of a cell each call counts.
fn what_a_task_is_kept_from_would_be_seen(disk: &LoopDisk, library: &Path) {
    let before = disk.traffic();
    let file = File::open(library).expect("a library");
    for _ in 0..FEW {
        file.sync_all().expect("synced");
    }
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).expect("advised");
    let found = read_again(disk, library, before);
    assert!(
        found.flushes >= FEW && found.read_bytes >= LIBRARY_BYTES,
        "{found:?}"
    );
}

/// What the device has done since, and what it has to do for a file that is not in memory any more.
fn read_again(disk: &LoopDisk, library: &Path, before: Traffic) -> Traffic {
    let content = fs::read(library).expect("a library");
    assert_eq!(content.len() as u64, LIBRARY_BYTES);
    let after = disk.traffic();
    Traffic {
        read_bytes: after.read_bytes - before.read_bytes,
        flushes: after.flushes - before.flushes,
    }
}
