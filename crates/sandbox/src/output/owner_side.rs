//! The owner's side of the output of a warden's commands.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory::RunPhase;
use super::{OutputMemory, STREAM_HEAD, StandardStream, overflow_file};
use crate::outcome::CapturedStream;

/// What the owner of a warden holds of the output of its commands: the shared memory, the eventfd with which the warden
/// wakes it, and the overflow files.
#[derive(Debug)]
pub(crate) struct OwnerOutput {
    memory: OutputMemory,
    wakeup: File,
    overflow_folder: PathBuf,
    /// The files that the warden has for the current run, or will have for the next one.
    overflow_files: Mutex<[Option<Arc<File>>; 2]>,
}

impl OwnerOutput {
    /// Also returns the descriptor of the memory, for the warden.
    pub(crate) fn create(overflow_folder: PathBuf) -> io::Result<(Self, OwnedFd)> {
        let (memory, memfd) = OutputMemory::create()?;
        let output = Self {
            memory,
            wakeup: create_eventfd()?,
            overflow_folder,
            overflow_files: Mutex::default(),
        };
        Ok((output, memfd))
    }

    /// Checks that files can be created in the folder, so that a wrong one is noticed before the first run.
    pub(crate) fn check_folder(&self) -> io::Result<()> {
        self.create_file().map(drop)
    }

    /// Returns `None` if the disk has no space for another file.
    fn create_file(&self) -> io::Result<Option<Arc<File>>> {
        match overflow_file::create(&self.overflow_folder) {
            Ok(file) => Ok(Some(Arc::new(file))),
            Err(error) if is_out_of_space(&error) => Ok(None),
            Err(error) => Err(error),
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

    /// Begins a run, and returns new overflow files for the streams whose file the warden no longer has. A disk
    /// without space for a file is no error: then the output beyond the head is not captured.
    pub(crate) fn begin_run(&self, run: u64) -> io::Result<Vec<(StandardStream, Arc<File>)>> {
        self.begin_run_with(run, || self.create_file())
    }

    fn begin_run_with(
        &self,
        run: u64,
        mut create_file: impl FnMut() -> io::Result<Option<Arc<File>>>,
    ) -> io::Result<Vec<(StandardStream, Arc<File>)>> {
        let mut created = Vec::new();
        let mut files = self.files();
        for stream in StandardStream::BOTH {
            if files[stream.index()].is_none() {
                created.extend(create_file()?.map(|file| (stream, file)));
            }
        }
        // Only when nothing can fail any more: the warden gets the files that the caller gets.
        for (stream, file) in &created {
            files[stream.index()] = Some(Arc::clone(file));
        }
        self.memory.begin_run(run);
        Ok(created)
    }

    /// Completes what the warden reports of a stream: adds the head and the file. Called before [`Self::end_run`].
    pub(crate) fn complete(&self, stream: StandardStream, captured: &mut CapturedStream) {
        let in_head = usize::try_from(captured.size).map_or(STREAM_HEAD, |size| size.min(STREAM_HEAD));
        captured.head = vec![0; in_head];
        self.memory.copy_head(stream, 0, &mut captured.head);
        captured.file = self.files()[stream.index()]
            .clone()
            .filter(|_| captured.size > STREAM_HEAD as u64);
    }

    /// Ends a run. The warden has closed the files that it wrote to, and gets new ones with the next run.
    pub(crate) fn end_run(&self, run: u64) {
        self.memory.end_run(run);
        let overflowed = StandardStream::BOTH.map(|stream| self.memory.has_overflowed(stream));
        if overflowed != [false, false] {
            let mut files = self.files();
            for stream in StandardStream::BOTH {
                files[stream.index()].take_if(|_| overflowed[stream.index()]);
            }
        }
        self.wake_followers();
    }

    /// Ends all runs, because the warden is gone.
    pub(crate) fn end_all_runs(&self) {
        self.memory.end_all_runs();
        *self.files() = [None, None];
        self.wake_followers();
    }

    fn wake_followers(&self) {
        if self.memory.is_followed() {
            wake(&self.wakeup);
        }
    }

    pub(super) fn captured(&self, run: u64, stream: StandardStream) -> Option<u64> {
        match self.memory.phase(run) {
            RunPhase::NotBegun => Some(0),
            RunPhase::Current => {
                let captured = self.memory.captured(stream);
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
        const HEAD: u64 = STREAM_HEAD as u64;
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
            let file = self.files()[stream.index()].clone();
            // Without a file the run has just ended.
            file.map_or(Ok(0), |file| file.read_at(buffer, offset))
        };
        // After its end, the bytes may be those of the next run.
        match self.memory.phase(run) {
            RunPhase::Over => Ok(None),
            RunPhase::NotBegun | RunPhase::Current => count.map(Some),
        }
    }

    fn files(&self) -> MutexGuard<'_, [Option<Arc<File>>; 2]> {
        self.overflow_files.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn a_run_that_could_not_begin_keeps_no_file_that_the_warden_does_not_have() {
        let folder = tempfile::tempdir().unwrap();
        let (output, _memfd) = OwnerOutput::create(folder.path().into()).unwrap();
        let mut calls = 0;
        let begun = output.begin_run_with(1, || {
            calls += 1;
            match calls {
                1 => output.create_file(),
                _ => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            }
        });
        assert_eq!((begun.is_err(), calls), (true, 2));
        let streams = |created: Vec<(StandardStream, _)>| {
            let streams = created.into_iter().map(|(stream, _)| stream.index());
            streams.collect::<Vec<_>>()
        };
        assert_eq!(streams(output.begin_run(2).unwrap()), [0, 1]);
        assert_eq!(streams(output.begin_run(3).unwrap()), []);
    }

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
                    output.begin_run(run).unwrap();
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
