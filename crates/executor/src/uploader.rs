//! Uploads the files of results to a judicator, before the results are reported.
//!
//! An upload has no limit on its total time, only on the time without progress, and is retried as long as the result is
//! wanted. The report loop goes on meanwhile and names the attempts as executing.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, OptionFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use model::{AttemptEnd, AttemptId, BlobHash, Content, LeftOutReason, TaskResult};
use rpc::{CallError, Calls};
use supervise::{Component, Supervisor};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::now;
use crate::outcome::keep_head_only;
use crate::outgoing::OutgoingFolder;
use crate::slot_pool::{SlotEvent, SlotPool};
use crate::upload_queue::UploadQueue;

/// How many blobs are looked for in one call.
const MAX_CHECKED: usize = 1000;
/// How long a judicator may take to look for them.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// The blobs that wait for their upload, shared by the slots, the report loop and the uploader.
#[derive(Default)]
pub(crate) struct Uploads {
    queue: Mutex<UploadQueue>,
    changed: Notify,
}

/// The background task of an executor that uploads the files of results; dropping it stops the task.
pub(crate) struct UploaderTask {
    stop: CancellationToken,
    task: AbortHandle,
}

/// The part of the executor that uploads the files of results.
struct Uploader {
    calls: Arc<dyn Calls>,
    slot_pool: Arc<SlotPool>,
}

/// How one upload of a blob ended.
enum UploadEnd {
    Uploaded,
    /// Nobody needs the blob any more.
    Cancelled,
    Failed(CallError),
    /// The disk could not read the file.
    Unreadable(io::Error),
    /// The file is gone or damaged.
    Lost,
    /// The store does not take a blob of this size.
    TooLarge(CallError),
}

/// The answer to the question which blobs the store has.
struct CheckedBlobs {
    hashes: Vec<BlobHash>,
    stored: Result<Vec<Option<u64>>, CallError>,
}

impl Uploads {
    pub(crate) fn add(&self, attempt_id: AttemptId, blobs: impl IntoIterator<Item = BlobHash>) {
        self.queue().add(attempt_id, blobs);
        self.changed.notify_one();
    }

    pub(crate) fn remove(&self, attempt_id: &AttemptId) {
        self.queue().remove(attempt_id);
    }

    /// An upload did not find its file. Drops the results that need it, and returns them. If a slot has added the file again
    /// since, they go on.
    fn on_lost(&self, hash: BlobHash, outgoing: &OutgoingFolder) -> Vec<AttemptId> {
        let mut queue = self.queue();
        if outgoing.is_verified(&hash) {
            queue.on_cancelled(hash);
            return Vec::new();
        }
        queue.on_lost(hash)
    }

    #[cfg(test)]
    pub(crate) fn needed_by(&self, hash: &BlobHash) -> Vec<AttemptId> {
        self.queue().needed_by(hash)
    }

    fn queue(&self) -> MutexGuard<'_, UploadQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UploaderTask {
    pub(crate) fn start(
        calls: Arc<dyn Calls>,
        slot_pool: Arc<SlotPool>,
        supervisor: &Supervisor,
    ) -> UploaderTask {
        let stop = CancellationToken::new();
        let uploader = Uploader { calls, slot_pool };
        let task = supervisor.spawn(Component::Uploader, &stop, uploader.run());
        UploaderTask {
            stop,
            task: task.abort_handle(),
        }
    }
}

impl Drop for UploaderTask {
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}

impl Uploader {
    async fn run(self) {
        let uploads = &self.slot_pool.uploads;
        let outgoing = &self.slot_pool.outgoing;
        let size_of = |hash: &BlobHash| outgoing.source(hash).map_or(0, |source| source.size);
        let mut running = FuturesUnordered::new();
        let mut check: OptionFuture<BoxFuture<'_, CheckedBlobs>> = None.into();
        let mut is_checking = false;
        loop {
            let wakes_at = {
                let (now, mut queue) = (now(), uploads.queue());
                while let Some((hash, cancelled)) = queue.next_upload(now, size_of) {
                    running.push(self.upload(hash, cancelled).map(move |end| (hash, end)));
                }
                if !is_checking {
                    let hashes = queue.take_unchecked(MAX_CHECKED, now);
                    is_checking = !hashes.is_empty();
                    check = is_checking.then(|| self.check(hashes).boxed()).into();
                }
                queue.wakes_at(now)
            };
            let sleep = OptionFuture::from(wakes_at.map(|at| tokio::time::sleep_until(at.into())));
            tokio::select! {
                Some((hash, end)) = running.next() => self.on_upload_ended(hash, end),
                Some(checked) = &mut check, if is_checking => {
                    is_checking = false;
                    self.on_checked(checked);
                }
                () = uploads.changed.notified() => {}
                Some(()) = sleep => {}
            }
        }
    }

    async fn check(&self, hashes: Vec<BlobHash>) -> CheckedBlobs {
        let asked = tokio::time::timeout(CHECK_TIMEOUT, self.calls.has_blobs(hashes.clone())).await;
        let stored = asked.unwrap_or_else(|_| Err(CallError::Unavailable("no answer in time".into())));
        CheckedBlobs { hashes, stored }
    }

    fn on_checked(&self, CheckedBlobs { hashes, stored }: CheckedBlobs) {
        let mut queue = self.slot_pool.uploads.queue();
        match stored {
            Ok(stored) => {
                let mut complete = Vec::new();
                // What the answer leaves out is uploaded.
                let stored = stored.into_iter().chain(std::iter::repeat(None));
                for (hash, size) in hashes.into_iter().zip(stored) {
                    complete.extend(queue.on_checked(hash, size.is_some()));
                }
                drop(queue);
                self.on_complete(complete);
            }
            Err(error) => {
                queue.on_check_failed(hashes, now());
                drop(queue);
                tracing::warn!(%error, "could not ask the store which output it has; retrying");
            }
        }
    }

    async fn upload(&self, hash: BlobHash, cancelled: CancellationToken) -> UploadEnd {
        let outgoing = &self.slot_pool.outgoing;
        let Some(source) = outgoing.source(&hash) else {
            return UploadEnd::Lost;
        };
        if !outgoing.is_verified(&hash) {
            match verify(outgoing.clone(), hash).await {
                Ok(true) => {}
                Ok(false) => return UploadEnd::Lost,
                Err(error) => return UploadEnd::Unreadable(error),
            }
        }
        let put = cancelled.run_until_cancelled(self.calls.put_blob_file(source));
        match put.await {
            None => UploadEnd::Cancelled,
            Some(Ok(())) => UploadEnd::Uploaded,
            Some(Err(error @ CallError::TooLarge { .. })) => UploadEnd::TooLarge(error),
            Some(Err(error)) if error.is_transient() => UploadEnd::Failed(error),
            // The file may be the cause.
            Some(Err(error)) => match verify(outgoing.clone(), hash).await {
                Ok(true) => UploadEnd::Failed(error),
                Ok(false) => UploadEnd::Lost,
                Err(error) => UploadEnd::Unreadable(error),
            },
        }
    }

    fn on_upload_ended(&self, hash: BlobHash, end: UploadEnd) {
        let mut queue = self.slot_pool.uploads.queue();
        match end {
            UploadEnd::Uploaded => {
                let complete = queue.on_uploaded(hash);
                drop(queue);
                self.on_complete(complete);
            }
            UploadEnd::Cancelled => queue.on_cancelled(hash),
            UploadEnd::Failed(error) => {
                queue.on_failed(hash, now());
                drop(queue);
                tracing::warn!(%hash, %error, "could not upload the output of a task; retrying");
            }
            UploadEnd::Unreadable(error) => {
                let is_retried = queue.on_unreadable(hash, now());
                drop(queue);
                tracing::warn!(%hash, %error, is_retried, "could not read the output of a task to upload it");
                if !is_retried {
                    let lost = self.slot_pool.uploads.on_lost(hash, &self.slot_pool.outgoing);
                    self.on_lost(hash, lost);
                }
            }
            UploadEnd::Lost => {
                drop(queue);
                let lost = self.slot_pool.uploads.on_lost(hash, &self.slot_pool.outgoing);
                self.on_lost(hash, lost);
            }
            UploadEnd::TooLarge(error) => {
                let needed_by = queue.needed_by(&hash);
                drop(queue);
                for attempt_id in needed_by {
                    tracing::warn!(task = %attempt_id.task, %error, "the store refuses the output of a task; it is left out");
                    self.slot_pool
                        .spool
                        .replace(&attempt_id, |end| without_blob(end, hash));
                }
                let complete = self.slot_pool.uploads.queue().on_uploaded(hash);
                self.on_complete(complete);
            }
        }
    }

    fn on_complete(&self, attempt_ids: Vec<AttemptId>) {
        for attempt_id in attempt_ids {
            self.slot_pool.spool.on_uploaded(&attempt_id);
            self.slot_pool.send_event(SlotEvent::ResultUploaded);
        }
    }

    fn on_lost(&self, hash: BlobHash, attempt_ids: Vec<AttemptId>) {
        for attempt_id in attempt_ids {
            let why = "its executor has lost a file of its result";
            let is_wanted = self
                .slot_pool
                .spool
                .replace(&attempt_id, |_| AttemptEnd::Broken(why.into()));
            if is_wanted {
                tracing::error!(task = %attempt_id.task, %hash, "the output of a task is lost or damaged on this machine; the task runs again");
                self.slot_pool.send_event(SlotEvent::ResultUploaded);
            }
        }
    }
}

/// Whether the file has the content that its name says.
async fn verify(outgoing: Arc<OutgoingFolder>, hash: BlobHash) -> io::Result<bool> {
    let read = tokio::task::spawn_blocking(move || outgoing.verify(&hash)).await;
    read.map_err(io::Error::other)?
}

/// The result without a blob that the store does not take.
fn without_blob(end: AttemptEnd, hash: BlobHash) -> AttemptEnd {
    let AttemptEnd::Result(mut result) = end else {
        return end;
    };
    for outcome in [&mut result.compile, &mut result.execute].into_iter().flatten() {
        for output in [&mut outcome.stdout, &mut outcome.stderr] {
            if output.blob == Some(hash) {
                keep_head_only(output);
            }
        }
    }
    if let Some(judgement) = &mut result.judgement
        && judgement.cases.blob() == Some(hash)
    {
        // The marks say how the cases ended.
        judgement.cases = Content::empty();
    }
    let TaskResult {
        files,
        files_left_out,
        ..
    } = &mut result;
    files.retain(|file| {
        let is_kept = file.blob != hash;
        if !is_kept {
            files_left_out.add(file.size, LeftOutReason::TooLarge);
        }
        is_kept
    });
    AttemptEnd::Result(result)
}

#[cfg(test)]
mod tests;
