//! Group commit: one transaction for all operations that waited together, with the events and file changes that
//! follow its commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use model::{
    BlobHash, ExecutorName, GroupKey, OutcomeReason, StoreAge, TaskId, TaskState, TaskStatus,
    ToolRequirement, UnixTime,
};
use rusqlite::{CachedStatement, Connection};

use super::failure::{SqliteFailure, StepContext};
use super::groups::GroupCounterChanges;
use super::sql_value::SqlValue;
use super::store_folder::StoreFolder;
use crate::ChangeEvent;
use crate::unreadable_rows::UnreadableRows;

/// The ledger's counter of tasks that executors hold.
const HELD_COUNTER: &str = "held";

/// Values that the SQLite writer thread carries from one transaction to the next, like the newest task's add time.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriterState {
    pub(super) max_attempts: u32,
    /// The add time of the newest task ever added.
    pub(super) last_add_time: UnixTime,
    pub(super) age: StoreAge,
}

/// An open SQLite transaction that all operations of one group commit share.
pub(super) struct GroupTransaction<'a> {
    connection: &'a Connection,
    folder: &'a StoreFolder,
    /// The state before this transaction.
    initial: WriterState,
    last_add_time: UnixTime,
    age: StoreAge,
    now: UnixTime,
    /// Changes of the ledger's counters, written once for each transaction instead of once for each task.
    counter_changes: BTreeMap<&'static str, i64>,
    group_changes: GroupCounterChanges,
    status_events: Vec<ChangeEvent>,
    tasks_queued: BTreeMap<ToolRequirement, usize>,
    revoked_from: BTreeSet<ExecutorName>,
    drains_changed: BTreeSet<ExecutorName>,
    /// New blobs. Their rows exist only after the commit, so a rollback removes their files.
    new_blobs: Vec<BlobHash>,
    /// Blobs whose rows are deleted. Their files are removed after the commit.
    removed_blobs: Vec<BlobHash>,
}

/// What the SQLite writer thread has to do after a group commit. It publishes the events, removes the blob files, and
/// takes over the new add time and age.
pub(super) struct CommittedGroup {
    pub(super) events: Vec<ChangeEvent>,
    pub(super) removed_blobs: Vec<BlobHash>,
    pub(super) last_add_time: UnixTime,
    pub(super) age: StoreAge,
}

impl<'a> GroupTransaction<'a> {
    pub(super) fn begin(
        connection: &'a Connection,
        folder: &'a StoreFolder,
        initial: WriterState,
    ) -> Result<GroupTransaction<'a>, SqliteFailure> {
        let transaction = GroupTransaction {
            connection,
            folder,
            initial,
            last_add_time: initial.last_add_time,
            age: initial.age,
            now: UnixTime::from(SystemTime::now()),
            counter_changes: BTreeMap::new(),
            group_changes: GroupCounterChanges::default(),
            status_events: Vec::new(),
            tasks_queued: BTreeMap::new(),
            revoked_from: BTreeSet::new(),
            drains_changed: BTreeSet::new(),
            new_blobs: Vec::new(),
            removed_blobs: Vec::new(),
        };
        transaction.run("BEGIN IMMEDIATE", "begin a transaction")?;
        Ok(transaction)
    }

    pub(super) fn connection(&self) -> &'a Connection {
        self.connection
    }

    pub(super) fn folder(&self) -> &'a StoreFolder {
        self.folder
    }

    pub(super) fn unreadable_rows(&self) -> &'a UnreadableRows {
        self.folder.unreadable_rows()
    }

    pub(super) fn statement(
        &self,
        sql: &str,
        step: &'static str,
    ) -> Result<CachedStatement<'a>, SqliteFailure> {
        self.connection.prepare_cached(sql).during(step)
    }

    pub(super) fn now(&self) -> UnixTime {
        self.now
    }

    /// The time to record for a change of this task: now, but not before the task's earlier times. The clock may have
    /// been set back since then.
    pub(super) fn change_time(&self, task: &TaskState) -> UnixTime {
        self.now.max(task.latest_time())
    }

    pub(super) fn age(&self) -> StoreAge {
        self.age
    }

    /// Advances the age if it is still `from`.
    pub(super) fn advance_age(&mut self, from: StoreAge, by: Duration) {
        if self.age == from {
            self.age = from.plus(by);
        }
    }

    pub(super) fn max_attempts(&self) -> u32 {
        self.initial.max_attempts
    }

    /// The add time of the next task: now, but later than every earlier add time, so that add times order tasks.
    pub(super) fn next_add_time(&mut self) -> UnixTime {
        self.last_add_time = self.now.max(UnixTime(self.last_add_time.0 + 1));
        self.last_add_time
    }

    pub(super) fn record_added(&mut self, id: TaskId, group: Option<&GroupKey>, time: UnixTime) {
        self.change_counter(TaskStatus::Pending.as_str(), 1);
        if let Some(group) = group {
            self.group_changes.record_added(group, time);
        }
        self.push_status_event(id, TaskStatus::Pending, None, time);
    }

    /// `by` is the executor whose report caused the change.
    pub(super) fn record_status_change(
        &mut self,
        task: &TaskState,
        new: TaskStatus,
        by: Option<&ExecutorName>,
    ) {
        self.record_outcome(task, new, None, by);
    }

    /// Like `record_status_change`, with the reason of the task's last step.
    pub(super) fn record_outcome(
        &mut self,
        task: &TaskState,
        new: TaskStatus,
        reason: Option<OutcomeReason>,
        by: Option<&ExecutorName>,
    ) {
        let time = self.change_time(task);
        self.change_counter(task.status.as_str(), -1);
        self.change_counter(new.as_str(), 1);
        self.group_changes.record_status_change(task, new, reason, time);
        self.push_status_event(task.id, new, by, time);
    }

    pub(super) fn record_removed(&mut self, task: &TaskState) {
        self.change_counter(task.status.as_str(), -1);
        self.group_changes.record_uncounted(task);
    }

    /// Records that another task repeats this one, for the first time.
    pub(super) fn record_retried(&mut self, task: &TaskState) {
        self.group_changes.record_uncounted(task);
    }

    pub(super) fn record_claimed(&mut self) {
        self.change_counter(HELD_COUNTER, 1);
    }

    pub(super) fn record_no_longer_held(&mut self) {
        self.change_counter(HELD_COUNTER, -1);
    }

    pub(super) fn record_queued(&mut self, requires: &ToolRequirement) {
        match self.tasks_queued.get_mut(requires) {
            Some(count) => *count += 1,
            None => drop(self.tasks_queued.insert(requires.clone(), 1)),
        }
    }

    pub(super) fn record_revoked(&mut self, from: &ExecutorName) {
        self.revoked_from.insert(from.clone());
    }

    pub(super) fn record_drain_changed(&mut self, executor: &ExecutorName) {
        self.drains_changed.insert(executor.clone());
    }

    pub(super) fn record_new_blob(&mut self, hash: BlobHash) {
        self.new_blobs.push(hash);
    }

    pub(super) fn remove_blob_file_after_commit(&mut self, hash: BlobHash) {
        self.removed_blobs.push(hash);
    }

    /// Whether no further operation may join. The files of removed blobs are unlinked after the commit; a later
    /// operation could put the same blob again and would lose its file.
    pub(super) fn is_closed(&self) -> bool {
        !self.removed_blobs.is_empty()
    }

    pub(super) fn commit(mut self) -> Result<CommittedGroup, SqliteFailure> {
        match self.try_commit() {
            Ok(()) => Ok(self.into_committed()),
            Err(failure) => {
                self.roll_back();
                Err(failure)
            }
        }
    }

    pub(super) fn roll_back(self) {
        // After some errors SQLite has already rolled back.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "rollback failed; the next transaction will fail too");
        }
        for hash in self.new_blobs {
            self.folder.remove_blob_file(hash);
        }
    }

    fn try_commit(&mut self) -> Result<(), SqliteFailure> {
        self.write_ledger()?;
        self.group_changes.write(self.connection)?;
        self.run("COMMIT", "commit")
    }

    fn write_ledger(&mut self) -> Result<(), SqliteFailure> {
        const STEP: &str = "write the ledger";
        let mut add = self.statement("UPDATE ledger SET value = value + ?1 WHERE name = ?2", STEP)?;
        for (name, change) in self.counter_changes.iter().filter(|(_, change)| **change != 0) {
            add.execute((change, name)).during(STEP)?;
        }
        if self.last_add_time != self.initial.last_add_time {
            self.statement("UPDATE ledger SET value = ?1 WHERE name = 'last_add'", STEP)?
                .execute([SqlValue(self.last_add_time)])
                .during(STEP)?;
        }
        if self.age != self.initial.age {
            self.statement("UPDATE ledger SET value = ?1 WHERE name = 'age'", STEP)?
                .execute([SqlValue(self.age)])
                .during(STEP)?;
        }
        Ok(())
    }

    fn into_committed(self) -> CommittedGroup {
        let mut events = self.status_events;
        events.extend(self.revoked_from.into_iter().map(ChangeEvent::AttemptRevoked));
        events.extend(self.drains_changed.into_iter().map(ChangeEvent::DrainChanged));
        events.extend(self.group_changes.keys().map(ChangeEvent::GroupChanged));
        let queued = self.tasks_queued.into_iter();
        events.extend(queued.map(|(requires, count)| ChangeEvent::TasksQueued { requires, count }));
        CommittedGroup {
            events,
            removed_blobs: self.removed_blobs,
            last_add_time: self.last_add_time,
            age: self.age,
        }
    }

    fn run(&self, sql: &str, step: &'static str) -> Result<(), SqliteFailure> {
        self.statement(sql, step)?.execute([]).map(drop).during(step)
    }

    fn change_counter(&mut self, name: &'static str, by: i64) {
        *self.counter_changes.entry(name).or_default() += by;
    }

    fn push_status_event(
        &mut self,
        id: TaskId,
        status: TaskStatus,
        by: Option<&ExecutorName>,
        time: UnixTime,
    ) {
        self.status_events.push(ChangeEvent::StatusChanged {
            id,
            status,
            executor: by.cloned(),
            time,
        });
    }
}
