//! The owner's side of the output of a warden's commands.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::memory::RunPhase;
use super::overflow_file::OverflowFile;
use super::{OutputMemory, STREAM_HEAD, StandardStream};
use crate::outcome::CapturedStream;

/// What the owner of a warden holds of the output of its commands: the shared memory, the eventfd with which the warden
/// wakes it, and the overflow files.
#[derive(Debug)]
pub(crate) struct OwnerOutput {
    memory: OutputMemory,
    wakeup: File,
    overflow_folder: PathBuf,
    /// What the streams of the current run have beyond their heads.
    overflows: Mutex<[StreamOverflow; 2]>,
}

/// What a warden's owner has of an output stream beyond its head.
#[derive(Debug, Default)]
struct StreamOverflow {
    /// The file with the stream from its first byte on; `None` as long as the stream fits into its head, and if no file
    /// could be created.
    file: Option<OverflowFile>,
    /// Whether bytes of the stream were lost because there was no space for them. What comes after a gap is dropped.
    is_cut_off: bool,
    /// Why no file could be created, if the disk was not full.
    failure: Option<io::Error>,
}

const HEAD: u64 = STREAM_HEAD as u64;

impl OwnerOutput {
    /// Also returns the descriptor of the memory, for the warden.
    pub(crate) fn create(overflow_folder: PathBuf) -> io::Result<(Self, OwnedFd)> {
        let (memory, memfd) = OutputMemory::create()?;
        let output = Self {
            memory,
            wakeup: create_eventfd()?,
            overflow_folder,
            overflows: Mutex::default(),
        };
        Ok((output, memfd))
    }

    /// Checks that files can be created in the folder, so that a wrong one is noticed before the first run.
    pub(crate) fn check_folder(&self) -> io::Result<()> {
        match OverflowFile::create(&self.overflow_folder) {
            Err(error) if !is_out_of_space(&error) => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    pub(super) fn clear_wakeups(&self) {
        // The read fails if there is none.
        let _ = (&self.wakeup).read(&mut [0; 8]);
    }

    pub(super) fn set_followed(&self, followed: bool) {
        self.memory.set_followed(followed);
    }

    /// Begins a run.
    pub(crate) fn begin_run(&self, run: u64) {
        self.memory.begin_run(run);
    }

    /// Creates the file of a stream that has become longer than its head, and writes the head to it.
    pub(super) fn begin_file(&self, stream: StandardStream) {
        let created = OverflowFile::create(&self.overflow_folder).map(|mut file| {
            let mut head = vec![0; STREAM_HEAD];
            self.memory.copy_head(stream, 0, &mut head);
            file.append(&head);
            file
        });
        let overflow = &mut self.overflows()[stream.index()];
        match created {
            Ok(file) => {
                overflow.is_cut_off = file.written < HEAD;
                overflow.file = Some(file);
            }
            Err(error) => {
                overflow.is_cut_off = true;
                overflow.failure = Some(error).filter(|error| !is_out_of_space(error));
            }
        }
    }

    /// Appends bytes to the file of a stream. That may wait for a disk for any time. One thread does this.
    pub(super) fn append(&self, stream: StandardStream, bytes: &[u8]) {
        let (file, is_cut_off) = {
            let overflow = &self.overflows()[stream.index()];
            (overflow.file.clone(), overflow.is_cut_off)
        };
        let Some(mut file) = file.filter(|_| !is_cut_off && !bytes.is_empty()) else {
            return;
        };
        let end = file.written + bytes.len() as u64;
        // The lock is not held meanwhile: readers of live output must not wait for the disk.
        file.append(bytes);
        {
            let overflow = &mut self.overflows()[stream.index()];
            overflow.is_cut_off = file.written < end;
            overflow.file = Some(file);
        }
        self.wake_followers();
    }

    /// Adds the captured bytes of a stream to what the warden reports of it. Called before [`Self::end_run`].
    pub(super) fn complete(&self, stream: StandardStream, captured: &mut CapturedStream) {
        let in_head = usize::try_from(captured.size).map_or(STREAM_HEAD, |size| size.min(STREAM_HEAD));
        captured.head = vec![0; in_head];
        self.memory.copy_head(stream, 0, &mut captured.head);
    }

    /// Like [`Self::complete`], for a stream with this many bytes that was longer than its head. It fails if no file
    /// could be created, unless the disk is full.
    pub(super) fn complete_long(
        &self,
        stream: StandardStream,
        total: u64,
        captured: &mut CapturedStream,
    ) -> io::Result<()> {
        let overflow = &mut self.overflows()[stream.index()];
        if let Some(failure) = overflow.failure.take() {
            return Err(failure);
        }
        let file = overflow.file.as_ref().filter(|file| file.written > HEAD);
        captured.size = file.map_or(HEAD, |file| file.written);
        captured.truncated = total > captured.size;
        captured.file = file.map(|file| file.file.clone());
        Ok(())
    }

    /// Ends a run.
    pub(crate) fn end_run(&self, run: u64) {
        self.memory.end_run(run);
        *self.overflows() = Default::default();
        self.wake_followers();
    }

    /// Ends all runs, because the warden is gone.
    pub(crate) fn end_all_runs(&self) {
        self.memory.end_all_runs();
        *self.overflows() = Default::default();
        self.wake_followers();
    }

    fn wake_followers(&self) {
        if self.memory.is_followed() {
            wake(&self.wakeup);
        }
    }

    pub(crate) fn captured(&self, run: u64, stream: StandardStream) -> Option<u64> {
        match self.memory.phase(run) {
            RunPhase::NotBegun => Some(0),
            RunPhase::Current => {
                let in_file = self.overflows()[stream.index()]
                    .file
                    .as_ref()
                    .map(|file| file.written);
                let captured = self.memory.captured(stream).max(in_file.unwrap_or(0));
                (self.memory.phase(run) == RunPhase::Current).then_some(captured)
            }
            RunPhase::Over => None,
        }
    }

    pub(super) fn read_at(
        &self,
        run: u64,
        stream: StandardStream,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<Option<usize>> {
        let Some(captured) = self.captured(run, stream) else {
            return Ok(None);
        };
        let end = if offset < HEAD {
            captured.min(HEAD)
        } else {
            captured
        };
        let available = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = available.min(buffer.len());
        let buffer = &mut buffer[..wanted];
        let count = if buffer.is_empty() {
            Ok(0)
        } else if offset < HEAD {
            self.memory.copy_head(stream, offset as usize, buffer);
            Ok(buffer.len())
        } else {
            let file = self.overflows()[stream.index()].file.clone();
            // Without a file the run has just ended.
            file.map_or(Ok(0), |file| file.file.read_at(buffer, offset))
        };
        // After its end, the bytes may be those of the next run.
        match self.memory.phase(run) {
            RunPhase::Over => Ok(None),
            RunPhase::NotBegun | RunPhase::Current => count.map(Some),
        }
    }

    fn overflows(&self) -> MutexGuard<'_, [StreamOverflow; 2]> {
        self.overflows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Neither a read nor a write of it ever blocks.
fn create_eventfd() -> io::Result<File> {
    // SAFETY: the call takes two numbers and touches no memory.
    let counter = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if counter < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(counter) })
}

/// Makes an eventfd readable.
pub(crate) fn wake(mut eventfd: &File) {
    // This fails only if nobody has read an immense number of wakeups, and then it is readable.
    let _ = eventfd.write(&1_u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// One thread is the owner and the warden of many short runs, each with its own byte, while another one reads.
    #[test]
    fn a_read_during_which_the_run_ends_returns_nothing() {
        const RUNS: u64 = 20_000;
        let byte_of = |run: u64| (run % 251) as u8;
        let folder = tempfile::tempdir().unwrap();
        let (output, memfd) = OwnerOutput::create(folder.path().into()).unwrap();
        let warden = OutputMemory::map(memfd).unwrap();
        let current = AtomicU64::new(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for run in 1..=RUNS {
                    output.begin_run(run);
                    current.store(run, Ordering::SeqCst);
                    // SAFETY: it is the only reference to this head.
                    unsafe { warden.head(StandardStream::Stdout) }.fill(byte_of(run));
                    warden.publish(StandardStream::Stdout, STREAM_HEAD as u64);
                    output.end_run(run);
                }
                current.store(0, Ordering::SeqCst);
            });
            let mut buffer = vec![0; STREAM_HEAD];
            loop {
                let run = current.load(Ordering::SeqCst);
                if run == 0 {
                    break;
                }
                let read = output
                    .read_at(run, StandardStream::Stdout, 0, &mut buffer)
                    .unwrap();
                let bytes = &buffer[..read.unwrap_or(0)];
                assert!(
                    bytes == vec![byte_of(run); bytes.len()],
                    "bytes of another run than {run}"
                );
            }
        });
    }
}
