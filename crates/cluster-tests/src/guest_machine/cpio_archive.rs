//! Writes an initramfs: a cpio archive in "newc" format.

use std::collections::BTreeMap;

/// File type bits of a mode, as in stat.
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// The initramfs of a test's virtual machine under construction, as a cpio archive. A later entry replaces an earlier
/// one at the same path; root owns all of them.
#[derive(Default)]
pub(super) struct CpioArchive {
    /// Sorted, so that a folder comes before its contents.
    entries: BTreeMap<String, CpioEntry>,
}

/// A file, folder, link or device of the initramfs of a test's virtual machine.
struct CpioEntry {
    mode: u32,
    content: Vec<u8>,
    device: (u32, u32),
}

impl CpioArchive {
    pub(super) fn folder(&mut self, path: &str, mode: u32) {
        self.insert(path, FOLDER | mode, Vec::new(), (0, 0));
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        self.insert(path, FILE | mode, content, (0, 0));
    }

    /// Changes the mode of an existing file.
    pub(super) fn set_mode(&mut self, path: &str, mode: u32) {
        let entry = self.entries.get_mut(&archive_path(path)).expect("a file");
        entry.mode = FILE | mode;
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.insert(path, LINK | 0o777, target.into(), (0, 0));
    }

    pub(super) fn device(&mut self, path: &str, mode: u32, (major, minor): (u32, u32)) {
        self.insert(path, CHARACTER_DEVICE | mode, Vec::new(), (major, minor));
    }

    fn insert(&mut self, path: &str, mode: u32, content: Vec<u8>, device: (u32, u32)) {
        let path = archive_path(path);
        if let Some((parent, _)) = path.rsplit_once('/')
            && !self.entries.contains_key(parent)
        {
            self.folder(parent, 0o755);
        }
        let entry = CpioEntry {
            mode,
            content,
            device,
        };
        self.entries.insert(path, entry);
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, entry) in &self.entries {
            write(&mut bytes, path, entry);
        }
        let end = CpioEntry {
            mode: 0,
            content: Vec::new(),
            device: (0, 0),
        };
        write(&mut bytes, "TRAILER!!!", &end);
        bytes
    }
}

/// The path without its leading slash, and below /usr for the folders that Debian links there.
fn archive_path(path: &str) -> String {
    let path = path.trim_start_matches('/');
    match path.split_once('/') {
        Some(("bin" | "sbin" | "lib" | "lib64", _)) => format!("usr/{path}"),
        _ => path.to_string(),
    }
}

fn write(bytes: &mut Vec<u8>, path: &str, entry: &CpioEntry) {
    let size = u32::try_from(entry.content.len()).expect("a file below 4 GiB");
    let name = u32::try_from(path.len() + 1).expect("a path");
    let (major, minor) = entry.device;
    bytes.extend(b"070701");
    // Inode, mode, uid, gid, link count, mtime, size, device of the file system (2), device of the node (2), name length, checksum.
    for field in [0, entry.mode, 0, 0, 1, 0, size, 0, 0, major, minor, name, 0] {
        bytes.extend(format!("{field:08x}").into_bytes());
    }
    bytes.extend(path.as_bytes());
    bytes.push(0);
    pad(bytes);
    bytes.extend(&entry.content);
    pad(bytes);
}

/// Pads to a multiple of four bytes, as after each name and content.
fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::CpioArchive;

    #[test]
    fn busybox_cpio_extracts_the_archive() {
        let mut archive = CpioArchive::default();
        archive.file("/lib/deep/b", 0o640, b"five!".into());
        archive.link("/lib", "usr/lib");
        archive.file("/a", 0o755, b"earlier".into());
        archive.file("/a", 0o755, Vec::new());
        archive.device("/dev/console", 0o600, (5, 1));
        archive.folder("/tmp", 0o1777);
        let folder = tempfile::TempDir::new().unwrap();
        let mut cpio = Command::new("busybox")
            .args(["cpio", "-i", "-d", "-H", "newc"])
            .current_dir(&folder)
            .stdin(Stdio::piped())
            // cpio prints the number of blocks there.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        cpio.stdin.take().unwrap().write_all(&archive.bytes()).unwrap();
        assert!(cpio.wait().unwrap().success());

        assert_eq!(std::fs::read(folder.path().join("lib/deep/b")).unwrap(), b"five!");
        assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"");
        let found = Command::new("find")
            .args([".", "-mindepth", "1", "-printf", "%M %P %l\n"])
            .current_dir(&folder)
            .output()
            .unwrap();
        let mut found: Vec<_> = str::from_utf8(&found.stdout).unwrap().lines().collect();
        found.sort_unstable();
        let expected = [
            "-rw-r----- usr/lib/deep/b ",
            "-rwxr-xr-x a ",
            "crw------- dev/console ",
            "drwxr-xr-x dev ",
            "drwxr-xr-x usr ",
            "drwxr-xr-x usr/lib ",
            "drwxr-xr-x usr/lib/deep ",
            "drwxrwxrwt tmp ",
            "lrwxrwxrwx lib usr/lib",
        ];
        assert_eq!(found, expected);
    }
}
