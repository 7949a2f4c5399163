//! The document of a task, and how it is read.

use std::collections::HashSet;

use model::{
    AttemptNumber, AttemptRecord, FailedAttempts, GroupKey, GroupName, Labels, NameError, OutcomeReason,
    ReportSeq, ResourceRequest, StoreAge, TaskForm, TaskId, TaskState, TaskStatus, TaskSummary,
    ToolRequirement, UnixTime, UserName,
};
use mongodb::bson::{
    Binary, Bson, Document, RawDocument, RawDocumentBuf, Uuid, deserialize_from_bson, deserialize_from_slice,
    doc,
};
use serde::{Deserialize, Serialize};

use super::bson_values::{ToBson, executor_name, session_id, task_id, to_u32, to_u64, unreadable};
use super::content::StoredContent;
use super::context::StoreContext;
use super::failure::MongoFailure;
use crate::StoreError;

/// A document of the MongoDB collection `tasks`: a task with all of its stored fields. An absent value is left out
/// rather than written as null: the partial indexes over queued, held and done tasks contain only the documents that
/// have the field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TaskDocument {
    #[serde(rename = "_id")]
    pub(super) id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<Binary>,
    /// Absent in tasks that were added before forms were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) form: Option<i64>,
    pub(super) user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<String>,
    /// Each label as `key=value`; a key has no `=`. So one index finds a label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) labels: Vec<String>,
    /// Present if another task repeats this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retried: Option<bool>,
    pub(super) priority: i32,
    /// In microseconds; increases within one judicator. Lists and the queue are in the order of this time and the id.
    pub(super) add_time: i64,
    pub(super) command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compile: Option<String>,
    pub(super) status: String,
    /// Why the last step of a finished task ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The queue key of the task's requirement (`model::ToolRequirement`). Absent if any executor may run the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) needs: Option<String>,
    /// Present while a task without a requirement is queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits: Option<bool>,
    /// The same as `needs`. Present while a task with a requirement is queued. It is a field of its own, so that judicators of
    /// earlier versions do not find the task in their queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) executor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<Uuid>,
    pub(super) attempt: i64,
    pub(super) lost: i64,
    /// Absent while it is 0. Judicators of versions before this field leave it unchanged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) platform_losses: i64,
    /// The bound on lost attempts. Absent in tasks that were added before tasks had their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_attempts: Option<i64>,
    /// The memory that the task needs in a slot. Absent if a judicator of a version before this field added the task.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) need_memory: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) need_processes: i64,
    /// The number of the report whose answer handed out the current attempt.
    pub(super) given: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_time: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) report_time: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_time: Option<i64>,
    /// The store's age when the task ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_age: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
    /// The newest attempts that began and have ended, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ran_on: Vec<EndedAttemptDocument>,
    /// The blobs of the spec. Retention looks for tasks that use a blob in this field and in `result_blobs`, so a newer
    /// form must list its blobs in one of them too: an older judicator may lead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) blobs: Vec<Binary>,
    /// The blobs of the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) result_blobs: Vec<Binary>,
    pub(super) spec: StoredContent,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<StoredContent>,
}

/// An element of the field `ran_on` of a MongoDB task document: an attempt that began and has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EndedAttemptDocument {
    executor: String,
    attempt: i64,
    start_time: i64,
    end_time: i64,
    end: String,
}

/// The parsed part of a MongoDB task document that state transitions read and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredTask {
    pub(super) state: TaskState,
    pub(super) finish_time: Option<UnixTime>,
    pub(super) finish_age: Option<StoreAge>,
    pub(super) trouble: Option<String>,
    /// In bytes.
    pub(super) spec_size: usize,
}

fn is_zero(count: &i64) -> bool {
    *count == 0
}

/// The projection for reads that need no content.
pub(super) fn without_content() -> Document {
    doc! { "digest": 0, "blobs": 0, "result_blobs": 0, "ran_on": 0, "spec.bytes": 0, "result.bytes": 0 }
}

/// The projection for handing a task out, which includes a spec that is stored inline.
pub(super) fn without_result() -> Document {
    doc! { "digest": 0, "blobs": 0, "result_blobs": 0, "ran_on": 0, "result.bytes": 0 }
}

impl StoredTask {
    /// The latest time recorded for the task.
    pub(super) fn latest_time(&self) -> UnixTime {
        let latest = self.state.latest_time();
        self.finish_time
            .map_or(latest, |finish_time| latest.max(finish_time))
    }

    /// The condition of every write, beside the id: the task has not changed since it was read.
    pub(super) fn unchanged_condition(&self) -> Document {
        doc! {
            "status": self.state.status.to_bson(),
            "executor": self.state.executor.to_bson(),
            "session": self.state.session.to_bson(),
            "attempt": self.state.attempt.to_bson(),
            // The counters of the group depend on it.
            "retried": self.state.retried.then_some(true).to_bson(),
        }
    }
}

impl TryFrom<&TaskDocument> for StoredTask {
    type Error = MongoFailure;

    fn try_from(document: &TaskDocument) -> Result<StoredTask, MongoFailure> {
        let state = TaskState {
            id: task_id(document.id),
            form: document.form()?,
            group: document.group_key()?,
            retried: document.retried.unwrap_or(false),
            priority: document.priority,
            add_time: UnixTime(document.add_time),
            status: status(&document.status)?,
            executor: document.executor.clone().map(executor_name).transpose()?,
            session: document.session.map(session_id),
            attempt: AttemptNumber(to_u32("attempt", document.attempt)?),
            failed_attempts: FailedAttempts {
                lost: to_u32("number of losses", document.lost)?,
                platform: to_u32("number of platform losses", document.platform_losses)?,
            },
            max_attempts: document
                .max_attempts
                .map(|number| to_u32("number of attempts", number))
                .transpose()?,
            reason: document.reason()?,
            resources: ResourceRequest {
                memory: u64::try_from(document.need_memory).unwrap_or(0),
                processes: u32::try_from(document.need_processes).unwrap_or(0),
            },
            requires: document.requires()?,
            assigned_in: ReportSeq(to_u64("report's number", document.given)?),
            start_time: document.start_time.map(UnixTime),
            report_time: document.report_time.map(UnixTime),
        };
        Ok(StoredTask {
            state,
            finish_time: document.finish_time.map(UnixTime),
            finish_age: document.finish_age.map(StoreAge),
            trouble: document.trouble.clone(),
            spec_size: size(document.spec.size)?,
        })
    }
}

impl TaskDocument {
    fn form(&self) -> Result<TaskForm, MongoFailure> {
        match self.form {
            None => Ok(TaskForm::UNRECORDED),
            Some(form) => to_u32("form", form).map(TaskForm),
        }
    }

    fn group_key(&self) -> Result<Option<GroupKey>, MongoFailure> {
        let Some(group) = &self.group else {
            return Ok(None);
        };
        let group = GroupName::new(group.as_str()).map_err(|error| unreadable("group's name", error))?;
        let user = user(self)?;
        Ok(Some(GroupKey { user, group }))
    }

    fn requires(&self) -> Result<ToolRequirement, MongoFailure> {
        match &self.needs {
            Some(key) => key
                .parse()
                .map_err(|error: NameError| unreadable("requirement", error)),
            None => Ok(ToolRequirement::default()),
        }
    }

    fn reason(&self) -> Result<Option<OutcomeReason>, MongoFailure> {
        let reason = self.reason.as_deref().map(str::parse).transpose();
        reason.map_err(|error: String| unreadable("reason", error))
    }

    fn labels(&self) -> Result<Labels, MongoFailure> {
        let pairs = self.labels.iter().map(|label| label.split_once('=')).collect();
        let pairs: Option<Vec<_>> = pairs;
        let pairs = pairs.ok_or_else(|| unreadable("label", "it has no '='"))?;
        let pairs = pairs.into_iter().map(|(key, value)| (key.into(), value.into()));
        Labels::new(pairs.collect()).map_err(|error| unreadable("label", error))
    }

    /// The attempts that began and have ended.
    pub(super) fn ended_attempts(&self) -> Result<Vec<AttemptRecord>, MongoFailure> {
        let record = |attempt: &EndedAttemptDocument| {
            let end = attempt.end.parse();
            let end = end.map_err(|error: String| unreadable("end of an attempt", error))?;
            Ok(AttemptRecord {
                executor: executor_name(attempt.executor.clone())?,
                attempt: AttemptNumber(to_u32("attempt", attempt.attempt)?),
                start_time: UnixTime(attempt.start_time),
                end: Some((UnixTime(attempt.end_time), end)),
            })
        };
        self.ran_on.iter().map(record).collect()
    }
}

/// The field `labels` of a task with these labels. A search looks for the same texts.
pub(super) fn label_texts(labels: &Labels) -> Vec<String> {
    let texts = labels.iter().map(|(key, value)| format!("{key}={value}"));
    texts.collect()
}

impl EndedAttemptDocument {
    pub(super) fn new(record: &AttemptRecord) -> Option<EndedAttemptDocument> {
        let (end_time, end) = record.end?;
        Some(EndedAttemptDocument {
            executor: record.executor.to_string(),
            attempt: record.attempt.0.into(),
            start_time: record.start_time.0,
            end_time: end_time.0,
            end: end.as_str().into(),
        })
    }
}

pub(super) fn summary(document: &TaskDocument) -> Result<TaskSummary, MongoFailure> {
    Ok(TaskSummary {
        id: task_id(document.id),
        user: user(document)?,
        priority: document.priority,
        command: TaskSummary::shorten_command(&document.command),
        status: status(&document.status)?,
        reason: document.reason()?,
        labels: document.labels()?,
        group: document.group_key()?.map(|key| key.group),
        language: document.requires()?.language,
        executor: document.executor.clone().map(executor_name).transpose()?,
        attempt: AttemptNumber(to_u32("attempt", document.attempt)?),
        add_time: UnixTime(document.add_time),
        start_time: document.start_time.map(UnixTime),
        finish_time: document.finish_time.map(UnixTime),
    })
}

/// The documents of tasks that the MongoDB store has read.
#[derive(Debug, Default)]
pub(super) struct ParsedTasks {
    pub(super) readable: Vec<TaskDocument>,
    /// The tasks of newer forms whose documents cannot be parsed: a newer version may store them in another way. They are
    /// no damage, and only newer nodes can say anything about them.
    pub(super) newer: HashSet<TaskId>,
}

/// Parses documents of tasks. Unreadable documents are logged and left out.
pub(super) fn parse_all(context: &StoreContext, documents: &[RawDocumentBuf]) -> ParsedTasks {
    let mut tasks = ParsedTasks::default();
    for document in documents {
        match (parse(document), newer_form(document)) {
            (Ok(parsed), _) => tasks.readable.push(parsed),
            (Err(_), Some(_)) => tasks.newer.extend(id(document)),
            (Err(problem), None) => context.unreadable_rows.record(describe(document), problem),
        }
    }
    tasks
}

/// Like [`parse_all`], and also leaves out the documents of newer forms that cannot be parsed.
pub(super) fn parse_readable(context: &StoreContext, documents: Vec<RawDocumentBuf>) -> Vec<TaskDocument> {
    parse_all(context, &documents).readable
}

/// Parses the document of a task that the caller named. An unreadable document is an error, and so is one of a form that
/// this program does not know.
pub(super) fn parse_required(
    context: &StoreContext,
    document: &RawDocument,
) -> Result<TaskDocument, MongoFailure> {
    if let Some(form) = newer_form(document) {
        return Err(MongoFailure::Refused(StoreError::NewerForm(form)));
    }
    parse(document).map_err(|problem| {
        context.unreadable_rows.record(describe(document), &problem);
        unreadable("task", format!("{}: {problem}", describe(document)))
    })
}

/// Checks every field, also those that the caller does not need, so that all operations agree about which tasks are
/// readable.
fn parse(document: &RawDocument) -> Result<TaskDocument, String> {
    let document: TaskDocument =
        deserialize_from_slice(document.as_bytes()).map_err(|error| error.to_string())?;
    let problem = |failure: MongoFailure| match failure {
        MongoFailure::Refused(error) => error.to_string(),
        other => format!("{other:?}"),
    };
    StoredTask::try_from(&document).map_err(problem)?;
    user(&document).map_err(problem)?;
    document.labels().map_err(problem)?;
    Ok(document)
}

/// The form of the task, if this program does not know it.
pub(super) fn newer_form(document: &RawDocument) -> Option<TaskForm> {
    let form = document.get("form").ok().flatten()?.as_i64()?;
    let form = TaskForm(u32::try_from(form).ok()?);
    (!form.is_known()).then_some(form)
}

/// The id of the task, if it is readable.
fn id(document: &RawDocument) -> Option<TaskId> {
    let id = document.get("_id").ok().flatten()?;
    let id = Bson::try_from(id).ok()?;
    deserialize_from_bson(id).ok().map(task_id)
}

/// Names the document in log lines, also if its id is not the id of a task.
fn describe(document: &RawDocument) -> String {
    match sort_key(document) {
        Some((_, id)) => format!("task {id}"),
        None => format!("task {:?}", document.get("_id").ok().flatten()),
    }
}

/// The add time and the id, by which lists are sorted.
pub(super) fn sort_key(document: &RawDocument) -> Option<(UnixTime, TaskId)> {
    /// The fields of a MongoDB task document that make up the sort key of lists: add time and id.
    #[derive(Deserialize)]
    struct SortKeyFields {
        #[serde(rename = "_id")]
        id: Uuid,
        add_time: i64,
    }
    let key: SortKeyFields = deserialize_from_slice(document.as_bytes()).ok()?;
    Some((UnixTime(key.add_time), task_id(key.id)))
}

fn size(bytes: i64) -> Result<usize, MongoFailure> {
    usize::try_from(bytes).map_err(|error| unreadable("task's size", error))
}

fn user(document: &TaskDocument) -> Result<UserName, MongoFailure> {
    UserName::new(document.user.as_str()).map_err(|error| unreadable("user's name", error))
}

fn status(text: &str) -> Result<TaskStatus, MongoFailure> {
    text.parse().map_err(|error: String| unreadable("status", error))
}
