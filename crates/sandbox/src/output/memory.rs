//! The memory that a warden shares with its owner: the number of the run, and of each output stream how much was
//! captured and the first bytes.
//!
//! The owner begins and ends a run, the warden writes the streams in between. Any number of threads of the owner may
//! read meanwhile. A reader checks before and after it reads that the run is the current one, so it never takes bytes
//! of one run for those of another.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::unistd::ftruncate;

use super::{STREAM_HEAD, StandardStream};

/// A mapping of the memory that a warden and its owner share for the output of commands. Each process has its own.
#[derive(Debug)]
pub(crate) struct OutputMemory(NonNull<SharedOutput>);

/// The layout of the shared memory. The file starts with zeros, which is a valid state: no run has begun. Integers
/// stand for booleans, because any value that the other process stores is valid for them.
#[repr(C)]
struct SharedOutput {
    /// The state of the current run: see [`running`] and [`ended`].
    run_state: AtomicU64,
    /// Whether the warden wakes its owner after it has captured something.
    followed: AtomicU32,
    /// How many bytes of the stream are in its head in this run.
    captured: [AtomicU64; 2],
    heads: [StreamHead; 2],
}

/// The first captured bytes of a stream in the shared memory, on pages of its own.
#[repr(C, align(4096))]
struct StreamHead(UnsafeCell<[u8; STREAM_HEAD]>);

const SIZE: NonZero<usize> = NonZero::new(size_of::<SharedOutput>()).expect("it is not zero");

/// Where a run is in its life, as the shared memory tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunPhase {
    NotBegun,
    Current,
    Over,
}

const fn running(run: u64) -> u64 {
    run * 2
}

const fn ended(run: u64) -> u64 {
    run * 2 + 1
}

/// The state after the last run: the warden is gone.
const ALL_OVER: u64 = u64::MAX;

// SAFETY: the value is a mapping that stays valid until it is dropped, and its content is only accessed atomically, or
// as bytes under the rules of `copy_head` and `head`.
unsafe impl Send for OutputMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for OutputMemory {}

impl OutputMemory {
    /// Creates the memory, and a descriptor with which another process can map it. Nobody can change its size, so no
    /// access to a mapping can fail.
    pub(crate) fn create() -> io::Result<(Self, OwnedFd)> {
        let memfd = memfd_create(c"output", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        ftruncate(&memfd, SIZE.get() as libc::off_t)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&memfd, FcntlArg::F_ADD_SEALS(seals))?;
        Ok((Self::map(&memfd)?, memfd))
    }

    /// Maps memory that another process has created.
    pub(crate) fn map(memfd: impl AsFd) -> io::Result<Self> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the address of the new mapping.
        let mapped = unsafe { mmap(None, SIZE, protection, MapFlags::MAP_SHARED, memfd, 0) }?;
        Ok(Self(mapped.cast()))
    }

    fn shared(&self) -> &SharedOutput {
        // SAFETY: the mapping has the size of the type and its alignment, which is at most a page, and is valid as long
        // as `self`. Every field allows changes from outside: they are atomic or in an `UnsafeCell`.
        unsafe { self.0.as_ref() }
    }

    /// Begins a run, whose streams are empty. The previous one must have ended.
    pub(super) fn begin_run(&self, run: u64) {
        let shared = self.shared();
        for index in StandardStream::BOTH.map(StandardStream::index) {
            shared.captured[index].store(0, Ordering::SeqCst);
        }
        shared.run_state.store(running(run), Ordering::SeqCst);
    }

    /// Ends a run, if it is the current one.
    pub(super) fn end_run(&self, run: u64) {
        let state = &self.shared().run_state;
        let _ = state.compare_exchange(running(run), ended(run), Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Ends the current run and all that have not begun.
    pub(super) fn end_all_runs(&self) {
        self.shared().run_state.store(ALL_OVER, Ordering::SeqCst);
    }

    pub(super) fn phase(&self, run: u64) -> RunPhase {
        // What was read before must have been read when the phase is.
        fence(Ordering::SeqCst);
        match self.shared().run_state.load(Ordering::SeqCst) {
            state if state < running(run) => RunPhase::NotBegun,
            state if state == running(run) => RunPhase::Current,
            _ => RunPhase::Over,
        }
    }

    /// How many bytes of the stream are in its head in the current run.
    pub(super) fn captured(&self, stream: StandardStream) -> u64 {
        self.shared().captured[stream.index()].load(Ordering::SeqCst)
    }

    /// Makes captured bytes in the head visible to readers.
    pub(crate) fn publish(&self, stream: StandardStream, captured: u64) {
        self.shared().captured[stream.index()].store(captured, Ordering::SeqCst);
    }

    /// The warden asks after it has published, and a reader looks for bytes after it has set this. So one of the two
    /// sees what the other did.
    pub(crate) fn is_followed(&self) -> bool {
        self.shared().followed.load(Ordering::SeqCst) != 0
    }

    pub(super) fn set_followed(&self, followed: bool) {
        self.shared().followed.store(followed.into(), Ordering::SeqCst);
    }

    /// Copies bytes of the head. The caller checks that they are captured bytes of the run that it means, before and
    /// after.
    pub(super) fn copy_head(&self, stream: StandardStream, offset: usize, to: &mut [u8]) {
        let head = &self.shared().heads[stream.index()].0;
        assert!(
            offset <= STREAM_HEAD && to.len() <= STREAM_HEAD - offset,
            "beyond the head"
        );
        // SAFETY: the range is within the head. The warden may write it meanwhile only if the run has ended, and then
        // the caller does not use the copy.
        unsafe {
            head.get()
                .cast::<u8>()
                .add(offset)
                .copy_to_nonoverlapping(to.as_mut_ptr(), to.len());
        }
    }

    /// The head, for the warden to write.
    ///
    /// # Safety
    ///
    /// There must be no other reference to this head in this process.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller guarantees that it is the only one"
    )]
    pub(crate) unsafe fn head(&self, stream: StandardStream) -> &mut [u8] {
        // SAFETY: the caller guarantees that this is the only reference.
        unsafe { &mut *self.shared().heads[stream.index()].0.get() }
    }
}

impl Drop for OutputMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no reference to it is left.
        let _ = unsafe { munmap(self.0.cast(), SIZE.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_in_one_phase() {
        let (memory, _memfd) = OutputMemory::create().unwrap();
        let phases = || [1, 2, 3].map(|run| memory.phase(run));
        use RunPhase::{Current, NotBegun, Over};
        assert_eq!(phases(), [NotBegun, NotBegun, NotBegun]);
        memory.begin_run(2);
        assert_eq!(phases(), [Over, Current, NotBegun]);
        memory.end_run(2);
        assert_eq!(phases(), [Over, Over, NotBegun]);
        memory.begin_run(3);
        memory.end_all_runs();
        memory.end_run(3);
        assert_eq!([3, 4].map(|run| memory.phase(run)), [Over, Over]);
    }

    #[test]
    fn both_processes_see_the_same_memory_and_cannot_resize_it() {
        let (owner, memfd) = OutputMemory::create().unwrap();
        let warden = OutputMemory::map(&memfd).unwrap();
        for stream in StandardStream::BOTH {
            // SAFETY: it is the only reference to this head.
            unsafe { warden.head(stream) }.fill(b'0' + stream.index() as u8);
            warden.publish(stream, 7 + stream.index() as u64);
        }
        for (stream, byte) in StandardStream::BOTH.into_iter().zip(*b"01") {
            let mut head = vec![0; STREAM_HEAD];
            owner.copy_head(stream, 0, &mut head);
            assert!(head.iter().all(|found| *found == byte), "{stream:?}");
        }
        assert_eq!(StandardStream::BOTH.map(|stream| owner.captured(stream)), [7, 8]);
        owner.begin_run(1);
        assert_eq!(StandardStream::BOTH.map(|stream| owner.captured(stream)), [0, 0]);
        for size in [0, 2 * SIZE.get()] {
            assert!(ftruncate(&memfd, size as libc::off_t).is_err(), "{size}");
        }
    }
}
