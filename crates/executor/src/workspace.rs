//! The workspace of a warden: the files of a task are written into it before the task and removed after it.
//!
//! ```text
//! work/NUMBER/attempt the attempt that started here last
//! box/                the working directory of the commands: source files, and the data files in data/
//! tmp/                TMPDIR
//! input               standard input, if it is a blob
//! ```
//!
//! Without cells, `box`, `tmp` and `input` are beside `attempt`. With cells they are in a file system that the warden mounts
//! for each task, and the executor reaches it through a file descriptor.

mod contents;
mod in_cell;
mod on_disk;
mod remove;
mod reusable_folder;
mod snapshot;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{AttemptId, AttemptNumber, SessionId, TaskForm};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use sandbox::{CommandIsolation, Warden, WardenError};
use thiserror::Error;
use uuid::Uuid;

pub(crate) use self::contents::{EntryContent, WorkspaceContents, WorkspaceEntry, WorkspaceEntryKind};
use self::in_cell::CellWorkspace;
use self::on_disk::DiskWorkspace;
pub(crate) use self::remove::clear;
pub(crate) use self::snapshot::{Snapshot, SnapshotError, SnapshotSetup};
use crate::attempt_control::AttemptRevoked;
use crate::cache::BlobCache;
use crate::collect::WorkspaceFolder;

/// Why the executor could not write the files of a task into a workspace.
#[derive(Debug, Error)]
pub(crate) enum WorkspaceError {
    #[error("could not {step} {path}: {source}")]
    Failed {
        step: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Without the path of the file, which names the hash of its content.
    #[error("could not read the size of a file of the task in the executor's cache: {source}")]
    CachedSize { source: io::Error },
    #[error(transparent)]
    Warden(#[from] WardenError),
    #[error(transparent)]
    Revoked(#[from] AttemptRevoked),
    /// Caused by the task, like the variants below: no workspace can have a file with this path, whichever executor writes it.
    #[error("no workspace can have the file {path}; rename it, or the file that is in its place: {source}")]
    InvalidPath { path: PathBuf, source: io::Error },
    /// The file system is only for this task, and has the size that it asked for.
    #[error("the task's files do not fit into its space of {bytes} bytes: raise `space` in its limits")]
    NoSpace { bytes: u64 },
    #[error(
        "the task has more files and folders than the {files} that this executor allows: use fewer, or ask the operator to \
         raise sandbox.files"
    )]
    TooManyFiles { files: u64 },
}

/// Where the executor gets the contents of a task's files from while it writes them into a workspace.
pub(crate) struct TaskFileSource<'a> {
    pub(crate) cache: &'a BlobCache,
    /// Called for each file and for each part of a large file. An error means that the attempt was revoked.
    pub(crate) progress: &'a dyn Fn() -> Result<(), AttemptRevoked>,
}

/// The folder of one warden into which the executor writes a task's files, on disk or in the task's cell.
pub(crate) enum Workspace {
    OnDisk(DiskWorkspace),
    InCell(CellWorkspace),
}

impl Workspace {
    pub(crate) fn new(work: &Path, number: usize, isolation: &CommandIsolation) -> Workspace {
        let root = work.join(number.to_string());
        match isolation {
            CommandIsolation::None => Workspace::OnDisk(DiskWorkspace::new(root)),
            CommandIsolation::Cell(_) => Workspace::InCell(CellWorkspace::new(root, isolation.file_owner())),
        }
    }

    /// Records the attempt that starts here, so that the next process knows what was running if this one is killed.
    pub(crate) fn record_attempt(
        &mut self,
        attempt_id: &AttemptId,
        form: TaskForm,
        progress: &dyn Fn(),
    ) -> Result<(), WorkspaceError> {
        match self {
            Workspace::OnDisk(workspace) => workspace.record_attempt(attempt_id, form, progress),
            Workspace::InCell(workspace) => workspace.record_attempt(attempt_id, form),
        }
    }

    /// Writes files before the first command runs.
    pub(crate) fn lay_out(
        &mut self,
        warden: &mut Warden,
        contents: &WorkspaceContents<'_>,
        source: &TaskFileSource<'_>,
    ) -> Result<(), WorkspaceError> {
        match self {
            Workspace::OnDisk(workspace) => workspace.lay_out(contents, source),
            Workspace::InCell(workspace) => workspace.lay_out(warden, contents, source),
        }
    }

    /// Removes all files of the last task. The file system of a cell is removed by its warden.
    pub(crate) fn clear(&mut self, progress: &dyn Fn()) {
        if let Workspace::OnDisk(workspace) = self {
            workspace.clear(progress);
        }
    }

    pub(crate) fn root(&self) -> &Path {
        match self {
            Workspace::OnDisk(workspace) => workspace.root(),
            Workspace::InCell(workspace) => workspace.root(),
        }
    }

    /// The working directory of the commands, as they see it.
    pub(crate) fn directory(&self) -> PathBuf {
        match self {
            Workspace::OnDisk(workspace) => workspace.directory(),
            Workspace::InCell(_) => sandbox::WORKSPACE.into(),
        }
    }

    /// Opens the working directory of the commands, to read what they left there.
    pub(crate) fn open_directory<'a>(&self, warden: &'a mut Warden) -> io::Result<WorkspaceFolder<'a>> {
        match self {
            Workspace::OnDisk(workspace) => {
                open_workspace(&workspace.directory()).map(WorkspaceFolder::on_disk)
            }
            Workspace::InCell(_) => {
                let folder = open_workspace(&in_cell::directory(warden)?)?;
                Ok(WorkspaceFolder::in_cell(folder, warden))
            }
        }
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        match self {
            Workspace::OnDisk(workspace) => workspace.temporary(),
            Workspace::InCell(_) => "/tmp".into(),
        }
    }

    /// The file with the standard input, as the warden sees it.
    pub(crate) fn input(&self) -> PathBuf {
        match self {
            Workspace::OnDisk(workspace) => workspace.input(),
            Workspace::InCell(_) => Path::new(sandbox::WORKSPACE).join(INPUT),
        }
    }
}

fn open_workspace(directory: &Path) -> io::Result<File> {
    // With `O_PATH`, a folder without permissions can be opened, and the error is that of its first entry.
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(directory)
}

const BOX: &str = "box";
const TEMPORARY: &str = "tmp";
const INPUT: &str = "input";
const ATTEMPT: &str = "attempt";

fn write_attempt(file: &File, attempt_id: &AttemptId, form: TaskForm) -> io::Result<()> {
    let AttemptId {
        task,
        session,
        attempt,
    } = attempt_id;
    // All lines have the same length, so the file needs no truncation.
    let line = format!("{task} {session} {attempt:>10} {form:>10}\n");
    file.write_all_at(line.as_bytes(), 0)
}

/// The attempt that started last in each workspace. It may have ended.
pub(crate) fn last_attempts(work: &Path) -> io::Result<Vec<(AttemptId, TaskForm)>> {
    let mut attempts = Vec::new();
    for entry in fs::read_dir(work)? {
        let path = entry?.path().join(ATTEMPT);
        match read_line(&path) {
            Ok(line) => attempts.extend(read_attempt(&line)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            // A task without a cell can replace this file; that must not keep the executor from starting.
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "could not read the last attempt of a workspace")
            }
        }
    }
    Ok(attempts)
}

/// Does not follow a symbolic link, does not block on a pipe, and reads at most the length of such a line.
fn read_line(path: &Path) -> io::Result<String> {
    const MAX_LENGTH: u64 = 128;
    let mut line = Vec::new();
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?
        .take(MAX_LENGTH)
        .read_to_end(&mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Also reads the form of the attempt's task. Earlier versions did not write it.
fn read_attempt(line: &str) -> Option<(AttemptId, TaskForm)> {
    let mut words = line.split_whitespace();
    let task = words.next()?.parse().ok()?;
    let session = SessionId(Uuid::try_parse(words.next()?).ok()?);
    let attempt = AttemptNumber(words.next()?.parse().ok()?);
    let form = words.next().and_then(|form| form.parse().ok());
    let attempt_id = AttemptId {
        task,
        session,
        attempt,
    };
    Some((attempt_id, form.map_or(TaskForm::UNRECORDED, TaskForm)))
}

/// The step in which a file, folder or link of a task is created.
const CREATE: &str = "create";

impl WorkspaceError {
    /// Blames the task if the file could not be created because of its path alone: then another executor would fail as well.
    fn blame_path(self, directory: &Path) -> WorkspaceError {
        let is_about_path = |source: &io::Error| {
            let errno = source.raw_os_error().map(Errno::from_raw);
            matches!(errno, Some(Errno::EEXIST | Errno::ENOTDIR | Errno::ENAMETOOLONG))
        };
        match self {
            WorkspaceError::Failed {
                step: CREATE,
                path,
                source,
            } if is_about_path(&source) => match path.strip_prefix(directory) {
                Ok(path) => WorkspaceError::InvalidPath {
                    path: path.into(),
                    source,
                },
                Err(_) => WorkspaceError::Failed {
                    step: CREATE,
                    path,
                    source,
                },
            },
            error => error,
        }
    }
}

fn io_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkspaceError {
    let path = path.to_path_buf();
    move |source| WorkspaceError::Failed { step, path, source }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use model::{BlobHash, Content, TaskId};
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::contents::{PART, write};
    use super::*;

    #[test]
    fn the_next_process_finds_the_last_attempt() {
        let work = tempfile::tempdir().unwrap();
        let session = SessionId(uuid::Uuid::now_v7());
        let attempt_id = |attempt| AttemptId {
            task: TaskId(uuid::Uuid::now_v7()),
            session,
            attempt: AttemptNumber(attempt),
        };
        let mut workspace = DiskWorkspace::new(work.path().join("7"));
        assert_eq!(last_attempts(work.path()).unwrap(), []);
        let (first, second) = (attempt_id(4_000_000_000), attempt_id(2));
        let (old, new) = (TaskForm::UNRECORDED, TaskForm(4_000_000_000));
        workspace.record_attempt(&first, new, &|| ()).unwrap();
        assert_eq!(last_attempts(work.path()).unwrap(), [(first, new)]);
        let second_form = TaskForm::CURRENT;
        workspace.record_attempt(&second, second_form, &|| ()).unwrap();
        assert_eq!(last_attempts(work.path()).unwrap(), [(second, TaskForm::CURRENT)]);
        let AttemptId { task, session, .. } = first;
        let of_earlier_version = format!("{task} {session} {:>10}\n", first.attempt);
        assert_eq!(read_attempt(&of_earlier_version), Some((first, old)));
    }

    /// A task can have gigabytes of files.
    #[test]
    fn writing_files_stops_when_the_attempt_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::open(folder.path().join("cache"), 1 << 30).unwrap();
        let hash = BlobHash([7; 32]);
        let blob = cache.path(&hash);
        fs::create_dir_all(blob.parent().unwrap()).unwrap();
        File::create(&blob).unwrap().set_len(5 * PART).unwrap();
        let content = Content::Blob(hash);
        let lay_out = |name: &str, most: u32| {
            let calls = Cell::new(0);
            let progress = || {
                calls.set(calls.get() + 1);
                if calls.get() > most {
                    Err(AttemptRevoked)
                } else {
                    Ok(())
                }
            };
            let source = TaskFileSource {
                cache: &cache,
                progress: &progress,
            };
            let path = folder.path().join(name);
            let put = write(&path, 0o644, EntryContent::OfTask(&content), &source);
            let is_revoked = matches!(put, Err(WorkspaceError::Revoked(_)));
            let written = fs::metadata(folder.path().join(name)).map_or(0, |file| file.len());
            (is_revoked, written)
        };
        assert_eq!(lay_out("not-begun", 0), (true, 0));
        assert_eq!(lay_out("begun", 2), (true, 2 * PART));
        assert_eq!(lay_out("whole", 100), (false, 5 * PART));
    }

    /// The errors become messages for the user of the task, who may be kept from seeing the cases of a problem.
    #[test]
    fn errors_about_cached_files_name_no_hash() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::open(folder.path().join("cache"), 1 << 30).unwrap();
        let hash = BlobHash([0xab; 32]);
        let content = Content::Blob(hash);
        let contents = WorkspaceContents {
            entries: vec![WorkspaceEntry::readable(
                Path::new("file"),
                EntryContent::OfTask(&content),
            )],
            ..WorkspaceContents::default()
        };
        let source = TaskFileSource {
            cache: &cache,
            progress: &|| Ok(()),
        };
        let path = folder.path().join("file");
        let written = write(&path, 0o644, EntryContent::OfTask(&content), &source);
        for error in [contents.bytes(&cache).unwrap_err(), written.unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains("No such file"), "{text}");
            assert!(!text.contains(&hash.to_string()), "{text}");
        }
        assert_eq!(contents.head_of(Path::new("file"), &cache), None);
    }

    #[test]
    fn no_file_of_a_task_keeps_the_next_process_from_starting() {
        let work = tempfile::tempdir().unwrap();
        let slot = |slot: &str| {
            fs::create_dir(work.path().join(slot)).unwrap();
            work.path().join(slot).join(ATTEMPT)
        };
        fs::create_dir(slot("folder")).unwrap();
        fs::write(slot("bytes"), [0xff; 500]).unwrap();
        std::os::unix::fs::symlink("/dev/zero", slot("link")).unwrap();
        mkfifo(&slot("pipe"), Mode::S_IRWXU).unwrap();
        assert_eq!(last_attempts(work.path()).unwrap(), []);
        clear(work.path()).unwrap();
    }
}
