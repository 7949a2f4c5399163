//! A task's directory: its files laid out, and nothing left of it afterwards.
//!
//! ```text
//! work/TASK.SESSION.ATTEMPT         where the commands run: the source files, and the data files in data/
//! work/TASK.SESSION.ATTEMPT.tmp     TMPDIR
//! work/TASK.SESSION.ATTEMPT.input   standard input, where it is a blob
//! ```
//!
//! Side by side and not in a folder of their own, which would cost a short task as much again. The name says which
//! attempt it is: what the next life finds here was running when this one was killed.

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
    directory: PathBuf,
    temporary: PathBuf,
    input: Option<PathBuf>,
}

impl Workspace {
    pub(crate) fn lay_out(
        work: &Path,
        handout: &Handout,
        spec: &TaskSpec,
        cache: &Cache,
    ) -> Result<Workspace, WorkspaceError> {
        let name = folder_name(handout);
        let mut workspace = Workspace {
            directory: work.join(&name),
            temporary: work.join(format!("{name}.tmp")),
            input: None,
        };
        for folder in [&workspace.directory, &workspace.temporary] {
            DirBuilder::new()
                .mode(0o755)
                .create(folder)
                .map_err(failed("make", folder))?;
        }
        if let Content::Blob(hash) = &spec.execute.input {
            // A copy, so that a task which reopens its input for writing does not reach the cached blob.
            let path: &Path = workspace.input.insert(work.join(format!("{name}.input")));
            fs::copy(cache.path(hash), path).map_err(failed("copy the input to", path))?;
        }
        let directory = &workspace.directory;
        for (path, file) in spec.layout() {
            let path = directory.join(path);
            if let Some(parent) = path.parent().filter(|parent| parent != directory) {
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

    /// Where the commands run.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    pub(crate) fn input(&self) -> Option<&Path> {
        self.input.as_deref()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // The folder that tells the attempt goes last.
        let removed = self.input.as_ref().map_or(Ok(()), fs::remove_file);
        let removed = removed.and(remove(&self.temporary)).and(remove(&self.directory));
        if let Err(error) = removed {
            let path = self.directory.display();
            tracing::warn!(%path, %error, "could not remove a workspace; the next start will");
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
    if parts.next().is_some() {
        return None;
    }
    Some(Handout {
        task,
        session,
        attempt,
    })
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkspaceError {
    move |source| WorkspaceError {
        step,
        path: path.to_path_buf(),
        source,
    }
}

/// Removes all that is in a folder, but neither the folder, which may be a disk of its own, nor what belongs to
/// such a disk.
pub(crate) fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "lost+found" {
                remove(&entry.path())?;
            }
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes a folder and all that is in it, links not followed, also where a task took away the permission to.
fn remove(root: &Path) -> io::Result<()> {
    // Most are empty, and need no look into them.
    if fs::remove_dir(root).is_ok() {
        return Ok(());
    }
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
        assert_eq!(attempt_of(&format!("{}.tmp", folder_name(&handout))), None);
    }
}
