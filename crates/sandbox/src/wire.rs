//! The protocol between an owner and its warden.
//!
//! Requests and responses travel on a stream socket: a `u32` length and a postcard body, with one response for each
//! request, and before it the pipes of long output. Urgent messages have their own packet socket, so that a kill never waits behind a large input and needs
//! no lock in the owner. A packet arrives whole or not at all.

use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, socketpair};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cell::FileAllocation;
use crate::cpu::CpuNumber;
use crate::launch::CommandIsolation;
use crate::open_beneath::OpenPurpose;
use crate::outcome::{CommandEndReason, CommandOutcome};
use crate::output::StandardStream;
use crate::passed_streams::StreamAttachments;
use crate::platform_error::{Errno, PlatformError};
use crate::spec::CommandSpec;

pub(crate) mod descriptors;
mod serde_with;

pub(crate) use serde_with::{bytes, path};

/// A request from a warden's owner, such as an executor, that the warden answers: to run a command, for example. Kills
/// are [`UrgentMessage`]s. The type parameter lets the owner send a borrowed spec.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WardenRequest<S = CommandSpec> {
    /// The first request. It comes with the descriptors that `descriptors` describes.
    Hello {
        isolation: CommandIsolation,
        /// The CPU to which the warden pins itself, and so its commands.
        cpu: Option<CpuNumber>,
    },
    /// Comes with the descriptors that `attachments` names.
    Run {
        number: u64,
        spec: S,
        attachments: StreamAttachments,
        after: AfterRun,
    },
    /// Limits the total size of the task's files. Sent before any of them exists.
    SetTaskSpace { bytes: u64 },
    /// Charges files of the task to its control group. The files exist and are empty.
    AllocateFiles { files: Vec<FileAllocation> },
    /// Opens a file that the task has left in its workspace, which the owner may not open itself.
    OpenInWorkspace {
        #[serde(with = "path")]
        path: PathBuf,
        purpose: OpenPurpose,
    },
    /// The task has ended: the warden removes its files and prepares for the next task.
    ResetForNextTask,
    /// The owner has mapped the ids that the warden asked for with [`WardenResponse::NeedsIdMapping`].
    IdsMapped,
}

/// In a request to run a command: whether the warden then keeps the task, or resets after it has sent the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AfterRun {
    KeepTask,
    /// Does the same as for [`WardenRequest::ResetForNextTask`], with the same response.
    ResetForNextTask,
}

/// A response from a warden to its owner: one for each request, besides the notices during a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WardenResponse {
    /// The warden is ready for a task. If commands run in cells, a descriptor of the task's folder comes with it.
    Ready,
    /// The output does not travel in this frame.
    Ended(CommandOutcome),
    /// A notice during a run: the head of this stream is full, and the owner reads the rest from the pipe that comes with
    /// it. Bytes are in the pipe until the owner has read them, also after the run.
    LongOutput(StandardStream),
    Failed(PlatformError),
    /// The descriptor of the file that the owner asked for comes with it.
    Opened,
    /// The file that the owner asked for could not be opened.
    NotOpened(Errno),
    /// Sent before `Ready`: the warden is in a new user namespace, whose ids only a process outside of it can map.
    NeedsIdMapping,
}

/// A message from the owner to its warden (kill or keep-alive) that may come at any time and has no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum UrgentMessage {
    /// Kills a run, for the reason that its outcome has to name. The number keeps a late message from killing the next
    /// run.
    Kill { number: u64, reason: CommandEndReason },
    /// The end of the keep-alive on the boot-time clock, which both processes share: a delayed message does not
    /// extend it.
    KeepAliveUntil { millis: u64 },
}

/// Larger than any spec or outcome that fits into memory twice. A larger length means that the frame is invalid.
const LARGEST_FRAME: usize = 1 << 30;

/// After a frame, a buffer larger than this is shrunk to this size.
const BUFFER_KEPT: usize = 128 << 10;

/// Encodes a frame and sends it in one write. `buffer` is passed in only to reuse its memory.
pub(crate) fn send<T: Serialize>(mut to: impl Write, frame: &T, buffer: &mut Vec<u8>) -> io::Result<()> {
    encode(frame, buffer)?;
    let sent = to.write_all(buffer);
    buffer.clear();
    buffer.shrink_to(BUFFER_KEPT);
    sent
}

pub(crate) fn encode<T: Serialize>(frame: &T, buffer: &mut Vec<u8>) -> io::Result<()> {
    const PREFIX: usize = size_of::<u32>();
    buffer.clear();
    buffer.resize(PREFIX, 0);
    *buffer = postcard::to_extend(frame, std::mem::take(buffer)).map_err(io::Error::other)?;
    let length = buffer.len() - PREFIX;
    if length > LARGEST_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the frame is too large",
        ));
    }
    buffer[..PREFIX].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Receives one frame and no byte of the next one. `None` means that the stream ended between frames.
pub(crate) fn receive<T: DeserializeOwned>(
    mut from: impl Read,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<T>> {
    let mut prefix = [0; size_of::<u32>()];
    match fill(&mut from, &mut prefix)? {
        0 => return Ok(None),
        length if length < prefix.len() => return Err(io::ErrorKind::UnexpectedEof.into()),
        _ => {}
    }
    let length = u32::from_le_bytes(prefix) as usize;
    if length > LARGEST_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the frame length is invalid",
        ));
    }
    buffer.clear();
    buffer.resize(length, 0);
    if fill(&mut from, buffer)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let frame = postcard::from_bytes(buffer).map_err(io::Error::other);
    buffer.clear();
    buffer.shrink_to(BUFFER_KEPT);
    frame.map(Some)
}

/// Reads until the buffer is full or the stream ends, and returns the number of bytes read.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Creates the two ends of a packet socket for [`UrgentMessage`]s.
pub(crate) fn urgent_pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
}

/// Never blocks: a warden that is stopped must not block its owner.
pub(crate) fn send_urgent(to: BorrowedFd<'_>, message: UrgentMessage) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let mut packet = [0; 32];
    let packet = postcard::to_slice(&message, &mut packet).map_err(io::Error::other)?;
    nix::sys::socket::send(
        to.as_raw_fd(),
        packet,
        MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
    )?;
    Ok(())
}

/// Returns the next message, or `Ok(None)` if there is none.
pub(crate) fn receive_urgent(from: BorrowedFd<'_>) -> io::Result<Option<UrgentMessage>> {
    use std::os::fd::AsRawFd;
    let mut packet = [0; 32];
    match nix::sys::socket::recv(from.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(length) => postcard::from_bytes(&packet[..length])
            .map(Some)
            .map_err(io::Error::other),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests;
