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

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{AttemptEnd, AttemptId, CompletedAttempt};
use supervise::{Component, Supervisor};

use self::journal::{Journal, JournalFile};
use crate::now;

mod journal;
mod record;

/// A journal longer than this is rewritten when most of it is acknowledged.
const COMPACT_BYTES: u64 = 64 << 20;
/// How many results may be paused at the same time; further ones are reported at once.
const MAX_PAUSED: usize = 1000;
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
/// while its results, apart from paused ones, exceed one report.
#[derive(Default)]
struct SpoolTable {
    unanswered: BTreeMap<AttemptId, AttemptEnd>,
    /// Results, with the time until which no report carries them: platform failures whose tasks must not be retried yet.
    paused: BTreeMap<AttemptId, Instant>,
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

/// The results that a [`Spool`] gives to the report loop for the next report, and those that must wait.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReportBatch {
    pub(crate) complete: Vec<CompletedAttempt>,
    /// Results that do not fit into the report.
    pub(crate) left_over: Vec<AttemptId>,
    /// Results whose pause is not over.
    pub(crate) paused: Vec<AttemptId>,
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
    /// Loads the results of an earlier process, adds the attempts that were interrupted when it was killed, and writes all of
    /// them to the journal before it returns.
    pub(crate) fn open(path: &Path, interrupted: &[AttemptId]) -> io::Result<Spool> {
        let (mut journal, found) = JournalFile::open(path)?;
        let mut unanswered: BTreeMap<_, _> = found
            .into_iter()
            .map(|complete| (complete.attempt_id, complete.end))
            .collect();
        for attempt_id in interrupted {
            unanswered.entry(*attempt_id).or_insert_with(|| {
                AttemptEnd::Broken("its executor was killed while the task was running".into())
            });
        }
        let table = SpoolTable {
            unanswered,
            ..SpoolTable::default()
        };
        journal.rewrite(&table.all())?;
        Spool::start(table, journal)
    }

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

    /// Adds the end of an attempt, unless it already has one. No report carries it before the pause is over.
    pub(crate) fn add(&self, complete: CompletedAttempt, pause: Duration) {
        let mut table = self.shared.table();
        if let Entry::Vacant(entry) = table.unanswered.entry(complete.attempt_id) {
            entry.insert(complete.end);
            table.unwritten.insert(complete.attempt_id);
            if !pause.is_zero() && table.paused.len() < MAX_PAUSED {
                table.paused.insert(complete.attempt_id, now() + pause);
            }
            self.shared.changed.notify_all();
        }
    }

    /// When the next pause ends.
    pub(crate) fn next_pause_ends(&self) -> Option<Instant> {
        self.shared.table().paused.values().min().copied()
    }

    /// Ends the pauses that are over. Returns whether there were any: then a report is due.
    pub(crate) fn end_pauses_if_over(&self, now: Instant) -> bool {
        self.end_pauses(|until| until <= now)
    }

    /// Ends all pauses, because an executor that stops does not wait for them.
    pub(crate) fn end_all_pauses(&self) -> bool {
        self.end_pauses(|_| true)
    }

    fn end_pauses(&self, is_over: impl Fn(Instant) -> bool) -> bool {
        let paused = &mut self.shared.table().paused;
        let before = paused.len();
        paused.retain(|_, until| !is_over(*until));
        paused.len() < before
    }

    pub(crate) fn contains(&self, attempt_id: &AttemptId) -> bool {
        self.shared.table().unanswered.contains_key(attempt_id)
    }

    /// At least one result, and more as long as they fit into these limits.
    pub(crate) fn next_batch(&self, bytes: usize, results: usize) -> ReportBatch {
        let mut batch = ReportBatch::default();
        let mut total = 0;
        let table = self.shared.table();
        for (attempt_id, end) in &table.unanswered {
            if table.paused.contains_key(attempt_id) {
                batch.paused.push(*attempt_id);
                continue;
            }
            total += approximate_bytes(end);
            let complete = &mut batch.complete;
            if complete.is_empty() || (total <= bytes && complete.len() < results) {
                complete.push(CompletedAttempt {
                    attempt_id: *attempt_id,
                    end: end.clone(),
                });
            } else {
                batch.left_over.push(*attempt_id);
            }
        }
        batch
    }

    /// Removes results that a judicator has acknowledged.
    pub(crate) fn on_answered(&self, attempt_ids: &[AttemptId]) {
        let mut table = self.shared.table();
        for attempt_id in attempt_ids {
            table.unanswered.remove(attempt_id);
            table.paused.remove(attempt_id);
            table.unwritten.remove(attempt_id);
            table.being_written.remove(attempt_id);
        }
        // In other cases the writer has nothing to do.
        if table.unanswered.is_empty() || table.large {
            self.shared.changed.notify_all();
        }
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
        let live = || self.unanswered.values().map(approximate_bytes).sum::<usize>() as u64;
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

    /// Cheap: the bytes of the outputs are shared, not copied.
    fn complete(&self, attempt_id: &AttemptId) -> Option<CompletedAttempt> {
        let end = self.unanswered.get(attempt_id)?.clone();
        Some(CompletedAttempt {
            attempt_id: *attempt_id,
            end,
        })
    }
}

/// About how many bytes a result has on the wire.
fn approximate_bytes(end: &AttemptEnd) -> usize {
    match end {
        AttemptEnd::Broken(why) | AttemptEnd::PlatformFailure(why) => why.len(),
        AttemptEnd::Result(result) => [&result.compile, &result.execute]
            .into_iter()
            .flatten()
            .map(|outcome| outcome.stdout.bytes.len() + outcome.stderr.bytes.len() + 100)
            .sum(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
