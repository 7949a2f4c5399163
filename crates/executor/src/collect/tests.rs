use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use model::BlobHash;
use nix::sys::stat::{Mode, mknod};
use nix::unistd::mkfifo;

use super::*;

const LIMITS: KeepLimits = KeepLimits {
    files: 1000,
    bytes: 1 << 20,
    entries: 10_000,
};

/// A workspace for tests, and the outgoing folder for its files.
struct CollectFixture {
    workspace: tempfile::TempDir,
    outgoing: Arc<OutgoingFolder>,
    _folder: tempfile::TempDir,
}

impl CollectFixture {
    fn new() -> CollectFixture {
        let folder = tempfile::tempdir().unwrap();
        let outgoing = OutgoingFolder::open(folder.path().join("outgoing"), 1 << 20).unwrap();
        outgoing.start_removals();
        CollectFixture {
            workspace: tempfile::tempdir().unwrap(),
            outgoing,
            _folder: folder,
        }
    }

    fn write(&self, path: impl AsRef<Path>, content: &[u8]) {
        let path = self.workspace.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn open_workspace(&self) -> io::Result<WorkspaceFolder<'static>> {
        File::open(self.workspace.path()).map(WorkspaceFolder::on_disk)
    }

    fn collect_with(
        &self,
        patterns: &[&str],
        limits: KeepLimits,
        progress: &dyn Fn() -> Result<(), AttemptRevoked>,
    ) -> Result<(CollectedFiles, OutgoingFiles), CollectError> {
        let patterns: Vec<_> = patterns
            .iter()
            .map(|pattern| KeepPattern::new(*pattern).unwrap())
            .collect();
        let collector = FileCollector {
            patterns: &patterns,
            limits,
            outgoing: &self.outgoing,
            progress,
        };
        let mut files = OutgoingFiles::new(&self.outgoing);
        let collected = collector.collect(self.open_workspace(), &mut files)?;
        Ok((collected, files))
    }

    /// The paths of the kept files, and what was left out.
    fn collect(&self, patterns: &[&str], limits: KeepLimits) -> (Vec<String>, FilesLeftOut) {
        let (collected, files) = self.collect_with(patterns, limits, &|| Ok(())).unwrap();
        for file in &collected.files {
            assert!(files.hashes().contains(&file.blob));
            let source = self.outgoing.source(&file.blob).unwrap();
            assert_eq!(BlobHash::of(fs::read(source.path).unwrap()), file.blob);
        }
        let paths = collected.files.iter().map(|file| file.path.to_string());
        (paths.collect(), collected.left_out)
    }
}

fn left_out(count: u64, bytes: u64, why: LeftOutReason) -> FilesLeftOut {
    FilesLeftOut {
        count,
        bytes,
        why: Some(why),
    }
}

#[test]
fn matching_files_are_kept_in_the_order_of_their_paths() {
    let fixture = CollectFixture::new();
    for path in [
        "out/b.csv",
        "out/a.csv",
        "out-1.csv",
        "out/deep/c.csv",
        "x.txt",
        "empty.csv",
    ] {
        let content = if path.starts_with("empty") { "" } else { path };
        fixture.write(path, content.as_bytes());
    }
    let executable = fixture.workspace.path().join("out/b.csv");
    fs::set_permissions(executable, fs::Permissions::from_mode(0o755)).unwrap();
    let (collected, _files) = fixture.collect_with(&["**/*.csv"], LIMITS, &|| Ok(())).unwrap();
    let kept = |path: &str, content: &str, executable| KeptFile {
        path: WorkspacePath::new(path).unwrap(),
        size: content.len() as u64,
        blob: BlobHash::of(content),
        executable,
    };
    let expected = [
        kept("empty.csv", "", false),
        kept("out-1.csv", "out-1.csv", false),
        kept("out/a.csv", "out/a.csv", false),
        kept("out/b.csv", "out/b.csv", true),
        kept("out/deep/c.csv", "out/deep/c.csv", false),
    ];
    assert_eq!(collected.files, expected);
    assert_eq!(collected.left_out, FilesLeftOut::default());
    let check = |patterns: &[&str], expected: &[&str]| {
        assert_eq!(
            fixture.collect(patterns, LIMITS),
            (
                expected.iter().map(ToString::to_string).collect(),
                FilesLeftOut::default()
            )
        );
    };
    check(&["out/*.csv"], &["out/a.csv", "out/b.csv"]);
    check(&["x.txt", "out/deep/**"], &["out/deep/c.csv", "x.txt"]);
    check(&["missing", "out"], &[]);
}

#[test]
fn links_pipes_sockets_and_devices_are_never_opened() {
    let fixture = CollectFixture::new();
    let path = |name: &str| fixture.workspace.path().join(name);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    symlink(outside.path().join("secret"), path("link")).unwrap();
    symlink(outside.path(), path("folder")).unwrap();
    symlink("/proc/self/environ", path("magic")).unwrap();
    symlink("file", path("inside")).unwrap();
    // Opening it without care would wait for a writer.
    mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(path("socket")).unwrap();
    mknod(
        &path("device"),
        SFlag::S_IFCHR,
        Mode::S_IRWXU,
        nix::sys::stat::makedev(1, 5),
    )
    .expect("this test creates a device, so it runs as root");
    fixture.write("file", b"file");
    let (kept, left) = fixture.collect(&["**"], LIMITS);
    assert_eq!(kept, ["file"]);
    assert_eq!(left, left_out(7, 0, LeftOutReason::NotRegular));
    let (kept, left) = fixture.collect(&["folder/secret", "folder/*"], LIMITS);
    assert_eq!((kept, left), (vec![], FilesLeftOut::default()));
}

#[test]
fn names_with_every_byte_are_kept_or_counted() {
    let fixture = CollectFixture::new();
    let mut bad = 0;
    let mut good = Vec::new();
    for byte in (1..=255_u8).filter(|byte| *byte != b'/') {
        let name = [b"a", [byte].as_slice(), b"z"].concat();
        fixture.write(OsStr::from_bytes(&name), b"x");
        match String::from_utf8(name) {
            Ok(name) => good.push(name),
            Err(_) => bad += 1,
        }
    }
    assert_eq!((good.len(), bad), (126, 128));
    fixture.write(OsStr::from_bytes(b"in\xff/file"), b"x");
    let (kept, left) = fixture.collect(&["**"], LIMITS);
    assert_eq!(kept, good);
    assert_eq!(left, left_out(bad + 1, bad + 1, LeftOutReason::BadName));
}

#[test]
fn the_number_and_size_of_files_are_bounded_in_the_order_of_paths() {
    let fixture = CollectFixture::new();
    for (path, size) in [("a", 40), ("b", 80), ("c", 50), ("d", 20), ("e", 1)] {
        fixture.write(path, &vec![b'x'; size]);
    }
    let check = |files, bytes, expected: &[&str], left| {
        let limits = KeepLimits {
            files,
            bytes,
            ..LIMITS
        };
        let (kept, found) = fixture.collect(&["*"], limits);
        assert_eq!(
            (kept.as_slice(), found),
            (
                expected
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .as_slice(),
                left
            )
        );
    };
    check(5, 191, &["a", "b", "c", "d", "e"], FilesLeftOut::default());
    check(3, 1000, &["a", "b", "c"], left_out(2, 21, LeftOutReason::TooMany));
    check(
        5,
        100,
        &["a", "c", "e"],
        left_out(2, 100, LeftOutReason::TooLarge),
    );
    check(0, 1000, &[], left_out(5, 191, LeftOutReason::TooMany));
}

#[test]
fn a_sparse_file_is_left_out_without_reading_it() {
    let fixture = CollectFixture::new();
    let sparse = File::create(fixture.workspace.path().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    fixture.write("z", b"z");
    let (kept, left) = fixture.collect(&["*"], LIMITS);
    assert_eq!(kept, ["z"]);
    assert_eq!(left, left_out(1, 1 << 40, LeftOutReason::TooLarge));
}

#[test]
fn a_workspace_with_too_many_entries_is_not_read_to_the_end() {
    let fixture = CollectFixture::new();
    for number in 0..500 {
        fixture.write(format!("many/{number}"), b"");
        fs::create_dir(fixture.workspace.path().join(format!("folder-{number}"))).unwrap();
    }
    let looked_at = Cell::new(0);
    let progress = || {
        looked_at.set(looked_at.get() + 1);
        Ok(())
    };
    let limits = KeepLimits {
        entries: 700,
        ..LIMITS
    };
    let (collected, _files) = fixture.collect_with(&["**/x"], limits, &progress).unwrap();
    let folders = 1 + 501;
    assert_eq!(looked_at.get(), 701 + folders);
    assert_eq!(collected.files, []);
    assert_eq!(collected.left_out.why, Some(LeftOutReason::TooMany));
    // A folder in which nothing can match is not read.
    let (_, left) = fixture.collect(&["other/*"], LIMITS);
    assert_eq!(left, FilesLeftOut::default());
}

#[test]
fn what_a_pattern_names_literally_is_found_beside_too_many_entries() {
    let fixture = CollectFixture::new();
    for number in 0..200 {
        fixture.write(format!("many/{number:03}.log"), b"");
        fixture.write(format!("{number:03}/x"), b"");
    }
    for path in ["many/result", "many/deep/a.csv", "many/deep/er/b.csv"] {
        fixture.write(path, b"x");
    }
    symlink("result", fixture.workspace.path().join("many/link")).unwrap();
    let limits = KeepLimits {
        entries: 20,
        ..LIMITS
    };
    let check = |patterns: &[&str], expected: &[&str], left: FilesLeftOut| {
        let (kept, left_out) = fixture.collect(patterns, limits);
        assert_eq!(
            (kept.join(" "), left_out),
            (expected.join(" "), left),
            "{patterns:?}"
        );
    };
    let none = FilesLeftOut::default;
    let not_regular = || left_out(1, 0, LeftOutReason::NotRegular);
    check(&["many/result"], &["many/result"], none());
    check(&["many/deep/*.csv"], &["many/deep/a.csv"], none());
    check(
        &["many/link", "many/missing", "many/result/x", "many"],
        &[],
        not_regular(),
    );
    check(&["many/link/*", "many/missing/*", "many/result/*"], &[], none());
    // A folder and what is in it are looked at once.
    let both = ["many/deep/a.csv", "many/deep/er/b.csv"];
    check(
        &["many/deep/er/*", "many/deep/**", "many/deep/a.csv"],
        &both,
        none(),
    );
    // The entries that were not looked at are counted as one.
    let unknown = left_out(1, 0, LeftOutReason::TooMany);
    let (kept, left) = fixture.collect(&["many/result", "many/deep/*", "nothing*"], limits);
    assert_eq!(
        (kept.join(" ").as_str(), left),
        ("many/deep/a.csv many/result", unknown)
    );
}

#[test]
fn folders_deeper_than_any_path_are_not_read() {
    let fixture = CollectFixture::new();
    let deep = |depth: usize| vec!["d"; depth].join("/");
    fixture.write(format!("{}/file", deep(31)), b"kept");
    fixture.write(format!("{}/file", deep(40)), b"too deep");
    let (kept, left) = fixture.collect(&["**/file"], LIMITS);
    assert_eq!(kept, [format!("{}/file", deep(31))]);
    assert_eq!(left, left_out(1, 0, LeftOutReason::BadName));
    let long = vec!["x".repeat(250); 5].join("/");
    fixture.write(format!("{long}/file"), b"too long");
    let (_, left) = fixture.collect(&["x*/**"], LIMITS);
    assert_eq!(left, left_out(1, 0, LeftOutReason::BadName));
}

#[test]
fn files_that_vanish_shrink_or_grow_meanwhile_are_no_failure() {
    let fixture = CollectFixture::new();
    for path in ["a", "b", "c", "d"] {
        fixture.write(path, &[b'x'; 1000]);
    }
    let path = |name: &str| fixture.workspace.path().join(name);
    let calls = Cell::new(0);
    let progress = || {
        calls.set(calls.get() + 1);
        // The first calls are for the folder and its four entries, the next one is for the first part of `a`.
        if calls.get() == 6 {
            File::options()
                .write(true)
                .open(path("a"))
                .unwrap()
                .set_len(10)
                .unwrap();
            fs::remove_file(path("b")).unwrap();
            fs::remove_file(path("c")).unwrap();
            symlink("/etc/passwd", path("c")).unwrap();
            fixture.write("d", &[b'y'; 5000]);
        }
        Ok(())
    };
    let (collected, _files) = fixture.collect_with(&["*"], LIMITS, &progress).unwrap();
    let kept: Vec<_> = collected
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.size))
        .collect();
    assert_eq!(kept, [("a", 10), ("d", 5000)]);
    assert_eq!(collected.left_out, left_out(1, 0, LeftOutReason::NotRegular));
}

#[test]
fn collecting_stops_when_the_attempt_is_revoked_and_leaves_no_file() {
    let fixture = CollectFixture::new();
    for number in 0..20 {
        fixture.write(number.to_string(), number.to_string().as_bytes());
    }
    for revoked_after in [0, 5, 25, 30] {
        let calls = Cell::new(0);
        let progress = || {
            calls.set(calls.get() + 1);
            match calls.get() > revoked_after {
                true => Err(AttemptRevoked),
                false => Ok(()),
            }
        };
        assert!(fixture.collect_with(&["*"], LIMITS, &progress).is_err());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while fixture.outgoing.bytes() > 0 {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
    }
}

#[test]
fn without_room_the_files_are_left_out() {
    let fixture = CollectFixture::new();
    fixture.write("large", &vec![b'x'; (1 << 20) + 1]);
    fixture.write("small", b"x");
    let limits = KeepLimits {
        bytes: 1 << 30,
        ..LIMITS
    };
    let (kept, left) = fixture.collect(&["*"], limits);
    assert_eq!(kept, ["small"]);
    assert_eq!(left, left_out(1, (1 << 20) + 1, LeftOutReason::NoSpace));
}

/// An executor of an ordinary user may list a folder whose files it may not open.
#[test]
fn files_in_a_folder_without_permission_are_counted() {
    let fixture = CollectFixture::new();
    for path in ["listed/a", "listed/b", "z"] {
        fixture.write(path, b"x");
    }
    for (path, mode) in [("", 0o755), ("listed", 0o744)] {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(fixture.workspace.path().join(path), permissions).unwrap();
    }
    let mut folder = fixture.open_workspace().unwrap();
    let patterns = [KeepPattern::new("**").unwrap()];
    // Only this thread reads as another user.
    let found = std::thread::scope(|scope| {
        let find = || {
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
            let finder = FileFinder {
                folder: &mut folder,
                patterns: &patterns,
                limits: LIMITS,
                progress: &|| Ok(()),
            };
            finder.find().unwrap()
        };
        scope.spawn(find).join().unwrap()
    });
    let paths: Vec<_> = found.files.keys().map(WorkspacePath::as_str).collect();
    assert_eq!(paths, ["z"]);
    assert_eq!(
        found.left_out.into_counts(),
        left_out(2, 0, LeftOutReason::NoSpace)
    );
}

#[test]
fn a_workspace_that_the_task_has_removed_has_no_files_and_an_unreadable_one_says_so() {
    let fixture = CollectFixture::new();
    let collector = FileCollector {
        patterns: &[KeepPattern::new("**").unwrap()],
        limits: LIMITS,
        outgoing: &fixture.outgoing,
        progress: &|| Ok(()),
    };
    let check = |error: io::Error, expected: FilesLeftOut| {
        let mut files = OutgoingFiles::new(&fixture.outgoing);
        let message = error.to_string();
        let collected = collector.collect(Err(error), &mut files).unwrap();
        assert_eq!(
            (collected.files, collected.left_out),
            (vec![], expected),
            "{message}"
        );
    };
    let missing = File::open(fixture.workspace.path().join("box")).unwrap_err();
    check(missing, FilesLeftOut::default());
    check(Errno::ENOTDIR.into(), FilesLeftOut::default());
    check(Errno::ELOOP.into(), FilesLeftOut::default());
    let unknown = || left_out(1, 0, LeftOutReason::NoSpace);
    check(Errno::EMFILE.into(), unknown());
    check(Errno::EIO.into(), unknown());
    check(io::ErrorKind::NotConnected.into(), unknown());
}
