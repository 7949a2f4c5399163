//! A disk of the host that tasks can read: no task can flush it, or evict its files from the page cache.

use std::fs::{self, File};
use std::path::Path;

use cluster_tests::{BlockDeviceCounters, LoopDisk, TestSystem};
use hostile::HOSTILE_TASKS;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use tempfile::TempDir;

use crate::harness::HostileTestNode;

const ATTACK_SECONDS: u64 = 2;
const LIBRARY_BYTES: u64 = 4 << 20;
/// A program without the protection causes many times as much. A sync of all disks by another process flushes this one as well.
const FEW: u64 = 20;

#[tokio::test]
async fn a_task_can_neither_flush_a_disk_nor_evict_its_cache() {
    let system = TestSystem::new().expect("a folder");
    let beside = TempDir::new_in(system.folder.path().parent().expect("a parent")).expect("a folder");
    let folder = beside.path().join("shared");
    let disk = LoopDisk::mount(&folder);
    let library = folder.join("library");
    fs::write(&library, vec![1; LIBRARY_BYTES as usize]).expect("a library");
    File::open(&library)
        .and_then(|file| file.sync_all())
        .expect("synced");
    assert_effect_outside_of_a_cell(&disk, &library);

    let bind = format!("sandbox.binds={}:/shared", folder.display());
    let node = HostileTestNode::start_with(system, &[bind]).await;
    let hostile = HOSTILE_TASKS
        .iter()
        .find(|hostile| hostile.name == "disk_flushes");
    let before = disk.counters();
    let ended = node
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

/// Asserts that the same calls have an effect outside of a cell.
fn assert_effect_outside_of_a_cell(disk: &LoopDisk, library: &Path) {
    let before = disk.counters();
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

/// Reads the file again, and returns the device's activity since `before`.
fn read_again(disk: &LoopDisk, library: &Path, before: BlockDeviceCounters) -> BlockDeviceCounters {
    let content = fs::read(library).expect("a library");
    assert_eq!(content.len() as u64, LIBRARY_BYTES);
    let after = disk.counters();
    BlockDeviceCounters {
        read_bytes: after.read_bytes - before.read_bytes,
        flushes: after.flushes - before.flushes,
    }
}
