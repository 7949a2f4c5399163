//! Archives that would take too much: bytes, files, headers, or space on the disk.

use std::io::Write;

use roots::{ImportError, NewRoot, UnpackLimits};

use crate::archive_builder::{TestMember, append_header, archive, file, folder, link, member};
use crate::harness::{TestRoots, causes, import_options, test_limits};
use crate::image_builder::{TestImage, TestLayer, layer};

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

/// Names take space too, in the archive, on the disk and in the listing.
#[test]
fn folders_links_and_empty_files_count() {
    let limits = |max_size: u64, max_entries: u64| UnpackLimits {
        max_size,
        max_entries,
        ..test_limits()
    };
    check(
        "folders that are not in the archive",
        &archive(&[file("d/".repeat(100) + "f", "")]),
        limits(64 << 20, 50),
        &["'d/d/", "more than 50 members"],
    );
    let names =
        |make: fn(String) -> TestMember| -> Vec<_> { (0..500).map(|n| make(format!("n{n}"))).collect() };
    for (what, members) in [
        ("empty files", names(|name| file(name, ""))),
        ("empty folders", names(folder)),
        ("links", names(|name| link(name, "x"))),
    ] {
        let bytes = archive(&members);
        check(what, &bytes, limits(1 << 20, 1000), &["'n256'", "--max-size"]);
    }
    let deep = vec![vec![0xff; 250]; 12].join(&b'/');
    let long: Vec<_> = (0..300)
        .map(|number| file([deep.as_slice(), format!("/{number}").as_bytes()].concat(), ""))
        .collect();
    check(
        "long names",
        &archive(&long),
        limits(3 << 20, 1000),
        &["listing", "--max-size"],
    );
}

/// A file of this size that is one hole, as GNU tar writes it.
fn hole(name: &str, size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(0);
    let number = |field: &mut [u8; 12]| {
        field[0] = 0x80;
        field[4..].copy_from_slice(&size.to_be_bytes());
    };
    let gnu = header.as_gnu_mut().unwrap();
    number(&mut gnu.realsize);
    number(&mut gnu.sparse[0].offset);
    gnu.sparse[0].numbytes = *b"00000000000\0";
    header.set_cksum();
    header.as_bytes().to_vec()
}

#[test]
fn holes_that_are_not_written_take_no_time() {
    for name in ["file", "blobs/file"] {
        let bytes = [hole(name, 1 << 62), archive(&[file("index.json", "{}")])].concat();
        check("an endless hole", &bytes, test_limits(), &[name, "--max-size"]);
    }
    let mut content: Vec<u8> = (0..20).flat_map(|_| hole(".wh.file", 10 << 20)).collect();
    content.extend([0; 1024]);
    let layer = TestLayer {
        file: content.clone(),
        content,
        ..layer(&[])
    };
    let image = TestImage::layout(&[layer]).archive();
    check(
        "holes of whiteouts",
        &image,
        test_limits(),
        &["'.wh.file'", "--max-size"],
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
