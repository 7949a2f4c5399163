//! Archives of root file systems that try to write elsewhere, or that no tool would write. Each is refused with the name
//! of the member, and leaves nothing.

use crate::archive_builder::{
    TestMember, append_content, append_header, archive, archive_without_end, file, folder, hard_link, link,
    member,
};
use crate::harness::{TestRoots, causes};

/// Each member list is refused, and the error contains all of these texts.
fn check_refused(cases: &[(&str, Vec<TestMember>, &[&str])]) {
    for (what, members, expected) in cases {
        let roots = TestRoots::new();
        let error = match roots.import_bytes("r", &archive(members)) {
            Ok(_) => panic!("{what} was accepted"),
            Err(error) => causes(&error),
        };
        for part in *expected {
            assert!(error.contains(part), "{what}: no {part:?} in {error}");
        }
        roots.assert_nothing_left(what);
    }
}

#[test]
fn paths_that_leave_the_root_are_refused() {
    check_refused(&[
        ("a parent path", vec![file("../x", "a")], &["'../x'", "'..'"]),
        (
            "a parent in the middle",
            vec![folder("a"), file("a/../../x", "a")],
            &["'a/../../x'"],
        ),
        (
            "an absolute path",
            vec![file("/tmp/x", "a")],
            &["'/tmp/x'", "absolute"],
        ),
        ("a folder of a parent path", vec![folder("..")], &["'..'"]),
        ("a link of a parent path", vec![link("../l", "x")], &["'../l'"]),
        (
            "a NUL in an extended path",
            vec![file("a\0/../../x", "a")],
            &["contains a NUL"],
        ),
        (
            "a second path in the extended header",
            vec![file("a", "a").with_extension("path", "../x")],
            &["'../x'"],
        ),
    ]);
}

#[test]
fn members_beneath_links_that_lead_out_are_refused() {
    let outside = TestRoots::new();
    let path = outside.outside();
    let target = path.to_str().unwrap();
    check_refused(&[
        (
            "a link to an absolute path of the host",
            vec![link("l", target), file("l/created", "a")],
            &["'l/created'", "'l'", target, "does not exist in the root"],
        ),
        (
            "a link to a parent",
            vec![link("l", ".."), file("l/created", "a")],
            &["'l/created'", "leads out of the root"],
        ),
        (
            "a link in a folder to a parent of the root",
            vec![folder("a"), link("a/l", "../../outside"), file("a/l/victim", "a")],
            &["'a/l/victim'", "'a/l'", "leads out of the root"],
        ),
        (
            "a link to a link that leads out",
            vec![link("b", ".."), link("a", "b"), file("a/x", "a")],
            &["'a/x'", "leads out of the root"],
        ),
        (
            "a folder beneath a link that leads out",
            vec![link("l", "../outside"), folder("l/new")],
            &["'l/new'", "leads out"],
        ),
        (
            "a link that leads nowhere",
            vec![link("l", "missing"), file("l/x", "a")],
            &["'l/x'", "does not exist in the root"],
        ),
        (
            "links in a circle",
            vec![link("a", "b"), link("b", "a"), file("a/x", "a")],
            &["'a/x'", "too many links"],
        ),
        (
            "a hard link beneath a link that leads out",
            vec![link("l", ".."), hard_link("h", "l/victim")],
            &["'h'", "leads out"],
        ),
    ]);
    outside.assert_nothing_left("the folder that links lead to");
}

#[test]
fn hard_links_to_what_is_not_in_the_root_are_refused() {
    check_refused(&[
        (
            "to an absolute path",
            vec![hard_link("h", "/etc/passwd")],
            &["'h'", "'/etc/passwd'", "absolute"],
        ),
        (
            "to a parent",
            vec![hard_link("h", "../outside/victim")],
            &["'h'", "'..'"],
        ),
        (
            "to nothing",
            vec![hard_link("h", "missing")],
            &["'h'", "'missing'", "not a file"],
        ),
        (
            "to a folder",
            vec![folder("a"), hard_link("h", "a")],
            &["'h'", "not a file"],
        ),
        (
            "to the root",
            vec![folder("a"), hard_link("h", ".")],
            &["'h'", "not a file"],
        ),
        ("to itself", vec![hard_link("h", "h")], &["'h'", "not a file"]),
        (
            "to what its own name replaces",
            vec![file("a/b", "x"), hard_link("a", "a/b")],
            &["'a'", "'a/b'", "not a file"],
        ),
    ]);
}

#[test]
fn names_that_no_file_can_have_are_refused() {
    let deep = "d/".repeat(129);
    let part = "p".repeat(256);
    let long = "123456789/".repeat(400);
    // Each link leads as deep as a path may be, so that the folders beneath them would be deeper.
    let nested = "n/".repeat(100);
    check_refused(&[
        ("a deep path", vec![folder(&deep)], &["deeper than 128 folders"]),
        (
            "a long name",
            vec![file(&part, "a")],
            &["ppp", "longer than 255 bytes"],
        ),
        ("a long path", vec![file(&long, "a")], &["longer than 3800 bytes"]),
        (
            "a deep path beneath a link that leads deep",
            vec![folder(&nested), link("l", &nested), folder(format!("l/{nested}"))],
            &["deeper than 128 folders"],
        ),
        (
            "a link without a target",
            vec![link("l", "")],
            &["'l'", "target of the link is empty"],
        ),
        (
            "a link with a long target",
            vec![link("l", "x".repeat(4096))],
            &["'l'", "longer than 4095"],
        ),
        (
            "a file where a folder is needed",
            vec![file("a", "x"), file("a/b", "y")],
            &["'a/b'", "'a' is not a folder"],
        ),
        ("an unknown type", vec![member(b'Q', "q")], &["'q'", "type 'Q'"]),
        (
            "a part of an archive of several volumes",
            vec![member(b'M', "m")],
            &["'m'", "type 'M'"],
        ),
        (
            "a sparse file of POSIX",
            vec![file("GNUSparseFile.0/s", "x").with_extension("GNU.sparse.major", "1")],
            &["GNUSparseFile.0/s", "--format=gnu"],
        ),
    ]);
}

#[test]
fn damaged_and_incomplete_archives_are_refused() {
    let members = [
        folder("a"),
        file("a/first", "x".repeat(2000)),
        file("a/second", "y".repeat(2000)),
    ];
    let whole = archive(&members);
    let check = |what: &str, bytes: &[u8], expected: &[&str]| {
        let roots = TestRoots::new();
        let error = causes(&roots.import_bytes("r", bytes).expect_err(what));
        for part in expected {
            assert!(error.contains(part), "{what}: no {part:?} in {error}");
        }
        roots.assert_nothing_left(what);
    };
    check("nothing", b"", &["incomplete"]);
    check(
        "text",
        "no archive at all ".repeat(100).as_bytes(),
        &["not a tar archive"],
    );
    check("a cut header", &whole[..700], &["'a'", "damaged or incomplete"]);
    check("a cut content", &whole[..2000], &["'a/first'", "incomplete"]);
    check(
        "no end marker",
        &archive_without_end(&members),
        &["'a/second'", "without an end marker"],
    );
    let mut damaged = whole.clone();
    damaged[512 * 6] ^= 1;
    check("a wrong checksum", &damaged, &["'a/first'", "checksum"]);
    let mut endless = archive_without_end(&members);
    append_header(&mut endless, &file("huge", ""), u64::MAX >> 1);
    check("an impossible size", &endless, &["'huge'", "larger than"]);
    let mut only_extensions = archive_without_end(&members);
    append_header(&mut only_extensions, &member(b'x', "extensions"), 10);
    append_content(&mut only_extensions, b"10 path=a\n");
    only_extensions.extend([0; 1024]);
    check("headers of no member", &only_extensions, &["'a/second'"]);
}

#[test]
fn an_archive_that_becomes_valid_again_replaces_nothing_while_it_is_refused() {
    let roots = TestRoots::new();
    roots.import_bytes("r", &archive(&[file("a", "good")])).unwrap();
    let before = roots.get("r").unwrap();
    roots
        .import_bytes("r", &archive(&[file("a", "bad"), file("../x", "")]))
        .unwrap_err();
    assert_eq!(roots.get("r").unwrap(), before);
    assert_eq!(std::fs::read(before.folder.join("a")).unwrap(), b"good");
    assert_eq!(roots.entries(), ["r"]);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config {
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    })]

    /// However an archive is damaged: it is refused or imported, and nothing gets out of the folder.
    #[test]
    fn damage_at_any_place_is_survived(changes in proptest::collection::vec((0usize..6000, 0u8..=255), 1..8)) {
        let mut bytes = archive(&[
            folder("a"),
            link("a/l", ".."),
            file("a/l/x", "content"),
            file("long", "y").with_extension("path", "l".repeat(150)),
            hard_link("h", "a/l/x"),
            member(b'3', "device"),
        ]);
        for (position, value) in changes {
            let position = position % bytes.len();
            bytes[position] = value;
        }
        let roots = TestRoots::new();
        if roots.import_bytes("r", &bytes).is_err() {
            roots.assert_nothing_left("a damaged archive");
        }
        assert_eq!(std::fs::read(roots.outside().join("victim")).unwrap(), b"old");
    }
}
