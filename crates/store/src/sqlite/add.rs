//! Adds all tasks of a batch, or none.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::{
    AddedTask, BlobHash, GroupKey, Labels, ResourceRequest, TaskForm, TaskId, TaskStatus, ToolRequirement,
    UnixTime, UserName,
};
use rusqlite::OptionalExtension;

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::sql_value::SqlValue;
use super::{blobs, rows};
use crate::document::{encode_labels, encode_spec};
use crate::{NewTaskRecord, StoreError};

/// A new task for the SQLite store, with its spec already encoded. The caller's thread encodes it, so that the writer
/// thread has less to do.
#[derive(Debug)]
pub(super) struct EncodedTask {
    id: TaskId,
    digest: [u8; 32],
    legacy_digest: Option<[u8; 32]>,
    form: TaskForm,
    user: UserName,
    priority: i32,
    command: String,
    compile: Option<String>,
    resources: ResourceRequest,
    requires: ToolRequirement,
    spec: Vec<u8>,
    blobs: Vec<BlobHash>,
    labels: Labels,
    /// The labels as the table `tasks` has them; `None` if there are none.
    encoded_labels: Option<Vec<u8>>,
    group: Option<GroupKey>,
    max_attempts: Option<u32>,
    retry_of: Option<TaskId>,
}

impl EncodedTask {
    pub(super) fn encode(task: NewTaskRecord) -> Result<EncodedTask, StoreError> {
        let NewTaskRecord {
            id,
            digest,
            legacy_digest,
            spec,
        } = task;
        Ok(EncodedTask {
            id,
            digest,
            legacy_digest,
            form: TaskForm::of(&spec),
            priority: spec.priority,
            command: spec.execute.command.display(),
            compile: spec.compile.as_ref().map(|compile| compile.command.display()),
            resources: ResourceRequest::of(&spec),
            requires: ToolRequirement::of(&spec),
            blobs: spec.blobs(),
            spec: encode_spec(&spec)?,
            encoded_labels: match spec.labels.is_empty() {
                true => None,
                false => Some(encode_labels(&spec.labels)?),
            },
            group: spec.group_key(),
            max_attempts: spec.attempts,
            retry_of: spec.retry_of,
            user: spec.user,
            labels: spec.labels,
        })
    }

    /// About how much the task writes.
    pub(super) fn bytes(&self) -> usize {
        self.spec.len() + self.command.len() + self.encoded_labels.as_ref().map_or(0, Vec::len) + 256
    }
}

pub(super) fn add(
    transaction: &mut GroupTransaction<'_>,
    tasks: Vec<EncodedTask>,
) -> Result<Vec<AddedTask>, SqliteFailure> {
    // A refusal must leave no trace, so all checks come before the first write.
    let mut existing = existing(transaction, &tasks)?;
    check_blobs(
        transaction,
        tasks.iter().filter(|task| !existing.contains_key(&task.id)),
    )?;
    let mut added = Vec::with_capacity(tasks.len());
    for task in &tasks {
        let (add_time, existed) = match existing.entry(task.id) {
            Entry::Occupied(add_time) => (*add_time.get(), true),
            Entry::Vacant(entry) => (*entry.insert(insert(transaction, task)?), false),
        };
        added.push(AddedTask {
            id: task.id,
            add_time,
            existed,
        });
    }
    Ok(added)
}

/// The tasks of the batch that exist already, with their add times. Fails if a task has the id of another task with
/// other content, in the store or in this batch.
fn existing(
    transaction: &GroupTransaction<'_>,
    tasks: &[EncodedTask],
) -> Result<HashMap<TaskId, UnixTime>, SqliteFailure> {
    const STEP: &str = "look for tasks to add";
    let mut find = transaction.statement("SELECT seq, digest, form FROM tasks WHERE id = ?1", STEP)?;
    let mut existing = HashMap::new();
    let mut digests = HashMap::with_capacity(tasks.len());
    for task in tasks {
        let digest = match digests.entry(task.id) {
            Entry::Occupied(digest) => *digest.get(),
            Entry::Vacant(entry) => {
                let found = find
                    .query_row([SqlValue(task.id)], |row| {
                        Ok((row.get(0)?, row.get(1)?, row.get::<_, SqlValue<TaskForm>>(2)?.0))
                    })
                    .optional()
                    .map_err(|source| rows::task_failure(task.id, STEP, source))?;
                if let Some((seq, ..)) = found {
                    existing.insert(task.id, UnixTime(seq));
                }
                *entry.insert(match found {
                    // An earlier version added the task, and computed another digest of the same request.
                    Some((_, digest, TaskForm::UNRECORDED)) if Some(digest) == task.legacy_digest => {
                        task.digest
                    }
                    Some((_, digest, _)) => digest,
                    None => task.digest,
                })
            }
        };
        if digest != task.digest {
            return Err(SqliteFailure::Refused(StoreError::Conflict(task.id)));
        }
    }
    Ok(existing)
}

fn check_blobs<'t>(
    transaction: &GroupTransaction<'_>,
    tasks: impl Iterator<Item = &'t EncodedTask>,
) -> Result<(), SqliteFailure> {
    let mut needed: Vec<_> = tasks.flat_map(|task| task.blobs.iter().copied()).collect();
    needed.sort_unstable();
    needed.dedup();
    match blobs::first_missing(transaction, &needed)? {
        Some(hash) => Err(SqliteFailure::Refused(StoreError::BlobNotFound(hash))),
        None => Ok(()),
    }
}

fn insert(transaction: &mut GroupTransaction<'_>, task: &EncodedTask) -> Result<UnixTime, SqliteFailure> {
    const STEP: &str = "add a task";
    let add_time = transaction.next_add_time();
    transaction
        .statement(
            "INSERT INTO tasks (seq, id, digest, user, priority, status, command, compile, need_memory, need_processes,
                                form, max_attempts, grp, labels, needs)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            STEP,
        )?
        .execute((
            SqlValue(add_time),
            SqlValue(task.id),
            task.digest,
            SqlValue(&task.user),
            task.priority,
            SqlValue(TaskStatus::Pending),
            &task.command,
            &task.compile,
            i64::try_from(task.resources.memory).unwrap_or(i64::MAX),
            task.resources.processes,
            SqlValue(task.form),
            task.max_attempts,
            task.group.as_ref().map(|key| SqlValue(&key.group)),
            &task.encoded_labels,
            task.requires.queue_key().unwrap_or_default(),
        ))
        .during(STEP)?;
    transaction
        .statement("INSERT INTO specs (seq, spec) VALUES (?1, ?2)", STEP)?
        .execute((SqlValue(add_time), &task.spec))
        .during(STEP)?;
    for (key, value) in task.labels.iter() {
        transaction
            .statement(
                "INSERT INTO labels (owner, key, value, task) VALUES (?1, ?2, ?3, ?4)",
                STEP,
            )?
            .execute((SqlValue(&task.user), key, value, SqlValue(add_time)))
            .during(STEP)?;
    }
    blobs::refer(transaction, add_time, &task.blobs)?;
    if let Some(repeated) = task.retry_of {
        mark_retried(transaction, repeated, &task.user)?;
    }
    transaction.record_added(task.id, task.group.as_ref(), add_time);
    transaction.record_queued(&task.requires);
    Ok(add_time)
}

/// Marks the task that a new one of this user repeats. Its group counts the new task in its place.
fn mark_retried(
    transaction: &mut GroupTransaction<'_>,
    id: TaskId,
    user: &UserName,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "mark a retried task";
    let repeated = match rows::task_state(transaction.connection(), id) {
        // It stays unmarked: its group goes on to count it, because nobody can tell as what.
        Err(SqliteFailure::Refused(error)) => {
            transaction
                .unreadable_rows()
                .record(format_args!("task {id}"), error);
            return Ok(());
        }
        found => found?,
    };
    let marked = transaction
        .statement(
            "UPDATE tasks SET retried = 1 WHERE id = ?1 AND user = ?2 AND retried = 0",
            STEP,
        )?
        .execute((SqlValue(id), SqlValue(user)))
        .during(STEP)?;
    if let Some(task) = repeated.filter(|_| marked > 0) {
        transaction.record_retried(&task);
    }
    Ok(())
}
