//! OOM scores: when the whole machine is out of memory, the kernel kills a command and not its warden.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};

use crate::platform_error::Errno;

const FILE: &str = "/proc/self/oom_score_adj";

/// The score of commands: the kernel kills them before all other processes.
pub(super) const COMMAND_OOM_SCORE: &[u8] = b"1000";

/// The warden's own `oom_score_adj`, and the open file with which it restores it after a command has started. Until the
/// stub executes its program it shares the warden's memory, and the kernel applies one score to all processes that
/// share memory. So the stub sets the score for both and keeps it when it executes the program, and the warden restores
/// its own score as soon as it notices that.
#[derive(Debug)]
pub(crate) struct OomScore {
    file: File,
    own: String,
}

impl OomScore {
    /// Opens the file while this process still has a path to it.
    pub(super) fn open() -> Result<OomScore, Errno> {
        let own = fs::read_to_string(FILE)?;
        let file = File::options().write(true).open(FILE)?;
        Ok(OomScore {
            file,
            own: own.trim().to_string(),
        })
    }

    /// Errors are ignored: in the worst case the kernel kills the warden like a command, and the attempt fails as a
    /// platform failure.
    pub(crate) fn restore(&self) {
        let _ = (&self.file).write_all(self.own.as_bytes());
    }
}

impl AsRawFd for OomScore {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
