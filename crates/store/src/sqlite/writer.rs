//! The one thread that changes the database.
//!
//! It takes everything that waits, runs it in one transaction, commits, and only then answers: one sync of
//! the disk serves all who waited for it. While it syncs, the next ones gather.

mod checkpoint;

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use model::{Age, Moment};
use rusqlite::Connection;
use supervise::{Component, Failures, Supervisor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot};

use self::checkpoint::Log;
use super::Options;
use super::failure::{During, Failure, repeat};
use super::folder::{Folder, io_error};
use super::group::{Group, Standards};
use crate::{Change, StoreError};

/// A group ends at either bound, so that nobody waits long for a commit he is part of.
const GROUP_JOBS: usize = 512;
const GROUP_BYTES: usize = 8 << 20;
/// How much may wait in memory, in KiB; further callers wait until there is room.
const WAITING_KIB: usize = 64 << 10;
const WAITING_JOBS: usize = 4096;
/// Receivers that fall this far behind have to look for themselves.
const CHANGES: usize = 8192;

pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
    supervisor: Supervisor,
    changes: broadcast::Sender<Change>,
    commits: Arc<AtomicU64>,
}

struct Job {
    weight: usize,
    work: Work,
}

/// Runs an operation in a group; without one it only prepares to pass the error on.
type Work = Box<dyn FnOnce(Option<&mut Group<'_>>) -> Ran + Send>;

struct Ran {
    answer: Answer,
    failure: Option<Failure>,
}

/// Called when it is known whether the group is durable.
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

impl Writer {
    pub(super) fn start(
        mut connection: Connection,
        folder: Folder,
        options: Options,
    ) -> Result<Writer, StoreError> {
        let ledger =
            |name| read_ledger(&connection, name).map_err(|failure| failure.into_error(folder.root()));
        let standards = Standards {
            max_attempts: options.max_attempts,
            last_add: Moment(ledger("last_add")?),
            age: Age(ledger("age")?),
        };
        let log = Log::follow(&mut connection).map_err(|failure| failure.into_error(folder.root()))?;
        let (jobs, waiting) = mpsc::channel(WAITING_JOBS);
        let (changes, _) = broadcast::channel(CHANGES);
        let commits = Arc::new(AtomicU64::new(0));
        let root = folder.root().to_path_buf();
        let desk = Desk {
            connection,
            folder,
            standards,
            waiting,
            changes: changes.clone(),
            commits: commits.clone(),
            log,
        };
        let supervisor = Supervisor::new();
        let thread = supervisor
            .thread(Component::StoreWriter, "store-writer".into(), move || desk.run())
            .map_err(io_error("start the writer's thread for", &root))?;
        Ok(Writer {
            jobs: Some(jobs),
            room: Arc::new(Semaphore::new(WAITING_KIB)),
            thread: Some(thread),
            supervisor,
            changes,
            commits,
        })
    }

    /// Runs `work` in a transaction that it may share with others; durable when this returns.
    pub(super) async fn submit<T, F>(&self, weight: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T, Failure> + Send + 'static,
    {
        self.weak().submit(weight, work).await
    }

    /// For what may outlive the store.
    pub(super) fn weak(&self) -> WeakWriter {
        WeakWriter {
            jobs: self.jobs.as_ref().map(mpsc::Sender::downgrade),
            room: self.room.clone(),
            failures: self.failures(),
        }
    }

    pub(super) fn failures(&self) -> Failures {
        self.supervisor.failures()
    }

    pub(super) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

/// A way to the writer that does not keep it from ending.
#[derive(Clone)]
pub(super) struct WeakWriter {
    jobs: Option<mpsc::WeakSender<Job>>,
    room: Arc<Semaphore>,
    failures: Failures,
}

impl WeakWriter {
    /// As [`Writer::submit`], as long as there is a writer.
    pub(super) async fn submit<T, F>(&self, weight: usize, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T, Failure> + Send + 'static,
    {
        let share = (weight >> 10).clamp(1, WAITING_KIB) as u32;
        let permit = self
            .room
            .clone()
            .acquire_many_owned(share)
            .await
            .map_err(|_| StoreError::Closed)?;
        let jobs = self.jobs.as_ref().and_then(mpsc::WeakSender::upgrade);
        let jobs = jobs.ok_or(StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let work: Work = Box::new(move |group| {
            let (value, failure) = match group.map(work) {
                Some(Ok(value)) => (Some(Ok(value)), None),
                Some(Err(Failure::Refused(error))) => (Some(Err(error)), None),
                Some(Err(failure)) => (None, Some(failure)),
                None => (None, None),
            };
            Ran {
                answer: hold(value, reply, permit),
                failure,
            }
        });
        // The writer drops its ends without an answer only if it panics.
        if jobs.send(Job { weight, work }).await.is_err() {
            return Err(StoreError::of_lost(self.failures.clone()).await);
        }
        // A writer that ends waits for all senders to go.
        drop(jobs);
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::of_lost(self.failures.clone()).await),
        }
    }
}

impl Drop for Writer {
    /// What was accepted is still written; then the database is closed, before its lock is let go.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the writer was told as a failure of this component.
            let _ = thread.join();
        }
    }
}

/// Keeps the value back until the group's end is known. A refusal too: it may be due to another of the group,
/// which then came to nothing.
fn hold<T: Send + 'static>(
    value: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    permit: OwnedSemaphorePermit,
) -> Answer {
    Box::new(move |end| {
        drop(permit);
        let value = end.and_then(|()| value.unwrap_or(Err(StoreError::Closed)));
        // The caller may have stopped waiting; what was done stays done.
        let _ = reply.send(value);
    })
}

/// What the thread owns.
struct Desk {
    connection: Connection,
    folder: Folder,
    standards: Standards,
    waiting: mpsc::Receiver<Job>,
    changes: broadcast::Sender<Change>,
    commits: Arc<AtomicU64>,
    log: Log,
}

impl Desk {
    fn run(mut self) {
        while let Some(first) = self.waiting.blocking_recv() {
            self.handle_group(first);
            self.log.checkpoint_if_due(&self.connection, self.waiting.len());
        }
    }

    fn handle_group(&mut self, first: Job) {
        let mut answers = Vec::new();
        match self.run_group(first, &mut answers) {
            Ok(changes) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                // Told before it is answered: who begins to listen after an answer hears only of what is later.
                for change in changes {
                    // Nobody may be listening.
                    let _ = self.changes.send(change);
                }
                answers.into_iter().for_each(|answer| answer(Ok(())));
            }
            Err(failure) => {
                let error = failure.into_error(self.folder.root());
                answers.into_iter().for_each(|answer| answer(Err(repeat(&error))));
            }
        }
    }

    /// Runs the jobs that wait, up to a bound, and commits them. Every one that was run has left its answer,
    /// whatever the end; one that was not even begun stays in the queue for the next group.
    fn run_group(&mut self, first: Job, answers: &mut Vec<Answer>) -> Result<Vec<Change>, Failure> {
        let mut group = match Group::begin(&self.connection, &self.folder, self.standards) {
            Ok(group) => group,
            Err(failure) => {
                answers.push((first.work)(None).answer);
                return Err(failure);
            }
        };
        let mut weight = 0;
        let mut next = Some(first);
        while let Some(job) = next.take() {
            weight += job.weight;
            let ran = (job.work)(Some(&mut group));
            answers.push(ran.answer);
            if let Some(failure) = ran.failure {
                group.roll_back();
                return Err(failure);
            }
            if answers.len() < GROUP_JOBS && weight < GROUP_BYTES && !group.is_closed() {
                next = self.waiting.try_recv().ok();
            }
        }
        let committed = group.commit()?;
        self.standards.last_add = committed.last_add;
        self.standards.age = committed.age;
        for hash in committed.doomed {
            let path = self.folder.blob(hash);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, path = %path.display(), "a blob without a use is left over");
                }
                _ => {}
            }
        }
        Ok(committed.changes)
    }
}

fn read_ledger(connection: &Connection, name: &str) -> Result<i64, Failure> {
    connection
        .query_row("SELECT value FROM ledger WHERE name = ?1", [name], |row| {
            row.get(0)
        })
        .during("read the ledger")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connect;

    fn writer() -> (tempfile::TempDir, Writer) {
        let root = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::open(root.path()).unwrap();
        let connection = connect::writer(&folder).unwrap();
        (
            root,
            Writer::start(connection, folder, Options::default()).unwrap(),
        )
    }

    #[tokio::test]
    async fn a_failed_statement_leaves_no_trace_and_the_writer_goes_on() {
        const STEP: &str = "test";
        let (_root, writer) = writer();
        let failed: Result<(), _> = writer
            .submit(1, |group| {
                let insert = "INSERT INTO ledger VALUES ('trace', 1)";
                group.connection().execute_batch(insert).during(STEP)?;
                group.connection().execute_batch("SELECT nonsense").during(STEP)
            })
            .await;
        assert!(
            matches!(failed, Err(StoreError::Database { step: STEP, .. })),
            "{failed:?}"
        );
        let count = "SELECT count(*) FROM ledger WHERE name = 'trace'";
        let traces = writer
            .submit(1, move |group| {
                group
                    .connection()
                    .query_row(count, [], |row| row.get(0))
                    .during(STEP)
            })
            .await;
        assert!(matches!(traces, Ok(0_i64)), "{traces:?}");
    }

    #[tokio::test]
    async fn after_a_panic_every_caller_gets_an_error_that_names_the_writer() {
        let (_root, writer) = writer();
        let check = |answer: Result<(), StoreError>| {
            let expected = "the store's writer panicked: on purpose";
            assert!(
                matches!(&answer, Err(StoreError::ComponentFailed(failed)) if failed.to_string() == expected),
                "{answer:?}"
            );
        };
        assert_eq!(writer.failures().seen(), None);
        // The second may wait behind the first already.
        let (first, second) = tokio::join!(
            writer.submit(1, |_| -> Result<(), Failure> { panic!("on purpose") }),
            writer.submit(1, |_| Ok(())),
        );
        check(first);
        check(second);
        check(writer.submit(1, |_| Ok(())).await);
        let failed = writer.failures().wait().await;
        assert_eq!(failed.component, Component::StoreWriter);
    }

    #[tokio::test]
    async fn closing_is_no_failure() {
        let (_root, writer) = writer();
        let failures = writer.failures();
        drop(writer);
        assert_eq!(failures.seen(), None);
    }
}
