//! The document of a task, and how it is read.

use model::{
    AttemptNumber, FailedAttempts, ReportSeq, ResourceRequest, StoreAge, TaskId, TaskState, TaskStatus,
    TaskSummary, UnixTime, UserName,
};
use mongodb::bson::{Binary, Document, RawDocument, RawDocumentBuf, Uuid, deserialize_from_slice, doc};
use serde::{Deserialize, Serialize};

use super::bson_values::{ToBson, executor_name, session_id, task_id, to_u32, to_u64, unreadable};
use super::content::StoredContent;
use super::context::StoreContext;
use super::failure::MongoFailure;

/// A document of the MongoDB collection `tasks`: a task with all of its stored fields. An absent value is left out
/// rather than written as null: the partial indexes over queued, held and done tasks contain only the documents that
/// have the field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TaskDocument {
    #[serde(rename = "_id")]
    pub(super) id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<Binary>,
    pub(super) user: String,
    pub(super) priority: i32,
    /// In microseconds; increases within one judicator. Lists and the queue are in the order of this time and the id.
    pub(super) add_time: i64,
    pub(super) command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compile: Option<String>,
    pub(super) status: String,
    /// Present while the task is queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) executor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<Uuid>,
    pub(super) attempt: i64,
    pub(super) lost: i64,
    /// Absent while it is 0. Judicators of versions before this field leave it unchanged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) platform_losses: i64,
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) blobs: Vec<Binary>,
    pub(super) spec: StoredContent,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<StoredContent>,
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
    doc! { "digest": 0, "blobs": 0, "spec.bytes": 0, "result.bytes": 0 }
}

/// The projection for handing a task out, which includes a spec that is stored inline.
pub(super) fn without_result() -> Document {
    doc! { "digest": 0, "blobs": 0, "result.bytes": 0 }
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
        }
    }
}

impl TryFrom<&TaskDocument> for StoredTask {
    type Error = MongoFailure;

    fn try_from(document: &TaskDocument) -> Result<StoredTask, MongoFailure> {
        let state = TaskState {
            id: task_id(document.id),
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
            resources: ResourceRequest {
                memory: u64::try_from(document.need_memory).unwrap_or(0),
                processes: u32::try_from(document.need_processes).unwrap_or(0),
            },
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

pub(super) fn summary(document: &TaskDocument) -> Result<TaskSummary, MongoFailure> {
    Ok(TaskSummary {
        id: task_id(document.id),
        user: user(document)?,
        priority: document.priority,
        command: TaskSummary::shorten_command(&document.command),
        status: status(&document.status)?,
        executor: document.executor.clone().map(executor_name).transpose()?,
        attempt: AttemptNumber(to_u32("attempt", document.attempt)?),
        add_time: UnixTime(document.add_time),
        start_time: document.start_time.map(UnixTime),
        finish_time: document.finish_time.map(UnixTime),
    })
}

/// Parses documents of tasks. Unreadable documents are logged and left out.
pub(super) fn parse_readable(context: &StoreContext, documents: Vec<RawDocumentBuf>) -> Vec<TaskDocument> {
    documents
        .iter()
        .filter_map(|document| {
            parse(document)
                .map_err(|problem| context.unreadable_rows.record(describe(document), problem))
                .ok()
        })
        .collect()
}

/// Parses the document of a task that the caller named. An unreadable document is an error.
pub(super) fn parse_required(
    context: &StoreContext,
    document: &RawDocument,
) -> Result<TaskDocument, MongoFailure> {
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
    Ok(document)
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
