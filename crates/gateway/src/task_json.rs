//! A task as JSON, as far as its reader may see it, with the results of its cases.

use api::Task;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use model::{CaseResult, Content};
use rpc::{CallError, decode_case_results};

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::request_error::RequestError;

/// More than an executor keeps of all cases of a task.
const MAX_RESULTS_BYTES: u64 = 64 << 20;

/// The results of the cases of a judged task, as they are stored. They are a blob if there are many.
pub(crate) struct EncodedCaseResults(Option<Bytes>);

impl EncodedCaseResults {
    /// Loads them, if the task has any. They count as a part of the task, whose permit is held meanwhile.
    pub(crate) async fn load(
        gateway: &Gateway,
        task: &model::Task,
    ) -> Result<EncodedCaseResults, RequestError> {
        let judgement = task.result.as_ref().and_then(|result| result.judgement.as_ref());
        match judgement {
            None => Ok(EncodedCaseResults(None)),
            Some(judgement) => EncodedCaseResults::read(gateway, &judgement.cases).await,
        }
    }

    pub(crate) async fn read(
        gateway: &Gateway,
        results: &Content,
    ) -> Result<EncodedCaseResults, RequestError> {
        let hash = match results {
            Content::Inline(bytes) => return Ok(EncodedCaseResults(Some(bytes.clone()))),
            Content::Blob(hash) => *hash,
        };
        let mut bytes = BytesMut::new();
        // The task exists, so the blob is not something that the client could put.
        let unreadable = |error| match error {
            CallError::NoBlob(_) | CallError::DamagedBlob(_) => {
                CallError::Unreadable(format!("the results of the cases: {error}"))
            }
            other => other,
        };
        let mut chunks = gateway.calls.get_blob(hash).await.map_err(unreadable)?;
        while let Some(chunk) = chunks.try_next().await.map_err(unreadable)? {
            bytes.extend_from_slice(&chunk);
            let (limit, actual) = (MAX_RESULTS_BYTES, bytes.len() as u64);
            if actual > limit {
                return Err(CallError::TooLarge { limit, actual }.into());
            }
        }
        Ok(EncodedCaseResults(Some(bytes.freeze())))
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    /// `None` for a task that is not judged. A task whose compile step failed has no results either, only verdicts.
    pub(crate) fn decode(&self) -> Result<Option<Vec<CaseResult>>, RequestError> {
        let Some(encoded) = self.0.as_ref().filter(|bytes| !bytes.is_empty()) else {
            return Ok(None);
        };
        let results = decode_case_results(encoded);
        results
            .map(Some)
            .map_err(|error| CallError::Unreadable(error.to_string()).into())
    }
}

/// The JSON of a task, without what this caller may not see.
pub(crate) fn task_json(
    caller: &Caller,
    task: model::Task,
    results: &EncodedCaseResults,
) -> Result<Task, RequestError> {
    let problem = task
        .spec
        .judging
        .as_ref()
        .and_then(|judging| judging.problem.as_ref());
    let hides = problem.is_some_and(|problem| !caller.may_see_cases_of(&problem.owner));
    let results = results.decode()?;
    let mut task = Task::from(task);
    if let Some(results) = results {
        task.set_case_results(results);
    }
    if hides {
        task.hide_secrets();
    }
    Ok(task)
}

#[cfg(test)]
mod tests;
