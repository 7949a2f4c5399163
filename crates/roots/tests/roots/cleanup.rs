//! What commands remove beside their own work: leftovers, and nothing of the operator.

use std::fs;
use std::os::unix::fs::symlink;

use roots::{ImportError, RemovedRoot, RootStore};

use crate::archive_builder::{archive, file};
use crate::harness::{TestRoots, entries, import_options, name};

const GENERATION: &str = "01890a5dac96774bbcceb302099a8057";

#[test]
fn leftovers_of_interrupted_commands_are_not_listed_and_are_removed() {
    let roots = TestRoots::new();
    roots.import_bytes("good", &archive(&[file("a", "x")])).unwrap();
    let folder = roots.store.folder();
    // What a command leaves that is killed at different moments.
    fs::create_dir_all(folder.join(".work-half/generation/tree/usr")).unwrap();
    fs::create_dir_all(folder.join(".work-begun")).unwrap();
    fs::create_dir_all(folder.join(format!(".removed-{GENERATION}/tree"))).unwrap();
    fs::create_dir_all(folder.join("moved").join(GENERATION).join("tree")).unwrap();
    fs::write(folder.join("moved").join(GENERATION).join("root.json"), "{}").unwrap();
    symlink("x", folder.join(format!("good/.current-{GENERATION}"))).unwrap();
    assert_eq!(roots.names(), ["good"]);
    roots.store.remove_unused_generations().unwrap();
    assert_eq!(roots.entries(), ["good"]);
    assert_eq!(entries(&folder.join("good")).len(), 2);
}

#[test]
fn files_of_the_operator_are_left_alone() {
    let roots = TestRoots::new();
    roots.import_bytes("good", &archive(&[file("a", "x")])).unwrap();
    let folder = roots.store.folder();
    let hyphenated = "01890a5d-ac96-774b-bcce-b302099a8057";
    let random = "4bf92f3577b34da6a3ce929d0e0e4736";
    for path in [
        "empty".to_string(),
        "lost+found/x".to_string(),
        ".work-notes/mine".to_string(),
        ".removed-files/mine".to_string(),
        format!("srv/{GENERATION}/backup"),
        format!("srv/{hyphenated}/backup"),
        format!("srv/{random}/backup"),
        format!("own/{GENERATION}/tree"),
        "good/.current-notes".to_string(),
    ] {
        fs::create_dir_all(folder.join(path)).unwrap();
    }
    for path in [
        "README".to_string(),
        "notes".to_string(),
        format!("srv/{hyphenated}/root.json"),
        format!("srv/{random}/root.json"),
        format!("own/{GENERATION}/root.json"),
    ] {
        fs::write(folder.join(path), "{}").unwrap();
    }
    let before = crate::harness::paths(folder);
    // A folder with a name of the configuration is the operator's, whatever is in it.
    let store = RootStore::open(folder).with_configured([(name("own"), folder.join("own"))]);
    store.remove_unused_generations().unwrap();
    assert_eq!(crate::harness::paths(folder), before);
}

/// Another user's files cannot be removed. That concerns nobody else.
#[test]
fn files_that_cannot_be_removed_block_no_other_root() {
    const NOBODY: u32 = 65_534;
    let roots = TestRoots::new();
    let path = roots.path("archive");
    fs::write(&path, archive(&[file("a", "x")])).unwrap();
    let folder = roots.store.folder();
    // Nobody may add and rename in the folder, but not read what root has left there.
    for closed in [
        ".work-other".to_string(),
        format!(".removed-{GENERATION}"),
        "closed".to_string(),
    ] {
        fs::create_dir_all(folder.join(&closed).join("generation")).unwrap();
        fs::set_permissions(
            folder.join(&closed),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )
        .unwrap();
    }
    for shared in [roots.path(""), folder.to_path_buf()] {
        fs::set_permissions(shared, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    // nextest runs each test in its own process.
    nix::unistd::seteuid(nix::unistd::Uid::from_raw(NOBODY)).unwrap();
    let imported = roots::import(&roots.store, &import_options("r", &path));
    let replaced = roots::import(&roots.store, &import_options("r", &path));
    let blocked = roots::import(&roots.store, &import_options("other", &path));
    let list = roots.store.list();
    let removed = roots.store.remove(&name("r"));
    let problems = roots.store.remove_unused_generations_until(&|| false);
    nix::unistd::seteuid(nix::unistd::Uid::from_raw(0)).unwrap();
    imported.unwrap();
    assert!(replaced.unwrap().has_replaced);
    let blocked = blocked.unwrap_err().to_string();
    assert!(blocked.contains(".work-other"), "{blocked}");
    let list = list.unwrap();
    assert_eq!((list.roots.len(), list.damaged.len()), (1, 1), "{list:?}");
    assert_eq!(removed.unwrap(), RemovedRoot::Removed);
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn a_removal_stops_between_files_and_is_continued() {
    let roots = TestRoots::new();
    let files: Vec<_> = (0..50).map(|index| file(format!("d/f{index}"), "x")).collect();
    roots.import_bytes("r", &archive(&files)).unwrap();
    let (_, hold) = roots.store.hold(&name("r")).unwrap().unwrap();
    roots.store.remove(&name("r")).unwrap();
    drop(hold);
    let calls = std::cell::Cell::new(0);
    let is_stopping = || {
        calls.set(calls.get() + 1);
        calls.get() > 20
    };
    assert!(
        roots
            .store
            .remove_unused_generations_until(&is_stopping)
            .is_empty()
    );
    assert_eq!(roots.entries().len(), 1);
    roots.store.remove_unused_generations().unwrap();
    assert!(roots.entries().is_empty());
}

/// The link cannot be replaced by a rename if it is a folder.
#[test]
fn a_root_that_cannot_get_its_place_leaves_nothing() {
    let roots = TestRoots::new();
    let current = roots.store.folder().join("r/current");
    fs::create_dir_all(current.join("x")).unwrap();
    let error = roots.import_bytes("r", &archive(&[file("a", "x")])).unwrap_err();
    assert!(matches!(error, ImportError::Store(_)), "{error}");
    assert_eq!(entries(&roots.store.folder().join("r")), ["current"]);
    assert_eq!(roots.entries(), ["r"]);
}
