//! One row of the results of a group: a judged task, and what is known about its cases.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use model::{CaseName, Judgement, Judging, Task, TaskSummary, Verdict};
use rpc::CallError;

use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// A judged task of a group.
pub(super) struct Submission {
    pub(super) summary: TaskSummary,
    /// `None` until the task is done. Without the results of its cases.
    pub(super) judgement: Option<Judgement>,
    /// The names of its cases in their order. Empty if the table has too many different cases.
    pub(super) cases: Arc<[CaseName]>,
}

/// The lists of cases of the submissions of one table, each once: usually all submissions have the same cases.
#[derive(Default)]
pub(super) struct CaseLists(Mutex<HashSet<Arc<[CaseName]>>>);

/// How many names the different lists of cases of one table may have together.
const MAX_NAMES: usize = 20_000;

impl CaseLists {
    /// Empty if there are too many.
    fn list_of(&self, judging: &Judging) -> Arc<[CaseName]> {
        let names: Arc<[CaseName]> = judging.cases.iter().map(|case| case.name.clone()).collect();
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.get(&names) {
            return known.clone();
        }
        let known: usize = lists.iter().map(|list| list.len()).sum();
        if known + names.len() > MAX_NAMES {
            return Arc::default();
        }
        lists.insert(names.clone());
        names
    }
}

impl Submission {
    /// `None` for a task that is not judged, or that was removed meanwhile.
    pub(super) async fn load(
        gateway: &Gateway,
        quota: &RequestQuota,
        lists: &CaseLists,
        summary: TaskSummary,
    ) -> Result<Option<Submission>, RequestError> {
        let call = gateway.calls.get(summary.id, None);
        match gateway.load_task(quota, call).await {
            Ok(loaded) => Ok(Submission::of(&loaded.task, lists, summary)),
            Err(RequestError::Call(CallError::NoTask(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn of(task: &Task, lists: &CaseLists, summary: TaskSummary) -> Option<Submission> {
        let judging = task.spec.judging.as_ref()?;
        let judgement = task.result.as_ref().and_then(|result| result.judgement.as_ref());
        Some(Submission {
            summary,
            judgement: judgement.map(|judgement| Judgement {
                cases: model::Content::empty(),
                marks: judgement.marks.clone(),
                ..*judgement
            }),
            cases: lists.list_of(judging),
        })
    }

    /// The place and the verdict of each of these cases in this submission. `None` for a case that it does not have.
    pub(super) fn marks_of(&self, cases: &[CaseName]) -> Vec<Option<(usize, Option<Verdict>)>> {
        let mark = |index: usize| (index, self.verdict(index));
        if self.cases.starts_with(cases) {
            return (0..cases.len()).map(|index| Some(mark(index))).collect();
        }
        let places = self.cases.iter().enumerate();
        let places: HashMap<_, _> = places.map(|(index, name)| (name, index)).collect();
        cases
            .iter()
            .map(|name| places.get(name).map(|index| mark(*index)))
            .collect()
    }

    fn verdict(&self, index: usize) -> Option<Verdict> {
        self.judgement.as_ref()?.marks.get(index).copied()
    }
}
