//! The workspace of a slot whose tasks run in cells: a file system that the warden has made for this task alone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

use model::{Handout, TaskSpec};
use nix::sys::statvfs::statvfs;
use sandbox::Warden;

use super::{ATTEMPT, BOX, INPUT, Supply, WorkspaceError, failed, put, write, write_attempt};

pub(crate) struct InCell {
    root: PathBuf,
    attempt: Option<File>,
    /// Whom the files must belong to, where that is not us.
    owner: Option<u32>,
}

impl InCell {
    pub(super) fn new(root: PathBuf, owner: Option<u32>) -> InCell {
        InCell {
            root,
            attempt: None,
            owner,
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// No command has run in it yet, so there is nothing in it that could mislead us.
    pub(super) fn lay_out(
        &mut self,
        warden: &Warden,
        handout: &Handout,
        spec: &TaskSpec,
        supply: &Supply<'_>,
    ) -> Result<(), WorkspaceError> {
        self.remember(handout)
            .map_err(failed("write the attempt in", &self.root))?;
        let missing = || io::Error::from(io::ErrorKind::NotConnected);
        let folder = warden
            .folder()
            .ok_or_else(missing)
            .map_err(failed("reach", Path::new(BOX)))?;
        self.fill(&folder, spec, supply)
            .map_err(|error| if_full(error, &folder))
    }

    fn fill(&self, folder: &Path, spec: &TaskSpec, supply: &Supply<'_>) -> Result<(), WorkspaceError> {
        if spec.execute.input.blob().is_some() {
            write(&folder.join(INPUT), 0o644, &spec.execute.input, supply)?;
        }
        let directory = folder.join(BOX);
        for (path, file) in spec.layout() {
            put(&directory, &path, file, supply)?;
            self.hand_over(&directory, Path::new(path.as_ref() as &str))?;
        }
        Ok(())
    }

    /// Gives a file, and the folders that it lies in, to the task's user.
    fn hand_over(&self, directory: &Path, path: &Path) -> Result<(), WorkspaceError> {
        let Some(owner) = self.owner else {
            return Ok(());
        };
        let within = path.ancestors().filter(|path| !path.as_os_str().is_empty());
        for path in within.map(|path| directory.join(path)) {
            lchown(&path, Some(owner), Some(owner)).map_err(failed("hand over", &path))?;
        }
        Ok(())
    }

    fn remember(&mut self, handout: &Handout) -> io::Result<()> {
        let file = match self.attempt.take() {
            Some(file) => file,
            None => {
                fs::create_dir_all(&self.root)?;
                File::create(self.root.join(ATTEMPT))?
            }
        };
        write_attempt(&file, handout)?;
        self.attempt = Some(file);
        Ok(())
    }
}

/// That there is no room left is told as what the task has too much of. Any other error stays what it is.
fn if_full(error: WorkspaceError, folder: &Path) -> WorkspaceError {
    let is_full = |source: &io::Error| {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(source.kind(), StorageFull | QuotaExceeded)
    };
    match (&error, statvfs(folder)) {
        (WorkspaceError::Failed { source, .. }, Ok(space)) if is_full(source) => {
            match space.files_free() == 0 && space.blocks_available() > 0 {
                true => WorkspaceError::TooManyFiles { files: space.files() },
                false => WorkspaceError::NoSpace {
                    bytes: space.blocks() * space.fragment_size(),
                },
            }
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_file_system_is_the_tasks_doing() {
        let folder = tempfile::tempdir().unwrap();
        let told = |errno: i32| {
            let error = failed("write", Path::new("x"))(io::Error::from_raw_os_error(errno));
            if_full(error, folder.path())
        };
        let (no_space, quota, no_memory, broken) = (28, 122, 12, 5);
        for errno in [no_space, quota] {
            let error = told(errno);
            // Which of the two, the file system beneath the test decides.
            let is_tasks = matches!(
                error,
                WorkspaceError::NoSpace { .. } | WorkspaceError::TooManyFiles { .. }
            );
            assert!(is_tasks, "{error}");
        }
        for errno in [no_memory, broken] {
            let error = told(errno);
            assert!(matches!(error, WorkspaceError::Failed { .. }), "{error}");
        }
    }
}
