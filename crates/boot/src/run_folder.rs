//! The run folder, in which boot and the operator's commands exchange information.
//!
//! ```text
//! boot.pid     the process of boot; boot holds its lock until it exits
//! NAME.pid     the process of a service; boot locks it while it starts the service, an operator locks it to hold the service
//! NAME.hold    exists while the service is held
//! status.json  the status of the node and of its services
//! ```

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The paths in the run folder of a node, where boot keeps pid files, holds and `status.json`.
#[derive(Clone, Debug)]
pub(crate) struct RunFolder(PathBuf);

impl RunFolder {
    pub(crate) fn new(run: &Path) -> RunFolder {
        RunFolder(run.to_path_buf())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn boot_pid_file(&self) -> PathBuf {
        self.0.join("boot.pid")
    }

    pub(crate) fn pid_file(&self, service: &str) -> PathBuf {
        self.0.join(format!("{service}.pid"))
    }

    pub(crate) fn hold_file(&self, service: &str) -> PathBuf {
        self.0.join(format!("{service}.hold"))
    }

    pub(crate) fn status_file(&self) -> PathBuf {
        self.0.join("status.json")
    }
}

/// Creates a folder that only the operator and the operator's group can read: it has logs and configurations of services.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o750).create(path)
}
