//! Adding tasks: all of a batch, or none.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::{Added, BlobHash, Moment, Need, Status, TaskId, UserName};
use rusqlite::OptionalExtension;

use super::column::Column;
use super::failure::{During, Failure};
use super::group::Group;
use super::rows;
use crate::document::encode_spec;
use crate::{NewTask, StoreError};

/// A task to add as it goes into the tables. Made by the caller, so that the writer has little left to do.
#[derive(Debug)]
pub(super) struct Draft {
    id: TaskId,
    digest: [u8; 32],
    user: UserName,
    priority: i32,
    command: String,
    compile: Option<String>,
    need: Need,
    spec: Vec<u8>,
    blobs: Vec<BlobHash>,
}

impl Draft {
    pub(super) fn of(task: NewTask) -> Result<Draft, StoreError> {
        let NewTask { id, digest, spec } = task;
        Ok(Draft {
            id,
            digest,
            priority: spec.priority,
            command: spec.execute.command.display(),
            compile: spec.compile.as_ref().map(|compile| compile.command.display()),
            need: Need::of(&spec),
            blobs: spec.blobs(),
            spec: encode_spec(&spec)?,
            user: spec.user,
        })
    }

    pub(super) fn weight(&self) -> usize {
        self.spec.len() + self.command.len() + 256
    }
}

pub(super) fn add(group: &mut Group<'_>, drafts: Vec<Draft>) -> Result<Vec<Added>, Failure> {
    // Everything that could be refused is looked at before anything is written.
    let mut known = known(group, &drafts)?;
    check_blobs(
        group,
        drafts.iter().filter(|draft| !known.contains_key(&draft.id)),
    )?;
    let mut added = Vec::with_capacity(drafts.len());
    for draft in &drafts {
        let (add_time, existed) = match known.entry(draft.id) {
            Entry::Occupied(at) => (*at.get(), true),
            Entry::Vacant(free) => (*free.insert(insert(group, draft)?), false),
        };
        added.push(Added {
            id: draft.id,
            add_time,
            existed,
        });
    }
    Ok(added)
}

/// Those that exist already, with their add times. The same id with other content is refused, whether the
/// first one is in the store or in this very batch.
fn known(group: &Group<'_>, drafts: &[Draft]) -> Result<HashMap<TaskId, Moment>, Failure> {
    const STEP: &str = "look for tasks to add";
    let mut find = group.statement("SELECT seq, digest FROM tasks WHERE id = ?1", STEP)?;
    let mut known = HashMap::new();
    let mut digests = HashMap::with_capacity(drafts.len());
    for draft in drafts {
        let digest = match digests.entry(draft.id) {
            Entry::Occupied(seen) => *seen.get(),
            Entry::Vacant(unseen) => {
                let found = find
                    .query_row([Column(draft.id)], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
                    .map_err(|source| rows::unreadable(draft.id, STEP, source))?;
                if let Some((seq, _)) = found {
                    known.insert(draft.id, Moment(seq));
                }
                *unseen.insert(found.map_or(draft.digest, |(_, digest)| digest))
            }
        };
        if digest != draft.digest {
            return Err(Failure::Refused(StoreError::Conflict(draft.id)));
        }
    }
    Ok(known)
}

fn check_blobs<'d>(group: &Group<'_>, drafts: impl Iterator<Item = &'d Draft>) -> Result<(), Failure> {
    const STEP: &str = "look for the blobs of a task";
    let mut needed: Vec<_> = drafts.flat_map(|draft| draft.blobs.iter().copied()).collect();
    needed.sort_unstable();
    needed.dedup();
    let mut find = group.statement("SELECT 1 FROM blobs WHERE hash = ?1 AND damaged = 0", STEP)?;
    for hash in needed {
        if !find.exists([Column(hash)]).during(STEP)? {
            return Err(Failure::Refused(StoreError::NoBlob(hash)));
        }
    }
    Ok(())
}

fn insert(group: &mut Group<'_>, draft: &Draft) -> Result<Moment, Failure> {
    const STEP: &str = "add a task";
    let add_time = group.next_add_time();
    group
        .statement(
            "INSERT INTO tasks (seq, id, digest, user, priority, status, command, compile, need_memory, need_processes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            STEP,
        )?
        .execute((
            Column(add_time),
            Column(draft.id),
            draft.digest,
            Column(&draft.user),
            draft.priority,
            Column(Status::Pending),
            &draft.command,
            &draft.compile,
            i64::try_from(draft.need.memory).unwrap_or(i64::MAX),
            draft.need.processes,
        ))
        .during(STEP)?;
    group
        .statement("INSERT INTO specs (seq, spec) VALUES (?1, ?2)", STEP)?
        .execute((Column(add_time), &draft.spec))
        .during(STEP)?;
    for hash in &draft.blobs {
        group
            .statement("INSERT INTO blob_refs (seq, hash) VALUES (?1, ?2)", STEP)?
            .execute((Column(add_time), Column(*hash)))
            .during(STEP)?;
        group
            .statement("UPDATE blobs SET refs = refs + 1 WHERE hash = ?1", STEP)?
            .execute([Column(*hash)])
            .during(STEP)?;
    }
    group.added(draft.id, add_time);
    Ok(add_time)
}
