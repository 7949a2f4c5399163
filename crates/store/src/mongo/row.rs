//! A task as a document, and what a transition has to know of it.

use model::{
    Age, Attempt, Brief, ExecutorName, Handout, Holding, Losses, Moment, Need, Seq, SessionId, Status,
    TaskId, UserName,
};
use mongodb::bson::{Binary, Document, RawDocument, RawDocumentBuf, Uuid, deserialize_from_slice, doc};
use serde::{Deserialize, Serialize};

use super::base::Base;
use super::content::Content;
use super::failure::Failure;
use super::field::{Field, executor_name, large, session_id, small, task_id, unreadable};

/// A document of the collection `tasks`. Absent fields are absent, not null: the indexes over what waits, what
/// is held and what is done hold only documents that have the field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    #[serde(rename = "_id")]
    pub(super) id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<Binary>,
    pub(super) user: String,
    pub(super) priority: i32,
    /// Microseconds; rising within one judicator. Together with the id it orders every list and the queue.
    pub(super) add_time: i64,
    pub(super) command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compile: Option<String>,
    pub(super) status: String,
    /// There while it waits for an executor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) executor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<Uuid>,
    pub(super) attempt: i64,
    pub(super) lost: i64,
    /// Absent until there is one; judicators before this field leave it as it is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) platform_losses: i64,
    /// What it needs of a slot. Absent where a judicator before these fields has added it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) need_memory: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) need_processes: i64,
    pub(super) given: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_time: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) report_time: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_time: Option<i64>,
    /// The store's age when it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_age: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) blobs: Vec<Binary>,
    pub(super) spec: Content,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Content>,
}

/// What transitions read and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) id: TaskId,
    pub(super) priority: i32,
    pub(super) add_time: Moment,
    pub(super) status: Status,
    pub(super) executor: Option<ExecutorName>,
    pub(super) session: Option<SessionId>,
    pub(super) attempt: Attempt,
    pub(super) losses: Losses,
    pub(super) need: Need,
    pub(super) given: Seq,
    pub(super) start_time: Option<Moment>,
    pub(super) report_time: Option<Moment>,
    pub(super) finish_time: Option<Moment>,
    pub(super) finish_age: Option<Age>,
    pub(super) trouble: Option<String>,
    pub(super) spec_size: usize,
}

fn is_zero(count: &i64) -> bool {
    *count == 0
}

/// All but what is bulky.
pub(super) fn without_content() -> Document {
    doc! { "digest": 0, "blobs": 0, "spec.bytes": 0, "result.bytes": 0 }
}

/// What handing a task out needs: also its spec, if that is small.
pub(super) fn without_result() -> Document {
    doc! { "digest": 0, "blobs": 0, "result.bytes": 0 }
}

impl Position {
    /// The latest of its times.
    pub(super) fn latest(&self) -> Moment {
        let later = [self.start_time, self.report_time, self.finish_time];
        later.into_iter().flatten().fold(self.add_time, Moment::max)
    }

    pub(super) fn waits(&self) -> bool {
        self.executor.is_none() && !self.status.done()
    }

    pub(super) fn holding(&self, session: SessionId) -> Holding {
        Holding {
            handout: self.handout(session),
            given: self.given,
        }
    }

    pub(super) fn handout(&self, session: SessionId) -> Handout {
        Handout {
            task: self.id,
            session,
            attempt: self.attempt,
        }
    }

    /// Whether this is the very attempt that is out now, and with whom.
    pub(super) fn is_out_as(&self, handout: Handout, executor: &ExecutorName) -> bool {
        self.id == handout.task
            && self.executor.as_ref() == Some(executor)
            && self.session == Some(handout.session)
            && self.attempt == handout.attempt
    }

    /// The condition of every write, beside the id: the task is still as it was when the write was decided on.
    pub(super) fn as_seen(&self) -> Document {
        doc! {
            "status": self.status.field(),
            "executor": self.executor.field(),
            "session": self.session.field(),
            "attempt": self.attempt.field(),
        }
    }
}

impl TryFrom<&Row> for Position {
    type Error = Failure;

    fn try_from(row: &Row) -> Result<Position, Failure> {
        Ok(Position {
            id: task_id(row.id),
            priority: row.priority,
            add_time: Moment(row.add_time),
            status: status(&row.status)?,
            executor: row.executor.clone().map(executor_name).transpose()?,
            session: row.session.map(session_id),
            attempt: Attempt(small("attempt", row.attempt)?),
            losses: Losses {
                lost: small("number of losses", row.lost)?,
                platform: small("number of platform losses", row.platform_losses)?,
            },
            need: Need {
                memory: u64::try_from(row.need_memory).unwrap_or(0),
                processes: u32::try_from(row.need_processes).unwrap_or(0),
            },
            given: Seq(large("report's number", row.given)?),
            start_time: row.start_time.map(Moment),
            report_time: row.report_time.map(Moment),
            finish_time: row.finish_time.map(Moment),
            finish_age: row.finish_age.map(Age),
            trouble: row.trouble.clone(),
            spec_size: size(row.spec.size)?,
        })
    }
}

pub(super) fn brief(row: &Row) -> Result<Brief, Failure> {
    Ok(Brief {
        id: task_id(row.id),
        user: user(row)?,
        priority: row.priority,
        command: Brief::command(&row.command),
        status: status(&row.status)?,
        executor: row.executor.clone().map(executor_name).transpose()?,
        attempt: Attempt(small("attempt", row.attempt)?),
        add_time: Moment(row.add_time),
        start_time: row.start_time.map(Moment),
        finish_time: row.finish_time.map(Moment),
    })
}

/// Those that can be read. The others are noted and passed over.
pub(super) fn readable(base: &Base, documents: Vec<RawDocumentBuf>) -> Vec<Row> {
    documents
        .iter()
        .filter_map(|document| {
            read(document)
                .map_err(|problem| base.set_aside.note(name(document), problem))
                .ok()
        })
        .collect()
}

/// One that was asked for by its id: it is read, or the caller is told why it cannot be.
pub(super) fn required(base: &Base, document: &RawDocument) -> Result<Row, Failure> {
    read(document).map_err(|problem| {
        base.set_aside.note(name(document), &problem);
        unreadable("task", format!("{}: {problem}", name(document)))
    })
}

/// All of it, also what the caller does not need: one that a list could not show is not handed out either.
fn read(document: &RawDocument) -> Result<Row, String> {
    let row: Row = deserialize_from_slice(document.as_bytes()).map_err(|error| error.to_string())?;
    let problem = |failure: Failure| match failure {
        Failure::Refused(error) => error.to_string(),
        other => format!("{other:?}"),
    };
    Position::try_from(&row).map_err(problem)?;
    user(&row).map_err(problem)?;
    Ok(row)
}

/// By its id, whatever that is.
fn name(document: &RawDocument) -> String {
    match key(document) {
        Some((_, id)) => format!("task {id}"),
        None => format!("task {:?}", document.get("_id").ok().flatten()),
    }
}

/// The add time and the id, which order lists.
pub(super) fn key(document: &RawDocument) -> Option<(Moment, TaskId)> {
    #[derive(Deserialize)]
    struct Key {
        #[serde(rename = "_id")]
        id: Uuid,
        add_time: i64,
    }
    let key: Key = deserialize_from_slice(document.as_bytes()).ok()?;
    Some((Moment(key.add_time), task_id(key.id)))
}

fn size(bytes: i64) -> Result<usize, Failure> {
    usize::try_from(bytes).map_err(|error| unreadable("task's size", error))
}

fn user(row: &Row) -> Result<UserName, Failure> {
    UserName::new(row.user.as_str()).map_err(|error| unreadable("user's name", error))
}

fn status(text: &str) -> Result<Status, Failure> {
    text.parse().map_err(|error: String| unreadable("status", error))
}
