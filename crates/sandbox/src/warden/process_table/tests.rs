use std::path::Path;

use super::*;

/// A fake `/proc`: process 1 is the warden; 2 and 3 are its children; 4 is a child of a second thread of 2; 5 is a
/// child of 4; 9 and its child 10 do not belong to the warden.
const PARENTS: [(i32, i32); 7] = [(1, 0), (2, 1), (3, 1), (4, 2), (5, 4), (9, 0), (10, 9)];

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn fake_proc() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (pid, parent) in PARENTS {
        let numbers = "0 0 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 5 2818048 390 0 1";
        write(
            root.path(),
            &format!("{pid}/stat"),
            &format!("{pid} (x) S {parent} {numbers}"),
        );
    }
    write(root.path(), "meminfo", "");
    root
}

fn check(root: &Path, source: DescendantSource) {
    let mut table = ProcessTable::new(root, 1).unwrap();
    assert_eq!(table.source, source);
    let mut pids = table.descendants().unwrap();
    pids.sort_unstable();
    assert_eq!(pids, [2, 3, 4, 5]);
    let mut stats: Vec<_> = table
        .stats(None)
        .unwrap()
        .into_iter()
        .map(|(pid, stat)| (pid, stat.parent))
        .collect();
    stats.sort_unstable();
    assert_eq!(stats, PARENTS[1..5]);
    // Each has one thread. The scan by parents reads every process anyway, so it returns all of them.
    let some = table.stats(Some(2)).unwrap().len();
    assert_eq!(
        some,
        if source == DescendantSource::ChildrenFiles {
            3
        } else {
            4
        }
    );
}

#[test]
fn descendants_are_found_by_their_parents() {
    let root = fake_proc();
    check(root.path(), DescendantSource::ParentFields);
}

#[test]
fn descendants_are_found_through_every_thread() {
    let root = fake_proc();
    for (thread, children) in [
        ("1/task/1", "2 3 "),
        ("2/task/2", ""),
        ("2/task/20", "4 "),
        ("4/task/4", "5 "),
    ] {
        write(root.path(), &format!("{thread}/children"), children);
    }
    check(root.path(), DescendantSource::ChildrenFiles);
}

#[test]
fn proportional_memory_is_converted_to_bytes() {
    let root = fake_proc();
    write(
        root.path(),
        "2/smaps_rollup",
        "5500-7ffc ---p 0 00:00 0 [rollup]\nRss:  900 kB\nPss:     12 kB\nPss_Dirty: 1 kB\n",
    );
    let table = ProcessTable::new(root.path(), 1).unwrap();
    assert_eq!(table.proportional_memory(2).unwrap(), 12 * 1024);
    assert!(table.proportional_memory(3).is_err());
}

#[test]
fn a_missing_process_table_is_an_error() {
    assert!(ProcessTable::new("/nonexistent", 1).is_err());
}

#[test]
fn the_real_process_table_is_readable() {
    let own = std::process::id() as i32;
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let mut table = ProcessTable::new("/proc", own).unwrap();
    let usual = table.descendants().unwrap();
    table.source = DescendantSource::ParentFields;
    let other = table.descendants().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for found in [usual, other] {
        assert!(found.contains(&(child.id() as i32)), "{found:?}");
    }
}
