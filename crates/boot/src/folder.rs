//! The run folder, by which boot and its operators find each other.
//!
//! ```text
//! boot.pid     locked by boot as long as it lives
//! NAME.pid     which process the service is; locked by boot while it starts it, by an operator to hold it
//! NAME.hold    there while the service is held
//! status.json  how everything is
//! ```

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(run: &Path) -> Folder {
        Folder(run.to_path_buf())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn boot_pid(&self) -> PathBuf {
        self.0.join("boot.pid")
    }

    pub(crate) fn pid(&self, service: &str) -> PathBuf {
        self.0.join(format!("{service}.pid"))
    }

    pub(crate) fn hold(&self, service: &str) -> PathBuf {
        self.0.join(format!("{service}.hold"))
    }

    pub(crate) fn status(&self) -> PathBuf {
        self.0.join("status.json")
    }
}

/// What services write and how they are configured is for the operator and his group.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o750).create(path)
}
