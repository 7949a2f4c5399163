//! Reads the output of a command while it runs.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use super::{OwnerOutput, StandardStream};

/// Reads what a warden's command has written so far, from any thread of the warden's owner. A reader never delays the
/// command. A run is named by [`crate::RunHandle::number`].
///
/// Its descriptor is an eventfd that becomes readable when the warden has captured more of a followed command, and when
/// a followed run has ended. All clones have the same one, so one reader waits for it. It waits like this: call
/// [`LiveOutput::follow`], then repeatedly [`LiveOutput::clear_wakeups`], read what there is, and wait for the
/// descriptor.
#[derive(Clone)]
pub struct LiveOutput {
    output: Arc<OwnerOutput>,
}

impl LiveOutput {
    pub(crate) fn new(output: Arc<OwnerOutput>) -> Self {
        Self { output }
    }

    /// How many bytes of a stream the warden has captured in this run; 0 if the run has not begun. `None` if the run is
    /// over: its [`crate::CommandOutcome`] has the output.
    pub fn captured(&self, run: u64, stream: StandardStream) -> Option<u64> {
        self.output.captured(run, stream)
    }

    /// Copies captured bytes of a stream from this offset on and returns how many; 0 if there are none yet. A read that
    /// begins in the first [`crate::STREAM_HEAD`] bytes ends there at the latest. `None` if the run is over.
    pub fn read_at(
        &self,
        run: u64,
        stream: StandardStream,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<Option<usize>> {
        self.output.read_at(run, stream, offset, buffer)
    }

    /// Sets whether the warden wakes the waiting reader. It applies to all runs until it is set again. What is captured
    /// after this call wakes the reader; what was captured before can be read at once.
    pub fn follow(&self, followed: bool) {
        self.output.set_followed(followed);
    }

    /// Makes the descriptor unreadable until the next wakeup. To miss nothing, call it before reading.
    pub fn clear_wakeups(&self) {
        self.output.clear_wakeups();
    }
}

impl AsFd for LiveOutput {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.output.wakeup()
    }
}

impl AsRawFd for LiveOutput {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for LiveOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveOutput")
    }
}
