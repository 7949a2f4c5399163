//! The update document of one task, and which tasks share one.

use model::{AttemptRecord, UnixTime};
use mongodb::bson::{Bson, Document, doc, serialize_to_bson};
use mongodb::error::Error;

use super::BatchEntry;
use crate::mongo::bson_values::{ToBson, binary};
use crate::mongo::failure::MongoFailure;
use crate::mongo::task_document::{EndedAttemptDocument, StoredTask};

impl BatchEntry {
    /// The update document that writes the difference between `before` and `after`.
    pub(super) fn update(&self, now: UnixTime) -> Result<Document, MongoFailure> {
        let mut update = UpdateDocument::default();
        let (before, after) = (&self.before.state, &self.after.state);
        update.put("form", before.form.0.to_bson(), after.form.0.to_bson());
        update.put("status", before.status.to_bson(), after.status.to_bson());
        update.put("reason", before.reason.to_bson(), after.reason.to_bson());
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
        if after.state.requires.is_none() {
            update.put("waits", queue_flag(before), queue_flag(after));
        } else {
            // A judicator of an earlier version that released the task has set it.
            update.unset.insert("waits", "");
        }
        update.put("waits_for", required_queue(before), required_queue(after));
        if let Some(result) = &self.result {
            let content = serialize_to_bson(&result.content.content).map_err(Error::from)?;
            update.put("result", Bson::Null, content);
            let blobs = result
                .blobs
                .iter()
                .map(|hash| Bson::from(binary(hash.0.to_vec())));
            if !result.blobs.is_empty() {
                update.put("result_blobs", Bson::Null, Bson::Array(blobs.collect()));
            }
        }
        let ended = self.ended_attempts.iter().filter_map(EndedAttemptDocument::new);
        for attempt in ended {
            let attempt = serialize_to_bson(&attempt).map_err(Error::from)?;
            update.ended_attempts.push(attempt);
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

/// The field `waits`: present while a task without a requirement is queued, so that it is in the index of the queue.
fn queue_flag(task: &StoredTask) -> Bson {
    task.state.is_queued().then_some(true).to_bson()
}

/// The field `waits_for`: present while a task with a requirement is queued.
fn required_queue(task: &StoredTask) -> Bson {
    let key = task.state.requires.queue_key();
    key.filter(|_| task.state.is_queued()).to_bson()
}

/// A MongoDB update of one task document under construction: the fields to set, the fields to remove, and the attempts to
/// append to those that ended.
#[derive(Default)]
struct UpdateDocument {
    set: Document,
    unset: Document,
    ended_attempts: Vec<Bson>,
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
        if !self.ended_attempts.is_empty() {
            let newest = -(AttemptRecord::MAX_COUNT as i64);
            let push = doc! { "$each": self.ended_attempts, "$slice": newest };
            document.insert("$push", doc! { "ran_on": push });
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use model::{
        AttemptNumber, ExecutorName, FailedAttempts, RecordedEnd, ReleaseReason, ReportSeq, ResourceRequest,
        SessionId, TaskForm, TaskId, TaskState, TaskStatus,
    };

    use super::super::TransitionBatch;
    use super::*;

    fn held_task() -> StoredTask {
        StoredTask {
            state: TaskState {
                id: TaskId(uuid::Uuid::now_v7()),
                form: TaskForm::CURRENT,
                group: None,
                retried: false,
                priority: 0,
                add_time: UnixTime(1),
                status: TaskStatus::Retrying,
                executor: Some(ExecutorName::new("e").unwrap()),
                session: Some(SessionId(uuid::Uuid::now_v7())),
                attempt: AttemptNumber(2),
                failed_attempts: FailedAttempts { lost: 1, platform: 0 },
                max_attempts: None,
                reason: None,
                resources: ResourceRequest::default(),
                requires: model::ToolRequirement::default(),
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
        let update =
            update_after(|batch, id| batch.release(id, ReleaseReason::Lost("gone"), RecordedEnd::Lost));
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
    fn a_task_with_a_requirement_returns_to_its_own_queue() {
        let mut task = held_task();
        task.state.requires = "lab/cpp".parse().unwrap();
        let id = task.state.id;
        let mut batch = TransitionBatch::new(UnixTime(9), 3);
        batch.insert(task);
        batch.release(id, ReleaseReason::GivenBack, RecordedEnd::GivenBack);
        let update = batch.tasks[&id].update(batch.now).unwrap();
        let set = update.get_document("$set").unwrap();
        assert_eq!(set.get("waits_for"), Some(&"lab/cpp".into()));
        assert_eq!(set.get("waits"), None);
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
        let given_back =
            update_after(|batch, id| batch.release(id, ReleaseReason::GivenBack, RecordedEnd::GivenBack));
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
                batch.release(id, ReleaseReason::Lost("gone"), RecordedEnd::Lost);
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
        batch.release(id, ReleaseReason::Lost("gone"), RecordedEnd::Lost);
        let task = batch.get(id).unwrap();
        assert_eq!(
            (task.state.status, task.finish_time),
            (TaskStatus::SystemError, Some(UnixTime(9)))
        );
        assert_eq!(task.trouble.as_deref(), Some("lost 2 times: gone"));
    }
}
