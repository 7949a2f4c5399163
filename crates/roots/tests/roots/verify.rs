//! Roots whose files were changed after they were made.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use roots::{InterruptFlag, RootVerification, VerifyError, verify};

use crate::archive_builder::{archive, file, folder, link};
use crate::harness::{TestRoots, name};

fn verify_root(roots: &TestRoots) -> Result<RootVerification, VerifyError> {
    verify(&roots.store, &name("r"), &InterruptFlag::default())
}

fn differences(roots: &TestRoots) -> Vec<String> {
    let found = verify_root(roots).unwrap();
    assert_eq!(found.difference_count, found.differences.len() as u64);
    found.differences.iter().map(ToString::to_string).collect()
}

#[test]
fn every_change_of_a_file_is_found() {
    let roots = TestRoots::new();
    let tree = roots.import_tree(&archive(&[
        folder("bin"),
        file("bin/changed", "old"),
        file("bin/chmod", "x").with_mode(0o755),
        file("bin/removed", "x"),
        file("bin/swapped", "x"),
        link("link", "bin"),
        folder("z"),
    ]));
    assert!(differences(&roots).is_empty());
    assert_eq!(
        verify_root(&roots).unwrap().sha256,
        roots.get("r").unwrap().sha256.unwrap()
    );
    // The same size.
    fs::write(tree.join("bin/changed"), "new").unwrap();
    fs::set_permissions(tree.join("bin/chmod"), Permissions::from_mode(0o4755)).unwrap();
    fs::remove_file(tree.join("bin/removed")).unwrap();
    fs::remove_file(tree.join("bin/swapped")).unwrap();
    fs::create_dir(tree.join("bin/swapped")).unwrap();
    fs::remove_file(tree.join("link")).unwrap();
    symlink("/etc", tree.join("link")).unwrap();
    fs::write(tree.join("zz"), "").unwrap();
    assert_eq!(
        differences(&roots),
        [
            "bin/changed: other content",
            "bin/chmod: mode 4755 instead of 0755",
            "bin/removed: missing",
            "bin/swapped: another kind of file",
            "link: link to /etc instead of bin",
            "zz: added",
        ]
    );
}

#[test]
fn a_changed_listing_is_found() {
    let roots = TestRoots::new();
    let tree = roots.import_tree(&archive(&[file("a", "x"), file("b", "x")]));
    let listing = tree.with_file_name("listing");
    let text = fs::read_to_string(&listing).unwrap();
    for damaged in [
        text.replace("\ta\n", "\tc\n"),
        "nonsense\n".to_string(),
        String::new(),
    ] {
        fs::write(&listing, damaged).unwrap();
        let error = verify_root(&roots).unwrap_err();
        assert!(matches!(error, VerifyError::DamagedListing { .. }), "{error}");
    }
    fs::write(&listing, text).unwrap();
    assert!(differences(&roots).is_empty());
}

#[test]
fn what_cannot_be_verified_is_named() {
    let roots = TestRoots::new();
    let error = verify_root(&roots).unwrap_err().to_string();
    assert!(error.contains("no root r"), "{error}");
    let store = roots
        .store
        .clone()
        .with_configured([(name("r"), roots.outside())]);
    let error = verify(&store, &name("r"), &InterruptFlag::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("by the configuration"), "{error}");
}
