//! The data folder: one part for each that keeps something.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    /// Makes the folder if it is missing, and finds out now whether it can be written.
    pub(crate) fn prepare(path: &Path) -> Result<Folder> {
        let path = std::path::absolute(path)
            .with_context(|| format!("the data folder {} has no absolute path", path.display()))?;
        let unusable = || {
            format!(
                "the data folder {} cannot be used; make it writable for this user, or choose another with --data",
                path.display()
            )
        };
        std::fs::create_dir_all(&path).with_context(unusable)?;
        tempfile::tempfile_in(&path).with_context(unusable)?;
        Ok(Folder { path })
    }

    /// What users sent is nobody else's business.
    pub(crate) fn store(&self) -> Result<PathBuf> {
        self.part("store", 0o700)
    }

    /// Tasks run below it, later perhaps as another user.
    pub(crate) fn executor(&self) -> Result<PathBuf> {
        self.part("executor", 0o755)
    }

    /// Everybody may read what the services are told; secrets are not among it.
    pub(crate) fn run(&self) -> Result<PathBuf> {
        self.part("run", 0o755)
    }

    /// Where blobs are gathered on their way into the replica set.
    pub(crate) fn incoming(&self) -> Result<PathBuf> {
        self.part("incoming", 0o700)
    }

    /// The secret that the node makes for itself where none is configured.
    pub(crate) fn cluster_secret(&self) -> PathBuf {
        self.path.join("cluster-secret")
    }

    pub(crate) fn log(&self) -> Result<PathBuf> {
        self.part("log", 0o750)
    }

    pub(crate) fn etcd(&self) -> Result<PathBuf> {
        self.part("etcd", 0o700)
    }

    pub(crate) fn mongodb(&self) -> Result<PathBuf> {
        self.part("mongodb", 0o700)
    }

    fn part(&self, name: &str, mode: u32) -> Result<PathBuf> {
        let path = self.path.join(name);
        match DirBuilder::new().mode(mode).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("could not make the folder {}", path.display()))
            }
            _ => Ok(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_and_used_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        for _ in 0..2 {
            let folder = Folder::prepare(&path).unwrap();
            assert!(folder.store().unwrap().is_dir());
            assert!(folder.executor().unwrap().is_dir());
        }
    }

    #[test]
    fn an_unusable_folder_is_named_with_the_remedy() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, "").unwrap();
        let wrong = format!("{:#}", Folder::prepare(&path).unwrap_err());
        assert!(
            wrong.contains("file cannot be used") && wrong.contains("--data"),
            "{wrong}"
        );
    }
}
