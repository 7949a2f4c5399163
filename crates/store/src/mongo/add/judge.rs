//! Which tasks of which callers are new, and who is refused; over values.

use std::collections::HashMap;
use std::fmt::Display;

use model::{Added, Moment, TaskId};

use super::{Answers, Draft};
use crate::StoreError;
use crate::mongo::blobs::Found;

/// A task that exists.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Readable {
        digest: Vec<u8>,
        add_time: Moment,
    },
    /// With what is wrong.
    Unreadable(String),
}

pub(super) struct Judged<'d> {
    pub(super) answers: Answers,
    /// To be written.
    pub(super) fresh: Vec<&'d Draft>,
}

pub(super) fn judge<'d>(
    batches: &'d [Vec<Draft>],
    known: &HashMap<TaskId, Known>,
    blobs: &Found,
) -> Judged<'d> {
    let mut known = known.clone();
    let mut fresh = vec![];
    let answers = batches
        .iter()
        .map(|batch| {
            let (answer, new) = judge_batch(batch, &known, blobs)?;
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
    blobs: &Found,
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
        let add_time = match &before {
            None => draft.add_time,
            Some(Known::Readable { digest, .. }) if *digest != draft.digest => {
                return Err(StoreError::Conflict(draft.id));
            }
            Some(Known::Readable { add_time, .. }) => *add_time,
            Some(Known::Unreadable(problem)) => return Err(unreadable("task", draft.id, problem)),
        };
        added.push(Added {
            id: draft.id,
            add_time,
            // With the very time that was meant for it, it was this call that added it, in an attempt whose answer
            // was lost.
            existed: repeated || add_time != draft.add_time,
        });
        if before.is_none() {
            own.insert(draft.id, draft);
            new.push(draft);
        }
    }
    let needed = new.iter().flat_map(|draft| &draft.blobs);
    match needed.filter(|hash| !blobs.whole.contains_key(hash)).min() {
        None => Ok((added, new)),
        Some(hash) => Err(match blobs.unreadable.get(hash) {
            Some(problem) => unreadable("blob", hash, problem),
            None => StoreError::NoBlob(*hash),
        }),
    }
}

fn unreadable(what: &'static str, name: impl Display, problem: &str) -> StoreError {
    StoreError::Unreadable {
        what,
        detail: format!("{name}: {problem}"),
    }
}

impl Draft {
    fn known(&self) -> Known {
        Known::Readable {
            digest: self.digest.to_vec(),
            add_time: self.add_time,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{BlobHash, Command, Content, ExecuteStep, File, FilePath, Limits, TaskSpec, UserName};

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
            Known::Readable {
                digest: vec![1; 32],
                add_time: Moment(7),
            },
        )];
        let judged = judge(&batches, &known.into(), &Found::for_test(there));
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
