//! The folder of all roots of a machine: which there are, which one new tasks use, and which files can be removed.

mod cleanup;
mod installed;
mod record;
mod remove_tree;
mod work_folder;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::RootName;
use thiserror::Error;

pub use installed::{InstalledRoot, RootHold};
pub use record::RootRecord;
pub use work_folder::NewRoot;
pub(crate) use work_folder::WorkFolder;

/// The roots of one machine: those in a folder that Conclave manages, and folders that the operator manages and names in
/// the configuration.
///
/// Any number of processes may use the folder at the same time.
#[derive(Clone, Debug)]
pub struct RootStore {
    folder: PathBuf,
    configured: BTreeMap<RootName, PathBuf>,
    /// Generations that stay as long as this store is used.
    kept: Vec<Arc<RootHold>>,
}

/// All roots of a machine.
#[derive(Debug, Default)]
pub struct RootList {
    /// By name.
    pub roots: Vec<InstalledRoot>,
    /// Roots whose record cannot be read. No task can use them.
    pub damaged: Vec<(RootName, RootStoreError)>,
}

/// What became of the files of a root that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedRoot {
    Removed,
    /// An executor still uses the files, and removes them when none of its tasks does; or the next command does.
    StillInUse,
}

/// Why the folder of all roots could not be read or changed.
#[derive(Debug, Error)]
pub enum RootStoreError {
    #[error("could not {action} {path:?}")]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "the record of the root {name}, {path:?}, is damaged; make the root again, or remove it with `conclave root remove {name}`"
    )]
    DamagedRecord {
        name: RootName,
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("there is no root {name} in {folder:?}; `conclave root list` lists all roots")]
    NotFound { name: RootName, folder: PathBuf },
    #[error("another command is at work on the root {name}; run this again when it has ended")]
    Busy { name: RootName },
    #[error("the folder {folder:?} is locked by another command for {} s; run this again later", LOCK_TIMEOUT.as_secs())]
    FolderLocked { folder: PathBuf },
    #[error(
        "the root {name} is the folder {path:?} by the configuration ([roots.{name}]); choose another name, or remove that section"
    )]
    Configured { name: RootName, path: PathBuf },
}

const CURRENT: &str = "current";
const RECORD: &str = "root.json";
const TREE: &str = "tree";
pub(crate) const LISTING: &str = "listing";
const WORK_PREFIX: &str = ".work-";
const REMOVED_PREFIX: &str = ".removed-";
const NEW_LINK_PREFIX: &str = ".current-";

/// The lock is held for some renames only, however large the roots are.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// How often a root may be replaced while it is looked up.
const MAX_LOOKUPS: u32 = 100;

/// The exclusive lock of the folder of all roots. It is held while names change, not while files are written or removed.
#[derive(Debug)]
struct RootsFolderLock {
    folder: File,
}

impl RootStore {
    /// Creates nothing: a folder that does not exist has no roots.
    pub fn open(folder: &Path) -> RootStore {
        RootStore {
            folder: folder.to_path_buf(),
            configured: BTreeMap::new(),
            kept: Vec::new(),
        }
    }

    /// Adds folders that the operator manages. Such a root has no hash. No lock protects its files, unless its path leads
    /// into a generation of this store. It hides an installed root of the same name.
    pub fn with_configured(mut self, roots: impl IntoIterator<Item = (RootName, PathBuf)>) -> RootStore {
        self.configured.extend(roots);
        self
    }

    /// Keeps the files of a generation as long as this store, or a clone of it, exists.
    pub fn keep(mut self, hold: RootHold) -> RootStore {
        self.kept.push(Arc::new(hold));
        self
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn list(&self) -> Result<RootList, RootStoreError> {
        let mut names: BTreeSet<RootName> = self.configured.keys().cloned().collect();
        names.extend(self.installed_names()?);
        let mut list = RootList::default();
        for name in names {
            match self.get(&name) {
                Ok(root) => list.roots.extend(root),
                Err(error) => list.damaged.push((name, error)),
            }
        }
        Ok(list)
    }

    /// Reads one link and one small file.
    pub fn get(&self, name: &RootName) -> Result<Option<InstalledRoot>, RootStoreError> {
        if let Some(folder) = self.configured.get(name) {
            return Ok(Some(match self.find_generation(folder) {
                Some((generation, folder)) => InstalledRoot::in_generation(name.clone(), folder, generation),
                None => InstalledRoot::configured(name.clone(), folder.clone()),
            }));
        }
        let root_folder = self.folder.join(name.as_str());
        for _ in 0..MAX_LOOKUPS {
            let Some(generation) = read_current(&root_folder)? else {
                return Ok(None);
            };
            match InstalledRoot::read(name, &generation) {
                // The root was replaced or removed since its link was read.
                Err(RootStoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    if read_current(&root_folder)?.as_ref() == Some(&generation) {
                        return Err(RootStoreError::Io {
                            action: "read",
                            path: generation.join(RECORD),
                            source,
                        });
                    }
                }
                read => return read.map(Some),
            }
        }
        Err(RootStoreError::Busy { name: name.clone() })
    }

    /// The root that new tasks use, held so that its files stay while the hold exists.
    pub fn hold(&self, name: &RootName) -> Result<Option<(InstalledRoot, RootHold)>, RootStoreError> {
        for _ in 0..MAX_LOOKUPS {
            let Some(root) = self.get(name)? else {
                return Ok(None);
            };
            match root.hold() {
                Ok(hold) => return Ok(Some((root, hold))),
                // Another generation became the current one, and this one is gone.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(io_error("lock", root.folder)(source)),
            }
        }
        Err(RootStoreError::Busy { name: name.clone() })
    }

    /// Holds the generation that a path leads into, and returns where the path leads now. A path through `current` leads
    /// elsewhere when the root is replaced. `None` if the path is not one of this store.
    pub fn hold_path(&self, path: &Path) -> Result<Option<(PathBuf, RootHold)>, RootStoreError> {
        for _ in 0..MAX_LOOKUPS {
            let Some((generation, folder)) = self.find_generation(path) else {
                return Ok(None);
            };
            match RootHold::of_generation(&generation) {
                Ok(hold) => return Ok(Some((folder, hold))),
                // Another generation became the current one, and this one is gone.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(io_error("lock", generation)(source)),
            }
        }
        Err(io_error("lock the generation of", path)(
            ErrorKind::NotFound.into(),
        ))
    }

    /// Makes the root unavailable to new tasks at once. Its files are removed now or, if tasks still use them, later.
    pub fn remove(&self, name: &RootName) -> Result<RemovedRoot, RootStoreError> {
        self.refuse_configured(name)?;
        let not_found = || RootStoreError::NotFound {
            name: name.clone(),
            folder: self.folder.clone(),
        };
        let root_folder = self.folder.join(name.as_str());
        let Some(lock) = self.lock_if_exists()? else {
            return Err(not_found());
        };
        let mut removals = self.collect_unused(&lock);
        self.refuse_busy(name)?;
        if read_current(&root_folder)?.is_none() {
            drop(lock);
            removals.run(&|| false);
            return Err(not_found());
        }
        let current = root_folder.join(CURRENT);
        fs::remove_file(&current).map_err(io_error("remove", current))?;
        removals.extend(self.collect_unused(&lock));
        drop(lock);
        let problems = removals.run(&|| false);
        // Files of other roots that cannot be removed are no problem of this command.
        match problems
            .into_iter()
            .find(|problem| problem.origin.starts_with(&root_folder))
        {
            Some(problem) => Err(problem.error),
            None if root_folder.exists() => Ok(RemovedRoot::StillInUse),
            None => Ok(RemovedRoot::Removed),
        }
    }

    /// Like [`RootStore::remove_unused_generations_until`], to the end and with the first problem only.
    pub fn remove_unused_generations(&self) -> Result<(), RootStoreError> {
        let problems = self.remove_unused_generations_until(&|| false);
        problems.into_iter().next().map_or(Ok(()), Err)
    }

    /// Removes generations that were replaced or removed and that no task uses, and what interrupted commands left.
    /// `is_stopping` is called for each file, and ends the removal.
    ///
    /// Every command does this, and an executor should at its start. Removing many files takes time. A problem means that
    /// files are left, for example of another user; it does not prevent the use of roots.
    pub fn remove_unused_generations_until(&self, is_stopping: &dyn Fn() -> bool) -> Vec<RootStoreError> {
        match self.lock_if_exists() {
            Ok(None) => Vec::new(),
            Ok(Some(lock)) => {
                let removals = self.collect_unused(&lock);
                drop(lock);
                let problems = removals.run(is_stopping).into_iter();
                problems.map(|problem| problem.error).collect()
            }
            Err(error) => vec![error],
        }
    }

    fn installed_names(&self) -> Result<Vec<RootName>, RootStoreError> {
        let mut names = Vec::new();
        for entry in names_in(&self.folder)? {
            // One that cannot be read is listed as damaged, beside the others.
            if let Some(name) = entry.to_str().and_then(|name| RootName::new(name).ok())
                && !matches!(read_current(&self.folder.join(name.as_str())), Ok(None))
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The generation of this store that a path leads into, and the path without links.
    fn find_generation(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        // A path that cannot be resolved is in no generation. Its use fails later, with the reason.
        let (path, folder) = (fs::canonicalize(path).ok()?, fs::canonicalize(&self.folder).ok()?);
        let mut parts = path.strip_prefix(&folder).ok()?.components();
        let mut next = || match parts.next() {
            Some(Component::Normal(part)) => part.to_str(),
            _ => None,
        };
        let (name, id, tree) = (next()?, next()?, next()?);
        let is_generation = RootName::new(name).is_ok() && cleanup::is_generation_id(id) && tree == TREE;
        is_generation.then(|| (folder.join(name).join(id), path.clone()))
    }

    fn refuse_configured(&self, name: &RootName) -> Result<(), RootStoreError> {
        match self.configured.get(name) {
            None => Ok(()),
            Some(path) => Err(RootStoreError::Configured {
                name: name.clone(),
                path: path.clone(),
            }),
        }
    }

    /// Refuses if a command makes this root at the moment. Needs the folder's lock, and no leftovers.
    fn refuse_busy(&self, name: &RootName) -> Result<(), RootStoreError> {
        match self.work_path(name).exists() {
            true => Err(RootStoreError::Busy { name: name.clone() }),
            false => Ok(()),
        }
    }

    fn work_path(&self, name: &RootName) -> PathBuf {
        self.folder.join(format!("{WORK_PREFIX}{name}"))
    }

    fn create_and_lock(&self) -> Result<RootsFolderLock, RootStoreError> {
        let failed = || io_error("create the folder", &self.folder);
        if !self.folder.exists() {
            fs::create_dir_all(&self.folder).map_err(failed())?;
            // Cells read roots under other user ids, whatever the umask of this command is.
            fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755)).map_err(failed())?;
        }
        match self.lock_if_exists()? {
            Some(lock) => Ok(lock),
            None => Err(failed()(ErrorKind::NotFound.into())),
        }
    }

    fn lock_if_exists(&self) -> Result<Option<RootsFolderLock>, RootStoreError> {
        let folder = match File::open(&self.folder) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("open the folder", &self.folder)(error)),
        };
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(Some(RootsFolderLock { folder })),
                // The kernel has no lock with a timeout.
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_RETRY),
                Err(TryLockError::WouldBlock) => {
                    return Err(RootStoreError::FolderLocked {
                        folder: self.folder.clone(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(io_error("lock", &self.folder)(error)),
            }
        }
    }
}

/// The path of the generation that new tasks use.
fn read_current(root_folder: &Path) -> Result<Option<PathBuf>, RootStoreError> {
    let link = root_folder.join(CURRENT);
    match fs::read_link(&link) {
        Ok(target) => Ok(Some(root_folder.join(target))),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(io_error("read the link", link)(error)),
    }
}

/// The names in a folder; none if it does not exist.
fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>, RootStoreError> {
    let failed = || io_error("read the folder", folder);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed()(error)),
    };
    entries
        .map(|entry| entry.map(|entry| entry.file_name()).map_err(failed()))
        .collect()
}

pub(crate) fn io_error(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> RootStoreError {
    let path = path.into();
    move |source| RootStoreError::Io { action, path, source }
}
