//! Adding tasks: all of a batch, or none; and many callers' batches in one transaction.

mod adder;
mod judge;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::TryStreamExt;
use model::{Added, BlobHash, Moment, Need, Status, TaskId};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, RawDocumentBuf, deserialize_from_slice, doc};
use serde::Deserialize;

pub(super) use self::adder::Adder;
use self::judge::{Judged, Known};
use super::attempts::COMMAND;
use super::base::{BLOBS, Base, TASKS};
use super::blobs;
use super::content::{self, Prepared};
use super::failure::Failure;
use super::field::{Field, binary, uuid};
use super::row::Row;
use super::tally::Tally;
use super::transaction::Transaction;
use crate::document::encode_spec;
use crate::{NewTask, StoreError};

/// A task to add as it is written down. Made by the caller.
#[derive(Debug)]
pub(super) struct Draft {
    id: TaskId,
    digest: [u8; 32],
    add_time: Moment,
    blobs: Vec<BlobHash>,
    row: Row,
    spec: Prepared,
}

impl Draft {
    pub(super) async fn prepare(base: &Arc<Base>, task: NewTask) -> Result<Draft, StoreError> {
        let spec = Prepared::of(base, encode_spec(&task.spec)?).await?;
        Ok(Draft::of(task, spec, base.next_add_time()))
    }

    fn of(task: NewTask, prepared: Prepared, add_time: Moment) -> Draft {
        let NewTask { id, digest, spec } = task;
        let (blobs, need) = (spec.blobs(), Need::of(&spec));
        let row = Row {
            id: uuid(id.0),
            digest: Some(binary(digest.to_vec())),
            user: spec.user.to_string(),
            priority: spec.priority,
            add_time: add_time.0,
            command: spec.execute.command.display(),
            compile: spec.compile.as_ref().map(|compile| compile.command.display()),
            status: Status::Pending.to_string(),
            waits: Some(true),
            executor: None,
            session: None,
            attempt: 0,
            lost: 0,
            platform_losses: 0,
            need_memory: i64::try_from(need.memory).unwrap_or(i64::MAX),
            need_processes: need.processes.into(),
            given: 0,
            start_time: None,
            report_time: None,
            finish_time: None,
            finish_age: None,
            trouble: None,
            blobs: blobs.iter().map(|hash| binary(hash.0.to_vec())).collect(),
            spec: prepared.content.clone(),
            result: None,
        };
        Draft {
            id,
            digest,
            add_time,
            blobs,
            row,
            spec: prepared,
        }
    }

    /// What was written for it ahead of the transaction.
    pub(super) fn file(&self) -> Option<ObjectId> {
        self.spec.file()
    }

    fn weight(&self) -> usize {
        self.spec.weight() + self.row.command.len() + 256
    }
}

/// What each caller is answered.
type Answers = Vec<Result<Vec<Added>, StoreError>>;

/// Adds the batches of several callers. One that is refused does not hold up the others.
async fn add(base: Arc<Base>, batches: Arc<Vec<Vec<Draft>>>) -> Result<Answers, Failure> {
    let known = known(&base, &batches).await?;
    let blobs = needed(&base, &batches).await?;
    let Judged { answers, fresh } = judge::judge(&batches, &known, &blobs);
    if !fresh.is_empty() {
        write(&base, &fresh).await?;
    }
    Ok(answers)
}

async fn write(base: &Base, fresh: &[&Draft]) -> Result<(), Failure> {
    let mut transaction = Transaction::default();
    transaction.insert(TASKS, fresh.iter().map(|draft| &draft.row))?;
    content::write(fresh.iter().map(|draft| &draft.spec), &mut transaction)?;
    // Also what keeps a blob from being retired at this moment: it would be written by both.
    transaction.update(
        BLOBS,
        blobs::counted(fresh.iter().flat_map(|draft| &draft.blobs), 1),
    )?;
    let mut tally = Tally::default();
    fresh.iter().for_each(|_| tally.add_pending());
    transaction.count(&tally)?;
    transaction.commit(base).await
}

#[derive(Deserialize)]
struct Found {
    digest: Binary,
    add_time: i64,
}

/// Those that exist already, as a majority has them: an answer that a task exists is as good as one that it was
/// added. One that is there but not yet for good makes the insertion fail, and is looked for again.
async fn known(base: &Base, batches: &[Vec<Draft>]) -> Result<HashMap<TaskId, Known>, Failure> {
    let ids: BTreeSet<_> = batches.iter().flatten().map(|draft| draft.id).collect();
    let ids: Vec<_> = ids.iter().map(Field::field).collect();
    let found: Vec<RawDocumentBuf> = base
        .tasks()
        .find(doc! { "_id": { "$in": ids } })
        .projection(doc! { "digest": 1, "add_time": 1 })
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    let known = found.iter().filter_map(|document| {
        // It was found by its id, so it has one.
        let id = document
            .get("_id")
            .ok()
            .flatten()?
            .as_binary()?
            .bytes
            .try_into()
            .ok()?;
        let id = TaskId(uuid::Uuid::from_bytes(id));
        let known = match deserialize_from_slice(document.as_bytes()) {
            Ok(Found { digest, add_time }) => Known::Readable {
                digest: digest.bytes,
                add_time: Moment(add_time),
            },
            Err(error) => {
                base.set_aside.note(format_args!("task {id}"), &error);
                Known::Unreadable(error.to_string())
            }
        };
        Some((id, known))
    });
    Ok(known.collect())
}

/// The blobs that are needed.
async fn needed(base: &Base, batches: &[Vec<Draft>]) -> Result<blobs::Found, Failure> {
    let needed: BTreeSet<_> = batches.iter().flatten().flat_map(|draft| &draft.blobs).collect();
    if needed.is_empty() {
        return Ok(blobs::Found::default());
    }
    let needed: Vec<_> = needed.into_iter().copied().collect();
    blobs::find(base, &needed).await
}
