//! Files that tasks of tests wait for.

use std::path::{Path, PathBuf};

/// A file that a task of a test waits for, so that the test decides when the task continues.
pub struct Gate {
    path: PathBuf,
}

impl Gate {
    /// A closed gate at this path.
    pub fn at(path: PathBuf) -> Gate {
        Gate { path }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A shell command that waits until the gate is open.
    pub fn wait(&self) -> String {
        format!("until [ -e {} ]; do sleep 0.02; done", self.path.display())
    }

    /// A shell command that opens the gate.
    pub fn opening(&self) -> String {
        format!("touch {}", self.path.display())
    }

    pub fn open(&self) {
        std::fs::write(&self.path, "").expect("the gate opens");
    }

    pub fn is_open(&self) -> bool {
        self.path.exists()
    }
}
