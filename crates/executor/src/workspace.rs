//! A task's directory: its files laid out, and nothing left of it afterwards.
//!
//! ```text
//! work/TASK.SESSION.ATTEMPT/box/   where the commands run: the source files, and the data files in data/
//! work/TASK.SESSION.ATTEMPT/tmp/   TMPDIR
//! ```
//!
//! The name says which attempt it is: what the next life finds here was running when this one was killed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use model::{Attempt, Content, Handout, SessionId, TaskSpec};
use thiserror::Error;
use uuid::Uuid;

use crate::cache::Cache;

#[derive(Debug, Error)]
#[error("could not {step} {path}: {source}")]
pub(crate) struct WorkspaceError {
    step: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Removed when dropped.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    pub(crate) fn lay_out(
        work: &Path,
        handout: &Handout,
        spec: &TaskSpec,
        cache: &Cache,
    ) -> Result<Workspace, WorkspaceError> {
        let workspace = Workspace {
            root: work.join(folder_name(handout)),
        };
        for folder in [
            workspace.root.clone(),
            workspace.directory(),
            workspace.temporary(),
        ] {
            make_folder(&folder)?;
        }
        let directory = workspace.directory();
        for (path, file) in spec.layout() {
            let path = directory.join(path);
            if let Some(parent) = path.parent().filter(|parent| *parent != directory) {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o755)
                    .create(parent)
                    .map_err(failed("make", parent))?;
            }
            let mode = if file.executable { 0o755 } else { 0o644 };
            // The check at add time leaves no way for two files to meet here; creating anew makes sure of it.
            let mut out = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&path)
                .map_err(failed("make", &path))?;
            match &file.content {
                Content::Inline(bytes) => out.write_all(bytes).map_err(failed("write", &path))?,
                Content::Blob(hash) => {
                    // A copy and no link: the task may write to its file, and the cached one must stay.
                    let mut blob =
                        File::open(cache.path(hash)).map_err(failed("open the blob for", &path))?;
                    io::copy(&mut blob, &mut out).map_err(failed("write", &path))?;
                }
            }
        }
        Ok(workspace)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the commands run.
    pub(crate) fn directory(&self) -> PathBuf {
        self.root.join("box")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.root) {
            tracing::warn!(path = %self.root.display(), %error, "could not remove a workspace; the next start will");
        }
    }
}

/// The attempts that have a workspace in `work`.
pub(crate) fn attempts(work: &Path) -> io::Result<Vec<Handout>> {
    let mut attempts = Vec::new();
    for entry in fs::read_dir(work)? {
        attempts.extend(entry?.file_name().to_str().and_then(attempt_of));
    }
    Ok(attempts)
}

fn folder_name(handout: &Handout) -> String {
    let Handout {
        task,
        session,
        attempt,
    } = handout;
    format!("{task}.{session}.{attempt}")
}

fn attempt_of(name: &str) -> Option<Handout> {
    let mut parts = name.split('.');
    let task = parts.next()?.parse().ok()?;
    let session = SessionId(Uuid::try_parse(parts.next()?).ok()?);
    let attempt = Attempt(parts.next()?.parse().ok()?);
    Some(Handout {
        task,
        session,
        attempt,
    })
}

fn make_folder(path: &Path) -> Result<(), WorkspaceError> {
    DirBuilder::new()
        .mode(0o755)
        .create(path)
        .map_err(failed("make", path))
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkspaceError {
    move |source| WorkspaceError {
        step,
        path: path.to_path_buf(),
        source,
    }
}

/// Removes a folder and all that is in it, links not followed, also where a task took away the permission to.
pub(crate) fn remove(root: &Path) -> io::Result<()> {
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(root)?;
            fs::remove_dir_all(root)
        }
        other => other,
    }
}

/// Makes every folder writable again. An explicit stack: a task may have nested them deeper than ours is long.
fn open_up(root: &Path) -> io::Result<()> {
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::TaskId;

    use super::*;

    #[test]
    fn a_workspace_tells_its_attempt() {
        let handout = Handout {
            task: TaskId::generate(),
            session: SessionId::generate(),
            attempt: Attempt(3),
        };
        assert_eq!(attempt_of(&folder_name(&handout)), Some(handout));
        assert_eq!(attempt_of("lost+found"), None);
    }
}
