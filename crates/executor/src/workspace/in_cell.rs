//! The workspace of a slot whose tasks run in cells: a file system that the warden has made for this task alone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

use model::{Content, Handout, TaskSpec};
use nix::sys::statvfs::statvfs;
use sandbox::{FileSize, Warden};

use super::{
    ATTEMPT, BOX, INPUT, Supply, WorkspaceError, create, failed, fill, make_folders, mode, put, write,
    write_attempt,
};

/// What a task brings beyond so many bytes counts as its memory. For less, it is not worth a process.
const CHARGED_FROM: u64 = 1 << 20;
/// More than this is charged in parts, each of which takes some hundred milliseconds.
const CHARGED_AT_ONCE: u64 = 256 << 20;
const INPUT_MODE: u32 = 0o644;

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
        warden: &mut Warden,
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
        let mut bytes = 0_u64;
        for content in spec.contents() {
            bytes = bytes.saturating_add(size(content, supply)?);
        }
        // Checked when the task was added. Its blobs are measured here once more, before anything is allocated.
        if let Some(space) = spec.space().filter(|space| bytes > *space) {
            return Err(WorkspaceError::NoSpace { bytes: space });
        }
        let filled = match bytes >= CHARGED_FROM {
            true => self.fill_charged(warden, &folder, spec, supply),
            false => self.fill(&folder, spec, supply),
        };
        filled.map_err(|error| if_full(error, &folder))
    }

    fn fill(&self, folder: &Path, spec: &TaskSpec, supply: &Supply<'_>) -> Result<(), WorkspaceError> {
        if spec.execute.input.blob().is_some() {
            write(&folder.join(INPUT), INPUT_MODE, &spec.execute.input, supply)?;
        }
        let directory = folder.join(BOX);
        for (path, file) in spec.layout() {
            put(&directory, &path, file, supply)?;
            self.hand_over(&directory, Path::new(path.as_ref() as &str))?;
        }
        Ok(())
    }

    /// The same for a task that brings much: its files count as memory of its control group. So they are made first, then
    /// allocated by the warden, which can do so in that group, and then filled.
    fn fill_charged(
        &self,
        warden: &mut Warden,
        folder: &Path,
        spec: &TaskSpec,
        supply: &Supply<'_>,
    ) -> Result<(), WorkspaceError> {
        let directory = folder.join(BOX);
        let input = Some(&spec.execute.input).filter(|input| input.blob().is_some());
        let mut sizes = Vec::new();
        if let Some(input) = input {
            create(&folder.join(INPUT), INPUT_MODE)?;
            sizes.push(FileSize {
                path: INPUT.into(),
                bytes: size(input, supply)?,
            });
        }
        for (path, file) in spec.layout() {
            (supply.progress)()?;
            let path = Path::new(path.as_ref() as &str);
            make_folders(&directory, &directory.join(path))?;
            create(&directory.join(path), mode(file))?;
            sizes.push(FileSize {
                path: Path::new(BOX).join(path),
                bytes: size(&file.content, supply)?,
            });
        }
        for sizes in in_parts(sizes) {
            (supply.progress)()?;
            warden.charge(sizes)?;
        }
        if let Some(input) = input {
            let path = folder.join(INPUT);
            fill(reopen(&path)?, &path, input, supply)?;
        }
        for (path, file) in spec.layout() {
            (supply.progress)()?;
            let path = Path::new(path.as_ref() as &str);
            let whole = directory.join(path);
            fill(reopen(&whole)?, &whole, &file.content, supply)?;
            self.hand_over(&directory, path)?;
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

fn size(content: &Content, supply: &Supply<'_>) -> Result<u64, WorkspaceError> {
    match content {
        Content::Inline(bytes) => Ok(bytes.len() as u64),
        Content::Blob(hash) => {
            let blob = supply.cache.path(hash);
            let found = fs::metadata(&blob).map_err(failed("look at the blob", &blob))?;
            Ok(found.len())
        }
    }
}

/// So that the layout of many files can stop between two parts. A file is never divided.
fn in_parts(sizes: Vec<FileSize>) -> Vec<Vec<FileSize>> {
    let mut parts: Vec<Vec<FileSize>> = Vec::new();
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

/// Without cutting it off, which would give back what was allocated for it.
fn reopen(path: &Path) -> Result<File, WorkspaceError> {
    let opened = OpenOptions::new().write(true).open(path);
    opened.map_err(failed("open", path))
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
    fn much_is_charged_in_parts() {
        let check = |sizes: &[u64], expected: &[&[u64]]| {
            let files = sizes.iter().map(|mebibytes| FileSize {
                path: BOX.into(),
                bytes: mebibytes << 20,
            });
            let parts = in_parts(files.collect());
            let sizes = |part: &Vec<FileSize>| part.iter().map(|file| file.bytes >> 20).collect();
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
