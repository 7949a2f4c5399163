//! Archives that would take too much: bytes, files, headers, or space on the disk.

use std::io::Write;

use roots::{ImportError, NewRoot, UnpackLimits};

use crate::archive_builder::{append_header, archive, file, folder, member};
use crate::harness::{TestRoots, causes, import_options, test_limits};

fn import(roots: &TestRoots, bytes: &[u8], limits: UnpackLimits) -> Result<NewRoot, ImportError> {
    let path = roots.path("archive");
    std::fs::write(&path, bytes).unwrap();
    let mut options = import_options("r", &path);
    options.limits = limits;
    roots::import(&roots.store, &options)
}

fn check(what: &str, bytes: &[u8], limits: UnpackLimits, expected: &[&str]) {
    let roots = TestRoots::new();
    let error = causes(&import(&roots, bytes, limits).expect_err(what));
    for part in expected {
        assert!(error.contains(part), "{what}: no {part:?} in {error}");
    }
    roots.assert_nothing_left(what);
}

fn gzip(write: impl FnOnce(&mut dyn Write)) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    write(&mut encoder);
    encoder.finish().unwrap()
}

fn zeros(output: &mut dyn Write, mebibytes: usize) {
    let block = vec![0; 1 << 20];
    (0..mebibytes).for_each(|_| output.write_all(&block).unwrap());
}

#[test]
fn a_small_file_that_unpacks_to_a_large_one_is_refused() {
    let bomb = gzip(|output| {
        let mut header = Vec::new();
        append_header(&mut header, &file("bomb", ""), 512 << 20);
        output.write_all(&header).unwrap();
        zeros(output, 512);
        output.write_all(&[0; 1024]).unwrap();
    });
    assert!(bomb.len() < 1 << 20);
    check(
        "a gzip bomb",
        &bomb,
        test_limits(),
        &["'bomb'", "67108864 bytes", "--max-size"],
    );
}

#[test]
fn many_files_are_together_no_larger_than_allowed() {
    let members: Vec<_> = (0..10)
        .map(|number| file(format!("f{number}"), vec![1; 100_000]))
        .collect();
    let limits = UnpackLimits {
        max_size: 550_000,
        ..test_limits()
    };
    check("ten files", &archive(&members), limits, &["'f5'", "550000 bytes"]);
}

#[test]
fn what_is_read_but_not_written_counts_as_well() {
    // A member that is skipped, and data behind the end marker.
    let skipped = gzip(|output| {
        let mut header = Vec::new();
        append_header(&mut header, &member(b'g', "comment"), 60 << 20);
        output.write_all(&header).unwrap();
        zeros(output, 60);
        output
            .write_all(&archive(&[file("a", vec![0; 5 << 20])]))
            .unwrap();
    });
    check(
        "a skipped member",
        &skipped,
        test_limits(),
        &["'a'", "--max-size"],
    );
    let behind = gzip(|output| {
        output.write_all(&archive(&[file("a", "x")])).unwrap();
        zeros(output, 70);
    });
    check(
        "data behind the end",
        &behind,
        test_limits(),
        &["'a'", "--max-size"],
    );
}

#[test]
fn headers_cannot_fill_the_memory() {
    for kind in [b'x', b'L', b'K'] {
        let bomb = gzip(|output| {
            let mut header = Vec::new();
            append_header(&mut header, &member(kind, "headers"), 50 << 20);
            output.write_all(&archive(&[folder("a")])[..512]).unwrap();
            output.write_all(&header).unwrap();
            zeros(output, 50);
            output.write_all(&archive(&[file("b", "x")])).unwrap();
        });
        check(
            "large headers",
            &bomb,
            test_limits(),
            &["'a'", "headers of a member"],
        );
        // The same in the archive of an image, which is searched for its files first.
        let image = gzip(|output| {
            let mut header = Vec::new();
            append_header(&mut header, &member(kind, "blobs/headers"), 50 << 20);
            output.write_all(&archive(&[folder("blobs")])[..512]).unwrap();
            output.write_all(&header).unwrap();
            zeros(output, 50);
            output.write_all(&archive(&[file("index.json", "{}")])).unwrap();
        });
        check(
            "large headers in an image",
            &image,
            test_limits(),
            &["'blobs'", "headers of a member"],
        );
    }
}

#[test]
fn too_many_members_are_refused() {
    let members: Vec<_> = (0..100).map(|number| folder(format!("d{number}"))).collect();
    let limits = UnpackLimits {
        max_entries: 50,
        ..test_limits()
    };
    check(
        "100 folders",
        &archive(&members),
        limits,
        &["'d50'", "more than 50 members"],
    );
}

#[test]
fn a_reserve_of_the_disk_stays_free() {
    let roots = TestRoots::new();
    let bytes = archive(&[file("a", "x".repeat(1000))]);
    // The reserve is at most a twentieth of the disk, so a small tmpfs that is nearly full shows it.
    let disk = roots.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = SmallDisk::mount(&disk);
    std::fs::write(disk.join("ballast"), vec![1; 15 << 20]).unwrap();
    let store = roots::RootStore::open(&disk.join("roots"));
    let archive_path = roots.path("archive");
    std::fs::write(&archive_path, &bytes).unwrap();
    let options = import_options("r", &archive_path);
    roots::import(&store, &options).unwrap();
    store.remove(&options.name).unwrap();
    std::fs::write(disk.join("more"), vec![1; 512 << 10]).unwrap();
    let error = causes(&roots::import(&store, &options).unwrap_err());
    assert!(
        error.contains("'a'") && error.contains("the disk has no room"),
        "{error}"
    );
    assert_eq!(crate::harness::entries(store.folder()), Vec::<String>::new());
    drop(mounted);
}

/// A tmpfs of 16 MiB, mounted while this exists.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(path: &std::path::Path) -> SmallDisk {
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"])
            .arg(path)
            .status()
            .unwrap();
        assert!(mounted.success(), "mounting needs root");
        SmallDisk(path.to_path_buf())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(&self.0)
            .status();
    }
}
