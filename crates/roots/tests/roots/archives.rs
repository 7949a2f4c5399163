//! Archives of root file systems that real tools write.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use roots::{DroppedItems, ImportError};

use crate::archive_builder::{TestMember, archive, file, folder, hard_link, link, member};
use crate::harness::{FileContent, TestRoots, paths, read_tree};

fn run(program: &str, arguments: &[&OsStr]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Packs a folder with GNU tar.
fn pack(tree: &Path, to: &Path, options: &[&str]) {
    let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    arguments.extend([
        OsStr::new("-cf"),
        to.as_os_str(),
        OsStr::new("-C"),
        tree.as_os_str(),
        OsStr::new("."),
    ]);
    run("tar", &arguments);
}

/// What an import makes of a tree: folders that all can enter, files that their owner can read.
fn expected(tree: &Path) -> std::collections::BTreeMap<Vec<u8>, FileContent> {
    let mut files = read_tree(tree);
    for content in files.values_mut() {
        match content {
            FileContent::Folder { mode } => *mode = *mode & 0o1777 | 0o755,
            FileContent::File { mode, .. } => *mode = *mode & 0o777 | 0o400,
            FileContent::Link { .. } | FileContent::Other => {}
        }
    }
    files
}

/// A part of a tree that a property test makes.
#[derive(Clone, Debug)]
enum TreePart {
    Folder(u32),
    File(Vec<u8>, u32),
    Link(Vec<u8>),
    HardLink,
}

fn tree_parts() -> impl Strategy<Value = Vec<(Vec<u8>, TreePart)>> {
    let letter = prop_oneof![1u8..=0x2e, 0x30u8..=0xff];
    let part_name = proptest::collection::vec(letter, 1..120);
    let path = proptest::collection::vec(part_name, 1..4).prop_map(|parts| parts.join(&b'/'));
    let target = proptest::collection::vec(1u8..=0xff, 1..150);
    let part = prop_oneof![
        (0u32..0o10000).prop_map(TreePart::Folder),
        (proptest::collection::vec(any::<u8>(), 0..3000), 0u32..0o10000)
            .prop_map(|(content, mode)| TreePart::File(content, mode)),
        target.prop_map(TreePart::Link),
        Just(TreePart::HardLink),
    ];
    proptest::collection::vec((path, part), 0..12)
}

/// Makes what can be made: a name may be taken already, or be `.`.
fn make_tree(tree: &Path, parts: &[(Vec<u8>, TreePart)]) {
    let mut last_file = None;
    let mut modes = Vec::new();
    for (path, part) in parts {
        if path
            .split(|byte| *byte == b'/')
            .any(|part| matches!(part, b"." | b".."))
        {
            continue;
        }
        let path = tree.join(OsStr::from_bytes(path));
        if fs::create_dir_all(path.parent().unwrap()).is_err() || fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        match part {
            TreePart::Folder(mode) => {
                fs::create_dir(&path).unwrap();
                modes.push((path, *mode));
            }
            TreePart::File(content, mode) => {
                fs::write(&path, content).unwrap();
                modes.push((path.clone(), *mode));
                last_file = Some(path);
            }
            TreePart::Link(target) => symlink(OsStr::from_bytes(target), &path).unwrap(),
            TreePart::HardLink => {
                if let Some(file) = &last_file {
                    fs::hard_link(file, &path).unwrap();
                }
            }
        }
    }
    // At the end: a folder may become read-only.
    for (path, mode) in modes.into_iter().rev() {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Links of the tree are made before files beneath them only by chance; GNU tar never writes members beneath a link.
    #[test]
    fn a_tree_that_gnu_tar_packs_is_the_same_after_the_import(
        parts in tree_parts(),
        format in prop_oneof![Just("gnu"), Just("pax")],
    ) {
        let roots = TestRoots::new();
        let tree = roots.path("tree");
        fs::create_dir(&tree).unwrap();
        make_tree(&tree, &parts);
        let packed = roots.path("tree.tar");
        pack(&tree, &packed, &[&format!("--format={format}")]);
        let imported = roots.import("r", &packed);
        if read_tree(&tree).is_empty() {
            prop_assert!(matches!(imported, Err(ImportError::Empty { .. })), "{:?}", imported);
            return Ok(());
        }
        let new = imported.unwrap();
        let installed = new.find(&roots.store).unwrap().unwrap();
        prop_assert_eq!(read_tree(&installed.folder), expected(&tree));
        prop_assert_eq!(new.record.entries, read_tree(&tree).len() as u64);
    }
}

#[test]
fn every_supported_compression_gives_the_same_root() {
    let roots = TestRoots::new();
    let tree = roots.path("tree");
    fs::create_dir_all(tree.join("usr/bin")).unwrap();
    fs::write(tree.join("usr/bin/program"), "x".repeat(100_000)).unwrap();
    symlink("usr/bin", tree.join("bin")).unwrap();
    let mut hashes = Vec::new();
    for (option, name) in [
        ("--format=gnu", "root.tar"),
        ("--gzip", "root.tar.gz"),
        ("--zstd", "root.tar.zst"),
        ("--xz", "root.tar.xz"),
    ] {
        let packed = roots.path(name);
        pack(&tree, &packed, &[option]);
        assert_eq!(roots::name_for_archive(&packed).unwrap().as_str(), "root");
        let new = roots.import("r", &packed).unwrap();
        assert_eq!(new.record.source, name);
        hashes.push(new.record.sha256);
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 1);
    let packed = roots.path("root.tar.bz2");
    fs::write(&packed, "BZh91AY&SY").unwrap();
    let error = roots.import("r", &packed).unwrap_err().to_string();
    assert!(
        error.contains("bzip2") && error.contains("gzip, zstd and xz"),
        "{error}"
    );
}

#[test]
fn a_sparse_file_keeps_its_content() {
    let roots = TestRoots::new();
    let tree = roots.path("tree");
    fs::create_dir(&tree).unwrap();
    let mut file = File::create(tree.join("sparse")).unwrap();
    for position in (0..40u64).map(|number| number * (1 << 18)) {
        file.seek(SeekFrom::Start(position)).unwrap();
        file.write_all(b"data").unwrap();
    }
    file.set_len(12 << 20).unwrap();
    let packed = roots.path("tree.tar");
    pack(&tree, &packed, &["--sparse", "--format=gnu"]);
    assert!(fs::metadata(&packed).unwrap().len() < 1 << 20);
    let new = roots.import("r", &packed).unwrap();
    let imported = new.find(&roots.store).unwrap().unwrap().folder.join("sparse");
    assert!(fs::read(imported).unwrap() == fs::read(tree.join("sparse")).unwrap());
    pack(&tree, &packed, &["--sparse", "--format=posix"]);
    assert!(roots.import("r", &packed).is_err());
}

#[test]
fn privileges_are_dropped_and_device_nodes_left_out_and_both_are_counted() {
    let roots = TestRoots::new();
    let archive = archive(&[
        file("su", "x").with_mode(0o4755),
        file("wall", "x").with_mode(0o2755),
        folder("mail").with_mode(0o2775),
        folder("tmp").with_mode(0o1777),
        member(b'3', "null"),
        member(b'4', "disk"),
        member(b'6', "fifo"),
        hard_link("null2", "null"),
        file("ping", "x").with_extension("SCHILY.xattr.security.capability", "\x01\x00\x00\x02"),
        file("attr", "x").with_extension("SCHILY.xattr.user.comment", "y"),
        file("secret", "x").with_mode(0),
        folder("closed").with_mode(0),
    ]);
    let new = roots.import_bytes("r", &archive).unwrap();
    assert_eq!(
        new.record.dropped,
        DroppedItems {
            set_id_bits: 3,
            special_files: 4,
            capabilities: 1,
        }
    );
    let tree = new.find(&roots.store).unwrap().unwrap().folder;
    let modes: Vec<(String, u32)> = paths(&tree)
        .into_iter()
        .map(|path| {
            let mode = fs::symlink_metadata(tree.join(&path)).unwrap().mode() & 0o7777;
            (path, mode)
        })
        .collect();
    let expected = [
        ("attr", 0o644),
        ("closed", 0o755),
        ("mail", 0o775 | 0o755),
        ("ping", 0o644),
        ("secret", 0o400),
        ("su", 0o755),
        ("tmp", 0o1777),
        ("wall", 0o755),
    ];
    assert_eq!(modes, expected.map(|(path, mode)| (path.to_string(), mode)));
}

/// A device node that a file replaces, and one in a folder that the archive does not have.
#[test]
fn hard_links_to_device_nodes_are_left_out_and_to_files_of_the_same_name_are_kept() {
    let roots = TestRoots::new();
    let archive = archive(&[
        member(b'3', "n"),
        file("n", "x"),
        hard_link("h", "n"),
        member(b'3', "dev/null"),
        hard_link("dev/zero", "dev/null"),
    ]);
    let new = roots.import_bytes("r", &archive).unwrap();
    assert_eq!(new.record.dropped.special_files, 3);
    let tree = new.find(&roots.store).unwrap().unwrap().folder;
    assert_eq!(paths(&tree), ["h", "n"]);
}

/// `git archive` writes the first, `tar --label` the second.
#[test]
fn comments_and_labels_of_an_archive_are_no_files() {
    let roots = TestRoots::new();
    let comment = TestMember {
        content: b"16 comment=text\n".to_vec(),
        ..member(b'g', "/tmp/GlobalHead.1")
    };
    let tree = roots.import_tree(&archive(&[comment, member(b'V', "../label"), file("a", "x")]));
    assert_eq!(paths(&tree), ["a"]);
}

#[test]
fn an_archive_without_files_is_refused() {
    for members in [vec![folder("./")], vec![], vec![member(b'3', "null")]] {
        let roots = TestRoots::new();
        let error = roots
            .import_bytes("r", &archive(&members))
            .unwrap_err()
            .to_string();
        assert!(error.contains("no files"), "{error}");
        roots.assert_nothing_left("an archive without files");
    }
}

#[test]
fn owners_are_kept_unless_they_could_be_users_of_tasks() {
    assert!(nix::unistd::geteuid().is_root(), "this test needs root");
    let roots = TestRoots::new();
    let tree = roots.import_tree(&archive(&[
        file("daemon", "x").with_owner(1),
        folder("home").with_owner(1000),
        link("link", "x").with_owner(1000),
        // As much as an old header can hold.
        file("task", "x").with_owner(1_900_000),
    ]));
    let owner = |path: &str| fs::symlink_metadata(tree.join(path)).unwrap().uid();
    assert_eq!(["daemon", "home", "link", "task"].map(owner), [1, 1000, 1000, 0]);
}

/// An ordinary user cannot give files away, but makes the same root.
#[test]
fn an_import_of_an_ordinary_user_has_the_same_hash() {
    const NOBODY: u32 = 65_534;
    let archive = archive(&[
        folder("a").with_owner(1000).with_mode(0o700),
        file("a/f", "x").with_owner(1000).with_mode(0o4000),
        folder("tmp").with_mode(0o1777),
        link("l", "a"),
        hard_link("h", "a/f"),
        member(b'3', "null"),
    ]);
    let roots = TestRoots::new();
    let by_root = roots.import_bytes("r", &archive).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let path = folder.path().join("archive");
    fs::write(&path, &archive).unwrap();
    let store = roots::RootStore::open(&folder.path().join("roots"));
    // nextest runs each test in its own process.
    nix::unistd::seteuid(nix::unistd::Uid::from_raw(NOBODY)).unwrap();
    let by_nobody = roots::import(&store, &crate::harness::import_options("r", &path));
    let removed = store.remove(&crate::harness::name("r"));
    let left = crate::harness::entries(store.folder());
    let again = roots::import(&store, &crate::harness::import_options("r", &path));
    nix::unistd::seteuid(nix::unistd::Uid::from_raw(0)).unwrap();
    assert_eq!(by_nobody.unwrap().record.sha256, by_root.record.sha256);
    removed.unwrap();
    assert_eq!(left, Vec::<String>::new());
    let tree = again.unwrap().find(&store).unwrap().unwrap().folder;
    for path in ["a", "a/f", "tmp", "l"] {
        assert_eq!(
            fs::symlink_metadata(tree.join(path)).unwrap().uid(),
            NOBODY,
            "{path}"
        );
    }
}

#[test]
fn times_of_files_are_kept() {
    let roots = TestRoots::new();
    let tree = roots.import_tree(&archive(&[file("a", "x")]));
    assert_eq!(fs::metadata(tree.join("a")).unwrap().mtime(), 1_600_000_000);
}

#[test]
fn the_last_member_of_a_name_counts() {
    let roots = TestRoots::new();
    let tree = roots.import_tree(&archive(&[
        file("a", "first"),
        file("./a", "second"),
        folder("d"),
        file("d/x", "gone"),
        link("d", "a"),
        link("l", "a"),
        folder("l"),
        file("l/y", "kept"),
        folder("f"),
        file("f/z", "gone"),
        file("f", "a file"),
    ]));
    assert_eq!(paths(&tree), ["a", "d", "f", "l", "l/y"]);
    assert_eq!(fs::read(tree.join("a")).unwrap(), b"second");
    assert_eq!(fs::read_link(tree.join("d")).unwrap(), Path::new("a"));
    assert_eq!(fs::read(tree.join("f")).unwrap(), b"a file");
}

#[test]
fn members_beneath_a_link_in_the_root_go_to_where_it_leads() {
    let roots = TestRoots::new();
    let tree = roots.import_tree(&archive(&[
        folder("usr/lib"),
        link("lib", "usr/lib"),
        file("lib/relative", "x"),
        folder("run"),
        folder("var"),
        link("var/run", "/run"),
        file("var/run/absolute", "x"),
        link("var/up", "../usr/../usr/lib"),
        file("var/up/through-parents", "x"),
        hard_link("hard", "lib/relative"),
    ]));
    assert_eq!(
        paths(&tree),
        [
            "hard",
            "lib",
            "run",
            "run/absolute",
            "usr",
            "usr/lib",
            "usr/lib/relative",
            "usr/lib/through-parents",
            "var",
            "var/run",
            "var/up"
        ]
    );
}

#[test]
fn names_may_be_any_bytes() {
    let roots = TestRoots::new();
    let odd: &[u8] = b"\xff\xfe \n\\'\"";
    let tree = roots.import_tree(&archive(&[file(odd, "x"), link("l", odd)]));
    assert_eq!(fs::read(tree.join(OsStr::from_bytes(odd))).unwrap(), b"x");
    assert_eq!(fs::read_link(tree.join("l")).unwrap().as_os_str().as_bytes(), odd);
    let listing = fs::read_to_string(tree.with_file_name("listing")).unwrap();
    assert!(listing.contains("\\xff\\xfe \\n\\\\\\'\\\"\n"), "{listing}");
}

#[test]
fn a_whiteout_in_a_plain_archive_is_a_file() {
    let roots = TestRoots::new();
    let tree = roots.import_tree(&archive(&[file("a", "x"), file(".wh.a", "")]));
    assert_eq!(paths(&tree), [".wh.a", "a"]);
}

#[test]
fn a_folder_without_an_image_and_a_missing_file_are_named() {
    let roots = TestRoots::new();
    let error = roots.import("r", &roots.outside()).unwrap_err().to_string();
    assert!(
        error.contains("oci-layout") && error.contains("tar -C"),
        "{error}"
    );
    roots.assert_nothing_left("a folder");
    let error = roots.import("r", &roots.path("missing")).unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
    roots.assert_nothing_left("a missing file");
    let error = roots.import("r", Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(
        error.contains("/dev/zero") && error.contains("neither a file"),
        "{error}"
    );
    roots.assert_nothing_left("a device");
}
