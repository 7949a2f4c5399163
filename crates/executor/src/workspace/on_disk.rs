//! The workspace of a warden without cells: folders in the executor's data folder.
//!
//! Folders that a task has not changed are reused. Creating and removing them can take longer than a short task: a store on
//! the same file system syncs all the time, and changes to folders wait for a sync.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};

use model::{AttemptId, TaskForm};

use super::contents::{WorkspaceContents, set_folder_modes, write, write_entry};
use super::remove::remove;
use super::reusable_folder::{FolderFingerprint, ReusableFolder};
use super::{ATTEMPT, BOX, INPUT, TEMPORARY, TaskFileSource, WorkspaceError, io_error, write_attempt};

/// The entries that the executor itself creates in the root.
const OWN_ENTRIES: [&str; 3] = [BOX, TEMPORARY, ATTEMPT];

/// The workspace of a warden without cells: folders for a task's files in the executor's data folder.
pub(crate) struct DiskWorkspace {
    root: PathBuf,
    /// `None` if they have to be created again before the next task.
    folders: Option<[ReusableFolder; 2]>,
    attempt: Option<File>,
    /// Whether the task has an input file.
    has_input: bool,
    /// The fingerprint of the root when the task started.
    fingerprint: Option<FolderFingerprint>,
}

impl DiskWorkspace {
    pub(super) fn new(root: PathBuf) -> DiskWorkspace {
        DiskWorkspace {
            root,
            folders: None,
            attempt: None,
            has_input: false,
            fingerprint: None,
        }
    }

    /// Creates the folders for the task's files, if necessary, and records the attempt beside them.
    pub(super) fn record_attempt(
        &mut self,
        attempt_id: &AttemptId,
        form: TaskForm,
        progress: &dyn Fn(),
    ) -> Result<(), WorkspaceError> {
        self.fingerprint = None;
        self.create_folders(progress)?;
        let written = self
            .attempt
            .as_ref()
            .map_or(Ok(()), |file| write_attempt(file, attempt_id, form));
        written.map_err(io_error("write the attempt in", &self.root))
    }

    /// Writes files.
    pub(crate) fn lay_out(
        &mut self,
        contents: &WorkspaceContents<'_>,
        source: &TaskFileSource<'_>,
    ) -> Result<(), WorkspaceError> {
        let filled = self.fill(contents, source);
        filled.map_err(|error| error.blame_path(&self.directory()))?;
        self.fingerprint =
            Some(FolderFingerprint::of(&self.root).map_err(io_error("read the metadata of", &self.root))?);
        Ok(())
    }

    fn fill(
        &mut self,
        contents: &WorkspaceContents<'_>,
        source: &TaskFileSource<'_>,
    ) -> Result<(), WorkspaceError> {
        self.has_input = contents.input.is_some();
        if let Some(input) = contents.input {
            write(&self.input(), 0o644, input, source)?;
        }
        let directory = self.directory();
        for entry in &contents.entries {
            write_entry(&directory, entry, source)?;
        }
        set_folder_modes(&directory, &contents.entries)
    }

    /// Removes all files of the last task.
    pub(crate) fn clear(&mut self, progress: &dyn Fn()) {
        if let Err(error) = self.try_clear(progress) {
            tracing::warn!(path = %self.root.display(), %error, "could not clear a workspace; retrying before the next task");
            self.folders = None;
        }
    }

    fn try_clear(&mut self, progress: &dyn Fn()) -> io::Result<()> {
        let has_input = std::mem::take(&mut self.has_input);
        if !self.is_root_unchanged(|name| {
            OWN_ENTRIES.iter().any(|own| name == *own) || has_input && name == INPUT
        }) {
            // The task has changed the root, so nothing in it can be trusted.
            self.folders = None;
            return remove(&self.root, progress);
        }
        if has_input {
            fs::remove_file(self.input())?;
        }
        for folder in self.folders.iter_mut().flatten() {
            folder.restore(progress)?;
        }
        Ok(())
    }

    /// Whether the root has the same fingerprint as before the task and contains only known entries. The fingerprint alone is
    /// not enough: timestamps are coarse, and two changes can have the same one.
    fn is_root_unchanged(&self, known: impl Fn(&OsStr) -> bool) -> bool {
        let same = FolderFingerprint::of(&self.root)
            .is_ok_and(|fingerprint| self.fingerprint.as_ref() == Some(&fingerprint));
        let known = |entry: io::Result<DirEntry>| entry.is_ok_and(|entry| known(&entry.file_name()));
        same && fs::read_dir(&self.root).is_ok_and(|mut entries| entries.all(known))
    }

    fn create_folders(&mut self, progress: &dyn Fn()) -> Result<(), WorkspaceError> {
        if self.folders.is_some() {
            return Ok(());
        }
        let failed = io_error("create", &self.root);
        let made = remove(&self.root, progress)
            .and_then(|()| fs::create_dir(&self.root))
            .and_then(|()| {
                Ok([
                    ReusableFolder::create(self.directory())?,
                    ReusableFolder::create(self.temporary())?,
                ])
            })
            .and_then(|folders| Ok((folders, File::create(self.root.join(ATTEMPT))?)));
        let (folders, attempt) = made.map_err(failed)?;
        self.folders = Some(folders);
        self.attempt = Some(attempt);
        Ok(())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The working directory of the commands.
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_folder_is_restored_before_it_is_reused() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("box");
        let mut folder = ReusableFolder::create(path.clone()).unwrap();
        let inode = || fs::metadata(&path).unwrap().ino();
        let check = |folder: &mut ReusableFolder, change: &dyn Fn()| {
            change();
            folder.restore(&|| ()).unwrap();
            let metadata = fs::symlink_metadata(&path).unwrap();
            assert!(metadata.is_dir());
            assert_eq!(metadata.mode() & 0o7777, 0o755);
            assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        };
        let before = inode();
        check(&mut folder, &|| ());
        assert_eq!(inode(), before, "an unchanged folder is kept");
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
}
