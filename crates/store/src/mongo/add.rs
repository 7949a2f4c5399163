//! Adds tasks: all tasks of a call or none. One transaction adds the tasks of several calls.

mod batcher;
mod decide;
mod repeated;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::TryStreamExt;
use model::{AddedTask, BlobHash, ResourceRequest, TaskForm, TaskId, TaskStatus, ToolRequirement, UnixTime};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, RawDocumentBuf, deserialize_from_slice, doc};
use serde::Deserialize;

pub(super) use self::batcher::AddBatcher;
use self::decide::{AddDecision, ExistingTask};
use self::repeated::RepeatedTasks;
use super::blobs;
use super::bson_values::{ToBson, binary, uuid};
use super::content::{self, PreparedContent};
use super::context::{StoreContext, TASKS};
use super::counters::CounterDeltas;
use super::failure::MongoFailure;
use super::group_counters::{GroupDeltas, GroupStripe};
use super::retry::COMMAND_TIMEOUT;
use super::task_document::{StoredTask, TaskDocument, label_texts};
use super::transaction::Transaction;
use crate::document::encode_spec;
use crate::{NewTaskRecord, StoreError};

/// A new task that the MongoDB store is about to insert, with its document and its spec ready to be written.
#[derive(Debug)]
pub(super) struct PreparedTask {
    id: TaskId,
    digest: [u8; 32],
    /// The digest of the same request in versions before forms were recorded.
    legacy_digest: Option<[u8; 32]>,
    /// The task that this one repeats.
    retry_of: Option<TaskId>,
    add_time: UnixTime,
    blobs: Vec<BlobHash>,
    document: TaskDocument,
    spec: PreparedContent,
}

impl PreparedTask {
    pub(super) async fn prepare(
        context: &Arc<StoreContext>,
        task: NewTaskRecord,
    ) -> Result<PreparedTask, StoreError> {
        let spec = PreparedContent::prepare(context, encode_spec(&task.spec)?).await?;
        Ok(PreparedTask::new(task, spec, context.next_add_time()))
    }

    fn new(task: NewTaskRecord, content: PreparedContent, add_time: UnixTime) -> PreparedTask {
        let NewTaskRecord {
            id,
            digest,
            legacy_digest,
            spec,
        } = task;
        let (blobs, need) = (spec.blobs(), ResourceRequest::of(&spec));
        let requires = ToolRequirement::of(&spec);
        let document = TaskDocument {
            id: uuid(id.0),
            digest: Some(binary(digest.to_vec())),
            form: Some(TaskForm::of(&spec).0.into()),
            user: spec.user.to_string(),
            group: spec.group.as_ref().map(ToString::to_string),
            labels: label_texts(&spec.labels),
            retried: None,
            priority: spec.priority,
            add_time: add_time.0,
            command: spec.execute.command.display(),
            compile: spec.compile.as_ref().map(|compile| compile.command.display()),
            status: TaskStatus::Pending.to_string(),
            reason: None,
            waits: requires.is_none().then_some(true),
            waits_for: requires.queue_key(),
            needs: requires.queue_key(),
            executor: None,
            session: None,
            attempt: 0,
            lost: 0,
            platform_losses: 0,
            max_attempts: spec.attempts.map(i64::from),
            need_memory: i64::try_from(need.memory).unwrap_or(i64::MAX),
            need_processes: need.processes.into(),
            given: 0,
            start_time: None,
            report_time: None,
            finish_time: None,
            finish_age: None,
            trouble: None,
            ran_on: vec![],
            blobs: blobs.iter().map(|hash| binary(hash.0.to_vec())).collect(),
            result_blobs: vec![],
            spec: content.content.clone(),
            result: None,
        };
        PreparedTask {
            id,
            digest,
            legacy_digest,
            retry_of: spec.retry_of,
            add_time,
            blobs,
            document,
            spec: content,
        }
    }

    /// The file that was uploaded before the transaction, if the spec is that large.
    pub(super) fn uploaded_file(&self) -> Option<ObjectId> {
        self.spec.file()
    }

    fn payload_bytes(&self) -> usize {
        self.spec.bytes_in_transaction() + self.document.command.len() + 256
    }
}

/// The replies of the MongoDB store to the `add` calls that share one transaction.
type AddReplies = Vec<Result<Vec<AddedTask>, StoreError>>;

/// Adds the batches of several calls. A batch that is refused does not affect the others.
async fn add(
    context: Arc<StoreContext>,
    batches: Arc<Vec<Vec<PreparedTask>>>,
) -> Result<AddReplies, MongoFailure> {
    let existing = find_existing(&context, &batches).await?;
    let blobs = find_blobs(&context, &batches).await?;
    let AddDecision { replies, new_tasks } = decide::decide(&batches, &existing, &blobs);
    if !new_tasks.is_empty() {
        let repeated = RepeatedTasks::find(&context, &new_tasks).await?;
        write(&context, &new_tasks, &repeated).await?;
    }
    Ok(replies)
}

async fn write(
    context: &StoreContext,
    new_tasks: &[&PreparedTask],
    repeated: &RepeatedTasks,
) -> Result<(), MongoFailure> {
    let mut transaction = Transaction::default();
    let documents: Vec<_> = new_tasks.iter().map(|task| repeated.mark_new(task)).collect();
    transaction.insert(TASKS, &documents)?;
    content::write(new_tasks.iter().map(|task| &task.spec), &mut transaction)?;
    blobs::require(new_tasks.iter().flat_map(|task| &task.blobs), &mut transaction);
    transaction.update_grouped(TASKS, repeated.updates())?;
    let (mut deltas, mut group_deltas) = (CounterDeltas::default(), GroupDeltas::default());
    for document in &documents {
        deltas.add_pending();
        group_deltas.add(&StoredTask::try_from(&**document)?.state);
    }
    // Their groups count the new tasks instead.
    for task in &repeated.stored {
        group_deltas.remove(&task.state);
    }
    transaction.add_to_groups(&group_deltas, GroupStripe::random())?;
    // This also makes `blobs::remove_unused` wait for the transaction.
    transaction.add_to_counters(&deltas)?;
    transaction.commit(context).await
}

/// The fields of a stored MongoDB task that tell whether a task to add with the same id is the same task.
#[derive(Deserialize)]
struct ExistingTaskFields {
    digest: Binary,
    add_time: i64,
    form: Option<i64>,
}

/// The tasks that exist already, read with majority read concern because the caller relies on their durability. A task
/// that exists but is not majority-committed yet makes the insert fail, and the retry finds it.
async fn find_existing(
    context: &StoreContext,
    batches: &[Vec<PreparedTask>],
) -> Result<HashMap<TaskId, ExistingTask>, MongoFailure> {
    let ids: BTreeSet<_> = batches.iter().flatten().map(|task| task.id).collect();
    let ids: Vec<_> = ids.iter().map(ToBson::to_bson).collect();
    let found: Vec<RawDocumentBuf> = context
        .tasks()
        .find(doc! { "_id": { "$in": ids } })
        .projection(doc! { "digest": 1, "add_time": 1, "form": 1 })
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let existing = found.iter().filter_map(|document| {
        // The task was found by its id, so the id is readable.
        let id = document
            .get("_id")
            .ok()
            .flatten()?
            .as_binary()?
            .bytes
            .try_into()
            .ok()?;
        let id = TaskId(uuid::Uuid::from_bytes(id));
        let existing = match deserialize_from_slice(document.as_bytes()) {
            Ok(ExistingTaskFields {
                digest,
                add_time,
                form,
            }) => ExistingTask::Readable {
                digest: digest.bytes,
                has_form: form.is_some(),
                add_time: UnixTime(add_time),
            },
            Err(error) => {
                context.unreadable_rows.record(format_args!("task {id}"), &error);
                ExistingTask::Unreadable(error.to_string())
            }
        };
        Some((id, existing))
    });
    Ok(existing.collect())
}

/// Looks for the blobs that the tasks need.
async fn find_blobs(
    context: &StoreContext,
    batches: &[Vec<PreparedTask>],
) -> Result<blobs::BlobLookup, MongoFailure> {
    let needed: BTreeSet<_> = batches.iter().flatten().flat_map(|task| &task.blobs).collect();
    if needed.is_empty() {
        return Ok(blobs::BlobLookup::default());
    }
    let needed: Vec<_> = needed.into_iter().copied().collect();
    blobs::find(context, &needed).await
}
