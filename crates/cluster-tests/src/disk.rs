//! Small file systems of their own: one to be filled, one to be frozen or watched.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unmounted when dropped. It takes root to mount one.
pub struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts so many bytes of room at the folder, which is made.
    pub fn mount(folder: &Path, size: &str) -> Disk {
        fs::create_dir_all(folder).expect("a folder to mount at");
        let options = format!("size={size},mode=0755");
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"], folder);
        Disk {
            folder: folder.to_path_buf(),
        }
    }

    /// Fills all but so many bytes.
    pub fn fill(&self, left: u64) {
        let free = nix::sys::statvfs::statvfs(&self.folder).expect("statvfs");
        let free = free.blocks_available() as u64 * free.fragment_size() as u64;
        let ballast = vec![0; usize::try_from(free.saturating_sub(left)).expect("a small disk")];
        match fs::write(self.ballast(), ballast) {
            // Somebody else has taken some of it meanwhile, and the rest is ballast.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            written => written.expect("ballast"),
        }
    }

    pub fn free(&self) {
        fs::remove_file(self.ballast()).expect("ballast");
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], &self.folder);
    }
}

/// A file system on a loop device that nothing else uses, so that the device's counters are its own. While it is frozen,
/// writers block in the kernel and cannot be killed. Thawed and unmounted when dropped. It takes root.
pub struct LoopDisk {
    folder: PathBuf,
}

/// Of a device, since it is there.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub read_bytes: u64,
    pub flushes: u64,
}

impl LoopDisk {
    /// Mounts it at the folder, which is made; its image lies beside that.
    pub fn mount(folder: &Path) -> LoopDisk {
        fs::create_dir_all(folder).expect("a folder to mount at");
        let image = folder.with_extension("img");
        let file = fs::File::create(&image).expect("an image");
        file.set_len(32 << 20).expect("an image");
        run("mkfs.ext4", &["-q"], &image);
        let image = image.to_str().expect("a path that is text");
        // Not even reading may write to it.
        run("mount", &["-o", "loop,noatime", image], folder);
        LoopDisk {
            folder: folder.to_path_buf(),
        }
    }

    pub fn traffic(&self) -> Traffic {
        let device = fs::metadata(&self.folder).expect("a mounted folder").dev();
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).expect("a device");
        let figures: Vec<u64> = text
            .split_whitespace()
            .map(|figure| figure.parse().expect("a number"))
            .collect();
        Traffic {
            // In sectors, which are always counted as so long.
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
        // It fails where it is not frozen.
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
