//! What owner and warden say to each other: two closed enums for the work, one for urgent words.
//!
//! Work travels on a stream socket as a `u32` length and a postcard body, one answer for each request.
//! Urgent words have a packet socket of their own, so that a kill never waits behind a large input, needs no
//! lock on the owner's side, and is either there as a whole or not at all.

use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, socketpair};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cell::FileSize;
use crate::fault::Fault;
use crate::launch::Isolation;
use crate::outcome::Outcome;
use crate::spec::Spec;

pub(crate) mod bytes;
pub(crate) mod path;
pub(crate) mod rights;

/// Owner to warden. Generic over how it holds the spec, so that the owner need not clone one to send it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request<S = Spec> {
    /// First of all, with the descriptors that `rights` describes.
    Hello {
        isolation: Isolation,
    },
    Run {
        number: u64,
        spec: S,
        then: Then,
    },
    /// Bounds the task's files, before any of them is there.
    Space {
        bytes: u64,
    },
    /// Has files of the task, which are there and empty, count as its memory.
    Charge {
        files: Vec<FileSize>,
    },
    /// The task is over: its files are not needed any more.
    Renew,
    /// What the warden has asked for by [`Answer::Unmapped`] is done.
    Mapped,
}

/// What the warden does when a run has ended and it has said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Then {
    Stay,
    /// As if asked to by [`Request::Renew`], and says so in the same way.
    Renew,
}

/// Warden to owner, one for each request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// For a task. With a descriptor of its folder, where the warden has made one.
    Ready,
    Ended(Outcome),
    Failed(Fault),
    /// Before it is ready: it is in a new user namespace, to which somebody outside has to give ids.
    Unmapped,
}

/// Owner to warden at any time, unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Urgent {
    /// Numbered, so that one that comes late cannot hit the next run.
    Kill { number: u64 },
    /// On the boot-time clock, which both sides have in common: whatever holds the word up does not prolong it.
    LiveUntil { millis: u64 },
}

/// Larger than any spec or outcome that a caller could hold in memory twice; a length beyond it is garbage.
const LARGEST_FRAME: usize = 1 << 30;

/// A buffer that grew beyond this is given back after the frame that needed it.
const BUFFER_KEPT: usize = 128 << 10;

/// Encodes and sends a frame in one write; `buffer` is only there to be used again.
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
            "the frame is too large to send",
        ));
    }
    buffer[..PREFIX].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Receives one frame and no byte of the next. `None` is the end of the stream between frames.
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
            "not a frame of this protocol",
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

/// How many bytes there were before the end.
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

/// The two ends of a packet socket for [`Urgent`] words.
pub(crate) fn urgent_pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
}

/// Never blocks: a warden that is stopped must not stop its owner too.
pub(crate) fn send_urgent(to: BorrowedFd<'_>, word: Urgent) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let mut packet = [0; 32];
    let packet = postcard::to_slice(&word, &mut packet).map_err(io::Error::other)?;
    nix::sys::socket::send(
        to.as_raw_fd(),
        packet,
        MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
    )?;
    Ok(())
}

/// The next word if one is there; `Ok(None)` when none is.
pub(crate) fn receive_urgent(from: BorrowedFd<'_>) -> io::Result<Option<Urgent>> {
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
