//! The writer thread: the only thread that changes the database.
//!
//! It runs all waiting operations in one transaction, commits, and then sends all replies (group commit): one disk sync
//! serves every waiting caller. During the sync the next operations queue up.

mod checkpoint;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use model::{StoreAge, UnixTime};
use rusqlite::Connection;
use supervise::{Component, FailureWatch, Supervisor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot};

use self::checkpoint::WalCheckpointer;
use super::failure::{SqliteFailure, duplicate_error};
use super::group_transaction::{GroupTransaction, WriterState};
use super::store_folder::{StoreFolder, io_error};
use super::{SqliteStoreOptions, ledger};
use crate::end_counter::EndCounter;
use crate::{ChangeEvent, EndsWithoutResult, StoreError};

/// A group is full at either bound, so that its first caller does not wait long for the commit.
const MAX_GROUP_OPERATIONS: usize = 512;
const MAX_GROUP_BYTES: usize = 8 << 20;
/// How much data may be queued in memory; further callers wait for free space.
const MAX_QUEUED_KIB: usize = 64 << 10;
const MAX_QUEUED_OPERATIONS: usize = 4096;
/// A subscriber that falls this many events behind loses events.
const EVENT_BUFFER: usize = 8192;

/// The SQLite store's handle on its writer thread: sends operations to it. Dropping it stops the thread.
pub(super) struct WriterHandle {
    requests: Option<mpsc::Sender<WriteRequest>>,
    queue_space: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
    supervisor: Supervisor,
    events: broadcast::Sender<ChangeEvent>,
    commits: Arc<AtomicU64>,
    ends: Arc<EndCounter>,
}

/// An operation in the queue of the SQLite writer thread.
struct WriteRequest {
    /// About how much it writes.
    bytes: usize,
    operation: WriteOperation,
}

/// The code of an operation, which the SQLite writer thread runs in the transaction of its group. If no transaction
/// could be started, it gets `None` and only prepares the reply for the error.
type WriteOperation = Box<dyn FnOnce(Option<&mut GroupTransaction<'_>>) -> ExecutedOperation + Send>;

/// An operation that the SQLite writer thread has run, but whose group is not committed yet.
struct ExecutedOperation {
    reply: DelayedReply,
    failure: Option<SqliteFailure>,
}

/// The callback that answers the caller of a write, called after its SQLite transaction is committed or rolled back.
type DelayedReply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

impl WriterHandle {
    pub(super) fn start(
        mut connection: Connection,
        folder: StoreFolder,
        options: SqliteStoreOptions,
    ) -> Result<WriterHandle, StoreError> {
        let ledger_value =
            |name| ledger::value(&connection, name).map_err(|failure| failure.into_error(folder.root()));
        let state = WriterState {
            max_attempts: options.max_attempts,
            last_add_time: UnixTime(ledger_value("last_add")?),
            age: StoreAge(ledger_value("age")?),
        };
        let checkpointer =
            WalCheckpointer::install(&mut connection).map_err(|failure| failure.into_error(folder.root()))?;
        let (requests, queue) = mpsc::channel(MAX_QUEUED_OPERATIONS);
        let (events, _) = broadcast::channel(EVENT_BUFFER);
        let commits = Arc::new(AtomicU64::new(0));
        let ends = Arc::<EndCounter>::default();
        let root = folder.root().to_path_buf();
        let writer = WriterThread {
            connection,
            folder,
            state,
            queue,
            events: events.clone(),
            commits: commits.clone(),
            ends: ends.clone(),
            checkpointer,
        };
        let supervisor = Supervisor::new();
        let thread = supervisor
            .thread(Component::StoreWriter, "store-writer".into(), move || {
                writer.run()
            })
            .map_err(io_error("start the writer thread for", &root))?;
        Ok(WriterHandle {
            requests: Some(requests),
            queue_space: Arc::new(Semaphore::new(MAX_QUEUED_KIB)),
            thread: Some(thread),
            supervisor,
            events,
            commits,
            ends,
        })
    }

    /// Runs `operation` in a transaction that it may share with others; durable when this returns. `bytes` is about how
    /// much it writes.
    pub(super) async fn submit<T, F>(&self, bytes: usize, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut GroupTransaction<'_>) -> Result<T, SqliteFailure> + Send + 'static,
    {
        self.downgrade().submit(bytes, operation).await
    }

    /// For users that may outlive the store, such as the stream of a blob.
    pub(super) fn downgrade(&self) -> WeakWriterHandle {
        WeakWriterHandle {
            requests: self.requests.as_ref().map(mpsc::Sender::downgrade),
            queue_space: self.queue_space.clone(),
            failures: self.failures(),
        }
    }

    pub(super) fn failures(&self) -> FailureWatch {
        self.supervisor.failures()
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        self.events.subscribe()
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(super) fn ends_without_result(&self) -> EndsWithoutResult {
        self.ends.counts()
    }
}

/// A handle on the SQLite writer thread that does not keep it alive: it works as long as a [`WriterHandle`] exists.
#[derive(Clone)]
pub(super) struct WeakWriterHandle {
    requests: Option<mpsc::WeakSender<WriteRequest>>,
    queue_space: Arc<Semaphore>,
    failures: FailureWatch,
}

impl WeakWriterHandle {
    /// Like [`WriterHandle::submit`]; fails if the writer thread has stopped.
    pub(super) async fn submit<T, F>(&self, bytes: usize, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut GroupTransaction<'_>) -> Result<T, SqliteFailure> + Send + 'static,
    {
        let kib = (bytes >> 10).clamp(1, MAX_QUEUED_KIB) as u32;
        let permit = self
            .queue_space
            .clone()
            .acquire_many_owned(kib)
            .await
            .map_err(|_| StoreError::Closed)?;
        let requests = self.requests.as_ref().and_then(mpsc::WeakSender::upgrade);
        let requests = requests.ok_or(StoreError::Closed)?;
        let (sender, reply) = oneshot::channel();
        let operation: WriteOperation = Box::new(move |transaction| {
            let (value, failure) = match transaction.map(operation) {
                Some(Ok(value)) => (Some(Ok(value)), None),
                Some(Err(SqliteFailure::Refused(error))) => (Some(Err(error)), None),
                Some(Err(failure)) => (None, Some(failure)),
                None => (None, None),
            };
            ExecutedOperation {
                reply: delay_reply(value, sender, permit),
                failure,
            }
        });
        // The writer thread drops its channel ends without a reply only if it panics.
        if requests.send(WriteRequest { bytes, operation }).await.is_err() {
            return Err(StoreError::component_lost(self.failures.clone()).await);
        }
        // The writer thread stops when all senders are dropped, so this task must not hold one while it waits.
        drop(requests);
        match reply.await {
            Ok(reply) => reply,
            Err(_) => Err(StoreError::component_lost(self.failures.clone()).await),
        }
    }
}

impl Drop for WriterHandle {
    /// Lets the thread write what is queued and close the database. The store releases its folder lock after that.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been published as a failure of this component.
            let _ = thread.join();
        }
    }
}

/// Holds the result back until the group is committed or rolled back. This includes refusals: one may be due to another
/// operation of the same group, and void if the group is rolled back.
fn delay_reply<T: Send + 'static>(
    value: Option<Result<T, StoreError>>,
    sender: oneshot::Sender<Result<T, StoreError>>,
    permit: OwnedSemaphorePermit,
) -> DelayedReply {
    Box::new(move |commit| {
        drop(permit);
        let value = commit.and_then(|()| value.unwrap_or(Err(StoreError::Closed)));
        // The caller may have stopped waiting; the operation remains committed.
        let _ = sender.send(value);
    })
}

/// The SQLite writer thread's own state: its connection, its queue, and the channel for change events.
struct WriterThread {
    connection: Connection,
    folder: StoreFolder,
    state: WriterState,
    queue: mpsc::Receiver<WriteRequest>,
    events: broadcast::Sender<ChangeEvent>,
    commits: Arc<AtomicU64>,
    ends: Arc<EndCounter>,
    checkpointer: WalCheckpointer,
}

impl WriterThread {
    fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            self.handle_group(first);
            self.checkpointer
                .checkpoint_if_due(&self.connection, self.queue.len());
        }
    }

    fn handle_group(&mut self, first: WriteRequest) {
        let mut replies = Vec::new();
        match self.run_group(first, &mut replies) {
            Ok(events) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                // Publish before replying: a caller that subscribes after its reply must not receive events of the
                // change that it already knows.
                for event in events {
                    // An end that an executor has reported has a result.
                    if let ChangeEvent::StatusChanged {
                        status,
                        executor: None,
                        ..
                    } = &event
                    {
                        self.ends.record(*status);
                    }
                    // Sending fails if there is no subscriber.
                    let _ = self.events.send(event);
                }
                replies.into_iter().for_each(|reply| reply(Ok(())));
            }
            Err(failure) => {
                let error = failure.into_error(self.folder.root());
                replies
                    .into_iter()
                    .for_each(|reply| reply(Err(duplicate_error(&error))));
            }
        }
    }

    /// Runs the queued operations, up to the bounds of a group, and commits them. Each operation that ran has pushed
    /// its reply, also on failure. Operations that did not run stay in the queue for the next group.
    fn run_group(
        &mut self,
        first: WriteRequest,
        replies: &mut Vec<DelayedReply>,
    ) -> Result<Vec<ChangeEvent>, SqliteFailure> {
        let mut transaction = match GroupTransaction::begin(&self.connection, &self.folder, self.state) {
            Ok(transaction) => transaction,
            Err(failure) => {
                replies.push((first.operation)(None).reply);
                return Err(failure);
            }
        };
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(request) = next.take() {
            bytes += request.bytes;
            let executed = (request.operation)(Some(&mut transaction));
            replies.push(executed.reply);
            if let Some(failure) = executed.failure {
                transaction.roll_back();
                return Err(failure);
            }
            if replies.len() < MAX_GROUP_OPERATIONS && bytes < MAX_GROUP_BYTES && !transaction.is_closed() {
                next = self.queue.try_recv().ok();
            }
        }
        let committed = transaction.commit()?;
        self.state.last_add_time = committed.last_add_time;
        self.state.age = committed.age;
        for hash in committed.removed_blobs {
            self.folder.remove_blob_file(hash);
        }
        Ok(committed.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connect;
    use crate::sqlite::failure::StepContext;

    fn writer() -> (tempfile::TempDir, WriterHandle) {
        let root = tempfile::tempdir().unwrap();
        let (folder, _lock) = StoreFolder::open(root.path()).unwrap();
        let connection = connect::writer(&folder).unwrap();
        (
            root,
            WriterHandle::start(connection, folder, SqliteStoreOptions::default()).unwrap(),
        )
    }

    #[tokio::test]
    async fn a_failed_statement_rolls_back_and_the_writer_continues() {
        const STEP: &str = "test";
        let (_root, writer) = writer();
        let failed: Result<(), _> = writer
            .submit(1, |transaction| {
                let insert = "INSERT INTO ledger VALUES ('trace', 1)";
                transaction.connection().execute_batch(insert).during(STEP)?;
                transaction
                    .connection()
                    .execute_batch("SELECT nonsense")
                    .during(STEP)
            })
            .await;
        assert!(
            matches!(failed, Err(StoreError::Database { step: STEP, .. })),
            "{failed:?}"
        );
        let count = "SELECT count(*) FROM ledger WHERE name = 'trace'";
        let traces = writer
            .submit(1, move |transaction| {
                transaction
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
        assert_eq!(writer.failures().current(), None);
        // The second operation may be queued behind the first when that panics.
        let (first, second) = tokio::join!(
            writer.submit(1, |_| -> Result<(), SqliteFailure> { panic!("on purpose") }),
            writer.submit(1, |_| Ok(())),
        );
        check(first);
        check(second);
        check(writer.submit(1, |_| Ok(())).await);
        let failed = writer.failures().wait().await;
        assert_eq!(failed.component, Component::StoreWriter);
    }

    #[tokio::test]
    async fn closing_the_writer_is_not_reported_as_a_failure() {
        let (_root, writer) = writer();
        let failures = writer.failures();
        drop(writer);
        assert_eq!(failures.current(), None);
    }
}
