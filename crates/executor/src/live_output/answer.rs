//! Waits until there is an answer to a request for output, and reads it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use model::{CapturedOutput, OutputContent, OutputRead, StreamName};
use sandbox::{LiveOutput, STREAM_HEAD};

use super::warden_wakeups::WardenReader;
use super::{EndedStream, StepOutput, sandbox_stream};
use crate::slot_pool::SlotPool;

/// Finds the output that a judicator asks an executor for, wherever it is: in a warden, in a file, or in the spool.
#[derive(Clone, Copy)]
pub(super) struct OutputReader<'a> {
    pub(super) slot_pool: &'a SlotPool,
}

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

    /// Reads the answer. `None` if there is none any more, because the step has ended since or is still to begin.
    pub(super) async fn read(&self, read: &OutputRead) -> Option<OutputContent> {
        let Some(attempt) = self.slot_pool.live_outputs.attempt(&read.attempt_id) else {
            return Some(self.read_spooled(read).await);
        };
        match attempt.step(read.at.source.step)? {
            StepOutput::NotBegun => None,
            StepOutput::Running { live, run } => self.read_running(read, live, run).await,
            StepOutput::Ended { stdout, stderr } => {
                let EndedStream { output, file } = match read.at.source.stream {
                    StreamName::Stdout => stdout,
                    StreamName::Stderr => stderr,
                };
                let open = move || file.ok_or(io::ErrorKind::NotFound.into());
                Some(self.read_ended(read, output, open).await)
            }
        }
    }

    async fn read_running(&self, read: &OutputRead, live: LiveOutput, run: u64) -> Option<OutputContent> {
        let (stream, offset) = (sandbox_stream(read.at.source), read.at.offset);
        let length = answer_length(live.captured(run, stream)?, offset);
        if length == 0 {
            return None;
        }
        let read_bytes = move || {
            let mut bytes = vec![0; length];
            let count = live.read_at(run, stream, offset, &mut bytes)?;
            Ok(count.map(|count| truncated(bytes, count)))
        };
        // The head is in memory; the rest is in a file.
        let bytes = match offset < STREAM_HEAD as u64 {
            true => read_bytes(),
            false => self.read_file(read_bytes).await,
        };
        match bytes {
            Ok(bytes) => Some(content(bytes?)),
            Err(error) => Some(on_error(&error)),
        }
    }

    /// Reads from the result of an attempt that has ended.
    async fn read_spooled(&self, read: &OutputRead) -> OutputContent {
        let SlotPool { spool, outgoing, .. } = self.slot_pool;
        let Some(output) = spool.captured_output(&read.attempt_id, read.at.source) else {
            return OutputContent::Unknown;
        };
        let source = output.blob.and_then(|hash| outgoing.source(&hash));
        let open = move || match source {
            Some(source) => File::open(source.path).map(Arc::new),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        self.read_ended(read, output, open).await
    }

    async fn read_ended(
        &self,
        read: &OutputRead,
        output: CapturedOutput,
        open: impl FnOnce() -> io::Result<Arc<File>> + Send + 'static,
    ) -> OutputContent {
        let offset = read.at.offset;
        let length = answer_length(output.size, offset);
        if length == 0 {
            let truncated = output.truncated;
            return OutputContent::Ended { truncated };
        }
        if let Ok(start) = usize::try_from(offset)
            && start < output.head.len()
        {
            let end = output.head.len().min(start + length);
            return OutputContent::Bytes(output.head.slice(start..end));
        }
        let read_bytes = move || {
            let mut bytes = vec![0; length];
            let count = open()?.read_at(&mut bytes, offset)?;
            Ok(truncated(bytes, count))
        };
        match self.read_file(read_bytes).await {
            Ok(bytes) => content(bytes),
            Err(error) => on_error(&error),
        }
    }

    /// Reads in a thread that may block. If the disk hangs, further reads wait without a thread.
    async fn read_file<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file_reads = self.slot_pool.live_outputs.file_reads.clone();
        let permit = file_reads.acquire_owned().await.map_err(io::Error::other)?;
        let reading = tokio::task::spawn_blocking(move || {
            let read = read();
            drop(permit);
            read
        });
        reading.await.map_err(io::Error::other)?
    }
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
