//! Descriptors that travel with a frame: with the first one the urgent socket and the owner's lock if it has one, with
//! an answer the task's folder, with a cell's orders the standard streams.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Sends one encoded frame with descriptors attached to its bytes.
pub(crate) fn send(to: &UnixStream, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let sent = sendmsg::<()>(
        to.as_raw_fd(),
        &[IoSlice::new(frame)],
        &rights,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )?;
    // The descriptors go with the first byte; a large frame may need more than one call.
    let mut to = to;
    to.write_all(&frame[sent..])
}

/// Reads the stream while collecting the descriptors that come with it.
pub(crate) struct Receiver<'a> {
    pub(crate) stream: &'a UnixStream,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Read for Receiver<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = nix::cmsg_space!([i32; 3]);
        let mut slices = [IoSliceMut::new(buffer)];
        let fd = self.stream.as_raw_fd();
        // Closed on exec, or every command would inherit the lock and outlast it.
        let message = recvmsg::<()>(fd, &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = control {
                // SAFETY: the kernel has just made these descriptors for us, and nobody else knows them.
                self.descriptors
                    .extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        Ok(message.bytes)
    }
}
