//! Roots that are replaced, held, removed and interrupted, also by several users at once.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use roots::{RemovedRoot, RootStore, RootStoreError};

use crate::archive_builder::{archive, file};
use crate::harness::{TestRoots, entries, name};

fn generations(roots: &TestRoots, root: &str) -> usize {
    let names = entries(&roots.store.folder().join(root));
    names.iter().filter(|name| *name != "current").count()
}

#[test]
fn a_folder_that_does_not_exist_has_no_roots_and_is_not_created() {
    let roots = TestRoots::new();
    assert!(roots.names().is_empty());
    assert_eq!(roots.get("r"), None);
    roots.store.remove_unused_generations().unwrap();
    let error = roots.store.remove(&name("r")).unwrap_err();
    assert!(matches!(error, RootStoreError::NotFound { .. }), "{error}");
    assert!(!roots.store.folder().exists());
}

#[test]
fn a_new_root_is_listed_and_a_replaced_one_is_removed() {
    let roots = TestRoots::new();
    let first = roots.import_bytes("b", &archive(&[file("a", "1")])).unwrap();
    roots.import_bytes("a.b", &archive(&[file("a", "1")])).unwrap();
    assert_eq!(roots.names(), ["a.b", "b"]);
    assert!(!first.has_replaced);
    assert_eq!((first.record.entries, first.record.size), (1, 1));
    let old = roots.get("b").unwrap();
    let second = roots.import_bytes("b", &archive(&[file("a", "2")])).unwrap();
    assert!(second.has_replaced);
    assert_ne!(first.record.sha256, second.record.sha256);
    let new = roots.get("b").unwrap();
    assert_eq!(new.sha256, Some(second.record.sha256));
    assert_eq!(fs::read(new.folder.join("a")).unwrap(), b"2");
    assert!(!old.folder.exists());
    assert_eq!(generations(&roots, "b"), 1);
    assert_eq!(first.find(&roots.store).unwrap(), None);
}

#[test]
fn a_held_generation_stays_until_the_last_hold_ends() {
    let roots = TestRoots::new();
    roots.import_bytes("r", &archive(&[file("a", "old")])).unwrap();
    let (old, hold) = roots.store.hold(&name("r")).unwrap().unwrap();
    let second_hold = old.hold().unwrap();
    assert!(hold.descriptor().is_some());
    roots.import_bytes("r", &archive(&[file("a", "new")])).unwrap();
    assert_eq!(fs::read(old.folder.join("a")).unwrap(), b"old");
    assert_eq!(
        fs::read(roots.get("r").unwrap().folder.join("a")).unwrap(),
        b"new"
    );
    drop(hold);
    roots.store.remove_unused_generations().unwrap();
    assert_eq!(fs::read(old.folder.join("a")).unwrap(), b"old");
    drop(second_hold);
    roots.store.remove_unused_generations().unwrap();
    assert!(!old.folder.exists());
    assert_eq!(old.hold().unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert_eq!(generations(&roots, "r"), 1);
}

#[test]
fn a_removed_root_is_gone_at_once_and_its_files_when_nobody_uses_them() {
    let roots = TestRoots::new();
    roots.import_bytes("r", &archive(&[file("a", "x")])).unwrap();
    assert_eq!(roots.store.remove(&name("r")).unwrap(), RemovedRoot::Removed);
    assert!(roots.entries().is_empty());

    roots.import_bytes("r", &archive(&[file("a", "x")])).unwrap();
    let (root, hold) = roots.store.hold(&name("r")).unwrap().unwrap();
    assert_eq!(roots.store.remove(&name("r")).unwrap(), RemovedRoot::StillInUse);
    assert!(roots.names().is_empty());
    assert!(root.folder.join("a").exists());
    // A new root of the same name does not disturb the old files.
    roots.import_bytes("r", &archive(&[file("a", "new")])).unwrap();
    assert_eq!(fs::read(root.folder.join("a")).unwrap(), b"x");
    drop(hold);
    roots.store.remove_unused_generations().unwrap();
    assert!(!root.folder.exists());
    assert_eq!(roots.names(), ["r"]);
}

/// Paths into the folder of the roots, in the configuration of a node.
#[test]
fn a_path_into_a_generation_holds_its_files() {
    let roots = TestRoots::new();
    roots.import_bytes("r", &archive(&[file("a", "old")])).unwrap();
    let path = roots.store.folder().join("r/current/tree");
    let old = roots.get("r").unwrap().folder;
    let store = roots
        .store
        .clone()
        .with_configured([(name("alias"), path.clone())]);
    let (alias, alias_hold) = store.hold(&name("alias")).unwrap().unwrap();
    assert_eq!(alias.folder, fs::canonicalize(&old).unwrap());
    roots.import_bytes("r", &archive(&[file("a", "new")])).unwrap();
    assert_eq!(fs::read(alias.folder.join("a")).unwrap(), b"old");
    // The link leads to the new generation now.
    let (default, hold) = store.hold_path(&path).unwrap().unwrap();
    assert_eq!(store.get(&name("alias")).unwrap().unwrap().folder, default);
    drop(alias_hold);
    store.remove_unused_generations().unwrap();
    assert!(!old.exists());

    let store = store.keep(hold);
    roots.store.remove(&name("r")).unwrap();
    assert_eq!(fs::read(default.join("a")).unwrap(), b"new");
    drop(store);
    roots.store.remove_unused_generations().unwrap();
    assert!(roots.entries().is_empty());
    for elsewhere in [roots.outside(), path, roots.store.folder().to_path_buf()] {
        assert!(roots.store.hold_path(&elsewhere).unwrap().is_none());
    }
}

#[test]
fn a_damaged_record_is_named_and_does_not_hide_other_roots() {
    let roots = TestRoots::new();
    for root in ["a", "b"] {
        roots.import_bytes(root, &archive(&[file("x", "x")])).unwrap();
    }
    let record = roots.get("a").unwrap().folder.with_file_name("root.json");
    fs::write(&record, "{").unwrap();
    let list = roots.store.list().unwrap();
    let names: Vec<_> = list.roots.iter().map(|root| root.name.as_str()).collect();
    assert_eq!(names, ["b"]);
    assert_eq!(list.damaged[0].0, name("a"));
    assert!(list.damaged[0].1.to_string().contains("conclave root remove a"));
    roots.store.remove(&name("a")).unwrap();
    assert_eq!(roots.entries(), ["b"]);
}

#[test]
fn configured_folders_are_roots_without_a_hash() {
    let roots = TestRoots::new();
    roots.import_bytes("r", &archive(&[file("a", "x")])).unwrap();
    let outside = roots.outside();
    let store = roots
        .store
        .clone()
        .with_configured([(name("r"), outside.clone()), (name("own"), outside.clone())]);
    let list = store.list().unwrap().roots;
    assert_eq!(list.len(), 2);
    assert!(
        list.iter()
            .all(|root| root.folder == outside && root.sha256.is_none())
    );
    let (_, hold) = store.hold(&name("own")).unwrap().unwrap();
    assert!(hold.descriptor().is_none());
    let error = store.remove(&name("own")).unwrap_err().to_string();
    assert!(error.contains("[roots.own]"), "{error}");
    let options = crate::harness::import_options("own", &roots.path("archive"));
    let error = roots::import(&store, &options).unwrap_err().to_string();
    assert!(error.contains("[roots.own]"), "{error}");
}

/// Replaces a root again and again while others hold and read it: each sees one whole generation.
#[test]
fn holders_see_whole_generations_while_the_root_is_replaced() {
    let roots = TestRoots::new();
    let make = |number: u32| {
        let files: Vec<_> = (0..20)
            .map(|index| file(format!("f{index}"), number.to_string()))
            .collect();
        let path = roots.path(&format!("archive-{number}"));
        fs::write(&path, archive(&files)).unwrap();
        path
    };
    let archives: Vec<PathBuf> = (0..15).map(make).collect();
    roots.import("r", &archives[0]).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = 0;
                    while !is_done.load(Ordering::Relaxed) || seen == 0 {
                        let (root, _hold) = roots
                            .store
                            .hold(&name("r"))
                            .unwrap()
                            .expect("the root is always there");
                        let first = fs::read(root.folder.join("f0")).unwrap();
                        for index in 0..20 {
                            let path = root.folder.join(format!("f{index}"));
                            assert_eq!(fs::read(path).unwrap(), first, "a torn generation");
                        }
                        seen += 1;
                    }
                })
            })
            .collect();
        for archive in &archives {
            roots.import("r", archive).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    roots.store.remove_unused_generations().unwrap();
    assert_eq!(generations(&roots, "r"), 1);
    assert_eq!(roots.entries(), ["r"]);
}

/// Several commands make the same root: each succeeds or is refused as busy, and one whole root is left.
#[test]
fn of_several_commands_on_one_name_each_succeeds_or_is_refused() {
    let roots = TestRoots::new();
    let path = roots.path("archive");
    let files: Vec<_> = (0..200).map(|index| file(format!("f{index}"), "x")).collect();
    fs::write(&path, archive(&files)).unwrap();
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| roots.import("r", &path))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let refused: Vec<String> = results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .map(ToString::to_string)
        .collect();
    assert!(refused.len() < results.len());
    assert!(
        refused
            .iter()
            .all(|error| error.contains("another command is at work on the root r")),
        "{refused:?}"
    );
    assert_eq!(roots.entries(), ["r"]);
    assert_eq!(entries(&roots.get("r").unwrap().folder).len(), 200);
}

#[test]
fn an_ordinary_reader_needs_no_write_access() {
    let roots = TestRoots::new();
    roots.import_bytes("r", &archive(&[file("a", "x")])).unwrap();
    let folder = roots.store.folder();
    let modes = |path: PathBuf| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).unwrap().mode() & 0o777
    };
    let generation = roots.get("r").unwrap().folder.parent().unwrap().to_path_buf();
    assert_eq!(modes(folder.to_path_buf()), 0o755);
    assert_eq!(modes(folder.join("r")), 0o755);
    assert_eq!(modes(generation.clone()), 0o755);
    assert_eq!(modes(generation.join("tree")), 0o755);
    assert_eq!(modes(generation.join("root.json")), 0o644);
    assert_eq!(RootStore::open(folder).list().unwrap().roots.len(), 1);
}
