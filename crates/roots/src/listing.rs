//! The listing of a root: one line for each file, folder and link, in an order that does not depend on the machine.
//!
//! ```text
//! d  0755  -   -                 usr/bin
//! f  0755  17  64 hex digits     usr/bin/true
//! l  -     -   usr/lib           lib
//! ```
//!
//! The columns (kind, mode, size, SHA-256 or link target, path) are separated by tabs. Paths and targets are escaped to
//! printable ASCII. Names in a folder are sorted by their escaped form, and a folder comes before what is in it. Times and
//! owners are not listed.

use std::cmp::Ordering;
use std::ffi::{CStr, CString};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use model::{BlobHash, BlobHasher};
use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};

use crate::InterruptFlag;

/// A file, folder or link in the listing of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListingEntry {
    /// From the root, without a slash at the beginning, escaped.
    pub(crate) path: String,
    pub(crate) content: ListedContent,
}

/// What the listing of a root says about one of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListedContent {
    Folder {
        mode: u32,
    },
    File {
        mode: u32,
        size: u64,
        sha256: BlobHash,
    },
    /// With its target, escaped.
    Link {
        target: String,
    },
    /// A device node, FIFO or socket. No root that Conclave makes has one.
    Special,
}

/// The hash, the number of entries, and the size of all files together of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListingSummary {
    pub(crate) sha256: BlobHash,
    pub(crate) entries: u64,
    pub(crate) size: u64,
}

/// Writes the listing of a root file system.
pub(crate) fn write_listing(
    tree: &Path,
    listing: &mut impl Write,
    interrupt: &InterruptFlag,
) -> io::Result<ListingSummary> {
    let mut hasher = BlobHasher::default();
    let (mut entries, mut size) = (0, 0);
    walk(tree, interrupt, &mut |entry| {
        let line = format!("{entry}\n");
        hasher.update(&line);
        entries += 1;
        if let ListedContent::File { size: more, .. } = &entry.content {
            size += more;
        }
        listing.write_all(line.as_bytes())
    })?;
    Ok(ListingSummary {
        sha256: hasher.finish(),
        entries,
        size,
    })
}

/// Calls `visit` for everything in a folder, in the order of a listing. No link is followed.
pub(crate) fn walk(
    tree: &Path,
    interrupt: &InterruptFlag,
    visit: &mut dyn FnMut(ListingEntry) -> io::Result<()>,
) -> io::Result<()> {
    let folder = File::open(tree)?;
    walk_folder(folder.into(), "", interrupt, visit)
}

fn walk_folder(
    folder: OwnedFd,
    prefix: &str,
    interrupt: &InterruptFlag,
    visit: &mut dyn FnMut(ListingEntry) -> io::Result<()>,
) -> io::Result<()> {
    for name in sorted_names(&folder)? {
        interrupt.check()?;
        let escaped = escape(name.as_bytes());
        let path = match prefix {
            "" => escaped,
            _ => format!("{prefix}/{escaped}"),
        };
        let at_path = |error: nix::Error| io::Error::other(format!("{path}: {}", error.desc()));
        let metadata = fstatat(&folder, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).map_err(at_path)?;
        let content = content_of(&folder, &name, &metadata, interrupt)
            .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
        let is_folder = matches!(content, ListedContent::Folder { .. });
        visit(ListingEntry {
            path: path.clone(),
            content,
        })?;
        if is_folder {
            let inner = openat(&folder, name.as_c_str(), FOLDER_FLAGS, Mode::empty()).map_err(at_path)?;
            walk_folder(inner, &path, interrupt, visit)?;
        }
    }
    Ok(())
}

const FOLDER_FLAGS: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);
const FILE_FLAGS: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_CLOEXEC);

/// Sorted by the escaped form, which is not kept: a folder may have millions of names.
fn sorted_names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut dir = Dir::from_fd(folder.try_clone()?)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let name = entry?.file_name().to_owned();
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    names.sort_unstable_by(|a, b| a.as_bytes().escape_ascii().cmp(b.as_bytes().escape_ascii()));
    Ok(names)
}

fn content_of(
    folder: &OwnedFd,
    name: &CStr,
    metadata: &FileStat,
    interrupt: &InterruptFlag,
) -> io::Result<ListedContent> {
    let mode = metadata.st_mode & 0o7777;
    Ok(
        match SFlag::from_bits_truncate(metadata.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFDIR => ListedContent::Folder { mode },
            SFlag::S_IFLNK => ListedContent::Link {
                target: escape(readlinkat(folder.as_fd(), name)?.as_bytes()),
            },
            SFlag::S_IFREG => {
                let file = File::from(openat(folder, name, FILE_FLAGS, Mode::empty())?);
                let mut size = 0;
                let file = StopAtInterrupt { file, interrupt };
                let sha256 = BlobHash::of_reader(file, |length| size += length as u64)?;
                ListedContent::File { mode, size, sha256 }
            }
            _ => ListedContent::Special,
        },
    )
}

/// A file of a root that is read until an [`InterruptFlag`] is set.
struct StopAtInterrupt<'a> {
    file: File,
    interrupt: &'a InterruptFlag,
}

impl io::Read for StopAtInterrupt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupt.check()?;
        self.file.read(buffer)
    }
}

/// Printable ASCII, one form for each sequence of bytes.
pub(crate) fn escape(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

impl ListingEntry {
    pub(crate) fn parse(line: &str) -> Option<ListingEntry> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [kind, mode, size, value, path] = columns[..] else {
            return None;
        };
        let mode = || u32::from_str_radix(mode, 8).ok();
        let content = match kind {
            "d" => ListedContent::Folder { mode: mode()? },
            "f" => ListedContent::File {
                mode: mode()?,
                size: size.parse().ok()?,
                sha256: value.parse().ok()?,
            },
            "l" => ListedContent::Link {
                target: value.to_string(),
            },
            "s" => ListedContent::Special,
            _ => return None,
        };
        Some(ListingEntry {
            path: path.to_string(),
            content,
        })
    }

    /// Which of the two comes first in a listing.
    pub(crate) fn order(&self, other: &ListingEntry) -> Ordering {
        self.path.split('/').cmp(other.path.split('/'))
    }
}

impl fmt::Display for ListingEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListingEntry { path, content } = self;
        match content {
            ListedContent::Folder { mode } => write!(f, "d\t{mode:04o}\t-\t-\t{path}"),
            ListedContent::File { mode, size, sha256 } => {
                write!(f, "f\t{mode:04o}\t{size}\t{sha256}\t{path}")
            }
            ListedContent::Link { target } => write!(f, "l\t-\t-\t{target}\t{path}"),
            ListedContent::Special => write!(f, "s\t-\t-\t-\t{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A root with names that sort differently as bytes and as paths, and one that is not UTF-8.
    fn make_tree(tree: &Path) {
        for folder in ["a", "a.b", "a/c"] {
            fs::create_dir(tree.join(folder)).unwrap();
            fs::set_permissions(tree.join(folder), Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(tree.join("a/c/file"), "abc").unwrap();
        fs::set_permissions(tree.join("a/c/file"), Permissions::from_mode(0o640)).unwrap();
        symlink("/etc/tab\there", tree.join("a.b/link")).unwrap();
        fs::write(tree.join(OsStr::from_bytes(b"\xff\n")), "").unwrap();
        let odd = tree.join(OsStr::from_bytes(b"\xff\n"));
        fs::set_permissions(odd, Permissions::from_mode(0o644)).unwrap();
    }

    #[test]
    fn a_listing_is_canonical() {
        let folder = tempfile::tempdir().unwrap();
        make_tree(folder.path());
        let mut text = Vec::new();
        let summary = write_listing(folder.path(), &mut text, &InterruptFlag::default()).unwrap();
        let text = String::from_utf8(text).unwrap();
        let expected = "f\t0644\t0\te3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\t\\xff\\n\n\
             d\t0755\t-\t-\ta\n\
             d\t0755\t-\t-\ta/c\n\
             f\t0640\t3\tba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\ta/c/file\n\
             d\t0755\t-\t-\ta.b\n\
             l\t-\t-\t/etc/tab\\there\ta.b/link\n";
        assert_eq!(text, expected);
        assert_eq!(summary.sha256, BlobHash::of(&text));
        assert_eq!((summary.entries, summary.size), (6, 3));
    }

    #[test]
    fn lines_are_parsed_as_they_are_written_and_are_in_order() {
        let folder = tempfile::tempdir().unwrap();
        make_tree(folder.path());
        let mut entries = Vec::new();
        walk(folder.path(), &InterruptFlag::default(), &mut |entry| {
            entries.push(entry);
            Ok(())
        })
        .unwrap();
        for entry in &entries {
            assert_eq!(ListingEntry::parse(&entry.to_string()).as_ref(), Some(entry));
        }
        assert!(entries.is_sorted_by(|a, b| a.order(b) == Ordering::Less));
        for wrong in ["", "f\t0644\t3\tx\ta", "q\t-\t-\t-\ta", "d\t0755\t-\t-"] {
            assert_eq!(ListingEntry::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn times_do_not_count_and_contents_do() {
        let folder = tempfile::tempdir().unwrap();
        make_tree(folder.path());
        let hash = || {
            write_listing(folder.path(), &mut io::sink(), &InterruptFlag::default())
                .unwrap()
                .sha256
        };
        let before = hash();
        let file = File::options()
            .write(true)
            .open(folder.path().join("a/c/file"))
            .unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(hash(), before);
        fs::write(folder.path().join("a/c/file"), "abd").unwrap();
        assert_ne!(hash(), before);
    }

    #[test]
    fn an_interrupt_stops_the_listing() {
        let folder = tempfile::tempdir().unwrap();
        make_tree(folder.path());
        let interrupt = InterruptFlag::default();
        interrupt.interrupt();
        assert!(write_listing(folder.path(), &mut io::sink(), &interrupt).is_err());
    }
}
