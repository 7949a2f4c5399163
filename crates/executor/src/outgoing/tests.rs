use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::*;

/// A generous timeout: the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(60);

fn go_on() -> Result<(), AttemptRevoked> {
    Ok(())
}

/// A folder for tests, and a source of files to copy into it.
struct OutgoingFixture {
    outgoing: Arc<OutgoingFolder>,
    folder: tempfile::TempDir,
}

impl OutgoingFixture {
    fn new(limit: u64) -> OutgoingFixture {
        let folder = tempfile::tempdir().unwrap();
        let outgoing = OutgoingFolder::open(folder.path().join("outgoing"), limit).unwrap();
        outgoing.start_removals();
        OutgoingFixture { outgoing, folder }
    }

    fn source(&self, content: &[u8]) -> File {
        let path = self.folder.path().join("source");
        fs::write(&path, content).unwrap();
        File::open(path).unwrap()
    }

    fn add(&self, content: &[u8]) -> (OutgoingFiles, BlobHash) {
        let mut files = OutgoingFiles::new(&self.outgoing);
        let room = self
            .outgoing
            .reserve(content.len() as u64, &mut files, &go_on)
            .unwrap()
            .unwrap();
        let added = FileCopier::new(&go_on).copy(room, &self.source(content), &mut files);
        (files, added.unwrap().hash)
    }

    fn names(&self) -> Vec<String> {
        names(&self.outgoing.folder)
    }

    /// Waits until the files without references are removed.
    fn wait_until_empty(&self) {
        let deadline = Instant::now() + SOON;
        while self.outgoing.bytes() > 0 || !self.names().is_empty() {
            assert!(Instant::now() < deadline, "{:?}", self.names());
            std::thread::yield_now();
        }
    }
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_content_is_stored_once_and_removed_with_its_last_reference() {
    let fixture = OutgoingFixture::new(1 << 20);
    let (first, hash) = fixture.add(b"content");
    let (second, _) = fixture.add(b"content");
    assert_eq!(hash, BlobHash::of(b"content"));
    assert_eq!(fixture.names(), [hash.to_string()]);
    assert_eq!(fixture.outgoing.bytes(), 7);
    let source = fixture.outgoing.source(&hash).unwrap();
    assert_eq!(
        (source.size, fs::read(&source.path).unwrap()),
        (7, b"content".to_vec())
    );
    let mode = fs::metadata(&source.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(first);
    fixture.outgoing.remove_unreferenced();
    assert_eq!(fixture.names(), [hash.to_string()]);
    drop(second);
    fixture.wait_until_empty();
    assert!(fixture.outgoing.source(&hash).is_none());
}

#[test]
fn output_without_a_name_is_linked_and_other_files_are_copied() {
    let fixture = OutgoingFixture::new(1 << 20);
    let unnamed = |flags: OFlag| {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(flags.bits());
        options
    };
    let tmpfile = unnamed(OFlag::O_TMPFILE).open(fixture.folder.path()).unwrap();
    let path = fixture.folder.path().join("unlinked");
    let unlinked = unnamed(OFlag::empty()).create_new(true).open(&path).unwrap();
    fs::remove_file(path).unwrap();
    let check = |mut file: File, content: &[u8], is_linked: bool| {
        // The last bytes were written, but do not count.
        file.write_all(&[content, b"more"].concat()).unwrap();
        let mut files = OutgoingFiles::new(&fixture.outgoing);
        let room = fixture
            .outgoing
            .reserve(content.len() as u64, &mut files, &go_on)
            .unwrap()
            .unwrap();
        let added = FileCopier::new(&go_on).link(room, &file, &mut files).unwrap();
        assert_eq!(
            (added.hash, added.size),
            (BlobHash::of(content), content.len() as u64)
        );
        let path = fixture.outgoing.path(&added.hash);
        assert_eq!(fs::read(&path).unwrap(), content);
        let same_inode = fs::metadata(path).unwrap().ino() == file.metadata().unwrap().ino();
        assert_eq!(same_inode, is_linked);
        assert_eq!(fixture.outgoing.bytes(), content.len() as u64);
        drop(files);
        fixture.wait_until_empty();
    };
    check(tmpfile, b"linked", true);
    check(unlinked, b"copied", false);
}

#[test]
fn a_slot_waits_for_room_until_a_file_is_removed_or_its_attempt_is_revoked() {
    let fixture = OutgoingFixture::new(10);
    let mut none = OutgoingFiles::new(&fixture.outgoing);
    let too_large = fixture.outgoing.reserve(11, &mut none, &go_on).unwrap();
    assert!(too_large.is_err(), "it never fits");
    let (files, _) = fixture.add(b"12345678");
    let revoked = fixture.outgoing.reserve(3, &mut none, &|| Err(AttemptRevoked));
    assert!(revoked.is_err());
    let outgoing = fixture.outgoing.clone();
    let (waiting, is_waiting) = std::sync::mpsc::channel();
    let slot = std::thread::spawn(move || {
        let progress = || {
            let _ = waiting.send(());
            Ok(())
        };
        let room = outgoing.reserve(3, &mut none, &progress).unwrap();
        room.is_ok() && none.wait_left < MAX_ROOM_TIMEOUT
    });
    is_waiting.recv_timeout(SOON).unwrap();
    drop(files);
    assert!(slot.join().unwrap());
    fixture.wait_until_empty();
}

#[test]
fn all_files_of_an_attempt_share_one_bound_on_the_time_without_room() {
    let fixture = OutgoingFixture::new(10);
    let (_files, _) = fixture.add(b"12345678");
    let mut files = OutgoingFiles::new(&fixture.outgoing);
    files.wait_left = Duration::from_millis(50);
    let calls = std::cell::Cell::new(0);
    let progress = || {
        calls.set(calls.get() + 1);
        Ok(())
    };
    let mut reserve = |bytes| {
        let room = fixture.outgoing.reserve(bytes, &mut files, &progress).unwrap();
        (room.is_ok(), calls.take() > 0)
    };
    assert_eq!(reserve(11), (false, false), "it never fits");
    assert_eq!(reserve(2), (true, false));
    assert_eq!(reserve(3), (false, true), "the first one waits");
    assert_eq!(reserve(3), (false, false), "no other one waits");
    assert_eq!(reserve(2), (true, false), "there is room for a smaller one");
    let mut of_earlier_process = OutgoingFiles::new(&fixture.outgoing);
    fixture
        .outgoing
        .add_bytes(b"no limit", &mut of_earlier_process)
        .unwrap();
    assert_eq!(reserve(1), (false, false));
    assert_eq!(reserve(0), (true, false), "an empty file needs no room");
}

#[test]
fn a_file_that_was_added_again_is_not_lost() {
    let fixture = OutgoingFixture::new(1 << 20);
    let (_files, hash) = fixture.add(b"content");
    let path = fixture.outgoing.path(&hash);
    assert!(fixture.outgoing.verify(&hash).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(!fixture.outgoing.verify(&hash).unwrap() && !fixture.outgoing.is_verified(&hash));
    let (_again, _) = fixture.add(b"content");
    assert!(fixture.outgoing.is_verified(&hash) && path.exists());
}

#[test]
fn the_next_process_finds_the_files_that_its_results_name_and_removes_the_others() {
    let fixture = OutgoingFixture::new(1 << 20);
    let (first, kept) = fixture.add(b"kept");
    let (second, damaged) = fixture.add(b"damaged");
    let (third, unnamed) = fixture.add(b"unnamed");
    // Like a process that was killed.
    std::mem::forget((first, second, third));
    let folder = fixture.outgoing.folder.clone();
    fs::write(folder.join("new-17"), b"half").unwrap();
    fs::write(folder.join(damaged.to_string()), b"zeroes!").unwrap();

    let outgoing = OutgoingFolder::open(folder.clone(), 1 << 20).unwrap();
    assert!(!names(&folder).contains(&"new-17".to_string()));
    assert_eq!(outgoing.bytes(), 18);
    assert!(
        outgoing
            .reference(&[(kept, Some(4)), (BlobHash([7; 32]), Some(1))])
            .is_none(),
        "missing"
    );
    assert!(outgoing.reference(&[(kept, Some(5))]).is_none(), "another size");
    let files = outgoing
        .reference(&[(kept, Some(4)), (damaged, None), (kept, Some(4))])
        .unwrap();
    outgoing.table().may_remove = true;
    outgoing.remove_unreferenced();
    assert!(!names(&folder).contains(&unnamed.to_string()));
    assert_eq!(outgoing.bytes(), 11);
    assert!(!outgoing.is_verified(&kept));
    assert!(outgoing.verify(&kept).unwrap() && outgoing.is_verified(&kept));
    assert!(!outgoing.verify(&damaged).unwrap() && !outgoing.is_verified(&damaged));
    // A slot that adds the same content replaces the damaged file.
    let again = OutgoingFixture {
        outgoing: outgoing.clone(),
        folder: tempfile::tempdir().unwrap(),
    };
    let (added, _) = again.add(b"damaged");
    assert!(outgoing.is_verified(&damaged) && outgoing.verify(&damaged).unwrap());
    assert_eq!(outgoing.bytes(), 11);
    drop((files, added));
    again.wait_until_empty();
}

#[test]
fn a_full_disk_leaves_no_file_and_no_reserved_room() {
    let fixture = OutgoingFixture::new(1 << 30);
    let folder = fixture.outgoing.folder.clone();
    mount(
        Some("full"),
        &folder,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("size=64k"),
    )
    .expect("this test mounts a small file system, so it runs as root");
    let large = fixture.source(&[1; 100_000]);
    let mut files = OutgoingFiles::new(&fixture.outgoing);
    let mut copy = |bytes| {
        let room = fixture.outgoing.reserve(bytes, &mut files, &go_on);
        FileCopier::new(&go_on).copy(room.unwrap().unwrap(), &large, &mut files)
    };
    let failed = copy(100_000);
    let left = (names(&folder), fixture.outgoing.bytes());
    let small = copy(1000);
    let _ = umount2(&folder, MntFlags::MNT_DETACH);
    assert!(
        matches!(&failed, Err(AddFileError::Io(error)) if error.kind() == io::ErrorKind::StorageFull),
        "{failed:?}"
    );
    assert_eq!(left, (vec![], 0));
    assert_eq!(small.unwrap().size, 1000, "the folder still works");
}
