//! The state transitions of one operation, computed in memory.
//!
//! An operation loads the tasks that it read into a batch, applies transitions to them, and writes the difference in
//! one transaction. Each write is conditional on the task being unchanged since it was read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{
    ExecutorName, ReleaseDecision, ReleaseReason, Report, SessionId, StoreAge, TaskId, TaskStatus, UnixTime,
};
use mongodb::bson::{Bson, Document, doc, serialize_to_bson, serialize_to_vec};
use mongodb::error::Error;

use super::bson_values::ToBson;
use super::content::{self, PreparedContent};
use super::context::TASKS;
use super::counters::CounterDeltas;
use super::failure::MongoFailure;
use super::task_document::StoredTask;
use super::transaction::{GroupedUpdate, Transaction};

/// The tasks that one operation has read from MongoDB, with the state transitions that it applies to them in memory.
#[derive(Debug)]
pub(super) struct TransitionBatch {
    now: UnixTime,
    age: Option<StoreAge>,
    max_attempts: u32,
    tasks: BTreeMap<TaskId, BatchEntry>,
}

/// One task of a [`TransitionBatch`]: as it was read from MongoDB, and as the transaction writes it.
#[derive(Debug)]
struct BatchEntry {
    before: StoredTask,
    after: StoredTask,
    result: Option<Arc<PreparedContent>>,
    /// Set by every transition to a status, also to the status that the task already has: a task may be released
    /// several times in a row.
    status_assigned: bool,
    /// The executor whose report brought the task to its status.
    reported_by: Option<ExecutorName>,
    /// The executor that must stop its attempt.
    revoked_from: Option<ExecutorName>,
}

impl TransitionBatch {
    pub(super) fn new(now: UnixTime, max_attempts: u32) -> TransitionBatch {
        TransitionBatch {
            now,
            age: None,
            max_attempts,
            tasks: BTreeMap::new(),
        }
    }

    /// Tasks that end in this batch are stamped with the store's age. Without an age, the leader stamps them when it
    /// applies retention.
    pub(super) fn with_store_age(self, age: Option<StoreAge>) -> TransitionBatch {
        TransitionBatch { age, ..self }
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
            status_assigned: false,
            reported_by: None,
            revoked_from: None,
        });
    }

    /// The task with the transitions applied so far.
    pub(super) fn get(&self, id: TaskId) -> Option<&StoredTask> {
        self.tasks.get(&id).map(|entry| &entry.after)
    }

    /// The tasks that a session holds, oldest first.
    pub(super) fn held(&self, executor: &ExecutorName, session: SessionId) -> Vec<StoredTask> {
        let mut held: Vec<_> = self
            .current()
            .filter(|task| {
                task.state.executor.as_ref() == Some(executor) && task.state.session == Some(session)
            })
            .cloned()
            .collect();
        held.sort_unstable_by_key(|task| (task.state.add_time, task.state.id));
        held
    }

    /// The tasks that the executor holds in sessions other than this one.
    pub(super) fn held_in_other_sessions(
        &self,
        executor: &ExecutorName,
        session: SessionId,
    ) -> Vec<StoredTask> {
        self.current()
            .filter(|task| {
                task.state.executor.as_ref() == Some(executor) && task.state.session != Some(session)
            })
            .cloned()
            .collect()
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

    /// Returns a held task to the queue, or ends it if it has failed too often.
    pub(super) fn release(&mut self, id: TaskId, reason: ReleaseReason<'_>) {
        let max_attempts = self.max_attempts;
        let Some(BatchEntry { after: task, .. }) = self.tasks.get_mut(&id) else {
            return;
        };
        match task.state.failed_attempts.after(reason, max_attempts) {
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

    /// Commits the result of the task's current attempt.
    pub(super) fn finish(
        &mut self,
        id: TaskId,
        status: TaskStatus,
        result: &Arc<PreparedContent>,
        reported_by: &ExecutorName,
    ) {
        self.end(id, status);
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.result = Some(result.clone());
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

    /// Adds the changed tasks and their results to a transaction.
    pub(super) fn write(&self, transaction: &mut Transaction) -> Result<(), MongoFailure> {
        let results = self.changed().filter_map(|entry| entry.result.as_deref());
        content::write(results, transaction)?;
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

    fn leave_executor(&mut self, id: TaskId, status: TaskStatus) {
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.status_assigned = true;
            entry.after.state.status = status;
            entry.after.state.executor = None;
            entry.after.state.session = None;
        }
    }
}

impl BatchEntry {
    /// The update document that writes the difference between `before` and `after`.
    fn update(&self, now: UnixTime) -> Result<Document, MongoFailure> {
        let mut update = UpdateDocument::default();
        let (before, after) = (&self.before.state, &self.after.state);
        update.put("status", before.status.to_bson(), after.status.to_bson());
        update.put("executor", before.executor.to_bson(), after.executor.to_bson());
        update.put("session", before.session.to_bson(), after.session.to_bson());
        update.put("attempt", before.attempt.to_bson(), after.attempt.to_bson());
        update.put(
            "lost",
            before.failed_attempts.lost.to_bson(),
            after.failed_attempts.lost.to_bson(),
        );
        update.put(
            "platform_losses",
            before.failed_attempts.platform.to_bson(),
            after.failed_attempts.platform.to_bson(),
        );
        update.put("given", before.assigned_in.to_bson(), after.assigned_in.to_bson());
        update.put(
            "start_time",
            before.start_time.to_bson(),
            after.start_time.to_bson(),
        );
        update.put(
            "report_time",
            before.report_time.to_bson(),
            after.report_time.to_bson(),
        );
        let (before, after) = (&self.before, &self.after);
        update.put(
            "finish_time",
            before.finish_time.to_bson(),
            after.finish_time.to_bson(),
        );
        update.put(
            "finish_age",
            before.finish_age.to_bson(),
            after.finish_age.to_bson(),
        );
        update.put("trouble", before.trouble.to_bson(), after.trouble.to_bson());
        update.put("waits", queue_flag(before), queue_flag(after));
        if let Some(result) = &self.result {
            let content = serialize_to_bson(&result.content).map_err(Error::from)?;
            update.put("result", Bson::Null, content);
        }
        if self.status_assigned {
            update.put("news", Bson::Null, self.transition_notice(now).into());
        }
        Ok(update.into_document())
    }

    /// The field `news`, which `changes` reads. It holds the status too, because a change stream shows only fields that
    /// differ from before.
    fn transition_notice(&self, now: UnixTime) -> Document {
        doc! {
            "status": self.after.state.status.to_bson(),
            "by": self.reported_by.to_bson(),
            "from": self.revoked_from.to_bson(),
            "time": now.max(self.after.latest_time()).to_bson(),
        }
    }
}

/// The field `waits`: present while the task is queued, so that it is in the index of the queue.
fn queue_flag(task: &StoredTask) -> Bson {
    if task.state.is_queued() {
        true.into()
    } else {
        Bson::Null
    }
}

/// A MongoDB update of one task document under construction: the fields to set and the fields to remove.
#[derive(Default)]
struct UpdateDocument {
    set: Document,
    unset: Document,
}

impl UpdateDocument {
    fn put(&mut self, name: &str, old: Bson, new: Bson) {
        if old == new {
            return;
        }
        match new {
            Bson::Null => drop(self.unset.insert(name, "")),
            new => drop(self.set.insert(name, new)),
        }
    }

    fn into_document(self) -> Document {
        let mut document = Document::new();
        if !self.set.is_empty() {
            document.insert("$set", self.set);
        }
        if !self.unset.is_empty() {
            document.insert("$unset", self.unset);
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use model::{AttemptNumber, FailedAttempts, ReportSeq, ResourceRequest, TaskState};

    use super::*;

    fn held_task() -> StoredTask {
        StoredTask {
            state: TaskState {
                id: TaskId(uuid::Uuid::now_v7()),
                priority: 0,
                add_time: UnixTime(1),
                status: TaskStatus::Retrying,
                executor: Some(ExecutorName::new("e").unwrap()),
                session: Some(SessionId(uuid::Uuid::now_v7())),
                attempt: AttemptNumber(2),
                failed_attempts: FailedAttempts { lost: 1, platform: 0 },
                resources: ResourceRequest::default(),
                assigned_in: ReportSeq(3),
                start_time: Some(UnixTime(2)),
                report_time: None,
            },
            finish_time: None,
            finish_age: None,
            trouble: None,
            spec_size: 0,
        }
    }

    fn update_after(transition: impl FnOnce(&mut TransitionBatch, TaskId)) -> Document {
        let task = held_task();
        let id = task.state.id;
        let mut batch = TransitionBatch::new(UnixTime(9), 3);
        batch.insert(task);
        transition(&mut batch, id);
        batch.tasks[&id].update(batch.now).unwrap()
    }

    #[test]
    fn an_update_is_conditional_on_what_was_read_and_contains_only_changed_fields() {
        let update = update_after(|batch, id| batch.release(id, ReleaseReason::Lost("gone")));
        let condition = held_task().unchanged_condition();
        assert_eq!(condition.get("status"), Some(&"retrying".into()));
        assert_eq!(condition.get("executor"), Some(&"e".into()));
        assert_eq!(condition.get("attempt"), Some(&2_i64.into()));
        let names = |operator: &str| {
            let fields = update.get_document(operator).unwrap();
            fields.keys().cloned().collect::<Vec<_>>()
        };
        // The status is the same as before; `news` announces it nevertheless.
        assert_eq!(names("$set"), ["lost", "trouble", "waits", "news"]);
        assert_eq!(names("$unset"), ["executor", "session"]);
    }

    #[test]
    fn a_cancelled_attempt_names_the_executor_that_must_stop() {
        let revoked_from = |update: Document| {
            let set = update.get_document("$set").unwrap();
            set.get_document("news").unwrap().get("from").cloned()
        };
        assert_eq!(
            revoked_from(update_after(TransitionBatch::cancel)),
            Some("e".into())
        );
        let given_back = update_after(|batch, id| batch.release(id, ReleaseReason::GivenBack));
        assert_eq!(revoked_from(given_back), Some(Bson::Null));
    }

    #[test]
    fn equal_changes_share_one_update() {
        let mut batch = TransitionBatch::new(UnixTime(9), 3);
        let session = SessionId(uuid::Uuid::now_v7());
        let ids: Vec<_> = (0..3)
            .map(|index| {
                let mut task = held_task();
                task.state.failed_attempts.lost = index / 2;
                task.state.session = Some(session);
                let id = task.state.id;
                batch.insert(task);
                batch.release(id, ReleaseReason::Lost("gone"));
                id
            })
            .collect();
        let mut sizes: Vec<_> = batch
            .updates()
            .unwrap()
            .iter()
            .map(|update| update.ids.len())
            .collect();
        sizes.sort_unstable();
        assert_eq!((ids.len(), sizes), (3, vec![1, 2]));
    }

    #[test]
    fn a_task_ends_after_too_many_losses() {
        let mut batch = TransitionBatch::new(UnixTime(9), 2);
        let task = held_task();
        let id = task.state.id;
        batch.insert(task);
        batch.release(id, ReleaseReason::Lost("gone"));
        let task = batch.get(id).unwrap();
        assert_eq!(
            (task.state.status, task.finish_time),
            (TaskStatus::SystemError, Some(UnixTime(9)))
        );
        assert_eq!(task.trouble.as_deref(), Some("lost 2 times: gone"));
    }
}
