//! The workspace of a warden with cells: a file system that the warden mounts for one task.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};

use model::{AttemptId, TaskForm};
use nix::sys::statvfs::statvfs;
use sandbox::{FileAllocation, Warden};

use super::contents::{
    WorkspaceContents, WorkspaceEntryKind, create, fill, make_folder, make_folders, set_folder_modes,
    set_mode, write, write_entry,
};
use super::{ATTEMPT, BOX, CREATE, INPUT, TaskFileSource, WorkspaceError, io_error, write_attempt};

/// From this size on, the files of a task are charged to its control group. Below it the extra process is not worth it.
const CHARGED_FROM: u64 = 1 << 20;
/// More bytes than this are charged in parts; each part takes some hundred milliseconds.
const CHARGED_AT_ONCE: u64 = 256 << 20;
const INPUT_MODE: u32 = 0o644;

/// The workspace of a warden with cells, a file system mounted for each task, as the executor writes files into it.
pub(crate) struct CellWorkspace {
    root: PathBuf,
    attempt: Option<File>,
    /// The user id that must own the files, if it is not that of the executor.
    owner: Option<u32>,
}

impl CellWorkspace {
    pub(super) fn new(root: PathBuf, owner: Option<u32>) -> CellWorkspace {
        CellWorkspace {
            root,
            attempt: None,
            owner,
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn record_attempt(
        &mut self,
        attempt_id: &AttemptId,
        form: TaskForm,
    ) -> Result<(), WorkspaceError> {
        let failed = io_error("write the attempt in", &self.root);
        let opened = self.attempt.take().map_or_else(|| create_record(&self.root), Ok);
        let written = opened.and_then(|file| write_attempt(&file, attempt_id, form).map(|()| file));
        self.attempt = Some(written.map_err(failed)?);
        Ok(())
    }

    /// Writes files. No command has run in the file system yet, so it contains no links of a task.
    pub(super) fn lay_out(
        &mut self,
        warden: &mut Warden,
        contents: &WorkspaceContents<'_>,
        source: &TaskFileSource<'_>,
    ) -> Result<(), WorkspaceError> {
        let folder = task_folder(warden).map_err(io_error("reach", Path::new(BOX)))?;
        let bytes = contents.bytes(source.cache)?;
        // The judicator has checked this; the blobs are measured again before anything is allocated.
        if let Some(space) = contents.space.filter(|space| bytes > *space) {
            return Err(WorkspaceError::NoSpace { bytes: space });
        }
        let filled = match bytes >= CHARGED_FROM {
            true => self.fill_charged(warden, &folder, contents, source),
            false => self.fill(&folder, contents, source),
        };
        filled.map_err(|error| if_full(error, &folder).blame_path(&folder.join(BOX)))
    }

    fn fill(
        &self,
        folder: &Path,
        contents: &WorkspaceContents<'_>,
        source: &TaskFileSource<'_>,
    ) -> Result<(), WorkspaceError> {
        if let Some(input) = contents.input {
            write(&folder.join(INPUT), INPUT_MODE, input, source)?;
        }
        let directory = folder.join(BOX);
        for entry in &contents.entries {
            write_entry(&directory, entry, source)?;
            self.change_owner(&directory, &entry.path)?;
        }
        set_folder_modes(&directory, &contents.entries)
    }

    /// Writes large files, which count as memory of the task's control group: creates them, lets the warden allocate them
    /// from within that group, and then fills them.
    fn fill_charged(
        &self,
        warden: &mut Warden,
        folder: &Path,
        contents: &WorkspaceContents<'_>,
        source: &TaskFileSource<'_>,
    ) -> Result<(), WorkspaceError> {
        let directory = folder.join(BOX);
        let mut sizes = Vec::new();
        if let Some(input) = contents.input {
            create(&folder.join(INPUT), INPUT_MODE)?;
            sizes.push(FileAllocation {
                path: INPUT.into(),
                bytes: input.size(source.cache)?,
            });
        }
        for entry in &contents.entries {
            let WorkspaceEntryKind::File { mode, content } = entry.kind else {
                continue;
            };
            (source.progress)()?;
            let path = directory.join(&entry.path);
            make_folders(&directory, &path)?;
            create(&path, mode)?;
            sizes.push(FileAllocation {
                path: Path::new(BOX).join(&entry.path),
                bytes: content.size(source.cache)?,
            });
        }
        for sizes in in_parts(sizes) {
            (source.progress)()?;
            warden.allocate_files(sizes)?;
        }
        if let Some(input) = contents.input {
            let path = folder.join(INPUT);
            fill(&reopen(&path)?, &path, input, source)?;
        }
        for entry in &contents.entries {
            (source.progress)()?;
            let path = directory.join(&entry.path);
            match entry.kind {
                WorkspaceEntryKind::Folder { .. } => make_folder(&path)?,
                WorkspaceEntryKind::File { mode, content } => {
                    let file = reopen(&path)?;
                    fill(&file, &path, content, source)?;
                    set_mode(&file, &path, mode)?;
                }
                WorkspaceEntryKind::Link { target } => {
                    make_folders(&directory, &path)?;
                    symlink(target, &path).map_err(io_error(CREATE, &path))?;
                }
            }
            self.change_owner(&directory, &entry.path)?;
        }
        set_folder_modes(&directory, &contents.entries)
    }

    /// Changes the owner of a file and of its parent folders to the task's user.
    fn change_owner(&self, directory: &Path, path: &Path) -> Result<(), WorkspaceError> {
        let Some(owner) = self.owner else {
            return Ok(());
        };
        let within = path.ancestors().filter(|path| !path.as_os_str().is_empty());
        for path in within.map(|path| directory.join(path)) {
            lchown(&path, Some(owner), Some(owner)).map_err(io_error("change the owner of", &path))?;
        }
        Ok(())
    }
}

fn create_record(root: &Path) -> io::Result<File> {
    fs::create_dir_all(root)?;
    File::create(root.join(ATTEMPT))
}

/// The working directory of the commands, as the executor reaches it.
pub(super) fn directory(warden: &Warden) -> io::Result<PathBuf> {
    Ok(task_folder(warden)?.join(BOX))
}

fn task_folder(warden: &Warden) -> io::Result<PathBuf> {
    let folder = warden.task_folder();
    folder.ok_or_else(|| io::ErrorKind::NotConnected.into())
}

/// Groups the files, so that a revoked attempt can stop between two groups. A file is never split.
fn in_parts(sizes: Vec<FileAllocation>) -> Vec<Vec<FileAllocation>> {
    let mut parts: Vec<Vec<FileAllocation>> = Vec::new();
    let mut bytes = 0_u64;
    for size in sizes {
        bytes = bytes.saturating_add(size.bytes);
        match parts.last_mut() {
            Some(part) if bytes <= CHARGED_AT_ONCE => part.push(size),
            _ => {
                bytes = size.bytes;
                parts.push(vec![size]);
            }
        }
    }
    parts
}

/// Opens without truncation, which would free the allocated memory.
fn reopen(path: &Path) -> Result<File, WorkspaceError> {
    let opened = OpenOptions::new().write(true).open(path);
    opened.map_err(io_error("open", path))
}

/// Turns the error of a full file system into the one that tells the user what the task has too much of.
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
    fn large_files_are_charged_in_parts() {
        let check = |sizes: &[u64], expected: &[&[u64]]| {
            let files = sizes.iter().map(|mebibytes| FileAllocation {
                path: BOX.into(),
                bytes: mebibytes << 20,
            });
            let parts = in_parts(files.collect());
            let sizes = |part: &Vec<FileAllocation>| part.iter().map(|file| file.bytes >> 20).collect();
            let found: Vec<Vec<u64>> = parts.iter().map(sizes).collect();
            assert_eq!(found, expected);
        };
        check(&[], &[]);
        check(&[0], &[&[0]]);
        check(
            &[100, 100, 56, 1, 300, 2, 254],
            &[&[100, 100, 56], &[1], &[300], &[2, 254]],
        );
    }

    #[test]
    fn only_a_full_file_system_is_blamed_on_the_task() {
        let folder = tempfile::tempdir().unwrap();
        let converted = |errno: i32| {
            let error = io_error("write", Path::new("x"))(io::Error::from_raw_os_error(errno));
            if_full(error, folder.path())
        };
        let (no_space, quota, no_memory, broken) = (28, 122, 12, 5);
        for errno in [no_space, quota] {
            let error = converted(errno);
            // The file system of the test machine decides which of the two.
            let is_tasks = matches!(
                error,
                WorkspaceError::NoSpace { .. } | WorkspaceError::TooManyFiles { .. }
            );
            assert!(is_tasks, "{error}");
        }
        for errno in [no_memory, broken] {
            let error = converted(errno);
            assert!(matches!(error, WorkspaceError::Failed { .. }), "{error}");
        }
    }
}
