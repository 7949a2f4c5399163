//! Waits until there is an answer to a request for output, and reads it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use model::{CapturedOutput, OutputContent, OutputRead, OutputSource, StreamName};
use sandbox::{LiveOutput, STREAM_HEAD};
use tokio::sync::OwnedSemaphorePermit;

use super::warden_wakeups::WardenReader;
use super::{EndedStream, StepOutput, lock_marks, sandbox_stream};
use crate::slot_pool::SlotPool;

/// Finds the output that a judicator asks an executor for, wherever it is: in a warden, in a file, or in the spool.
#[derive(Clone, Copy)]
pub(super) struct OutputReader<'a> {
    pub(super) slot_pool: &'a SlotPool,
}

/// Reads the output that was found. `None` if there is none any more.
type ReadOutput = Box<dyn FnOnce() -> Option<OutputContent> + Send>;

/// Where an [`OutputReader`] has found the output of a request.
pub(super) enum FoundOutput {
    InMemory(ReadOutput),
    /// On a disk, which may be slow or hang.
    InFile(ReadOutput),
}

/// The right of an [`OutputReader`] to read from a file; there are few.
pub(super) struct FileReadPermit(
    #[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit,
);

impl OutputReader<'_> {
    /// Waits until the request has an answer. It waits for ever if a step writes nothing; the judicator can stop it.
    pub(super) async fn wait_until_available(&self, read: &OutputRead) {
        let live_outputs = &self.slot_pool.live_outputs;
        let mut reader: Option<WardenReader<'_>> = None;
        // An attempt that is not in the table has an answer at once: from the spool, or that it is unknown.
        while let Some(attempt) = live_outputs.attempt(&read.attempt_id) {
            let mut changed = pin!(attempt.changed.notified());
            // Before the state is read: a change from now on wakes this request.
            changed.as_mut().enable();
            let (live, run) = match attempt.step(read.at.source.step) {
                Some(StepOutput::Running { live, run }) => (live, run),
                Some(StepOutput::NotBegun) => {
                    changed.await;
                    continue;
                }
                Some(StepOutput::Ended { .. }) => return,
                Some(StepOutput::Cases(marks)) => {
                    if length_of_marks(&marks, read.at.source) > read.at.offset {
                        return;
                    }
                    changed.await;
                    continue;
                }
                // The attempt has ended since, and is no longer in the table.
                None => continue,
            };
            let has_output = || {
                let captured = live.captured(run, sandbox_stream(read.at.source));
                captured.map(|captured| captured > read.at.offset)
            };
            // Mostly there is output, and then the warden need not wake anybody.
            if has_output() == Some(true) {
                return;
            }
            if !reader.as_ref().is_some_and(|reader| reader.is_for(&live)) {
                let following = live_outputs.warden_wakeups.follow(&live);
                reader = following
                    .inspect_err(|error| {
                        tracing::debug!(%error, "cannot wait for the output of a step; it is sent when the step ends");
                    })
                    .ok();
            }
            let Some(reader) = &reader else {
                changed.await;
                continue;
            };
            let mut woken = pin!(reader.woken());
            woken.as_mut().enable();
            match has_output() {
                Some(true) => return,
                Some(false) => tokio::select! {
                    () = changed => {}
                    () = reader.wait(woken) => {}
                },
                // The run is over, and its slot is about to change the state.
                None => changed.await,
            }
        }
    }

    /// Where the answer is. `None` if there is none any more, because the step has ended since or is still to begin.
    pub(super) fn find(&self, read: &OutputRead) -> Option<FoundOutput> {
        let Some(attempt) = self.slot_pool.live_outputs.attempt(&read.attempt_id) else {
            return Some(self.find_spooled(read));
        };
        match attempt.step(read.at.source.step)? {
            StepOutput::NotBegun => None,
            StepOutput::Running { live, run } => find_running(read, live, run),
            StepOutput::Cases(marks) => find_marks(read, &marks),
            StepOutput::Ended { stdout, stderr } => {
                let EndedStream { output, file } = match read.at.source.stream {
                    StreamName::Stdout => stdout,
                    StreamName::Stderr => stderr,
                };
                let open = move || file.ok_or(io::ErrorKind::NotFound.into());
                Some(find_ended(read, output, open))
            }
        }
    }

    /// Finds the result of an attempt that has ended.
    fn find_spooled(&self, read: &OutputRead) -> FoundOutput {
        let SlotPool { spool, outgoing, .. } = self.slot_pool;
        let Some(output) = spool.captured_output(&read.attempt_id, read.at.source) else {
            return FoundOutput::known(OutputContent::Unknown);
        };
        let source = output.blob.and_then(|hash| outgoing.source(&hash));
        let open = move || match source {
            Some(source) => File::open(source.path).map(Arc::new),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        find_ended(read, output, open)
    }

    /// Waits for the permit to read from a file. If the disk hangs, further reads wait here, without a thread.
    pub(super) async fn file_permit(&self) -> Option<FileReadPermit> {
        let file_reads = self.slot_pool.live_outputs.file_reads.clone();
        file_reads.acquire_owned().await.ok().map(FileReadPermit)
    }
}

impl FoundOutput {
    fn known(content: OutputContent) -> FoundOutput {
        FoundOutput::InMemory(Box::new(|| Some(content)))
    }
}

impl FileReadPermit {
    /// Reads in a thread that may block, which keeps the permit until it has read.
    pub(super) async fn read(self, read: ReadOutput) -> Option<OutputContent> {
        let reading = tokio::task::spawn_blocking(move || {
            let content = read();
            drop(self);
            content
        });
        let failed = |error| Some(on_error(&io::Error::other(error)));
        reading.await.unwrap_or_else(failed)
    }
}

/// How many bytes a judged task has on this stream so far.
fn length_of_marks(marks: &Mutex<Vec<u8>>, source: OutputSource) -> u64 {
    match source.stream {
        StreamName::Stdout => lock_marks(marks).len() as u64,
        StreamName::Stderr => 0,
    }
}

fn find_marks(read: &OutputRead, marks: &Mutex<Vec<u8>>) -> Option<FoundOutput> {
    let length = answer_length(length_of_marks(marks, read.at.source), read.at.offset);
    let start = usize::try_from(read.at.offset).ok()?;
    let marks = lock_marks(marks);
    // Nothing is ever removed.
    let found = marks
        .get(start..start + length)
        .filter(|found| !found.is_empty())?;
    Some(FoundOutput::known(OutputContent::Bytes(Bytes::copy_from_slice(
        found,
    ))))
}

fn find_running(read: &OutputRead, live: LiveOutput, run: u64) -> Option<FoundOutput> {
    let (stream, offset) = (sandbox_stream(read.at.source), read.at.offset);
    let length = answer_length(live.captured(run, stream)?, offset);
    if length == 0 {
        return None;
    }
    let read_bytes = Box::new(move || {
        let mut bytes = vec![0; length];
        match live.read_at(run, stream, offset, &mut bytes) {
            Ok(count) => Some(content(truncated(bytes, count?))),
            Err(error) => Some(on_error(&error)),
        }
    });
    // The head is in memory; the rest is in a file.
    Some(match offset < STREAM_HEAD as u64 {
        true => FoundOutput::InMemory(read_bytes),
        false => FoundOutput::InFile(read_bytes),
    })
}

fn find_ended(
    read: &OutputRead,
    output: CapturedOutput,
    open: impl FnOnce() -> io::Result<Arc<File>> + Send + 'static,
) -> FoundOutput {
    let offset = read.at.offset;
    let length = answer_length(output.size, offset);
    if length == 0 {
        let truncated = output.truncated;
        return FoundOutput::known(OutputContent::Ended { truncated });
    }
    if let Ok(start) = usize::try_from(offset)
        && start < output.head.len()
    {
        let end = output.head.len().min(start + length);
        return FoundOutput::known(OutputContent::Bytes(output.head.slice(start..end)));
    }
    FoundOutput::InFile(Box::new(move || {
        let mut bytes = vec![0; length];
        match open().and_then(|file| file.read_at(&mut bytes, offset)) {
            Ok(count) => Some(content(truncated(bytes, count))),
            Err(error) => Some(on_error(&error)),
        }
    }))
}

/// How many of the kept bytes an answer for this offset carries.
fn answer_length(kept: u64, offset: u64) -> usize {
    let left = kept.saturating_sub(offset);
    usize::try_from(left).map_or(OutputRead::MAX_BYTES, |left| left.min(OutputRead::MAX_BYTES))
}

fn truncated(mut bytes: Vec<u8>, length: usize) -> Bytes {
    bytes.truncate(length);
    bytes.into()
}

fn content(bytes: Bytes) -> OutputContent {
    match bytes.is_empty() {
        // The file is shorter than it should be.
        true => OutputContent::Unknown,
        false => OutputContent::Bytes(bytes),
    }
}

fn on_error(error: &io::Error) -> OutputContent {
    tracing::debug!(%error, "could not read the output of a step");
    OutputContent::Unknown
}
