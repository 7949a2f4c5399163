//! Decides which tasks are new and which batches are refused; a pure function.

use std::collections::HashMap;
use std::fmt::Display;

use model::{AddedTask, TaskId, UnixTime};

use super::{AddReplies, PreparedTask};
use crate::StoreError;
use crate::mongo::blobs::BlobLookup;

/// A task in the MongoDB store that has the same id as a task to add.
#[derive(Clone, Debug)]
pub(super) enum ExistingTask {
    Readable {
        digest: Vec<u8>,
        /// Whether the task was added by a version that records forms.
        has_form: bool,
        add_time: UnixTime,
    },
    /// With the reason.
    Unreadable(String),
}

/// What the MongoDB store does for several `add` calls: the reply to each, and the tasks to insert.
pub(super) struct AddDecision<'d> {
    pub(super) replies: AddReplies,
    pub(super) new_tasks: Vec<&'d PreparedTask>,
}

pub(super) fn decide<'d>(
    batches: &'d [Vec<PreparedTask>],
    existing: &HashMap<TaskId, ExistingTask>,
    blobs: &BlobLookup,
) -> AddDecision<'d> {
    let mut existing = existing.clone();
    let mut new_tasks = vec![];
    let replies = batches
        .iter()
        .map(|batch| {
            let (answer, new) = decide_batch(batch, &existing, blobs)?;
            for task in new {
                existing.insert(task.id, task.as_existing());
                new_tasks.push(task);
            }
            Ok(answer)
        })
        .collect();
    AddDecision { replies, new_tasks }
}

fn decide_batch<'d>(
    batch: &'d [PreparedTask],
    existing: &HashMap<TaskId, ExistingTask>,
    blobs: &BlobLookup,
) -> Result<(Vec<AddedTask>, Vec<&'d PreparedTask>), StoreError> {
    let mut in_batch: HashMap<TaskId, &PreparedTask> = HashMap::new();
    let mut new = vec![];
    let mut added = Vec::with_capacity(batch.len());
    for task in batch {
        let repeated = in_batch.contains_key(&task.id);
        let earlier = in_batch
            .get(&task.id)
            .map(|task| task.as_existing())
            .or_else(|| existing.get(&task.id).cloned());
        let add_time = match &earlier {
            None => task.add_time,
            Some(ExistingTask::Readable { digest, has_form, .. }) if !task.is_same(digest, *has_form) => {
                return Err(StoreError::Conflict(task.id));
            }
            Some(ExistingTask::Readable { add_time, .. }) => *add_time,
            Some(ExistingTask::Unreadable(problem)) => return Err(unreadable("task", task.id, problem)),
        };
        added.push(AddedTask {
            id: task.id,
            add_time,
            // If the stored task has the add time of this very call, an earlier try of the call added it and the reply
            // was lost.
            existed: repeated || add_time != task.add_time,
        });
        if earlier.is_none() {
            in_batch.insert(task.id, task);
            new.push(task);
        }
    }
    let needed = new.iter().flat_map(|task| &task.blobs);
    match needed.filter(|hash| !blobs.intact.contains_key(hash)).min() {
        None => Ok((added, new)),
        Some(hash) => Err(match blobs.unreadable.get(hash) {
            Some(problem) => unreadable("blob", hash, problem),
            None => StoreError::BlobNotFound(*hash),
        }),
    }
}

fn unreadable(what: &'static str, name: impl Display, problem: &str) -> StoreError {
    StoreError::Unreadable {
        what,
        detail: format!("{name}: {problem}"),
    }
}

impl PreparedTask {
    /// Whether a task with the same id and this digest is the same task.
    fn is_same(&self, digest: &[u8], has_form: bool) -> bool {
        let legacy_digest = self.legacy_digest.as_ref().filter(|_| !has_form);
        digest == self.digest || legacy_digest.is_some_and(|legacy| digest == legacy)
    }

    fn as_existing(&self) -> ExistingTask {
        ExistingTask::Readable {
            digest: self.digest.to_vec(),
            has_form: true,
            add_time: self.add_time,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{BlobHash, Content, StepCommand, TaskFile, TaskSpec, UserName, WorkspacePath};

    use super::*;
    use crate::NewTaskRecord;
    use crate::mongo::content::PreparedContent;

    fn task(id: TaskId, digest: u8, time: i64, blob: Option<BlobHash>) -> PreparedTask {
        let file = |hash| {
            let content = Content::Blob(hash);
            (
                WorkspacePath::new("f").unwrap(),
                TaskFile {
                    content,
                    executable: false,
                },
            )
        };
        let user = UserName::new("ada").unwrap();
        let mut spec = TaskSpec::new(user, StepCommand::Shell("true".into()));
        spec.data = blob.into_iter().map(file).collect();
        let digest = [digest; 32];
        PreparedTask::new(
            NewTaskRecord {
                id,
                digest,
                legacy_digest: Some([99; 32]),
                spec,
            },
            PreparedContent::for_test(),
            UnixTime(time),
        )
    }

    #[test]
    fn a_refused_batch_does_not_affect_the_others() {
        let ids: Vec<_> = (0..4).map(|_| TaskId(uuid::Uuid::now_v7())).collect();
        let (there, missing) = (BlobHash([1; 32]), BlobHash([2; 32]));
        let batches = vec![
            vec![task(ids[0], 1, 1, Some(there))],
            vec![task(ids[1], 1, 2, None), task(ids[2], 1, 3, Some(missing))],
            vec![task(ids[0], 1, 4, None)],
            vec![task(ids[0], 2, 5, None)],
            vec![task(ids[2], 1, 6, None)],
            vec![task(ids[3], 1, 7, None)],
        ];
        let existing = [(
            ids[3],
            ExistingTask::Readable {
                digest: vec![1; 32],
                has_form: true,
                add_time: UnixTime(7),
            },
        )];
        let decision = decide(&batches, &existing.into(), &BlobLookup::for_test(there));
        let new_tasks: Vec<_> = decision.new_tasks.iter().map(|task| task.id).collect();
        assert_eq!(new_tasks, [ids[0], ids[2]]);
        let described: Vec<_> = decision
            .replies
            .iter()
            .map(|answer| match answer {
                Ok(added) => format!("{} {}", added[0].add_time.0, added[0].existed),
                Err(StoreError::BlobNotFound(_)) => "no blob".into(),
                Err(StoreError::Conflict(_)) => "conflict".into(),
                Err(other) => panic!("{other}"),
            })
            .collect();
        let expected = ["1 false", "no blob", "1 true", "conflict", "6 false", "7 false"];
        assert_eq!(described, expected);
    }
    #[test]
    fn the_legacy_digest_recognises_only_tasks_without_a_form() {
        let id = TaskId(uuid::Uuid::now_v7());
        let batches = vec![vec![task(id, 1, 5, None)]];
        for (digest, has_form, expected) in [
            (99, false, true),
            (99, true, false),
            (1, false, true),
            (1, true, true),
            (2, false, false),
        ] {
            let stored = ExistingTask::Readable {
                digest: vec![digest; 32],
                has_form,
                add_time: UnixTime(3),
            };
            let decision = decide(&batches, &[(id, stored)].into(), &BlobLookup::default());
            assert_eq!(decision.replies[0].is_ok(), expected, "{digest} {has_form}");
            assert!(decision.new_tasks.is_empty());
        }
    }
}
