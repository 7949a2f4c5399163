//! A warden's workspace: each task's files laid out in it, and nothing left of them afterwards.
//!
//! ```text
//! work/NUMBER/attempt which attempt began here last
//! box/                where the commands run: the source files, and the data files in data/
//! tmp/                TMPDIR
//! input               standard input, where it is a blob
//! ```
//!
//! Without cells the others lie beside `attempt`; with cells they are in a file system that the warden makes for each
//! task, and are reached through a descriptor.

mod in_cell;
mod on_disk;
mod pristine;
mod remove;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{Attempt, Content, Handout, SessionId, TaskSpec};
use nix::fcntl::OFlag;
use sandbox::{Isolation, Warden, WardenError};
use thiserror::Error;
use uuid::Uuid;

use self::in_cell::InCell;
use self::on_disk::OnDisk;
pub(crate) use self::remove::clear;
use crate::cache::Cache;
use crate::control::Withdrawn;

#[derive(Debug, Error)]
pub(crate) enum WorkspaceError {
    #[error("could not {step} {path}: {source}")]
    Failed {
        step: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    Warden(#[from] WardenError),
    #[error(transparent)]
    Withdrawn(#[from] Withdrawn),
    /// The task's own doing, as all below: its file system is nobody else's, and of the size that it has asked for.
    #[error("the task's files do not fit into its space of {bytes} bytes: raise `space` in its limits")]
    NoSpace { bytes: u64 },
    #[error(
        "the task has more files and folders than the {files} that this executor has room for: give it fewer, or have \
         the operator raise sandbox.files"
    )]
    TooManyFiles { files: u64 },
}

/// Where a task's files come from.
pub(crate) struct Supply<'a> {
    pub(crate) cache: &'a Cache,
    /// Called for each file, and for each part of a large one. An error ends the layout: the attempt was withdrawn.
    pub(crate) progress: &'a dyn Fn() -> Result<(), Withdrawn>,
}

pub(crate) enum Workspace {
    OnDisk(OnDisk),
    InCell(InCell),
}

impl Workspace {
    pub(crate) fn new(work: &Path, number: usize, isolation: &Isolation) -> Workspace {
        let root = work.join(number.to_string());
        match isolation {
            Isolation::None => Workspace::OnDisk(OnDisk::new(root)),
            Isolation::Cell(_) => Workspace::InCell(InCell::new(root, isolation.owner())),
        }
    }

    /// Makes everything ready for the task's commands.
    pub(crate) fn lay_out(
        &mut self,
        warden: &mut Warden,
        handout: &Handout,
        spec: &TaskSpec,
        supply: &Supply<'_>,
    ) -> Result<(), WorkspaceError> {
        match self {
            Workspace::OnDisk(workspace) => workspace.lay_out(handout, spec, supply),
            Workspace::InCell(workspace) => workspace.lay_out(warden, handout, spec, supply),
        }
    }

    /// Removes all that the last task had and left. What lies in a cell's file system goes with that.
    pub(crate) fn clear(&mut self, spec: &TaskSpec, progress: &dyn Fn()) {
        if let Workspace::OnDisk(workspace) = self {
            workspace.clear(spec, progress);
        }
    }

    pub(crate) fn root(&self) -> &Path {
        match self {
            Workspace::OnDisk(workspace) => workspace.root(),
            Workspace::InCell(workspace) => workspace.root(),
        }
    }

    /// Where the commands run, as they see it.
    pub(crate) fn directory(&self) -> PathBuf {
        match self {
            Workspace::OnDisk(workspace) => workspace.directory(),
            Workspace::InCell(_) => sandbox::WORKSPACE.into(),
        }
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        match self {
            Workspace::OnDisk(workspace) => workspace.temporary(),
            Workspace::InCell(_) => "/tmp".into(),
        }
    }

    /// As the warden sees it.
    pub(crate) fn input(&self) -> PathBuf {
        match self {
            Workspace::OnDisk(workspace) => workspace.input(),
            Workspace::InCell(_) => Path::new(sandbox::WORKSPACE).join(INPUT),
        }
    }
}

const BOX: &str = "box";
const TEMPORARY: &str = "tmp";
const INPUT: &str = "input";
const ATTEMPT: &str = "attempt";

/// Writes a file of the task, and makes the folders that it lies in.
fn put(directory: &Path, path: &str, file: &model::File, supply: &Supply<'_>) -> Result<(), WorkspaceError> {
    let path = directory.join(path);
    make_folders(directory, &path)?;
    write(&path, mode(file), &file.content, supply)
}

fn mode(file: &model::File) -> u32 {
    if file.executable { 0o755 } else { 0o644 }
}

fn make_folders(directory: &Path, path: &Path) -> Result<(), WorkspaceError> {
    if let Some(parent) = path.parent().filter(|parent| *parent != directory) {
        let mut folders = DirBuilder::new();
        folders
            .recursive(true)
            .mode(0o755)
            .create(parent)
            .map_err(failed("make", parent))?;
    }
    Ok(())
}

/// So that the next life knows what was running when this one was killed.
fn write_attempt(file: &File, handout: &Handout) -> io::Result<()> {
    let Handout {
        task,
        session,
        attempt,
    } = handout;
    // Always of the same length: what is written over needs no cutting off.
    let line = format!("{task} {session} {attempt:>10}\n");
    file.write_all_at(line.as_bytes(), 0)
}

fn write(path: &Path, mode: u32, content: &Content, supply: &Supply<'_>) -> Result<(), WorkspaceError> {
    (supply.progress)()?;
    fill(create(path, mode)?, path, content, supply)
}

fn create(path: &Path, mode: u32) -> Result<File, WorkspaceError> {
    // The check at add time leaves no way for two files to meet here, and nothing is left of the last task;
    // creating anew makes sure of both.
    let mut create = OpenOptions::new();
    create.write(true).create_new(true).mode(mode);
    create.open(path).map_err(failed("make", path))
}

fn fill(mut out: File, path: &Path, content: &Content, supply: &Supply<'_>) -> Result<(), WorkspaceError> {
    match content {
        Content::Inline(bytes) => out.write_all(bytes).map_err(failed("write", path)),
        Content::Blob(hash) => {
            // A copy and no link: the task may write to its file, and the cached one must stay.
            let blob = File::open(supply.cache.path(hash)).map_err(failed("open the blob for", path))?;
            copy(&blob, &mut out, path, supply)
        }
    }
}

const PART: u64 = 4 << 20;

/// Part by part, so that a large file shows progress.
fn copy(from: &File, to: &mut File, path: &Path, supply: &Supply<'_>) -> Result<(), WorkspaceError> {
    // The kernel copies, where it can.
    while io::copy(&mut from.take(PART), to).map_err(failed("write", path))? > 0 {
        (supply.progress)()?;
    }
    Ok(())
}

/// The attempts that began last in each workspace. They may have ended since.
pub(crate) fn last_attempts(work: &Path) -> io::Result<Vec<Handout>> {
    let mut attempts = Vec::new();
    for entry in fs::read_dir(work)? {
        let path = entry?.path().join(ATTEMPT);
        match read_line(&path) {
            Ok(line) => attempts.extend(read_attempt(&line)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            // A task could put anything there; whatever it is, it must not keep the executor from starting.
            Err(error) => tracing::warn!(path = %path.display(), %error, "could not read which attempt ran"),
        }
    }
    Ok(attempts)
}

/// Follows no link, waits for no pipe, and reads no more than such a line has.
fn read_line(path: &Path) -> io::Result<String> {
    const LONGEST: u64 = 128;
    let mut line = Vec::new();
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?
        .take(LONGEST)
        .read_to_end(&mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn read_attempt(line: &str) -> Option<Handout> {
    let mut words = line.split_whitespace();
    let task = words.next()?.parse().ok()?;
    let session = SessionId(Uuid::try_parse(words.next()?).ok()?);
    let attempt = Attempt(words.next()?.parse().ok()?);
    Some(Handout {
        task,
        session,
        attempt,
    })
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkspaceError {
    let path = path.to_path_buf();
    move |source| WorkspaceError::Failed { step, path, source }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use model::{BlobHash, TaskId};
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn the_next_life_finds_the_attempt() {
        let work = tempfile::tempdir().unwrap();
        let session = SessionId::generate();
        let handout = |attempt| Handout {
            task: TaskId::generate(),
            session,
            attempt: Attempt(attempt),
        };
        let mut workspace = OnDisk::new(work.path().join("7"));
        workspace.make(&|| ()).unwrap();
        assert_eq!(last_attempts(work.path()).unwrap(), []);
        let (first, second) = (handout(4_000_000_000), handout(2));
        workspace.write_attempt(&first).unwrap();
        assert_eq!(last_attempts(work.path()).unwrap(), [first]);
        workspace.write_attempt(&second).unwrap();
        assert_eq!(last_attempts(work.path()).unwrap(), [second]);
    }

    /// Of a task that brings gigabytes, nothing more is laid out when it is ended.
    #[test]
    fn a_layout_stops_when_the_attempt_is_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"), 1 << 30).unwrap();
        let hash = BlobHash([7; 32]);
        let blob = cache.path(&hash);
        fs::create_dir_all(blob.parent().unwrap()).unwrap();
        File::create(&blob).unwrap().set_len(5 * PART).unwrap();
        let file = model::File {
            content: Content::Blob(hash),
            executable: false,
        };
        let lay_out = |name: &str, most: u32| {
            let calls = Cell::new(0);
            let progress = || {
                calls.set(calls.get() + 1);
                if calls.get() > most {
                    Err(Withdrawn)
                } else {
                    Ok(())
                }
            };
            let supply = Supply {
                cache: &cache,
                progress: &progress,
            };
            let put = put(folder.path(), name, &file, &supply);
            let is_withdrawn = matches!(put, Err(WorkspaceError::Withdrawn(_)));
            let written = fs::metadata(folder.path().join(name)).map_or(0, |file| file.len());
            (is_withdrawn, written)
        };
        assert_eq!(lay_out("not-begun", 0), (true, 0));
        assert_eq!(lay_out("begun", 2), (true, 2 * PART));
        assert_eq!(lay_out("whole", 100), (false, 5 * PART));
    }

    #[test]
    fn nothing_that_a_task_puts_there_stops_the_next_life() {
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
