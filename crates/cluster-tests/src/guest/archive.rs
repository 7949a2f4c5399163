//! What a kernel unpacks into memory and starts from: an archive in cpio's "newc" format.

use std::collections::BTreeMap;

/// Type bits of a mode, as stat has them.
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// The last thing put at a path is the one that is there. All of it is root's.
#[derive(Default)]
pub(super) struct Archive {
    /// Sorted, so that a folder comes before what is in it.
    entries: BTreeMap<String, Entry>,
}

struct Entry {
    mode: u32,
    content: Vec<u8>,
    device: (u32, u32),
}

impl Archive {
    pub(super) fn folder(&mut self, path: &str, mode: u32) {
        self.put(path, FOLDER | mode, Vec::new(), (0, 0));
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        self.put(path, FILE | mode, content, (0, 0));
    }

    /// Of a file that is there.
    pub(super) fn set_mode(&mut self, path: &str, mode: u32) {
        let entry = self.entries.get_mut(&placed(path)).expect("a file");
        entry.mode = FILE | mode;
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.put(path, LINK | 0o777, target.into(), (0, 0));
    }

    pub(super) fn device(&mut self, path: &str, mode: u32, (major, minor): (u32, u32)) {
        self.put(path, CHARACTER_DEVICE | mode, Vec::new(), (major, minor));
    }

    fn put(&mut self, path: &str, mode: u32, content: Vec<u8>, device: (u32, u32)) {
        let path = placed(path);
        if let Some((parent, _)) = path.rsplit_once('/')
            && !self.entries.contains_key(parent)
        {
            self.folder(parent, 0o755);
        }
        let entry = Entry {
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
        let end = Entry {
            mode: 0,
            content: Vec::new(),
            device: (0, 0),
        };
        write(&mut bytes, "TRAILER!!!", &end);
        bytes
    }
}

/// Without the leading slash; and in /usr what Debian has there behind links.
fn placed(path: &str) -> String {
    let path = path.trim_start_matches('/');
    match path.split_once('/') {
        Some(("bin" | "sbin" | "lib" | "lib64", _)) => format!("usr/{path}"),
        _ => path.to_string(),
    }
}

fn write(bytes: &mut Vec<u8>, path: &str, entry: &Entry) {
    let size = u32::try_from(entry.content.len()).expect("a file below 4 GiB");
    let name = u32::try_from(path.len() + 1).expect("a path");
    let (major, minor) = entry.device;
    bytes.extend(b"070701");
    // Inode, mode, uid, gid, links, time, size, device of the file system, device of the node, name, checksum.
    for field in [0, entry.mode, 0, 0, 1, 0, size, 0, 0, major, minor, name, 0] {
        bytes.extend(format!("{field:08x}").into_bytes());
    }
    bytes.extend(path.as_bytes());
    bytes.push(0);
    pad(bytes);
    bytes.extend(&entry.content);
    pad(bytes);
}

/// Names and contents each end where the next multiple of four begins.
fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::Archive;

    #[test]
    fn is_read_by_cpio() {
        let mut archive = Archive::default();
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
            // It counts blocks there.
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
