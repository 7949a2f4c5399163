//! Results until a judicator has answered for them: a table in memory, and a journal on disk behind it.
//!
//! The report loop and the slots see only the table, under a lock that nobody holds while waiting for a disk. One
//! thread writes the journal: it appends what is new, empties the file when no result is left unanswered, and writes
//! it anew when it holds mostly answered ones. So a disk that is slow or hangs delays no report, and a result is
//! reported whether or not it is in the journal yet.
//!
//! After a kill of the process, the next life sends again what the journal holds; a result that was answered already is
//! then answered as stale. A result that was not yet written is gone: if no report carried it, its task is run again.
//! The journal is not synced: what a power failure takes here, it takes from a machine whose tasks run again anyway.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{Complete, End, Handout};
use supervise::{Component, Supervisor};

use self::journal::{Journal, JournalFile};

mod journal;
mod record;

/// Past this length, a journal that holds mostly answered results is written anew.
const COMPACT_BYTES: u64 = 64 << 20;
/// So many may pause at a time; any more are reported at once.
const MOST_PAUSED: usize = 1000;
/// After a failed write, the results that are only in memory are tried again this often.
const RETRY: Duration = Duration::from_secs(5);

pub(crate) struct Spool {
    shared: Arc<Shared>,
    /// Of all threads of the executor.
    pub(crate) supervisor: Supervisor,
}

struct Shared {
    table: Mutex<Table>,
    changed: Condvar,
}

/// Bounded by what the executor holds and by [`MOST_PAUSED`]: a judicator hands out tasks only in answers that also
/// acknowledge results, and the executor takes none while its results, apart from paused ones, exceed one report.
#[derive(Default)]
struct Table {
    waiting: BTreeMap<Handout, End>,
    /// Platform failures among them whose tasks shall not be tried again yet. They are not carried until then.
    paused: BTreeMap<Handout, Instant>,
    /// Those of them that are not in the journal yet.
    unwritten: BTreeSet<Handout>,
    /// What the writer has taken of these, and has not written yet.
    in_hand: BTreeSet<Handout>,
    /// The journal is past [`COMPACT_BYTES`].
    large: bool,
    closed: bool,
    /// The writer has ended.
    ended: bool,
}

/// What a report carries.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Carried {
    pub(crate) complete: Vec<Complete>,
    /// Those that do not fit.
    pub(crate) left: Vec<Handout>,
    /// Those whose pause is not over.
    pub(crate) paused: Vec<Handout>,
}

/// How the writer's last write went.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Written,
    Failed,
    /// It was the last try, when no more results were to come.
    FailedAtEnd,
}

/// What the writer has to do next.
#[derive(Debug, PartialEq)]
enum Work {
    Append(Vec<Complete>),
    Rewrite(Vec<Complete>),
    End,
}

impl Spool {
    /// What an earlier life left comes back as waiting, and so do the attempts that were interrupted at its end: they
    /// are in the journal when this returns.
    pub(crate) fn open(path: &Path, interrupted: &[Handout]) -> io::Result<Spool> {
        let (mut journal, found) = JournalFile::open(path)?;
        let mut waiting: BTreeMap<_, _> = found
            .into_iter()
            .map(|complete| (complete.handout, complete.end))
            .collect();
        for handout in interrupted {
            waiting
                .entry(*handout)
                .or_insert_with(|| End::Broken("its executor was killed while it ran".into()));
        }
        let table = Table {
            waiting,
            ..Table::default()
        };
        journal.rewrite(&table.all())?;
        Spool::start(table, journal)
    }

    fn start(table: Table, journal: impl Journal) -> io::Result<Spool> {
        let shared = Arc::new(Shared {
            table: Mutex::new(table),
            changed: Condvar::new(),
        });
        let writer = shared.clone();
        let supervisor = Supervisor::new();
        supervisor.thread(Component::Spool, "spool".into(), move || writer.write(journal))?;
        Ok(Spool { shared, supervisor })
    }

    /// The first end of an attempt stands. No report carries it before the pause is over.
    pub(crate) fn keep(&self, complete: Complete, pause: Duration) {
        let mut table = self.shared.table();
        if let Entry::Vacant(place) = table.waiting.entry(complete.handout) {
            place.insert(complete.end);
            table.unwritten.insert(complete.handout);
            if !pause.is_zero() && table.paused.len() < MOST_PAUSED {
                table.paused.insert(complete.handout, Instant::now() + pause);
            }
            self.shared.changed.notify_all();
        }
    }

    /// When the next pause is over.
    pub(crate) fn next_pause_ends(&self) -> Option<Instant> {
        self.shared.table().paused.values().min().copied()
    }

    /// Whether a pause has ended since: then a report is due.
    pub(crate) fn end_pauses_if_over(&self, now: Instant) -> bool {
        self.end_pauses(|until| until <= now)
    }

    /// An executor that leaves does not wait for them.
    pub(crate) fn end_all_pauses(&self) -> bool {
        self.end_pauses(|_| true)
    }

    fn end_pauses(&self, is_over: impl Fn(Instant) -> bool) -> bool {
        let paused = &mut self.shared.table().paused;
        let before = paused.len();
        paused.retain(|_, until| !is_over(*until));
        paused.len() < before
    }

    pub(crate) fn contains(&self, handout: &Handout) -> bool {
        self.shared.table().waiting.contains_key(handout)
    }

    /// One result at least, and then as many as fit.
    pub(crate) fn carry(&self, bytes: usize, results: usize) -> Carried {
        let mut carried = Carried::default();
        let mut total = 0;
        let table = self.shared.table();
        for (handout, end) in &table.waiting {
            if table.paused.contains_key(handout) {
                carried.paused.push(*handout);
                continue;
            }
            total += weight(end);
            let complete = &mut carried.complete;
            if complete.is_empty() || (total <= bytes && complete.len() < results) {
                complete.push(Complete {
                    handout: *handout,
                    end: end.clone(),
                });
            } else {
                carried.left.push(*handout);
            }
        }
        carried
    }

    pub(crate) fn on_answered(&self, handouts: &[Handout]) {
        let mut table = self.shared.table();
        for handout in handouts {
            table.waiting.remove(handout);
            table.paused.remove(handout);
            table.unwritten.remove(handout);
            table.in_hand.remove(handout);
        }
        // Else the writer would find nothing to do.
        if table.waiting.is_empty() || table.large {
            self.shared.changed.notify_all();
        }
    }

    /// Waits until everything is written. Gives up after so long, or when the disk refuses. Returns how many results were
    /// not written.
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
        // What a disk that hangs was given may never be there.
        let lost = table.unwritten.union(&table.in_hand).count();
        if lost > 0 {
            tracing::error!(
                results = lost,
                "results were not written to the spool; their tasks run again"
            );
        }
        lost
    }
}

impl Shared {
    /// The writer's thread.
    fn write(&self, mut journal: impl Journal) {
        let mut last = Last::Written;
        loop {
            let (work, closed) = self.next(journal.length(), last);
            let written = match &work {
                Work::Append(results) => journal.append(results),
                Work::Rewrite(results) => journal.rewrite(results),
                Work::End => break,
            };
            let mut table = self.table();
            // Without what was answered meanwhile, which need not be written any more. A rewrite that failed has left
            // the journal as it was.
            let in_hand = std::mem::take(&mut table.in_hand);
            let Err(error) = written else {
                last = Last::Written;
                continue;
            };
            last = if closed { Last::FailedAtEnd } else { Last::Failed };
            table.unwritten.extend(in_hand);
            let in_memory = table.unwritten.len();
            drop(table);
            tracing::error!(%error, in_memory, "could not write to the spool; results are in memory only");
        }
        self.table().ended = true;
        self.changed.notify_all();
    }

    /// And whether it is the last, as the spool is closed.
    fn next(&self, length: u64, last: Last) -> (Work, bool) {
        let mut table = self.table();
        table.large = length > COMPACT_BYTES;
        let retry = Instant::now() + RETRY;
        loop {
            let left = retry.saturating_duration_since(Instant::now());
            match (last, table.closed) {
                (Last::FailedAtEnd, _) => return (Work::End, true),
                (Last::Failed, false) if !left.is_zero() => {
                    (table, _) = self
                        .changed
                        .wait_timeout(table, left)
                        .unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                _ => {}
            }
            match table.work(length) {
                Some(work) => return (work, table.closed),
                None if table.closed => return (Work::End, true),
                None => table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// What is to be done with a journal of this length.
    fn work(&mut self, length: u64) -> Option<Work> {
        let live = || self.waiting.values().map(weight).sum::<usize>() as u64;
        if self.waiting.is_empty() && length > 0 || self.large && live() < length / 2 {
            self.in_hand = std::mem::take(&mut self.unwritten);
            return Some(Work::Rewrite(self.all()));
        }
        self.in_hand = std::mem::take(&mut self.unwritten);
        let new = self.in_hand.iter().filter_map(|handout| self.complete(handout));
        let new: Vec<_> = new.collect();
        (!new.is_empty()).then_some(Work::Append(new))
    }

    fn all(&self) -> Vec<Complete> {
        let handouts = self.waiting.keys();
        handouts.filter_map(|handout| self.complete(handout)).collect()
    }

    /// The bytes of the outputs are shared, not copied.
    fn complete(&self, handout: &Handout) -> Option<Complete> {
        let end = self.waiting.get(handout)?.clone();
        Some(Complete {
            handout: *handout,
            end,
        })
    }
}

/// About how many bytes a result takes on the wire.
fn weight(end: &End) -> usize {
    match end {
        End::Broken(why) | End::PlatformFailure(why) => why.len(),
        End::Result(result) => [&result.compile, &result.execute]
            .into_iter()
            .flatten()
            .map(|outcome| outcome.stdout.bytes.len() + outcome.stderr.bytes.len() + 100)
            .sum(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
