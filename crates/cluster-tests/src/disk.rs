//! Small file systems of their own: one to be filled, one to be frozen.

use std::fs;
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
        fs::write(self.ballast(), ballast).expect("ballast");
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

/// A disk that can be frozen: whoever writes to it then waits in the kernel, where no signal ends him. Thawed and
/// unmounted when dropped. It takes root, and a loop device.
pub struct FreezableDisk {
    folder: PathBuf,
}

impl FreezableDisk {
    /// Mounts it at the folder, which is made; its image lies beside that.
    pub fn mount(folder: &Path) -> FreezableDisk {
        fs::create_dir_all(folder).expect("a folder to mount at");
        let image = folder.with_extension("img");
        let file = fs::File::create(&image).expect("an image");
        file.set_len(32 << 20).expect("an image");
        run("mkfs.ext4", &["-q"], &image);
        let image = image.to_str().expect("a path that is text");
        // Not even reading may write to it.
        run("mount", &["-o", "loop,noatime", image], folder);
        FreezableDisk {
            folder: folder.to_path_buf(),
        }
    }

    pub fn freeze(&self) {
        run("fsfreeze", &["--freeze"], &self.folder);
    }

    pub fn thaw(&self) {
        run("fsfreeze", &["--unfreeze"], &self.folder);
    }
}

impl Drop for FreezableDisk {
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
