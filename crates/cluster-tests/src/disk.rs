//! A small file system of its own, to be filled.

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

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status();
    assert!(
        status.expect("mount and umount").success(),
        "{program} {args:?} failed: it needs root"
    );
}
