use std::collections::HashMap;
use std::sync::Arc;

use api::NewTasks;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use model::{Add, Added, Attempt, Brief, Invalid, Query, Status, TaskId};
use rpc::CallError;

use super::key::Key;
use super::offload::offload;
use super::prepare::{blame_conflict, blame_missing_blob, prepare};
use super::unpacking::Unpacking;
use crate::admission::Admission;
use crate::body;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::refusal::Refusal;

/// Add many tasks
///
/// All are added or none, in one durable step; the answer lists them in the order given. A complaint names the
/// task by its place: `tasks[17].execute.command`. With an `Idempotency-Key`, or an `id` of your own for each task,
/// sending it again is safe: the same tasks are answered, and nothing is added twice.
#[utoipa::path(
    post,
    path = "/api/v1/tasks/batch",
    operation_id = "add_tasks",
    tag = "tasks",
    params(("Idempotency-Key" = Option<super::IdempotencyKey>, Header, description = "The id of each task follows from it, the user and the task's place in the batch")),
    request_body(content = NewTasks, example = json!({
        "tasks": [{"execute": {"command": "echo one"}}, {"execute": {"command": ["echo", "two"]}}]
    })),
    responses(
        (status = 201, description = "All are added", body = api::Added),
        (status = 200, description = "All were added before", body = api::Added),
    ),
)]
pub(crate) async fn add_many(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Refusal> {
    params::none(request.uri())?;
    body::must_be_json(request.headers())?;
    let admission = Admission::of(request.extensions())?;
    let key = Key::read(request.headers())?;
    let limit = gateway.options.max_batch;
    let parse = move |json: &[u8]| api::parse_batch(json, limit);
    let NewTasks { tasks } = body::read_json(request, gateway.options.max_body, parse).await?;
    if tasks.is_empty() {
        return Err(Invalid::new("tasks", "is empty; give at least one task").into());
    }
    let mut unpacking = Unpacking::new(&gateway, &admission);
    let mut adds = Vec::with_capacity(tasks.len());
    for (index, task) in tasks.into_iter().enumerate() {
        let key = key.as_ref().map(|key| key.at(index));
        let add = prepare(&mut unpacking, &caller, key.as_ref(), task).await;
        adds.push(add.map_err(|refusal| within(refusal, index))?);
    }
    refuse_repeated(&adds)?;
    let adds = offload(&gateway, &admission, adds).await?;
    let mut briefs: Vec<_> = adds.iter().map(brief).collect();
    let specs = with_blobs(&adds);
    let added = gateway.calls.add(adds).await.map_err(|error| match error {
        // A judicator that is given one task has no reason to number it; the caller gave a list.
        CallError::Invalid(invalid) if briefs.len() == 1 => within(invalid.into(), 0),
        CallError::Conflict(id) => {
            let index = briefs.iter().position(|brief| brief.id == id);
            blame_conflict(id, index, key.as_ref())
        }
        error => {
            let specs: Vec<_> = specs
                .iter()
                .map(|(prefix, spec)| (prefix.clone(), spec))
                .collect();
            blame_missing_blob(error, &specs)
        }
    })?;
    update(&gateway, &caller, &mut briefs, &added).await?;
    let status = if added.iter().all(|added| added.existed) {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let tasks = briefs.into_iter().map(Into::into).collect();
    Ok((status, Json(api::Added { tasks })).into_response())
}

fn within(refusal: Refusal, index: usize) -> Refusal {
    match refusal {
        Refusal::Invalid(invalid) => invalid.within(&format!("tasks[{index}]")).into(),
        other => other,
    }
}

fn refuse_repeated(adds: &[Add]) -> Result<(), Invalid> {
    let mut seen = HashMap::with_capacity(adds.len());
    for (index, add) in adds.iter().enumerate() {
        if let Some(first) = seen.insert(add.id, index) {
            return Err(Invalid::new(
                format!("tasks[{index}].id"),
                format!("is the same as that of tasks[{first}]; give each task its own"),
            ));
        }
    }
    Ok(())
}

/// The tasks that name blobs: only those can miss one.
fn with_blobs(adds: &[Add]) -> Vec<(String, model::TaskSpec)> {
    adds.iter()
        .enumerate()
        .filter(|(_, add)| add.spec.contents().any(|content| content.blob().is_some()))
        .map(|(index, add)| (format!("tasks[{index}]."), add.spec.clone()))
        .collect()
}

/// A task that is new is known without asking: pending, and nothing else yet.
fn brief(add: &Add) -> Brief {
    Brief {
        id: add.id,
        user: add.spec.user.clone(),
        priority: add.spec.priority,
        command: Brief::command(&add.spec.execute.command.display()),
        status: Status::Pending,
        executor: None,
        attempt: Attempt::default(),
        add_time: model::Moment::default(),
        start_time: None,
        finish_time: None,
    }
}

/// Fills in what the judicator said, and looks up those that were there before.
async fn update(
    gateway: &Gateway,
    caller: &Caller,
    briefs: &mut [Brief],
    added: &[Added],
) -> Result<(), Refusal> {
    // The same task has the same owner, so this finds them all; it keeps the look-up from finding any other.
    let user = caller.searched(None)?;
    for (brief, added) in briefs.iter_mut().zip(added) {
        brief.add_time = added.add_time;
    }
    let existed: Vec<TaskId> = added
        .iter()
        .filter(|added| added.existed)
        .map(|added| added.id)
        .collect();
    let mut found = HashMap::new();
    for ids in existed.chunks(Query::LIMIT) {
        let query = Query {
            ids: ids.to_vec(),
            user: user.clone(),
            limit: Query::LIMIT,
            ..Query::default()
        };
        let page = gateway.calls.search(query).await?;
        found.extend(page.tasks.into_iter().map(|brief| (brief.id, brief)));
    }
    for brief in briefs {
        if let Some(found) = found.remove(&brief.id) {
            *brief = found;
        }
    }
    Ok(())
}
