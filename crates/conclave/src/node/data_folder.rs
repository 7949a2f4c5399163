//! The data folder of a node, with one subfolder for each service that stores something.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The data folder of a node that is starting or running, with one subfolder for each service that stores something.
#[derive(Clone, Debug)]
pub(crate) struct NodeFolder {
    pub(crate) path: PathBuf,
}

impl NodeFolder {
    /// Creates the folder if it is missing, and checks that it is writable.
    pub(crate) fn prepare(path: &Path) -> Result<NodeFolder> {
        let path = std::path::absolute(path)
            .with_context(|| format!("the data folder {} has no absolute path", path.display()))?;
        let error_message = || {
            format!(
                "the data folder {} cannot be used; make it writable for this user, or choose another with --data",
                path.display()
            )
        };
        std::fs::create_dir_all(&path).with_context(error_message)?;
        tempfile::tempfile_in(&path).with_context(error_message)?;
        Ok(NodeFolder { path })
    }

    /// Readable by the node's user only, because it has the users' data.
    pub(crate) fn store_folder(&self) -> Result<PathBuf> {
        self.subfolder("store", 0o700)
    }

    /// Accessible to all users, because tasks run below it under other user ids.
    pub(crate) fn executor_folder(&self) -> Result<PathBuf> {
        self.subfolder("executor", 0o755)
    }

    /// Readable by all users: it has the services' configuration, but no secrets.
    pub(crate) fn run_folder(&self) -> Result<PathBuf> {
        self.subfolder("run", 0o755)
    }

    /// Temporary files of blobs that are being uploaded to the replica set.
    pub(crate) fn incoming_folder(&self) -> Result<PathBuf> {
        self.subfolder("incoming", 0o700)
    }

    /// The path of the secret that the node generates if none is configured.
    pub(crate) fn cluster_secret_path(&self) -> PathBuf {
        self.path.join("cluster-secret")
    }

    pub(crate) fn log_folder(&self) -> Result<PathBuf> {
        self.subfolder("log", 0o750)
    }

    pub(crate) fn etcd_folder(&self) -> Result<PathBuf> {
        self.subfolder("etcd", 0o700)
    }

    pub(crate) fn mongodb_folder(&self) -> Result<PathBuf> {
        self.subfolder("mongodb", 0o700)
    }

    fn subfolder(&self, name: &str, mode: u32) -> Result<PathBuf> {
        let path = self.path.join(name);
        match DirBuilder::new().mode(mode).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("could not create the folder {}", path.display()))
            }
            _ => Ok(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_created_and_an_existing_one_is_used() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        for _ in 0..2 {
            let folder = NodeFolder::prepare(&path).unwrap();
            assert!(folder.store_folder().unwrap().is_dir());
            assert!(folder.executor_folder().unwrap().is_dir());
        }
    }

    #[test]
    fn the_error_names_an_unusable_folder_and_the_flag() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, "").unwrap();
        let error = format!("{:#}", NodeFolder::prepare(&path).unwrap_err());
        assert!(
            error.contains("file cannot be used") && error.contains("--data"),
            "{error}"
        );
    }
}
