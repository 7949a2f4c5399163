//! The API calls on problems: cases and a check that are kept under a name.

use std::sync::Arc;

use api::{JudgeProblem, NewJudgeProblem, ProblemsResponse};
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use model::{InvalidField, ProblemName, UnixTime, UserName};
use rpc::CallError;

use crate::body;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, ProblemPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedProblem;
use crate::tasks::{self, RequestedJudging, ZipUnpacker};

/// List problems
///
/// All problems, by name.
#[utoipa::path(
    get,
    path = "/api/v1/problems",
    operation_id = "list_problems",
    tag = "problems",
    responses((status = 200, description = "The problems", body = ProblemsResponse)),
)]
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    uri: Uri,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let _permit = gateway.acquire_load_permit(&quota).await?;
    let problems = gateway.calls.problems().await?;
    let problems = problems.into_iter().map(Into::into).collect();
    Ok(Json(ProblemsResponse { problems }).into_response())
}

/// Get a problem
///
/// Its limits and its cases. What a case contains is for the owner of the problem and for operators, unless it is a sample; so is
/// the program that judges.
#[utoipa::path(
    get,
    path = "/api/v1/problems/{name}",
    operation_id = "get_problem",
    tag = "problems",
    params(("name" = api::schema::ProblemName, Path, description = "The problem's name")),
    responses((status = 200, description = "The problem", body = JudgeProblem)),
)]
pub(crate) async fn get(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    ProblemPath(name): ProblemPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let LoadedProblem {
        problem,
        permit: _permit,
    } = gateway.load_problem(&quota, &name).await?;
    Ok(respond(&caller, problem))
}

/// Keep a problem
///
/// A task that names the problem is judged by its cases, its check and its limits. If there is a problem of this name, it is
/// replaced, which only its owner and operators may do. Tasks that were added before keep the cases that they have.
#[utoipa::path(
    put,
    path = "/api/v1/problems/{name}",
    operation_id = "put_problem",
    tag = "problems",
    params(("name" = api::schema::ProblemName, Path, description = "The problem's name")),
    request_body(content = NewJudgeProblem, example = json!({
        "title": "Sum of two numbers",
        "limits": {"cpu": "1s", "memory": "256MiB"},
        "cases": [
            {"name": "sample/1", "input": "1 2\n", "answer": "3\n", "sample": true},
            {"name": "secret/1", "input": "40 2\n", "answer": "42\n", "points": 10}
        ],
        "check": {"kind": "tokens"},
        "stop": "first_failure"
    })),
    responses((status = 200, description = "The problem as it is kept", body = JudgeProblem)),
)]
pub(crate) async fn put(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    ProblemPath(name): ProblemPath,
    request: Request,
) -> Result<Response, RequestError> {
    params::refuse_parameters(request.uri())?;
    body::require_json(request.headers())?;
    let quota = RequestQuota::from_extensions(request.extensions())?;
    let new: NewJudgeProblem = body::read_json(request, gateway.options.max_body, api::parse_json).await?;
    // A problem that exists keeps its owner.
    let owner = caller.group_owner(new.owner.clone());
    let owner = owner.map_err(|invalid| InvalidField {
        field: "owner".into(),
        ..invalid
    })?;
    let problem = read_problem(&gateway, &quota, (name, owner), new).await?;
    // For the error message about a missing blob.
    let judging = problem.judging.clone();
    let problem = tasks::offload_problem(&gateway, &quota, problem).await?;
    let stored = gateway.calls.put_problem(problem, caller.problem_editor()).await;
    let stored = stored.map_err(|error| match error {
        CallError::NoBlob(blob) => {
            let field = tasks::field_of_judging(&judging, blob).unwrap_or_else(|| "cases".to_string());
            InvalidField::new(format!("{field}.blob"), error.to_string()).into()
        }
        CallError::Invalid(invalid) => tasks::spelled_as_requested(invalid).into(),
        error => RequestError::from(error),
    })?;
    Ok(respond(&caller, stored))
}

/// Remove a problem
///
/// Only its owner and operators may do it. Tasks that were judged by it keep their cases and results.
#[utoipa::path(
    delete,
    path = "/api/v1/problems/{name}",
    operation_id = "remove_problem",
    tag = "problems",
    params(("name" = api::schema::ProblemName, Path, description = "The problem's name")),
    responses((status = 204, description = "The problem was removed")),
)]
pub(crate) async fn remove(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    ProblemPath(name): ProblemPath,
    uri: Uri,
) -> Result<StatusCode, RequestError> {
    params::refuse_parameters(&uri)?;
    let editor = caller.problem_editor();
    match gateway.calls.remove_problem(name.clone(), editor).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(RequestError::NoProblem(name)),
    }
}

/// The problem of a request, with its zips unpacked.
async fn read_problem(
    gateway: &Gateway,
    quota: &RequestQuota,
    (name, owner): (ProblemName, UserName),
    new: NewJudgeProblem,
) -> Result<model::JudgeProblem, RequestError> {
    let NewJudgeProblem {
        owner: _,
        title,
        limits,
        cases,
        check,
        interact,
        stop,
        groups,
    } = new;
    let judging = RequestedJudging {
        cases: Some(cases),
        check,
        interact,
        stop,
        groups,
    };
    let unpacked = judging.unpack(&mut ZipUnpacker::new(gateway, quota)).await?;
    let judging = unpacked.into_judging()?;
    Ok(model::JudgeProblem {
        name,
        owner,
        title,
        limits: limits.into(),
        judging: judging.ok_or_else(|| InvalidField::new("cases", "are missing"))?,
        // The judicator sets it.
        update_time: UnixTime::default(),
    })
}

fn respond(caller: &Caller, problem: model::JudgeProblem) -> Response {
    let hides = !caller.may_see_cases_of(&problem.owner);
    let mut problem = JudgeProblem::from(problem);
    if hides {
        problem.hide_secrets();
    }
    let private = [(header::CACHE_CONTROL, "private, no-cache")];
    (private, Json(problem)).into_response()
}

#[cfg(test)]
mod tests;
