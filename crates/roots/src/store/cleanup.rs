//! Finds files that nobody uses, under the lock of the folder, and removes them without it.
//!
//! The folder may also contain files of the operator. So only what carries the marks of this store is touched: a generation
//! has an id as its name and a record, a temporary folder contains what a command writes there.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::RootName;
use uuid::Uuid;

use super::remove_tree::{TreeRemoval, remove_tree};
use super::work_folder::{GENERATION, SCRATCH};
use super::{
    NEW_LINK_PREFIX, RECORD, REMOVED_PREFIX, RootStore, RootStoreError, RootsFolderLock, WORK_PREFIX,
    io_error, names_in, read_current,
};

/// Folders of roots that nobody uses any more, to be removed when the lock of the folder is released.
#[derive(Debug, Default)]
pub(super) struct UnusedFolders {
    folders: Vec<UnusedFolder>,
    problems: Vec<CleanupProblem>,
}

/// Files that could not be removed, for example of another user. They do not prevent the use of other roots.
#[derive(Debug)]
pub(super) struct CleanupProblem {
    /// Where the files were when they were in use.
    pub(super) origin: PathBuf,
    pub(super) error: RootStoreError,
}

/// One folder that nobody uses any more, with its locks. While they are held, other commands leave the folder alone.
#[derive(Debug)]
struct UnusedFolder {
    path: PathBuf,
    origin: PathBuf,
    _locks: Vec<File>,
}

impl UnusedFolders {
    pub(super) fn extend(&mut self, more: UnusedFolders) {
        self.folders.extend(more.folders);
        self.problems.extend(more.problems);
    }

    /// The first problem with this file or folder itself.
    pub(super) fn take_problem_of(&mut self, origin: &Path) -> Option<RootStoreError> {
        let found = self
            .problems
            .iter()
            .position(|problem| problem.origin == origin)?;
        Some(self.problems.swap_remove(found).error)
    }

    /// Removes all that it can. A stopped removal is continued by the next command.
    pub(super) fn run(self, is_stopping: &dyn Fn() -> bool) -> Vec<CleanupProblem> {
        let mut problems = self.problems;
        for UnusedFolder { path, origin, _locks } in self.folders {
            match remove_tree(&path, is_stopping) {
                Ok(TreeRemoval::Removed) => {}
                Ok(TreeRemoval::Stopped) => break,
                Err(error) => problems.push(CleanupProblem {
                    origin,
                    error: io_error("remove", &path)(error),
                }),
            }
        }
        problems
    }

    /// Continues after an error: files of another user must not block the work on other roots.
    fn add(&mut self, origin: &Path, taken: Result<Option<UnusedFolder>, RootStoreError>) {
        match taken {
            Ok(folder) => self.folders.extend(folder),
            Err(error) => self.problems.push(CleanupProblem {
                origin: origin.to_path_buf(),
                error,
            }),
        }
    }
}

impl RootStore {
    /// Takes every unused folder out of use. Files that this store has not made are left alone.
    pub(super) fn collect_unused(&self, _lock: &RootsFolderLock) -> UnusedFolders {
        let mut unused = UnusedFolders::default();
        let names = match names_in(&self.folder) {
            Ok(names) => names,
            Err(error) => {
                unused.add(&self.folder, Err(error));
                return unused;
            }
        };
        for name in names.iter().filter_map(|name| name.to_str()) {
            let path = self.folder.join(name);
            if is_temporary_name(name) {
                unused.add(&path, self.take_leftover(&path));
            } else if RootName::new(name).is_ok_and(|name| !self.configured.contains_key(&name)) {
                self.collect_generations(&path, &mut unused);
            }
        }
        unused
    }

    /// A folder that an interrupted command has left. A command that is at work has its lock.
    fn take_leftover(&self, path: &Path) -> Result<Option<UnusedFolder>, RootStoreError> {
        let is_work = path
            .file_name()
            .and_then(OsStr::to_str)
            .is_some_and(|name| name.starts_with(WORK_PREFIX));
        if !is_real_folder(path) || is_work && !names_in(path)?.iter().all(|name| is_work_content(name)) {
            return Ok(None);
        }
        match try_lock(path)? {
            // Its name must be free for a new command at once.
            Some(lock) => self.take_away(path, lock).map(Some),
            None => Ok(None),
        }
    }

    fn collect_generations(&self, root_folder: &Path, unused: &mut UnusedFolders) {
        let names = read_current(root_folder).and_then(|current| Ok((current, names_in(root_folder)?)));
        let (current, names) = match names {
            Ok(found) => found,
            Err(error) => return unused.add(root_folder, Err(error)),
        };
        let count = unused.folders.len();
        for name in names.iter().filter_map(|name| name.to_str()) {
            let path = root_folder.join(name);
            if Some(&path) == current.as_ref() {
                continue;
            }
            if is_generation_id(name) {
                unused.add(&path, self.take_generation(&path));
            } else if name.strip_prefix(NEW_LINK_PREFIX).is_some_and(is_generation_id) {
                let removed = fs::remove_file(&path).map_err(io_error("remove", &path));
                unused.add(&path, removed.map(|()| None));
            }
        }
        // A folder without generations may be one that the operator has just made.
        if unused.folders.len() > count {
            match fs::remove_dir(root_folder) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                Err(error) => unused.add(
                    root_folder,
                    Err(io_error("remove the folder", root_folder)(error)),
                ),
            }
        }
    }

    /// A generation that is not the current one. Every generation has a record: it is written before the generation gets its
    /// place.
    fn take_generation(&self, path: &Path) -> Result<Option<UnusedFolder>, RootStoreError> {
        let record = path.join(RECORD);
        let is_file = fs::symlink_metadata(&record).is_ok_and(|metadata| metadata.is_file());
        if !is_real_folder(path) || !is_file {
            return Ok(None);
        }
        match try_lock(&record)? {
            Some(lock) => self.take_away(path, lock).map(Some),
            None => Ok(None),
        }
    }

    /// Moves a folder to where no command looks for roots, with a lock of its own.
    fn take_away(&self, path: &Path, lock: File) -> Result<UnusedFolder, RootStoreError> {
        let to = self
            .folder
            .join(format!("{REMOVED_PREFIX}{}", Uuid::now_v7().simple()));
        fs::rename(path, &to).map_err(io_error("move away", path))?;
        let mut locks = vec![lock];
        locks.extend(try_lock(&to)?);
        Ok(UnusedFolder {
            path: to,
            origin: path.to_path_buf(),
            _locks: locks,
        })
    }
}

/// Whether a generation can have this name: a version 7 UUID without hyphens, as this store makes them.
pub(super) fn is_generation_id(name: &str) -> bool {
    let id = Uuid::try_parse(name).ok();
    id.is_some_and(|id| id.get_version_num() == 7 && id.simple().to_string() == name)
}

fn is_temporary_name(name: &str) -> bool {
    let is_work = |name: &str| RootName::new(name).is_ok();
    name.strip_prefix(WORK_PREFIX).is_some_and(is_work)
        || name.strip_prefix(REMOVED_PREFIX).is_some_and(is_generation_id)
}

fn is_work_content(name: &OsStr) -> bool {
    name == GENERATION || name == SCRATCH
}

fn is_real_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// The exclusive lock of a file or folder, if nobody else has a lock on it.
fn try_lock(path: &Path) -> Result<Option<File>, RootStoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(io_error("lock", path)(error)),
    }
}
