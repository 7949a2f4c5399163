//! A root that is being made. It becomes visible as a whole, when all of its files are on the disk.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use model::RootName;
use uuid::Uuid;

use super::{
    CURRENT, InstalledRoot, LISTING, NEW_LINK_PREFIX, RECORD, RootRecord, RootStore, RootStoreError, TREE,
    io_error, read_current,
};
use crate::InterruptFlag;

/// The temporary folder of a root that is being made. It is locked while its command is at work, and removed at the end.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    store: RootStore,
    name: RootName,
    path: PathBuf,
    interrupt: InterruptFlag,
    _lock: File,
}

/// A root that was just made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRoot {
    pub name: RootName,
    pub record: RootRecord,
    /// Whether there was a root of this name before.
    pub has_replaced: bool,
}

pub(super) const GENERATION: &str = "generation";
pub(super) const SCRATCH: &str = "scratch";

impl WorkFolder {
    /// Refuses if another command makes a root of this name. Removes what interrupted commands have left.
    pub(crate) fn begin(
        store: &RootStore,
        name: &RootName,
        interrupt: &InterruptFlag,
    ) -> Result<WorkFolder, RootStoreError> {
        store.refuse_configured(name)?;
        let folder_lock = store.create_and_lock()?;
        let mut removals = store.collect_unused(&folder_lock);
        let path = store.work_path(name);
        // Only what is in the way of this command is its problem.
        if let Some(error) = removals.take_problem_of(&path) {
            return Err(error);
        }
        store.refuse_busy(name)?;
        let failed = || io_error("create the folder", &path);
        // Private until it is complete.
        DirBuilder::new().mode(0o700).create(&path).map_err(failed())?;
        let lock = File::open(&path).map_err(failed())?;
        lock.lock().map_err(failed())?;
        let work = WorkFolder {
            store: store.clone(),
            name: name.clone(),
            path,
            interrupt: interrupt.clone(),
            _lock: lock,
        };
        drop(folder_lock);
        removals.run(&|| interrupt.is_interrupted());
        for folder in [work.generation(), work.tree(), work.scratch()] {
            let failed = || io_error("create the folder", &folder);
            fs::create_dir(&folder).map_err(failed())?;
            fs::set_permissions(&folder, Permissions::from_mode(0o755)).map_err(failed())?;
        }
        Ok(work)
    }

    /// The root file system.
    pub(crate) fn tree(&self) -> PathBuf {
        self.generation().join(TREE)
    }

    pub(crate) fn listing(&self) -> PathBuf {
        self.generation().join(LISTING)
    }

    /// A folder for temporary files on the same disk.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.path.join(SCRATCH)
    }

    fn generation(&self) -> PathBuf {
        self.path.join(GENERATION)
    }

    /// Makes this the root that new tasks use. Tasks that run in an earlier generation keep its files until they end.
    ///
    /// Returns `None`, and changes nothing, if an interrupt arrives in time. An error changes nothing either.
    pub(crate) fn publish(self, record: RootRecord) -> Result<Option<NewRoot>, RootStoreError> {
        let path = self.generation().join(RECORD);
        write_record(&path, &record).map_err(io_error("write", &path))?;
        // One call for all files: a sync for each would take many times as long.
        let folder = File::open(&self.path).map_err(io_error("open the folder", &self.path))?;
        nix::unistd::syncfs(folder.as_fd())
            .map_err(|error| io_error("write the files to the disk of", &self.path)(error.into()))?;

        let folder_lock = self.store.create_and_lock()?;
        if self.interrupt.is_interrupted() {
            return Ok(None);
        }
        let root_folder = self.store.folder.join(self.name.as_str());
        let has_replaced = read_current(&root_folder)?.is_some();
        self.move_to(&root_folder)?;
        // From here on the root is there. What fails now does not change that, and the next command repeats it.
        let _ = folder_lock.folder.sync_all();
        let removals = self.store.collect_unused(&folder_lock);
        drop(folder_lock);
        removals.run(&|| self.interrupt.is_interrupted());
        Ok(Some(NewRoot {
            name: self.name.clone(),
            record,
            has_replaced,
        }))
    }

    /// Moves the files to the folder of the root, and makes them the current generation. After an error they are where
    /// they were.
    fn move_to(&self, root_folder: &Path) -> Result<(), RootStoreError> {
        let is_new = create_root_folder(root_folder).map_err(io_error("create the folder", root_folder))?;
        let id = Uuid::now_v7().simple().to_string();
        let generation = root_folder.join(&id);
        let moved = fs::rename(self.generation(), &generation)
            .map_err(io_error("move the files to", &generation))
            .and_then(|()| {
                // The files must be there after a power failure if the link is.
                sync_folder(root_folder)
                    .and_then(|()| replace_link(root_folder, &id))
                    .map_err(io_error("replace the link", root_folder.join(CURRENT)))
                    .inspect_err(|_| {
                        // The clean-up of the next command would remove them otherwise.
                        let _ = fs::rename(&generation, self.generation());
                    })
            });
        match moved {
            Ok(()) => {
                // The link is replaced, whether the disk has it already or not.
                let _ = sync_folder(root_folder);
            }
            Err(_) if is_new => {
                let _ = fs::remove_dir(root_folder);
            }
            Err(_) => {}
        }
        moved
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // The next command tries again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl NewRoot {
    /// Finds the root in its store, unless it was replaced or removed in the meantime.
    pub fn find(&self, store: &RootStore) -> Result<Option<InstalledRoot>, RootStoreError> {
        Ok(store
            .get(&self.name)?
            .filter(|root| root.record.as_ref() == Some(&self.record)))
    }
}

fn write_record(path: &Path, record: &RootRecord) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(record)?;
    text.push(b'\n');
    let mut file = File::create_new(path)?;
    file.write_all(&text)?;
    // Executors of other users read it and lock it.
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Returns whether the folder is new.
fn create_root_folder(path: &Path) -> io::Result<bool> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        created => {
            created?;
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
            Ok(true)
        }
    }
}

/// Replaces the link atomically: at every moment it leads to a whole generation.
fn replace_link(root_folder: &Path, generation: &str) -> io::Result<()> {
    let new = root_folder.join(format!("{NEW_LINK_PREFIX}{generation}"));
    symlink(generation, &new)?;
    fs::rename(&new, root_folder.join(CURRENT)).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
