//! Descriptors that are sent with a frame (`SCM_RIGHTS`). The first request carries the urgent socket, the memory for
//! output with the eventfd for wakeups, and the owner's lock if there is one. A request to run a command carries the
//! streams that the owner passes to it. A response carries the task's folder, a
//! file of the task or the pipe of long output, and an exec request to a cell carries the standard streams.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// The most descriptors that any frame carries.
const MAX_DESCRIPTORS: usize = 4;

/// Sends one encoded frame with descriptors attached.
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
    // The descriptors are sent with the first byte. A large frame may need more writes.
    let mut to = to;
    to.write_all(&frame[sent..])
}

/// A reader of the socket between owner and warden that collects the descriptors sent with the bytes (`SCM_RIGHTS`).
pub(crate) struct DescriptorReceiver<'a> {
    stream: &'a UnixStream,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl<'a> DescriptorReceiver<'a> {
    pub(crate) fn new(stream: &'a UnixStream) -> Self {
        Self {
            stream,
            descriptors: Vec::new(),
        }
    }
}

impl Read for DescriptorReceiver<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = nix::cmsg_space!([i32; MAX_DESCRIPTORS]);
        let mut slices = [IoSliceMut::new(buffer)];
        let fd = self.stream.as_raw_fd();
        // Descriptors are closed on exec: otherwise every command would inherit the lock.
        let message = recvmsg::<()>(fd, &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = control {
                // SAFETY: the kernel has just created these descriptors, and nothing else owns them.
                self.descriptors
                    .extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        Ok(message.bytes)
    }
}
