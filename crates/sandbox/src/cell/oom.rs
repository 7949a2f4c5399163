//! Whom the kernel chooses when the whole machine is out of memory: a command, never its warden.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};

use crate::fault::Errno;

const FILE: &str = "/proc/self/oom_score_adj";

/// For a command: before everyone else.
pub(super) const PREFERRED: &[u8] = b"1000";

/// The warden's own score. Until a command's process executes its program it shares the warden's memory, and the kernel
/// gives the score of one to all who share that. So the process sets the score for both, keeps it when it executes the
/// program, and the warden sets back its own as soon as it knows of that.
#[derive(Debug)]
pub(crate) struct OomScore {
    file: File,
    own: String,
}

impl OomScore {
    /// While there is a path to it.
    pub(super) fn open() -> Result<OomScore, Errno> {
        let own = fs::read_to_string(FILE)?;
        let file = File::options().write(true).open(FILE)?;
        Ok(OomScore {
            file,
            own: own.trim().to_string(),
        })
    }

    /// A warden that cannot is chosen like a command, and its task is lost by the platform.
    pub(crate) fn restore(&self) {
        let _ = (&self.file).write_all(self.own.as_bytes());
    }
}

impl AsRawFd for OomScore {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
