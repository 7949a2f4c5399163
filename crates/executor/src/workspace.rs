//! A slot's workspace: each task's files laid out in it, and nothing left of them afterwards.
//!
//! ```text
//! work/SLOT/box/      where the commands run: the source files, and the data files in data/
//! work/SLOT/tmp/      TMPDIR
//! work/SLOT/input     standard input, where it is a blob
//! work/SLOT/attempt   which attempt began here last
//! ```
//!
//! The folders serve again where a task left no trace on them. To make and remove them for each task would cost a
//! short one more than its run: a file system that is being synced, as the store does all the time, makes whoever
//! changes a folder wait.

mod pristine;
mod remove;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{Attempt, Content, Handout, SessionId, TaskSpec};
use nix::fcntl::OFlag;
use thiserror::Error;
use uuid::Uuid;

use self::pristine::{Mark, Pristine};
pub(crate) use self::remove::clear;
use self::remove::remove;
use crate::cache::Cache;

#[derive(Debug, Error)]
#[error("could not {step} {path}: {source}")]
pub(crate) struct WorkspaceError {
    step: &'static str,
    path: PathBuf,
    source: io::Error,
}

pub(crate) struct Workspace {
    root: PathBuf,
    /// `None` after trouble: made anew before the next task.
    folders: Option<[Pristine; 2]>,
    attempt: Option<File>,
    /// How the root was when the task got it.
    mark: Option<Mark>,
}

impl Workspace {
    pub(crate) fn new(work: &Path, slot: usize) -> Workspace {
        Workspace {
            root: work.join(slot.to_string()),
            folders: None,
            attempt: None,
            mark: None,
        }
    }

    /// Makes everything ready for the task's commands.
    pub(crate) fn lay_out(
        &mut self,
        handout: &Handout,
        spec: &TaskSpec,
        cache: &Cache,
    ) -> Result<(), WorkspaceError> {
        self.mark = None;
        self.make()?;
        self.write_attempt(handout)?;
        if spec.execute.input.blob().is_some() {
            write(&self.input(), 0o644, &spec.execute.input, cache)?;
        }
        for (path, file) in spec.layout() {
            self.put(&path, file, cache)?;
        }
        self.mark = Some(Mark::of(&self.root).map_err(failed("look at", &self.root))?);
        Ok(())
    }

    fn put(&self, path: &str, file: &model::File, cache: &Cache) -> Result<(), WorkspaceError> {
        let directory = self.directory();
        let path = directory.join(path);
        if let Some(parent) = path.parent().filter(|parent| *parent != directory) {
            let mut folders = DirBuilder::new();
            folders
                .recursive(true)
                .mode(0o755)
                .create(parent)
                .map_err(failed("make", parent))?;
        }
        let mode = if file.executable { 0o755 } else { 0o644 };
        write(&path, mode, &file.content, cache)
    }

    /// Removes all that the last task had and left.
    pub(crate) fn clear(&mut self, spec: &TaskSpec) {
        if let Err(error) = self.try_clear(spec) {
            tracing::warn!(path = %self.root.display(), %error, "could not clear a workspace; trying before the next task");
            self.folders = None;
        }
    }

    fn try_clear(&mut self, spec: &TaskSpec) -> io::Result<()> {
        let has_input = spec.execute.input.blob().is_some();
        if !self.root_holds(|name| OWN.iter().any(|own| name == *own) || has_input && name == INPUT) {
            // Where the task may have put anything beside our own, nothing there can be trusted.
            self.folders = None;
            return remove(&self.root);
        }
        if has_input {
            fs::remove_file(self.input())?;
        }
        for folder in self.folders.iter_mut().flatten() {
            folder.restore()?;
        }
        Ok(())
    }

    /// Whether nobody has changed the root since the task got it, and all that is in it is known. The mark alone
    /// would not do: times have steps, and two changes may fall on the same one.
    fn root_holds(&self, known: impl Fn(&OsStr) -> bool) -> bool {
        let same = Mark::of(&self.root).is_ok_and(|mark| self.mark.as_ref() == Some(&mark));
        let known = |entry: io::Result<DirEntry>| entry.is_ok_and(|entry| known(&entry.file_name()));
        same && fs::read_dir(&self.root).is_ok_and(|mut entries| entries.all(known))
    }

    fn make(&mut self) -> Result<(), WorkspaceError> {
        if self.folders.is_some() {
            return Ok(());
        }
        let failed = failed("make", &self.root);
        let made = remove(&self.root)
            .and_then(|()| fs::create_dir(&self.root))
            .and_then(|()| {
                Ok([
                    Pristine::make(self.directory())?,
                    Pristine::make(self.temporary())?,
                ])
            })
            .and_then(|folders| Ok((folders, File::create(self.root.join(ATTEMPT))?)));
        let (folders, attempt) = made.map_err(failed)?;
        self.folders = Some(folders);
        self.attempt = Some(attempt);
        Ok(())
    }

    /// So that the next life knows what was running when this one was killed.
    fn write_attempt(&self, handout: &Handout) -> Result<(), WorkspaceError> {
        let Handout {
            task,
            session,
            attempt,
        } = handout;
        // Always of the same length: what is written over needs no cutting off.
        let line = format!("{task} {session} {attempt:>10}\n");
        let written = self
            .attempt
            .as_ref()
            .map_or(Ok(()), |file| file.write_all_at(line.as_bytes(), 0));
        written.map_err(failed("write the attempt in", &self.root))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the commands run.
    pub(crate) fn directory(&self) -> PathBuf {
        self.root.join(BOX)
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.root.join(TEMPORARY)
    }

    pub(crate) fn input(&self) -> PathBuf {
        self.root.join(INPUT)
    }
}

const BOX: &str = "box";
const TEMPORARY: &str = "tmp";
const INPUT: &str = "input";
const ATTEMPT: &str = "attempt";
/// What always lies in the root.
const OWN: [&str; 3] = [BOX, TEMPORARY, ATTEMPT];

fn write(path: &Path, mode: u32, content: &Content, cache: &Cache) -> Result<(), WorkspaceError> {
    // The check at add time leaves no way for two files to meet here, and nothing is left of the last task;
    // creating anew makes sure of both.
    let mut out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(failed("make", path))?;
    match content {
        Content::Inline(bytes) => out.write_all(bytes).map_err(failed("write", path)),
        Content::Blob(hash) => {
            // A copy and no link: the task may write to its file, and the cached one must stay.
            let mut blob = File::open(cache.path(hash)).map_err(failed("open the blob for", path))?;
            io::copy(&mut blob, &mut out)
                .map(drop)
                .map_err(failed("write", path))
        }
    }
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
    move |source| WorkspaceError { step, path, source }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use model::TaskId;
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
        let mut workspace = Workspace::new(work.path(), 7);
        workspace.make().unwrap();
        assert_eq!(last_attempts(work.path()).unwrap(), []);
        let (first, second) = (handout(4_000_000_000), handout(2));
        workspace.write_attempt(&first).unwrap();
        assert_eq!(last_attempts(work.path()).unwrap(), [first]);
        workspace.write_attempt(&second).unwrap();
        assert_eq!(last_attempts(work.path()).unwrap(), [second]);
    }

    #[test]
    fn a_folder_serves_again_only_as_it_was() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("box");
        let mut folder = Pristine::make(path.clone()).unwrap();
        let inode = || fs::metadata(&path).unwrap().ino();
        let check = |folder: &mut Pristine, change: &dyn Fn()| {
            change();
            folder.restore().unwrap();
            let metadata = fs::symlink_metadata(&path).unwrap();
            assert!(metadata.is_dir());
            assert_eq!(metadata.mode() & 0o7777, 0o755);
            assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        };
        let before = inode();
        check(&mut folder, &|| ());
        assert_eq!(inode(), before, "nothing was done to it");
        check(&mut folder, &|| fs::write(path.join("left"), b"x").unwrap());
        check(&mut folder, &|| {
            fs::set_permissions(&path, Permissions::from_mode(0o0)).unwrap()
        });
        check(&mut folder, &|| fs::remove_dir(&path).unwrap());
        check(&mut folder, &|| {
            fs::remove_dir(&path).unwrap();
            std::os::unix::fs::symlink("/etc", &path).unwrap();
        });
        check(&mut folder, &|| {
            fs::create_dir(path.join("deep")).unwrap();
            fs::write(path.join("deep/file"), b"x").unwrap();
            fs::set_permissions(path.join("deep"), Permissions::from_mode(0o0)).unwrap();
        });
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
