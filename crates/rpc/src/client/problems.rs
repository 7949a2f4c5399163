//! The calls for problems. A judicator of an older version keeps none, so the next one is asked.

use model::{JudgeProblem, ProblemEditor, ProblemName, ProblemSummary};

use super::answers::parsed_answer;
use super::classify::busy_if_unimplemented;
use super::{CALL_TIMEOUT, RpcClient};
use crate::CallError;
use crate::wire::{ParseMessage, PutProblemCall, RemoveProblemCall, parse_each, parse_optional, proto};

pub(super) async fn put(
    client: &RpcClient,
    problem: JudgeProblem,
    editor: ProblemEditor,
) -> Result<JudgeProblem, CallError> {
    let request: proto::PutProblemRequest = PutProblemCall { problem, editor }.into();
    let stored = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            let answer = connections.calls.put_problem(request).await;
            answer.map_err(busy_if_unimplemented)
        })
        .await?;
    parsed_answer(stored.parse())
}

pub(super) async fn get(client: &RpcClient, name: ProblemName) -> Result<Option<JudgeProblem>, CallError> {
    let request = proto::ProblemRequest {
        name: name.to_string(),
    };
    let answer = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            let answer = connections.calls.problem(request).await;
            answer.map_err(busy_if_unimplemented)
        })
        .await?;
    parsed_answer(parse_optional("problem", answer.problem))
}

pub(super) async fn list(client: &RpcClient) -> Result<Vec<ProblemSummary>, CallError> {
    let answer = client
        .call(
            CALL_TIMEOUT,
            proto::Nothing {},
            |mut connections, request| async move {
                let answer = connections.calls.problems(request).await;
                answer.map_err(busy_if_unimplemented)
            },
        )
        .await?;
    parsed_answer(parse_each("problems", answer.problems))
}

pub(super) async fn remove(
    client: &RpcClient,
    name: ProblemName,
    editor: ProblemEditor,
) -> Result<bool, CallError> {
    let request: proto::RemoveProblemRequest = RemoveProblemCall { name, editor }.into();
    let answer = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            let answer = connections.calls.remove_problem(request).await;
            answer.map_err(busy_if_unimplemented)
        })
        .await?;
    Ok(answer.existed)
}
