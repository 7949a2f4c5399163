use std::collections::HashMap;
use std::sync::Arc;

use api::NewTasks;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use model::{AddTask, AddedTask, AttemptNumber, InvalidField, TaskId, TaskQuery, TaskStatus, TaskSummary};
use rpc::CallError;

use super::idempotency_key::IdempotencyKey;
use super::offload::offload;
use super::prepare::{add_error, conflict_error, prepare, spelled_as_requested};
use super::zip_unpacker::ZipUnpacker;
use crate::body;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// Add many tasks
///
/// Either all tasks are added or none, in one durable step. The response lists them in the order of the request. An error
/// names the task by its index: `tasks[17].execute.command`. With an `Idempotency-Key`, or your own `id` for each task,
/// it is safe to send the request again: tasks that were added already with the same content are not added again, and the
/// response lists them as they are now. So a lost answer is repeated with the same request.
#[utoipa::path(
    post,
    path = "/api/v1/tasks/batch",
    operation_id = "add_tasks",
    tag = "tasks",
    params(("Idempotency-Key" = Option<IdempotencyKey>, Header, description = "The server derives the id of each task from the key, the user and the index of the task in the batch")),
    request_body(content = NewTasks, example = json!({
        "tasks": [
            {"id": "01890a5d-ac96-774b-bcce-b302099a8057", "execute": {"command": "echo one"}, "group": "sweep-17"},
            {"id": "01890a5d-ac96-774b-bcce-b302099a8058", "execute": {"command": ["echo", "two"]}, "group": "sweep-17"}
        ]
    })),
    responses(
        (status = 201, description = "The tasks were added", body = api::AddedTasks),
        (status = 200, description = "All tasks already existed", body = api::AddedTasks),
    ),
)]
pub(crate) async fn add_many(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    request: Request,
) -> Result<Response, RequestError> {
    params::refuse_parameters(request.uri())?;
    body::require_json(request.headers())?;
    let quota = RequestQuota::from_extensions(request.extensions())?;
    let key = IdempotencyKey::read(request.headers())?;
    let limit = gateway.options.max_batch;
    let parse = move |json: &[u8]| api::parse_task_batch(json, limit);
    let NewTasks { tasks } = body::read_json(request, gateway.options.max_body, parse).await?;
    if tasks.is_empty() {
        return Err(InvalidField::new("tasks", "is empty; give at least one task").into());
    }
    let mut unpacker = ZipUnpacker::new(&gateway, &quota);
    let mut adds = Vec::with_capacity(tasks.len());
    for (index, task) in tasks.into_iter().enumerate() {
        let key = key.as_ref().map(|key| key.at(index));
        let add = prepare(&mut unpacker, &caller, key.as_ref(), task).await;
        adds.push(add.map_err(|error| within_task(error, index))?);
    }
    refuse_duplicate_ids(&adds)?;
    let adds = offload(&gateway, &quota, adds).await?;
    let mut summaries: Vec<_> = adds.iter().map(new_summary).collect();
    let specs = with_blobs(&adds);
    let added = gateway.calls.add(adds).await.map_err(|error| match error {
        // A judicator does not name the index in a batch of one task.
        CallError::Invalid(invalid) if summaries.len() == 1 => {
            within_task(spelled_as_requested(invalid).into(), 0)
        }
        CallError::Conflict(id) => {
            let index = summaries.iter().position(|summary| summary.id == id);
            conflict_error(id, index, key.as_ref())
        }
        error => {
            let specs: Vec<_> = specs
                .iter()
                .map(|(prefix, spec)| (prefix.clone(), spec))
                .collect();
            add_error(error, &specs)
        }
    })?;
    update_summaries(&gateway, &caller, &mut summaries, &added).await?;
    let status = if added.iter().all(|added| added.existed) {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let tasks = summaries.into_iter().map(Into::into).collect();
    Ok((status, Json(api::AddedTasks { tasks })).into_response())
}

/// Prefixes the field of an error with the index of the task.
fn within_task(error: RequestError, index: usize) -> RequestError {
    error.within(&format!("tasks[{index}]"))
}

fn refuse_duplicate_ids(adds: &[AddTask]) -> Result<(), InvalidField> {
    let mut seen = HashMap::with_capacity(adds.len());
    for (index, add) in adds.iter().enumerate() {
        if let Some(first) = seen.insert(add.id, index) {
            return Err(InvalidField::new(
                format!("tasks[{index}].id"),
                format!("is also the id of tasks[{first}]; give each task its own id"),
            ));
        }
    }
    Ok(())
}

/// The tasks that refer to blobs, for the error message about a missing blob.
fn with_blobs(adds: &[AddTask]) -> Vec<(String, model::TaskSpec)> {
    adds.iter()
        .enumerate()
        .filter(|(_, add)| add.spec.contents().any(|content| content.blob().is_some()))
        .map(|(index, add)| (format!("tasks[{index}]."), add.spec.clone()))
        .collect()
}

/// The summary of a new task.
fn new_summary(add: &AddTask) -> TaskSummary {
    TaskSummary {
        id: add.id,
        user: add.spec.user.clone(),
        priority: add.spec.priority,
        command: TaskSummary::shorten_command(&add.spec.execute.command.display()),
        status: TaskStatus::Pending,
        reason: None,
        labels: add.spec.labels.clone(),
        group: add.spec.group.clone(),
        language: add.spec.language.clone(),
        executor: None,
        attempt: AttemptNumber::default(),
        add_time: model::UnixTime::default(),
        start_time: None,
        finish_time: None,
    }
}

/// Sets the add times, and loads the summaries of tasks that already existed.
async fn update_summaries(
    gateway: &Gateway,
    caller: &Caller,
    summaries: &mut [TaskSummary],
    added: &[AddedTask],
) -> Result<(), RequestError> {
    // A task that already existed has the same owner. The condition makes sure that no other task is found.
    let user = caller.user_to_search(None)?;
    for (summary, added) in summaries.iter_mut().zip(added) {
        summary.add_time = added.add_time;
    }
    let existed: Vec<TaskId> = added
        .iter()
        .filter(|added| added.existed)
        .map(|added| added.id)
        .collect();
    let mut found = HashMap::new();
    for ids in existed.chunks(TaskQuery::MAX_PAGE) {
        let query = TaskQuery {
            ids: ids.to_vec(),
            user: user.clone(),
            limit: TaskQuery::MAX_PAGE,
            ..TaskQuery::default()
        };
        let page = gateway.calls.search(query).await?;
        found.extend(page.tasks.into_iter().map(|summary| (summary.id, summary)));
    }
    for summary in summaries {
        if let Some(found) = found.remove(&summary.id) {
            *summary = found;
        }
    }
    Ok(())
}
