//! Adds all tasks of a batch, or none.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::{AddedTask, BlobHash, ResourceRequest, TaskId, TaskStatus, UnixTime, UserName};
use rusqlite::OptionalExtension;

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::rows;
use super::sql_value::SqlValue;
use crate::document::encode_spec;
use crate::{NewTaskRecord, StoreError};

/// A new task for the SQLite store, with its spec already encoded. The caller's thread encodes it, so that the writer
/// thread has less to do.
#[derive(Debug)]
pub(super) struct EncodedTask {
    id: TaskId,
    digest: [u8; 32],
    user: UserName,
    priority: i32,
    command: String,
    compile: Option<String>,
    resources: ResourceRequest,
    spec: Vec<u8>,
    blobs: Vec<BlobHash>,
}

impl EncodedTask {
    pub(super) fn encode(task: NewTaskRecord) -> Result<EncodedTask, StoreError> {
        let NewTaskRecord { id, digest, spec } = task;
        Ok(EncodedTask {
            id,
            digest,
            priority: spec.priority,
            command: spec.execute.command.display(),
            compile: spec.compile.as_ref().map(|compile| compile.command.display()),
            resources: ResourceRequest::of(&spec),
            blobs: spec.blobs(),
            spec: encode_spec(&spec)?,
            user: spec.user,
        })
    }

    /// About how much the task writes.
    pub(super) fn bytes(&self) -> usize {
        self.spec.len() + self.command.len() + 256
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
    let mut find = transaction.statement("SELECT seq, digest FROM tasks WHERE id = ?1", STEP)?;
    let mut existing = HashMap::new();
    let mut digests = HashMap::with_capacity(tasks.len());
    for task in tasks {
        let digest = match digests.entry(task.id) {
            Entry::Occupied(digest) => *digest.get(),
            Entry::Vacant(entry) => {
                let found = find
                    .query_row([SqlValue(task.id)], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
                    .map_err(|source| rows::task_failure(task.id, STEP, source))?;
                if let Some((seq, _)) = found {
                    existing.insert(task.id, UnixTime(seq));
                }
                *entry.insert(found.map_or(task.digest, |(_, digest)| digest))
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
    const STEP: &str = "look for the blobs of a task";
    let mut needed: Vec<_> = tasks.flat_map(|task| task.blobs.iter().copied()).collect();
    needed.sort_unstable();
    needed.dedup();
    let mut find = transaction.statement("SELECT 1 FROM blobs WHERE hash = ?1 AND damaged = 0", STEP)?;
    for hash in needed {
        if !find.exists([SqlValue(hash)]).during(STEP)? {
            return Err(SqliteFailure::Refused(StoreError::BlobNotFound(hash)));
        }
    }
    Ok(())
}

fn insert(transaction: &mut GroupTransaction<'_>, task: &EncodedTask) -> Result<UnixTime, SqliteFailure> {
    const STEP: &str = "add a task";
    let add_time = transaction.next_add_time();
    transaction
        .statement(
            "INSERT INTO tasks (seq, id, digest, user, priority, status, command, compile, need_memory, need_processes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
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
        ))
        .during(STEP)?;
    transaction
        .statement("INSERT INTO specs (seq, spec) VALUES (?1, ?2)", STEP)?
        .execute((SqlValue(add_time), &task.spec))
        .during(STEP)?;
    for hash in &task.blobs {
        transaction
            .statement("INSERT INTO blob_refs (seq, hash) VALUES (?1, ?2)", STEP)?
            .execute((SqlValue(add_time), SqlValue(*hash)))
            .during(STEP)?;
        transaction
            .statement("UPDATE blobs SET refs = refs + 1 WHERE hash = ?1", STEP)?
            .execute([SqlValue(*hash)])
            .during(STEP)?;
    }
    transaction.record_added(task.id, add_time);
    Ok(add_time)
}
