//! Small file systems for tests: one to fill up, one to freeze or to observe.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small tmpfs that a test can fill up, for the data of a node. Unmounted when dropped. Mounting needs root.
pub struct TmpfsDisk {
    folder: PathBuf,
}

impl TmpfsDisk {
    /// Creates the folder and mounts a tmpfs of this size there.
    pub fn mount(folder: &Path, size: &str) -> TmpfsDisk {
        fs::create_dir_all(folder).expect("a folder to mount at");
        let options = format!("size={size},mode=0755");
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"], folder);
        TmpfsDisk {
            folder: folder.to_path_buf(),
        }
    }

    /// Fills the file system until only `left` bytes are free.
    pub fn fill(&self, left: u64) {
        let free = nix::sys::statvfs::statvfs(&self.folder).expect("statvfs");
        let free = free.blocks_available() as u64 * free.fragment_size() as u64;
        let ballast = vec![0; usize::try_from(free.saturating_sub(left)).expect("a small disk")];
        match fs::write(self.ballast(), ballast) {
            // Another process has written in the meantime; the file system is full, as wanted.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            written => written.expect("ballast"),
        }
    }

    /// Undoes `fill`.
    pub fn free(&self) {
        fs::remove_file(self.ballast()).expect("ballast");
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for TmpfsDisk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], &self.folder);
    }
}

/// An ext4 file system on its own loop device, which a test can freeze and whose I/O it can count. While it is frozen,
/// writers block in the kernel and cannot be killed. Thawed and unmounted when dropped. Mounting needs root.
pub struct LoopDisk {
    folder: PathBuf,
}

/// The kernel's I/O counters of the block device of a test's file system, since it was attached.
#[derive(Clone, Copy, Debug)]
pub struct BlockDeviceCounters {
    pub read_bytes: u64,
    pub flushes: u64,
}

impl LoopDisk {
    /// Creates the folder and mounts the file system there; the image file lies beside the folder.
    pub fn mount(folder: &Path) -> LoopDisk {
        fs::create_dir_all(folder).expect("a folder to mount at");
        let image = folder.with_extension("img");
        let file = fs::File::create(&image).expect("an image");
        file.set_len(32 << 20).expect("an image");
        run("mkfs.ext4", &["-q"], &image);
        let image = image.to_str().expect("a path that is text");
        // noatime: reads must not cause writes.
        run("mount", &["-o", "loop,noatime", image], folder);
        LoopDisk {
            folder: folder.to_path_buf(),
        }
    }

    pub fn counters(&self) -> BlockDeviceCounters {
        let device = fs::metadata(&self.folder).expect("a mounted folder").dev();
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).expect("a device");
        let figures: Vec<u64> = text
            .split_whitespace()
            .map(|figure| figure.parse().expect("a number"))
            .collect();
        BlockDeviceCounters {
            // The kernel counts sectors of 512 bytes, whatever the device's block size is.
            read_bytes: figures[2] * 512,
            flushes: figures[15],
        }
    }

    pub fn freeze(&self) {
        run("fsfreeze", &["--freeze"], &self.folder);
    }

    pub fn thaw(&self) {
        run("fsfreeze", &["--unfreeze"], &self.folder);
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Fails if the file system is not frozen.
        let _ = Command::new("fsfreeze")
            .arg("--unfreeze")
            .arg(&self.folder)
            .output();
        run("umount", &["--lazy"], &self.folder);
    }
}

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status();
    assert!(
        status
            .unwrap_or_else(|error| panic!("{program}: {error}"))
            .success(),
        "{program} {args:?} failed: it needs root"
    );
}
