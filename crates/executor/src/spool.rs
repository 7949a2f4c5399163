//! Results that no judicator has acknowledged: a table in memory, and a journal on disk behind it.
//!
//! The report loop and the slots use only the table; its lock is never held during disk operations. One thread writes the
//! journal: it appends new results, truncates the file when all results are acknowledged, and rewrites it when most of it
//! is acknowledged. So a slow or hanging disk delays no report, and a result is reported whether or not it is in the
//! journal.
//!
//! When the process is killed, the next process reports the results of the journal again; the judicator ignores results that it
//! already has. A result that was neither written nor reported is lost, and its task runs again. The journal is not
//! synced to disk: a power failure also ends the attempts of the machine, whose tasks run again anyway.
//!
//! A result that names blobs is reported when all of them are uploaded. Until then it holds its files in the outgoing folder.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{
    AttemptEnd, AttemptId, BlobHash, CapturedOutput, CompletedAttempt, ExecutingAttempt, OutputSource,
    ReportInstructions, TaskForm,
};
use supervise::{Component, Supervisor};

use self::journal::Journal;
use self::result_size::{output_of, report_bytes, step_status};
use crate::now;
use crate::outgoing::OutgoingFiles;

mod journal;
mod open;
mod record;
mod result_size;

/// A journal longer than this is rewritten when most of it is acknowledged.
const COMPACT_BYTES: u64 = 64 << 20;
/// How many results may be paused at the same time; further ones are reported at once.
const MAX_PAUSED: usize = 1000;
/// About how much memory a file takes while it waits for its upload, besides its place in a report: in the outgoing folder's
/// table and in the queue of uploads.
const WAITING_FILE_BYTES: usize = 512;
/// How long the writer waits after a failed write.
const WRITE_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The executor's spool: the results that no judicator has acknowledged, in memory and in a journal on disk.
pub(crate) struct Spool {
    shared: Arc<SpoolShared>,
    /// Supervises all threads of the executor.
    pub(crate) supervisor: Supervisor,
}

/// What a [`Spool`] shares with its writer thread: the table of results, and the signal that it has changed.
struct SpoolShared {
    table: Mutex<SpoolTable>,
    changed: Condvar,
}

/// The results in a [`Spool`], in memory. Their number is bounded by the attempts that the executor holds and by
/// [`MAX_PAUSED`]: a judicator assigns tasks only in answers that also acknowledge results, and the executor takes none
/// while its results, apart from paused ones, exceed one report, or too many of them wait for their uploads.
#[derive(Default)]
struct SpoolTable {
    unanswered: BTreeMap<AttemptId, SpooledEnd>,
    /// Results, with the time until which no report carries them: platform failures whose tasks must not be retried yet.
    paused: BTreeMap<AttemptId, Instant>,
    /// Results that an answered report has carried and that the answer did not name, with the time of the next try.
    deferred: BTreeMap<AttemptId, Instant>,
    /// The files of results that name blobs.
    files: BTreeMap<AttemptId, ResultFiles>,
    /// Results that are not in the journal yet.
    unwritten: BTreeSet<AttemptId>,
    /// Results that the writer is writing.
    being_written: BTreeSet<AttemptId>,
    /// Whether the journal is longer than [`COMPACT_BYTES`].
    large: bool,
    closed: bool,
    /// Whether the writer thread has ended.
    ended: bool,
}

/// The end of one attempt in a [`Spool`].
struct SpooledEnd {
    form: TaskForm,
    end: AttemptEnd,
    /// About how many bytes it has in a report.
    bytes: usize,
}

/// The files of one result in a [`Spool`], whose contents the result names as blobs.
struct ResultFiles {
    /// Dropped only when the spool no longer needs them. At the end of the process the files stay for the next one.
    files: ManuallyDrop<OutgoingFiles>,
    is_uploaded: bool,
}

/// The results that a [`Spool`] gives to the report loop for the next report, and those that must wait.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReportBatch {
    pub(crate) complete: Vec<CompletedAttempt>,
    /// Results that do not fit into the report.
    pub(crate) left_over: Vec<AttemptId>,
    /// Results whose pause is not over.
    pub(crate) paused: Vec<AttemptId>,
    /// Results whose blobs are not uploaded.
    pub(crate) uploading: Vec<ExecutingAttempt>,
    /// About how much memory these results and their files take.
    pub(crate) uploading_bytes: usize,
}

/// How the last write to the spool's journal ended, which decides when the writer thread tries again.
#[derive(Clone, Copy, PartialEq)]
enum LastWrite {
    Succeeded,
    Failed,
    /// The write after the spool was closed has failed; there is no retry.
    FailedAtClose,
}

/// What the spool's writer thread does next with the journal.
#[derive(Debug, PartialEq)]
enum JournalWork {
    Append(Vec<CompletedAttempt>),
    Rewrite(Vec<CompletedAttempt>),
    Stop,
}

impl Spool {
    fn start(table: SpoolTable, journal: impl Journal) -> io::Result<Spool> {
        let shared = Arc::new(SpoolShared {
            table: Mutex::new(table),
            changed: Condvar::new(),
        });
        let writer = shared.clone();
        let supervisor = Supervisor::new();
        supervisor.thread(Component::Spool, "spool".into(), move || writer.write(journal))?;
        Ok(Spool { shared, supervisor })
    }

    /// Adds the end of an attempt, unless it already has one. No report carries it before the pause is over and its files are
    /// uploaded.
    pub(crate) fn add(&self, complete: CompletedAttempt, files: Option<OutgoingFiles>, pause: Duration) {
        let mut table = self.shared.table();
        let Entry::Vacant(entry) = table.unanswered.entry(complete.attempt_id) else {
            // Before the files are dropped, which takes another lock.
            drop(table);
            return;
        };
        entry.insert(SpooledEnd::new(complete.form, complete.end));
        table.unwritten.insert(complete.attempt_id);
        if let Some(files) = files {
            table.files.insert(complete.attempt_id, ResultFiles::new(files));
        }
        if !pause.is_zero() && table.paused.len() < MAX_PAUSED {
            table.paused.insert(complete.attempt_id, now() + pause);
        }
        self.shared.changed.notify_all();
    }

    /// Replaces an end whose files are lost or refused. Returns false if the spool does not have it any more.
    pub(crate) fn replace(
        &self,
        attempt_id: &AttemptId,
        change: impl FnOnce(AttemptEnd) -> AttemptEnd,
    ) -> bool {
        let mut table = self.shared.table();
        let Some(spooled) = table.unanswered.remove(attempt_id) else {
            return false;
        };
        let replaced = SpooledEnd::new(spooled.form, change(spooled.end));
        let needs_files = matches!(&replaced.end, AttemptEnd::Result(result) if !result.blobs().is_empty());
        table.unanswered.insert(*attempt_id, replaced);
        table.unwritten.insert(*attempt_id);
        let files = match needs_files {
            true => None,
            false => table.files.remove(attempt_id),
        };
        drop(table);
        self.shared.changed.notify_all();
        drop(files.map(ResultFiles::release));
        true
    }

    /// All blobs of the result are uploaded: the next report may carry it.
    pub(crate) fn on_uploaded(&self, attempt_id: &AttemptId) {
        if let Some(files) = self.shared.table().files.get_mut(attempt_id) {
            files.is_uploaded = true;
        }
    }

    /// The results whose blobs are to be uploaded.
    pub(crate) fn uploads(&self) -> Vec<(AttemptId, Vec<BlobHash>)> {
        let table = self.shared.table();
        let waiting = table.files.iter().filter(|(_, files)| !files.is_uploaded);
        let blobs = |files: &ResultFiles| files.files.hashes().iter().copied().collect();
        waiting
            .map(|(attempt_id, files)| (*attempt_id, blobs(files)))
            .collect()
    }

    /// The blobs of a result that has any.
    pub(crate) fn blobs(&self, attempt_id: &AttemptId) -> Option<BTreeSet<BlobHash>> {
        let table = self.shared.table();
        let files = table.files.get(attempt_id)?;
        Some(files.files.hashes().clone())
    }

    pub(crate) fn has_uploads(&self) -> bool {
        self.shared.table().files.values().any(|files| !files.is_uploaded)
    }

    /// When the next pause ends.
    pub(crate) fn next_pause_ends(&self) -> Option<Instant> {
        let table = self.shared.table();
        table
            .paused
            .values()
            .chain(table.deferred.values())
            .min()
            .copied()
    }

    /// Ends the pauses that are over. Returns whether there were any: then a report is due.
    pub(crate) fn end_pauses_if_over(&self, now: Instant) -> bool {
        let mut table = self.shared.table();
        let SpoolTable { paused, deferred, .. } = &mut *table;
        let before = paused.len() + deferred.len();
        paused.retain(|_, until| *until > now);
        deferred.retain(|_, until| *until > now);
        paused.len() + deferred.len() < before
    }

    /// Ends the pauses of platform failures, because an executor that stops does not wait for them.
    pub(crate) fn end_all_pauses(&self) -> bool {
        let paused = std::mem::take(&mut self.shared.table().paused);
        !paused.is_empty()
    }

    /// The last report carries all results.
    pub(crate) fn end_all_deferrals(&self) {
        self.shared.table().deferred.clear();
    }

    pub(crate) fn contains(&self, attempt_id: &AttemptId) -> bool {
        self.shared.table().unanswered.contains_key(attempt_id)
    }

    /// The output stream of a result; empty if its step did not run. `None` if there is no result.
    pub(crate) fn captured_output(
        &self,
        attempt_id: &AttemptId,
        source: OutputSource,
    ) -> Option<CapturedOutput> {
        let table = self.shared.table();
        output_of(&table.unanswered.get(attempt_id)?.end, source)
    }

    /// At least one result, and more as long as they fit into these limits.
    pub(crate) fn next_batch(&self, bytes: usize, results: usize) -> ReportBatch {
        let mut batch = ReportBatch::default();
        let mut total = 0;
        let table = self.shared.table();
        for (attempt_id, spooled) in &table.unanswered {
            if let Some(files) = table.uploading(attempt_id) {
                batch.uploading_bytes += spooled.bytes + files.files.hashes().len() * WAITING_FILE_BYTES;
                batch.uploading.push(ExecutingAttempt {
                    attempt_id: *attempt_id,
                    status: step_status(&spooled.end),
                });
                continue;
            }
            if table.paused.contains_key(attempt_id) || table.deferred.contains_key(attempt_id) {
                batch.paused.push(*attempt_id);
                continue;
            }
            total += spooled.bytes;
            let complete = &mut batch.complete;
            if complete.is_empty() || (total <= bytes && complete.len() < results) {
                complete.push(spooled.complete(*attempt_id));
            } else {
                batch.left_over.push(*attempt_id);
            }
        }
        batch
    }

    /// Removes results that a judicator has acknowledged, and defers reported ones that its answer does not name. Returns
    /// the files of the removed ones; the caller ends their uploads before it drops them.
    pub(crate) fn on_answered(
        &self,
        reported: &[AttemptId],
        answer: &ReportInstructions,
        again_at: Instant,
    ) -> Vec<(AttemptId, OutgoingFiles)> {
        let mut released = Vec::new();
        let mut table = self.shared.table();
        for attempt_id in &answer.delete {
            table.unanswered.remove(attempt_id);
            table.paused.remove(attempt_id);
            table.deferred.remove(attempt_id);
            table.unwritten.remove(attempt_id);
            table.being_written.remove(attempt_id);
            if let Some(files) = table.files.remove(attempt_id) {
                released.push((*attempt_id, files.release()));
            }
        }
        for attempt_id in &answer.upload_again {
            if let Some(files) = table.files.get_mut(attempt_id) {
                files.is_uploaded = false;
            }
        }
        // A judicator that does not know the form of a task leaves its result to others.
        for attempt_id in reported {
            if table.unanswered.contains_key(attempt_id) && table.uploading(attempt_id).is_none() {
                table.deferred.insert(*attempt_id, again_at);
            }
        }
        // In other cases the writer has nothing to do.
        if table.unanswered.is_empty() || table.large {
            self.shared.changed.notify_all();
        }
        released
    }

    /// Waits until all results are written, up to this time or until a write fails. Returns how many are not written.
    pub(crate) fn close(&self, within: Duration) -> usize {
        let deadline = Instant::now() + within;
        let mut table = self.shared.table();
        table.closed = true;
        self.shared.changed.notify_all();
        while !table.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (table, _) = self
                .shared
                .changed
                .wait_timeout(table, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
        // A write on a hanging disk may never finish.
        let lost = table.unwritten.union(&table.being_written).count();
        if lost > 0 {
            tracing::error!(
                results = lost,
                "results were not written to the spool; their tasks run again"
            );
        }
        lost
    }
}

impl SpoolShared {
    /// The loop of the writer thread.
    fn write(&self, mut journal: impl Journal) {
        let mut last = LastWrite::Succeeded;
        loop {
            let (work, closed) = self.next_work(journal.length(), last);
            let written = match &work {
                JournalWork::Append(results) => journal.append(results),
                JournalWork::Rewrite(results) => journal.rewrite(results),
                JournalWork::Stop => break,
            };
            let mut table = self.table();
            // Results that were acknowledged during the write are no longer in this set. A failed rewrite leaves the
            // journal unchanged.
            let being_written = std::mem::take(&mut table.being_written);
            let Err(error) = written else {
                last = LastWrite::Succeeded;
                continue;
            };
            last = if closed {
                LastWrite::FailedAtClose
            } else {
                LastWrite::Failed
            };
            table.unwritten.extend(being_written);
            let in_memory = table.unwritten.len();
            drop(table);
            tracing::error!(%error, in_memory, "could not write to the spool; results are only in memory");
        }
        self.table().ended = true;
        self.changed.notify_all();
    }

    /// Waits for work. Also returns whether the spool is closed.
    fn next_work(&self, length: u64, last: LastWrite) -> (JournalWork, bool) {
        let mut table = self.table();
        table.large = length > COMPACT_BYTES;
        let retry = Instant::now() + WRITE_RETRY_INTERVAL;
        loop {
            let left = retry.saturating_duration_since(Instant::now());
            match (last, table.closed) {
                (LastWrite::FailedAtClose, _) => return (JournalWork::Stop, true),
                (LastWrite::Failed, false) if !left.is_zero() => {
                    (table, _) = self
                        .changed
                        .wait_timeout(table, left)
                        .unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                _ => {}
            }
            match table.pending_work(length) {
                Some(work) => return (work, table.closed),
                None if table.closed => return (JournalWork::Stop, true),
                None => table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, SpoolTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpoolTable {
    /// What to write to a journal of this length, if anything.
    fn pending_work(&mut self, length: u64) -> Option<JournalWork> {
        let live = || {
            self.unanswered
                .values()
                .map(|spooled| spooled.bytes)
                .sum::<usize>() as u64
        };
        if self.unanswered.is_empty() && length > 0 || self.large && live() < length / 2 {
            self.being_written = std::mem::take(&mut self.unwritten);
            return Some(JournalWork::Rewrite(self.all()));
        }
        self.being_written = std::mem::take(&mut self.unwritten);
        let new = self
            .being_written
            .iter()
            .filter_map(|attempt_id| self.complete(attempt_id));
        let new: Vec<_> = new.collect();
        (!new.is_empty()).then_some(JournalWork::Append(new))
    }

    fn all(&self) -> Vec<CompletedAttempt> {
        let attempt_ids = self.unanswered.keys();
        attempt_ids
            .filter_map(|attempt_id| self.complete(attempt_id))
            .collect()
    }

    fn complete(&self, attempt_id: &AttemptId) -> Option<CompletedAttempt> {
        let spooled = self.unanswered.get(attempt_id)?;
        Some(spooled.complete(*attempt_id))
    }

    /// The files of a result, if they are not uploaded.
    fn uploading(&self, attempt_id: &AttemptId) -> Option<&ResultFiles> {
        self.files.get(attempt_id).filter(|files| !files.is_uploaded)
    }
}

impl ResultFiles {
    fn new(files: OutgoingFiles) -> ResultFiles {
        ResultFiles {
            files: ManuallyDrop::new(files),
            is_uploaded: false,
        }
    }

    fn release(self) -> OutgoingFiles {
        ManuallyDrop::into_inner(self.files)
    }
}

impl SpooledEnd {
    fn new(form: TaskForm, end: AttemptEnd) -> SpooledEnd {
        SpooledEnd {
            bytes: report_bytes(&end),
            form,
            end,
        }
    }

    /// Cheap: the bytes of the outputs are shared, not copied.
    fn complete(&self, attempt_id: AttemptId) -> CompletedAttempt {
        CompletedAttempt {
            attempt_id,
            form: self.form,
            end: self.end.clone(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
