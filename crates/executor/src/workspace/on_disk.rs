//! The workspace of a slot whose tasks run without cells: folders in the executor's data folder.
//!
//! The folders serve again where a task left no trace on them. To make and remove them for each task would cost a
//! short one more than its run: a file system that is being synced, as the store does all the time, makes whoever
//! changes a folder wait.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};

use model::{Handout, TaskSpec};

use super::pristine::{Mark, Pristine};
use super::remove::remove;
use super::{ATTEMPT, BOX, INPUT, Supply, TEMPORARY, WorkspaceError, failed, put, write, write_attempt};

/// What always lies in the root.
const OWN: [&str; 3] = [BOX, TEMPORARY, ATTEMPT];

pub(crate) struct OnDisk {
    root: PathBuf,
    /// `None` after trouble: made anew before the next task.
    folders: Option<[Pristine; 2]>,
    attempt: Option<File>,
    /// How the root was when the task got it.
    mark: Option<Mark>,
}

impl OnDisk {
    pub(super) fn new(root: PathBuf) -> OnDisk {
        OnDisk {
            root,
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
        supply: &Supply<'_>,
    ) -> Result<(), WorkspaceError> {
        self.mark = None;
        // What the last task left is removed whether or not this one goes on.
        self.make(&|| {
            let _ = (supply.progress)();
        })?;
        self.write_attempt(handout)?;
        if spec.execute.input.blob().is_some() {
            write(&self.input(), 0o644, &spec.execute.input, supply)?;
        }
        for (path, file) in spec.layout() {
            put(&self.directory(), &path, file, supply)?;
        }
        self.mark = Some(Mark::of(&self.root).map_err(failed("look at", &self.root))?);
        Ok(())
    }

    /// Removes all that the last task had and left.
    pub(crate) fn clear(&mut self, spec: &TaskSpec, progress: &dyn Fn()) {
        if let Err(error) = self.try_clear(spec, progress) {
            tracing::warn!(path = %self.root.display(), %error, "could not clear a workspace; trying before the next task");
            self.folders = None;
        }
    }

    fn try_clear(&mut self, spec: &TaskSpec, progress: &dyn Fn()) -> io::Result<()> {
        let has_input = spec.execute.input.blob().is_some();
        if !self.root_holds(|name| OWN.iter().any(|own| name == *own) || has_input && name == INPUT) {
            // Where the task may have put anything beside our own, nothing there can be trusted.
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

    /// Whether nobody has changed the root since the task got it, and all that is in it is known. The mark alone
    /// would not do: times have steps, and two changes may fall on the same one.
    fn root_holds(&self, known: impl Fn(&OsStr) -> bool) -> bool {
        let same = Mark::of(&self.root).is_ok_and(|mark| self.mark.as_ref() == Some(&mark));
        let known = |entry: io::Result<DirEntry>| entry.is_ok_and(|entry| known(&entry.file_name()));
        same && fs::read_dir(&self.root).is_ok_and(|mut entries| entries.all(known))
    }

    pub(super) fn make(&mut self, progress: &dyn Fn()) -> Result<(), WorkspaceError> {
        if self.folders.is_some() {
            return Ok(());
        }
        let failed = failed("make", &self.root);
        let made = remove(&self.root, progress)
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

    pub(super) fn write_attempt(&self, handout: &Handout) -> Result<(), WorkspaceError> {
        let written = self
            .attempt
            .as_ref()
            .map_or(Ok(()), |file| write_attempt(file, handout));
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_folder_serves_again_only_as_it_was() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("box");
        let mut folder = Pristine::make(path.clone()).unwrap();
        let inode = || fs::metadata(&path).unwrap().ino();
        let check = |folder: &mut Pristine, change: &dyn Fn()| {
            change();
            folder.restore(&|| ()).unwrap();
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
}
