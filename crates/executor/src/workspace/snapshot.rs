//! A snapshot of a workspace: what a compile step left there, to be written into the workspaces of other cells.
//!
//! All processes of the step have exited, but what they left is untrusted. So every path is opened beneath the workspace
//! without following links, only regular files are read, and number and size are bounded. Pipes, sockets and devices are
//! left out: nothing that runs later can expect something at their other end.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::SFlag;
use sandbox::{OpenPurpose, WardenError};
use thiserror::Error;

use super::{EntryContent, WorkspaceEntry, WorkspaceEntryKind};
use crate::attempt_control::AttemptRevoked;
use crate::collect::{WorkspaceFolder, is_workspace_gone};

/// How many files, folders and links a snapshot may have, and how long all of their paths may be together.
const MAX_ENTRIES: usize = 100_000;
const MAX_PATH_BYTES: u64 = 16 << 20;
/// How long each path may be. A command can make longer ones part by part, but the executor writes each file by its whole path,
/// with that of the workspace before it, and the kernel takes no more than 4096 bytes. The files of a task have the same limit.
const MAX_PATH: usize = 1024;
/// About how much memory an entry takes besides its path and content.
const ENTRY_BYTES: u64 = size_of::<SnapshotEntry>() as u64 + 64;
/// Up to this size, a file is kept in memory, as long as all of those together are below the second bound.
const MAX_SMALL_FILE: u64 = 256 << 10;
const MAX_IN_MEMORY: u64 = 4 << 20;
/// How much of a file is read at once.
const READ_AT_ONCE: usize = 256 << 10;
/// Set-user-id bits and the like have no meaning in another cell.
const PERMISSIONS: u32 = 0o777;

/// The files, folders and links of a workspace, as a command left them.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Folders come before what is in them.
    entries: Vec<SnapshotEntry>,
    /// The contents that are not in memory, in a file without a name.
    file: Option<File>,
    content_bytes: u64,
    /// Of the paths and of the targets of links.
    path_bytes: u64,
}

/// A file, folder or link of a [`Snapshot`].
#[derive(Debug)]
struct SnapshotEntry {
    path: PathBuf,
    kind: SnapshotEntryKind,
}

/// What kind of entry a [`SnapshotEntry`] is, and what it contains.
#[derive(Debug)]
enum SnapshotEntryKind {
    Folder { mode: u32 },
    InMemory { mode: u32, content: Vec<u8> },
    InFile { mode: u32, offset: u64, bytes: u64 },
    Link { target: PathBuf },
}

/// What taking a [`Snapshot`] needs besides the workspace.
pub(crate) struct SnapshotSetup<'a> {
    /// The folder for a file with the contents.
    pub(crate) store: &'a Path,
    /// How many bytes the files may have together.
    pub(crate) space: u64,
    /// Called for each entry and for each part of a file. An error means that the attempt was revoked.
    pub(crate) progress: &'a dyn Fn() -> Result<(), AttemptRevoked>,
}

/// Why the executor could not take a snapshot of a workspace.
#[derive(Debug, Error)]
pub(crate) enum SnapshotError {
    #[error(transparent)]
    Revoked(#[from] AttemptRevoked),
    #[error(transparent)]
    Warden(#[from] WardenError),
    #[error("could not {step} while copying what the compile step left: {source}")]
    Failed { step: &'static str, source: io::Error },
    /// Caused by the task, like the variant below.
    #[error(
        "the files that the compile step left have more than {bytes} bytes together: raise `space` in its limits, or \
         remove what the program does not need"
    )]
    TooLarge { bytes: u64 },
    #[error(
        "the compile step left more than {MAX_ENTRIES} files and folders, or paths that are too long together: remove what \
         the program does not need"
    )]
    TooManyFiles,
    #[error(
        "the compile step left a file whose path is longer than {MAX_PATH} bytes: use shorter names, or fewer folders within \
         each other"
    )]
    PathTooLong,
    /// Only without cells: in a cell the working directory is a mount.
    #[error("the compile step removed its working directory, with all that the program needs")]
    NoWorkspace,
}

/// The walk through a workspace that takes a [`Snapshot`].
struct SnapshotWalk<'a, 'w> {
    folder: WorkspaceFolder<'w>,
    setup: &'a SnapshotSetup<'a>,
    snapshot: Snapshot,
    bytes_in_memory: u64,
    /// The folders that are still to be read.
    folders: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Snapshot {
    pub(crate) fn take(
        folder: io::Result<WorkspaceFolder<'_>>,
        setup: &SnapshotSetup<'_>,
    ) -> Result<Snapshot, SnapshotError> {
        let mut walk = SnapshotWalk {
            folder: folder.map_err(|error| match is_workspace_gone(&error) {
                true => SnapshotError::NoWorkspace,
                false => failed("open the workspace")(error),
            })?,
            setup,
            snapshot: Snapshot::default(),
            bytes_in_memory: 0,
            folders: vec![Vec::new()],
            buffer: Vec::new(),
        };
        while let Some(path) = walk.folders.pop() {
            walk.read_folder(&path)?;
        }
        let mut snapshot = walk.snapshot;
        snapshot.entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(snapshot)
    }

    /// How much memory and disk the snapshot takes, about: its contents, paths and entries.
    pub(crate) fn bytes(&self) -> u64 {
        self.content_bytes + self.path_bytes + self.entries.len() as u64 * ENTRY_BYTES
    }

    /// The entries for another workspace. Links come last.
    pub(crate) fn entries(&self) -> Vec<WorkspaceEntry<'_>> {
        let is_link = |entry: &&SnapshotEntry| matches!(entry.kind, SnapshotEntryKind::Link { .. });
        let others = self.entries.iter().filter(|entry| !is_link(entry));
        let links = self.entries.iter().filter(is_link);
        let entries = others.chain(links).filter_map(|entry| {
            Some(WorkspaceEntry {
                path: Cow::Borrowed(entry.path.as_path()),
                kind: self.kind(&entry.kind)?,
            })
        });
        entries.collect()
    }

    /// `None` never occurs: a content that is in the file has one.
    fn kind<'a>(&'a self, kind: &'a SnapshotEntryKind) -> Option<WorkspaceEntryKind<'a>> {
        Some(match kind {
            SnapshotEntryKind::Folder { mode } => WorkspaceEntryKind::Folder { mode: *mode },
            SnapshotEntryKind::InMemory { mode, content } => WorkspaceEntryKind::File {
                mode: *mode,
                content: EntryContent::Bytes(content),
            },
            SnapshotEntryKind::InFile { mode, offset, bytes } => WorkspaceEntryKind::File {
                mode: *mode,
                content: EntryContent::Part {
                    file: self.file.as_ref()?,
                    offset: *offset,
                    bytes: *bytes,
                },
            },
            SnapshotEntryKind::Link { target } => WorkspaceEntryKind::Link { target },
        })
    }
}

impl SnapshotWalk<'_, '_> {
    fn read_folder(&mut self, path: &[u8]) -> Result<(), SnapshotError> {
        let Ok(folder) = self.folder.open(path, OpenPurpose::Entries)? else {
            // Without a cell, a task can leave what its executor may not read.
            tracing::debug!(path = %path.escape_ascii(), "left a folder out of a snapshot");
            return Ok(());
        };
        let mut folder =
            Dir::from_fd(folder.into()).map_err(|errno| failed("list a folder")(errno.into()))?;
        for entry in folder.iter() {
            let entry = entry.map_err(|errno| failed("list a folder")(errno.into()))?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            (self.setup.progress)()?;
            let mut whole = path.to_vec();
            if !whole.is_empty() {
                whole.push(b'/');
            }
            whole.extend_from_slice(name);
            if whole.len() > MAX_PATH {
                return Err(SnapshotError::PathTooLong);
            }
            self.snapshot.path_bytes += whole.len() as u64;
            if self.snapshot.entries.len() == MAX_ENTRIES || self.snapshot.path_bytes > MAX_PATH_BYTES {
                return Err(SnapshotError::TooManyFiles);
            }
            self.add(whole)?;
        }
        Ok(())
    }

    /// Adds the entry with this path, if it is a file, a folder or a link.
    fn add(&mut self, path: Vec<u8>) -> Result<(), SnapshotError> {
        let opened = match self.folder.open(&path, OpenPurpose::Status)? {
            Ok(opened) => opened,
            Err(errno) => {
                tracing::debug!(path = %path.escape_ascii(), %errno, "left a file out of a snapshot");
                return Ok(());
            }
        };
        let status = opened.metadata().map_err(failed("read the status of a file"))?;
        let mode = status.mode() & PERMISSIONS;
        let kind = SFlag::from_bits_truncate(status.mode()) & SFlag::S_IFMT;
        let kind = if kind == SFlag::S_IFDIR {
            self.folders.push(path.clone());
            Some(SnapshotEntryKind::Folder { mode })
        } else if kind == SFlag::S_IFREG {
            self.read_file(&path, mode)?
        } else if kind == SFlag::S_IFLNK {
            let target = read_link(&opened).map_err(|errno| failed("read a link")(errno.into()))?;
            self.snapshot.path_bytes += target.len() as u64;
            Some(SnapshotEntryKind::Link {
                target: target.into(),
            })
        } else {
            None
        };
        let path = PathBuf::from(OsStr::from_bytes(&path));
        let entry = kind.map(|kind| SnapshotEntry { path, kind });
        self.snapshot.entries.extend(entry);
        Ok(())
    }

    fn read_file(&mut self, path: &[u8], mode: u32) -> Result<Option<SnapshotEntryKind>, SnapshotError> {
        let Ok(file) = self.folder.open(path, OpenPurpose::Content)? else {
            tracing::debug!(path = %path.escape_ascii(), "left a file out of a snapshot");
            return Ok(None);
        };
        // The size counts, although a file may have holes: they are filled in a copy.
        let bytes = file
            .metadata()
            .map_err(failed("read the status of a file"))?
            .len();
        self.snapshot.content_bytes = self.snapshot.content_bytes.saturating_add(bytes);
        if self.snapshot.content_bytes > self.setup.space {
            let bytes = self.setup.space;
            return Err(SnapshotError::TooLarge { bytes });
        }
        if bytes <= MAX_SMALL_FILE && self.bytes_in_memory + bytes <= MAX_IN_MEMORY {
            self.bytes_in_memory += bytes;
            let mut content = vec![0; bytes as usize];
            file.read_exact_at(&mut content, 0)
                .map_err(failed("read a file"))?;
            return Ok(Some(SnapshotEntryKind::InMemory { mode, content }));
        }
        let offset = self.append(&file, bytes)?;
        Ok(Some(SnapshotEntryKind::InFile { mode, offset, bytes }))
    }

    /// Copies a file to the end of the file with the contents, and returns where that was.
    fn append(&mut self, from: &File, bytes: u64) -> Result<u64, SnapshotError> {
        let to = match &mut self.snapshot.file {
            Some(file) => file,
            none => none.insert(create_unnamed(self.setup.store).map_err(failed("create a file"))?),
        };
        let offset = to.metadata().map_err(failed("read the status of a file"))?.len();
        self.buffer.resize(READ_AT_ONCE, 0);
        let mut copied = 0;
        while copied < bytes {
            (self.setup.progress)()?;
            let wanted = usize::try_from(bytes - copied).map_or(READ_AT_ONCE, |left| left.min(READ_AT_ONCE));
            let part = &mut self.buffer[..wanted];
            from.read_exact_at(part, copied).map_err(failed("read a file"))?;
            to.write_all_at(part, offset + copied)
                .map_err(failed("write a file"))?;
            copied += wanted as u64;
        }
        Ok(offset)
    }
}

/// The target of a link that was opened itself.
fn read_link(link: &File) -> nix::Result<OsString> {
    readlinkat(link.as_fd(), "")
}

/// Creates a file in the folder that disappears when it is closed.
fn create_unnamed(folder: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    let unnamed = options.clone().custom_flags(OFlag::O_TMPFILE.bits()).open(folder);
    match unnamed {
        // Not every file system has files without a name.
        Err(error)
            if matches!(
                Errno::from_raw(error.raw_os_error().unwrap_or(0)),
                Errno::EOPNOTSUPP | Errno::EISDIR
            ) =>
        {
            let path = folder.join(format!("snapshot-{}", uuid::Uuid::now_v7()));
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        unnamed => unnamed,
    }
}

fn failed(step: &'static str) -> impl FnOnce(io::Error) -> SnapshotError {
    move |source| SnapshotError::Failed { step, source }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nix::fcntl::openat;
    use nix::sys::stat::{Mode, mkdirat};
    use nix::unistd::mkfifo;

    use super::*;

    fn take(folder: &Path, space: u64) -> Result<Snapshot, SnapshotError> {
        take_opened(File::open(folder), space)
    }

    fn take_opened(folder: io::Result<File>, space: u64) -> Result<Snapshot, SnapshotError> {
        let store = tempfile::tempdir().unwrap();
        let setup = SnapshotSetup {
            store: store.path(),
            space,
            progress: &|| Ok(()),
        };
        Snapshot::take(folder.map(WorkspaceFolder::on_disk), &setup)
    }

    /// The entries of a snapshot: paths, with modes, sizes or targets.
    fn listed(snapshot: &Snapshot) -> Vec<String> {
        let entries = snapshot.entries().into_iter().map(|entry| {
            let path = entry.path.display().to_string();
            match entry.kind {
                WorkspaceEntryKind::Folder { mode } => format!("{path}/ {mode:o}"),
                WorkspaceEntryKind::Link { target } => format!("{path} -> {}", target.display()),
                WorkspaceEntryKind::File { mode, content } => match content {
                    EntryContent::Bytes(bytes) => format!("{path} {mode:o} {} in memory", bytes.len()),
                    EntryContent::Part { offset, bytes, .. } => {
                        format!("{path} {mode:o} {bytes} at {offset}")
                    }
                    EntryContent::OfTask(_) => unreachable!(),
                },
            }
        });
        entries.collect()
    }

    #[test]
    fn a_snapshot_has_files_folders_and_links_and_nothing_else() {
        let workspace = tempfile::tempdir().unwrap();
        let path = |name: &str| workspace.path().join(name);
        let set_mode =
            |name: &str, mode| fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        fs::create_dir_all(path("deep/er")).unwrap();
        fs::write(path("deep/er/small"), "small").unwrap();
        set_mode("deep/er/small", 0o4751);
        set_mode("deep/er", 0o500);
        fs::write(path("large"), vec![b'l'; 300 << 10]).unwrap();
        fs::write(path("larger"), vec![b'L'; 600 << 10]).unwrap();
        symlink("/etc", path("a-link")).unwrap();
        symlink("..", path("deep/out")).unwrap();
        mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        for name in ["large", "larger"] {
            set_mode(name, 0o644);
        }
        set_mode("deep", 0o755);
        let snapshot = take(workspace.path(), 1 << 20).unwrap();
        let large = snapshot.entries().iter().any(|entry| {
            matches!(
                entry.kind,
                WorkspaceEntryKind::File {
                    content: EntryContent::Part { offset: 0, .. },
                    ..
                }
            ) && entry.path.ends_with("large")
        });
        let (first, second) = match large {
            true => ("0", "307200"),
            false => ("614400", "0"),
        };
        let expected = [
            "deep/ 755".to_string(),
            "deep/er/ 500".into(),
            "deep/er/small 751 5 in memory".into(),
            format!("large 644 307200 at {first}"),
            format!("larger 644 614400 at {second}"),
            "a-link -> /etc".into(),
            "deep/out -> ..".into(),
        ];
        assert_eq!(listed(&snapshot), expected);
        assert_eq!(snapshot.content_bytes, 5 + 900 * 1024);
        set_mode("deep/er", 0o700);
    }

    /// Programs that judge are kept as long as they are small together.
    #[test]
    fn files_without_content_and_links_count_as_well() {
        let workspace = tempfile::tempdir().unwrap();
        for number in 0..100 {
            let path = workspace.path().join(format!("{number:0>200}"));
            match number % 2 {
                0 => drop(File::create(path).unwrap()),
                _ => symlink("x".repeat(1000), path).unwrap(),
            }
        }
        let snapshot = take(workspace.path(), 0).unwrap();
        let paths = 100 * 200 + 50 * 1000;
        assert!(snapshot.bytes() > paths + 100 * size_of::<SnapshotEntry>() as u64);
    }

    #[test]
    fn paths_that_no_other_workspace_can_have_are_refused() {
        let check = |folders: usize, last: usize, is_refused: bool| {
            let workspace = tempfile::tempdir().unwrap();
            let mut folder = OwnedFd::from(File::open(workspace.path()).unwrap());
            let names = std::iter::repeat_n(255, folders).chain([last]);
            // A path of more than 4096 bytes can be made part by part.
            for name in names.map(|length| "d".repeat(length)) {
                mkdirat(&folder, name.as_str(), Mode::S_IRWXU).unwrap();
                folder = openat(&folder, name.as_str(), OFlag::O_DIRECTORY, Mode::empty()).unwrap();
            }
            let taken = take(workspace.path(), 0);
            match is_refused {
                true => assert!(matches!(taken, Err(SnapshotError::PathTooLong)), "{taken:?}"),
                false => assert_eq!(taken.unwrap().entries().len(), folders + 1),
            }
        };
        check(3, 255, false);
        check(4, 1, true);
        check(15, 238, true);
        check(30, 255, true);
    }

    #[test]
    fn a_workspace_that_was_removed_is_the_fault_of_the_compile_step() {
        let workspace = tempfile::tempdir().unwrap();
        let gone = take_opened(File::open(workspace.path().join("gone")), 0);
        assert!(matches!(gone, Err(SnapshotError::NoWorkspace)), "{gone:?}");
        let failed = take_opened(Err(io::Error::from_raw_os_error(Errno::EMFILE as i32)), 0);
        assert!(matches!(failed, Err(SnapshotError::Failed { .. })), "{failed:?}");
    }

    #[test]
    fn what_is_too_large_to_be_copied_is_refused() {
        let workspace = tempfile::tempdir().unwrap();
        let path = |name: &str| workspace.path().join(name);
        fs::write(path("file"), vec![b'x'; 600]).unwrap();
        assert!(take(workspace.path(), 600).is_ok());
        // A second name of the same file is a second file in a copy.
        fs::hard_link(path("file"), path("again")).unwrap();
        let error = take(workspace.path(), 1000).unwrap_err();
        assert!(
            matches!(error, SnapshotError::TooLarge { bytes: 1000 }),
            "{error}"
        );
        fs::remove_file(path("again")).unwrap();
        File::create(path("sparse")).unwrap().set_len(1 << 40).unwrap();
        let error = take(workspace.path(), 1 << 30).unwrap_err();
        assert!(error.to_string().contains("raise `space`"), "{error}");
    }
}
