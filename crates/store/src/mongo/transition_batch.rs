//! The state transitions of one operation, computed in memory.
//!
//! An operation loads the tasks that it read into a batch, applies transitions to them, and writes the difference in
//! one transaction. Each write is conditional on the task being unchanged since it was read.

mod update;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{
    AttemptRecord, BlobHash, ExecutorName, OutcomeReason, RecordedEnd, ReleaseDecision, ReleaseReason,
    Report, StoreAge, TaskForm, TaskId, TaskStatus, UnixTime,
};
use mongodb::bson::{doc, serialize_to_vec};
use mongodb::error::Error;

use super::blobs;
use super::bson_values::ToBson;
use super::content::{self, PreparedContent};
use super::context::TASKS;
use super::counters::CounterDeltas;
use super::failure::MongoFailure;
use super::group_counters::{GroupDeltas, GroupStripe};
use super::task_document::StoredTask;
use super::transaction::{GroupedUpdate, Transaction};
use crate::end_counter::EndCounter;

/// The tasks that one operation has read from MongoDB, with the state transitions that it applies to them in memory.
#[derive(Debug)]
pub(super) struct TransitionBatch {
    now: UnixTime,
    age: Option<StoreAge>,
    max_attempts: u32,
    group_stripe: GroupStripe,
    tasks: BTreeMap<TaskId, BatchEntry>,
}

/// One task of a [`TransitionBatch`]: as it was read from MongoDB, and as the transaction writes it.
#[derive(Debug)]
struct BatchEntry {
    before: StoredTask,
    after: StoredTask,
    result: Option<FinishedResult>,
    /// The attempts that began and end in this batch.
    ended_attempts: Vec<AttemptRecord>,
    /// Set by every transition to a status, also to the status that the task already has: a task may be released
    /// several times in a row.
    status_assigned: bool,
    /// The executor whose report brought the task to its status.
    reported_by: Option<ExecutorName>,
    /// The executor that must stop its attempt.
    revoked_from: Option<ExecutorName>,
}

/// The result of a task's attempt that the MongoDB store is about to commit.
#[derive(Clone, Debug)]
pub(super) struct FinishedResult {
    pub(super) status: TaskStatus,
    pub(super) reason: Option<OutcomeReason>,
    pub(super) content: Arc<PreparedContent>,
    /// The blobs that the result names, each once.
    pub(super) blobs: Vec<BlobHash>,
}

impl TransitionBatch {
    pub(super) fn new(now: UnixTime, max_attempts: u32) -> TransitionBatch {
        TransitionBatch {
            now,
            age: None,
            max_attempts,
            group_stripe: GroupStripe::random(),
            tasks: BTreeMap::new(),
        }
    }

    /// Tasks that end in this batch are stamped with the store's age. Without an age, the leader stamps them when it
    /// applies retention.
    pub(super) fn with_store_age(self, age: Option<StoreAge>) -> TransitionBatch {
        TransitionBatch { age, ..self }
    }

    /// The batch changes the counters of groups in this stripe.
    pub(super) fn with_group_stripe(self, group_stripe: GroupStripe) -> TransitionBatch {
        TransitionBatch { group_stripe, ..self }
    }

    /// The time of a transition: now, but not before the task's latest time. The clock may have been set back since,
    /// or the earlier time may come from another judicator's clock.
    pub(super) fn transition_time(&self, task: &StoredTask) -> UnixTime {
        self.now.max(task.latest_time())
    }

    /// Adds a task as it was read. A task that is in the batch already keeps its transitions.
    pub(super) fn insert(&mut self, task: StoredTask) {
        self.tasks.entry(task.state.id).or_insert_with(|| BatchEntry {
            before: task.clone(),
            after: task,
            result: None,
            ended_attempts: vec![],
            status_assigned: false,
            reported_by: None,
            revoked_from: None,
        });
    }

    /// The task with the transitions applied so far.
    pub(super) fn get(&self, id: TaskId) -> Option<&StoredTask> {
        self.tasks.get(&id).map(|entry| &entry.after)
    }

    /// The tasks that the executor holds, oldest first. Tasks of an earlier session are among them while the executor has
    /// to deliver their results.
    pub(super) fn held(&self, executor: &ExecutorName) -> Vec<StoredTask> {
        let mut held: Vec<_> = self
            .current()
            .filter(|task| task.state.executor.as_ref() == Some(executor))
            .cloned()
            .collect();
        held.sort_unstable_by_key(|task| (task.state.add_time, task.state.id));
        held
    }

    /// The queued tasks, in the order of the queue.
    pub(super) fn queued(&self) -> Vec<StoredTask> {
        let mut queued: Vec<_> = self
            .current()
            .filter(|task| task.state.is_queued())
            .cloned()
            .collect();
        queued.sort_unstable_by_key(|task| {
            let state = &task.state;
            (-i64::from(state.priority), state.add_time, state.id)
        });
        queued
    }

    /// Returns a held task to the queue, or ends it if it has failed too often. `end` is how its attempt is recorded.
    pub(super) fn release(&mut self, id: TaskId, reason: ReleaseReason<'_>, end: RecordedEnd) {
        let max_attempts = self.max_attempts;
        self.record_end(id, end);
        let Some(BatchEntry { after: task, .. }) = self.tasks.get_mut(&id) else {
            return;
        };
        match task.state.after_release(reason, max_attempts) {
            ReleaseDecision::Retry { losses, trouble } => {
                task.state.failed_attempts = losses;
                task.trouble = trouble.or(task.trouble.take());
                self.leave_executor(id, TaskStatus::Retrying);
            }
            ReleaseDecision::GiveUp { losses, trouble } => {
                task.state.failed_attempts = losses;
                self.give_up(id, &trouble);
            }
        }
    }

    /// Ends a task that the platform cannot run.
    pub(super) fn give_up(&mut self, id: TaskId, trouble: &str) {
        self.end(id, TaskStatus::SystemError);
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.after.trouble = Some(trouble.to_string());
        }
    }

    /// Returns a task whose spec has a newer form than its document says to the queue, which then leaves it to newer
    /// judicators.
    pub(super) fn give_back_newer_form(&mut self, id: TaskId, form: TaskForm) {
        self.leave_executor(id, TaskStatus::Retrying);
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.after.state.form = form;
        }
    }

    /// Commits the result of the task's current attempt.
    pub(super) fn finish(&mut self, id: TaskId, result: FinishedResult, reported_by: &ExecutorName) {
        self.record_end(id, RecordedEnd::Finished);
        self.end(id, result.status);
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.after.state.reason = result.reason;
            entry.result = Some(result);
            entry.reported_by = Some(reported_by.clone());
            entry.after.state.report_time = entry.after.finish_time;
            entry.after.trouble = None;
        }
    }

    /// Records the status of a step that the executor has begun.
    pub(super) fn set_step_status(&mut self, id: TaskId, status: TaskStatus, reported_by: &ExecutorName) {
        let now = self.now;
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.reported_by = Some(reported_by.clone());
            entry.status_assigned = true;
            entry.after.state.status = status;
            entry.after.state.report_time = Some(now.max(entry.after.latest_time()));
        }
    }

    /// Hands a queued task to the executor of the report, as a new attempt.
    pub(super) fn assign(&mut self, id: TaskId, report: &Report) {
        let now = self.now;
        if let Some(BatchEntry { after: task, .. }) = self.tasks.get_mut(&id) {
            let start_time = now.max(task.latest_time());
            let state = &mut task.state;
            state.executor = Some(report.executor.clone());
            state.session = Some(report.session);
            state.attempt = state.attempt.next();
            state.assigned_in = report.seq;
            state.start_time = Some(start_time);
        }
    }

    pub(super) fn cancel(&mut self, id: TaskId) {
        self.revoke(id);
        self.record_end(id, RecordedEnd::Cancelled);
        self.end(id, TaskStatus::Cancelled);
    }

    /// Makes the change stream say that the executor must stop its attempt.
    pub(super) fn revoke(&mut self, id: TaskId) {
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.revoked_from = entry.after.state.executor.clone();
        }
    }

    /// The effect of the batch on the counters of tasks.
    pub(super) fn counter_deltas(&self) -> CounterDeltas {
        let mut deltas = CounterDeltas::default();
        for entry in self.changed() {
            deltas.transition(&entry.before.state, &entry.after.state);
        }
        deltas
    }

    /// The effect of the batch on the counters of groups.
    fn group_deltas(&self) -> GroupDeltas {
        let mut deltas = GroupDeltas::default();
        for BatchEntry { before, after, .. } in self.changed() {
            let finish_time = after.finish_time.filter(|_| before.finish_time.is_none());
            deltas.transition(&before.state, &after.state, finish_time);
        }
        deltas
    }

    /// Adds the changed tasks, their results and the counters of their groups to a transaction.
    pub(super) fn write(&self, transaction: &mut Transaction) -> Result<(), MongoFailure> {
        let results = self.changed().filter_map(|entry| entry.result.as_ref());
        content::write(results.clone().map(|result| &*result.content), transaction)?;
        blobs::require(results.flat_map(|result| &result.blobs), transaction);
        transaction.add_to_groups(&self.group_deltas(), self.group_stripe)?;
        transaction.update_grouped(TASKS, self.updates()?)
    }

    /// Tasks with the same condition and the same change share an update: all tasks of one claim do.
    fn updates(&self) -> Result<Vec<GroupedUpdate>, MongoFailure> {
        let mut groups: HashMap<Vec<u8>, GroupedUpdate> = HashMap::new();
        for entry in self.changed() {
            let (condition, change) = (entry.before.unchanged_condition(), entry.update(self.now)?);
            let key = serialize_to_vec(&doc! { "q": &condition, "u": &change }).map_err(Error::from)?;
            let update = groups.entry(key).or_insert_with(|| GroupedUpdate {
                ids: vec![],
                condition,
                change,
            });
            update.ids.push(entry.after.state.id.to_bson());
        }
        Ok(groups.into_values().collect())
    }

    /// Counts the tasks that end in this batch without a result. The caller has committed the batch.
    pub(super) fn record_ends(&self, ends: &EndCounter) {
        for BatchEntry {
            before,
            after,
            result,
            ..
        } in self.changed()
        {
            if !before.state.status.is_done() && result.is_none() {
                ends.record(after.state.status);
            }
        }
    }

    /// Whether a result of the batch names a blob.
    pub(super) fn names_blobs(&self) -> bool {
        let mut results = self.changed().filter_map(|entry| entry.result.as_ref());
        results.any(|result| !result.blobs.is_empty())
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed().next().is_some()
    }

    fn changed(&self) -> impl Iterator<Item = &BatchEntry> + Clone {
        self.tasks.values().filter(|entry| entry.before != entry.after)
    }

    fn current(&self) -> impl Iterator<Item = &StoredTask> {
        self.tasks.values().map(|entry| &entry.after)
    }

    fn end(&mut self, id: TaskId, status: TaskStatus) {
        let (now, age) = (self.now, self.age);
        if let Some(BatchEntry { after: task, .. }) = self.tasks.get_mut(&id) {
            task.finish_time = Some(now.max(task.latest_time()));
            task.finish_age = age;
        }
        self.leave_executor(id, status);
    }

    /// Records how the current attempt of the task ends, if it began.
    fn record_end(&mut self, id: TaskId, end: RecordedEnd) {
        let now = self.now;
        if let Some(entry) = self.tasks.get_mut(&id) {
            let time = now.max(entry.after.latest_time());
            entry
                .ended_attempts
                .extend(entry.after.state.ended_attempt(end, time));
        }
    }

    fn leave_executor(&mut self, id: TaskId, status: TaskStatus) {
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.status_assigned = true;
            entry.after.state.status = status;
            entry.after.state.executor = None;
            entry.after.state.session = None;
        }
    }
}
