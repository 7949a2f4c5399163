//! Which tasks of which callers are new, and who is refused; over values.

use std::collections::{BTreeSet, HashMap};

use model::{Added, BlobHash, Moment, TaskId};

use super::{Answers, Draft};
use crate::StoreError;

/// A task that exists.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) digest: Vec<u8>,
    pub(super) add_time: Moment,
}

pub(super) struct Judged<'d> {
    pub(super) answers: Answers,
    /// To be written.
    pub(super) fresh: Vec<&'d Draft>,
}

pub(super) fn judge<'d>(
    batches: &'d [Vec<Draft>],
    known: &HashMap<TaskId, Known>,
    there: &BTreeSet<BlobHash>,
) -> Judged<'d> {
    let mut known = known.clone();
    let mut fresh = vec![];
    let answers = batches
        .iter()
        .map(|batch| {
            let (answer, new) = judge_batch(batch, &known, there)?;
            for draft in new {
                known.insert(draft.id, draft.known());
                fresh.push(draft);
            }
            Ok(answer)
        })
        .collect();
    Judged { answers, fresh }
}

fn judge_batch<'d>(
    batch: &'d [Draft],
    known: &HashMap<TaskId, Known>,
    there: &BTreeSet<BlobHash>,
) -> Result<(Vec<Added>, Vec<&'d Draft>), StoreError> {
    let mut own: HashMap<TaskId, &Draft> = HashMap::new();
    let mut new = vec![];
    let mut added = Vec::with_capacity(batch.len());
    for draft in batch {
        let repeated = own.contains_key(&draft.id);
        let before = own
            .get(&draft.id)
            .map(|draft| draft.known())
            .or_else(|| known.get(&draft.id).cloned());
        if before
            .as_ref()
            .is_some_and(|before| before.digest != draft.digest)
        {
            return Err(StoreError::Conflict(draft.id));
        }
        // With the very time that was meant for it, it was this call that added it, in an attempt whose answer
        // was lost.
        let existed = before
            .as_ref()
            .is_some_and(|before| repeated || before.add_time != draft.add_time);
        added.push(Added {
            id: draft.id,
            add_time: before.as_ref().map_or(draft.add_time, |before| before.add_time),
            existed,
        });
        if before.is_none() {
            own.insert(draft.id, draft);
            new.push(draft);
        }
    }
    let missing = new
        .iter()
        .flat_map(|draft| &draft.blobs)
        .filter(|hash| !there.contains(hash));
    match missing.min() {
        Some(hash) => Err(StoreError::NoBlob(*hash)),
        None => Ok((added, new)),
    }
}

impl Draft {
    fn known(&self) -> Known {
        Known {
            digest: self.digest.to_vec(),
            add_time: self.add_time,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Command, Content, ExecuteStep, File, FilePath, Limits, TaskSpec, UserName};

    use super::*;
    use crate::NewTask;
    use crate::mongo::content::Prepared;

    fn draft(id: TaskId, digest: u8, time: i64, blob: Option<BlobHash>) -> Draft {
        let file = |hash| {
            let content = Content::Blob(hash);
            (
                FilePath::new("f").unwrap(),
                File {
                    content,
                    executable: false,
                },
            )
        };
        let spec = TaskSpec {
            user: UserName::new("ada").unwrap(),
            priority: 0,
            compile: None,
            execute: ExecuteStep {
                command: Command::Shell("true".into()),
                args: vec![],
                env: [].into(),
                input: Content::Inline(Default::default()),
                network: None,
                limits: Limits::default(),
            },
            source: [].into(),
            data: blob.into_iter().map(file).collect(),
        };
        let digest = [digest; 32];
        Draft::of(NewTask { id, digest, spec }, Prepared::for_test(), Moment(time))
    }

    #[test]
    fn a_refusal_is_its_callers_alone() {
        let ids: Vec<_> = (0..4).map(|_| TaskId::generate()).collect();
        let (there, missing) = (BlobHash([1; 32]), BlobHash([2; 32]));
        let batches = vec![
            vec![draft(ids[0], 1, 1, Some(there))],
            vec![draft(ids[1], 1, 2, None), draft(ids[2], 1, 3, Some(missing))],
            vec![draft(ids[0], 1, 4, None)],
            vec![draft(ids[0], 2, 5, None)],
            vec![draft(ids[2], 1, 6, None)],
            vec![draft(ids[3], 1, 7, None)],
        ];
        let known = [(
            ids[3],
            Known {
                digest: vec![1; 32],
                add_time: Moment(7),
            },
        )];
        let judged = judge(&batches, &known.into(), &[there].into());
        let fresh: Vec<_> = judged.fresh.iter().map(|draft| draft.id).collect();
        assert_eq!(fresh, [ids[0], ids[2]]);
        let told: Vec<_> = judged
            .answers
            .iter()
            .map(|answer| match answer {
                Ok(added) => format!("{} {}", added[0].add_time.0, added[0].existed),
                Err(StoreError::NoBlob(_)) => "no blob".into(),
                Err(StoreError::Conflict(_)) => "conflict".into(),
                Err(other) => panic!("{other}"),
            })
            .collect();
        let expected = ["1 false", "no blob", "1 true", "conflict", "6 false", "7 false"];
        assert_eq!(told, expected);
    }
}
