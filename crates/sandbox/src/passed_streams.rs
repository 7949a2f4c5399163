//! Standard streams that a warden's owner passes to a command as descriptors, so that its streams can be connected with
//! those of another program.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::stat::{Mode, fchmod};
use serde::{Deserialize, Serialize};

use crate::platform_error::{Errno, PlatformError};
use crate::spec::{CommandSpec, CommandSpecError};

/// Descriptors of a warden's owner that become the standard input and output of one command. Both are closed in the owner
/// and in the warden as soon as the command has started, or cannot start: so the other end of a pipe reports its end when
/// the last process of the command has ended.
#[derive(Debug, Default)]
pub struct PassedStreams {
    /// Takes the place of the input of the [`CommandSpec`], which must be empty.
    pub stdin: Option<OwnedFd>,
    /// Takes the place of the capture of the standard output: the outcome has none, and the limit of output applies to
    /// the standard error only. An owner that limits what it reads ends the run with
    /// [`crate::RunHandle::kill_for_output_limit`].
    pub stdout: Option<OwnedFd>,
}

impl PassedStreams {
    pub(crate) fn check(&self, spec: &CommandSpec) -> Result<(), CommandSpecError> {
        match spec.input.is_empty() || self.stdin.is_none() {
            true => Ok(()),
            false => Err(CommandSpecError::TwoInputs),
        }
    }

    /// The descriptors in the order in which they are sent.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        [&self.stdin, &self.stdout]
            .into_iter()
            .flatten()
            .map(AsFd::as_fd)
            .collect()
    }

    pub(crate) fn attachments(&self) -> StreamAttachments {
        StreamAttachments {
            stdin: self.stdin.is_some(),
            stdout: self.stdout.is_some(),
        }
    }
}

/// Which standard streams of a command are descriptors that come with the request to run it, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamAttachments {
    stdin: bool,
    stdout: bool,
}

impl StreamAttachments {
    /// Assigns the descriptors that came with the request.
    pub(crate) fn assign(self, received: Vec<OwnedFd>) -> Result<PassedStreams, PlatformError> {
        let mut received = received.into_iter();
        let mut next = |is_attached: bool| match is_attached.then(|| received.next()) {
            // The kernel drops descriptors for which the receiver's limit of open files has no room.
            Some(None) => Err(PlatformError::Streams(Errno(libc::EMFILE))),
            descriptor => Ok(descriptor.flatten()),
        };
        Ok(PassedStreams {
            stdin: next(self.stdin)?,
            stdout: next(self.stdout)?,
        })
    }
}

/// Creates a pipe whose reading end is for [`PassedStreams::stdin`]. The command can also open it as `/dev/stdin`, even as
/// another user than the owner's.
pub fn pipe_to_stdin() -> io::Result<(PipeWriter, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    fchmod(&reader, Mode::S_IRUSR | Mode::S_IRGRP | Mode::S_IROTH)?;
    Ok((writer, reader.into()))
}

/// Creates a pipe whose writing end is for [`PassedStreams::stdout`]. The command can also open it as `/dev/stdout`, even
/// as another user than the owner's.
pub fn pipe_from_stdout() -> io::Result<(PipeReader, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    fchmod(&writer, Mode::S_IWUSR | Mode::S_IWGRP | Mode::S_IWOTH)?;
    Ok((reader, writer.into()))
}
