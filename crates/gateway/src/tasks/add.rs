use std::sync::Arc;

use api::{NewTask, Task};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use rpc::CallError;

use super::answer::answer;
use super::get::load_within;
use super::key::Key;
use super::multipart::{Form, read_multipart};
use super::offload::offload;
use super::prepare::{blame_conflict, blame_missing_blob, prepare};
use super::unpacking::Unpacking;
use crate::admission::Admission;
use crate::body::{self, JSON};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::refusal::Refusal;

/// Add a task
///
/// Answered when the task is durable. With `wait`, answered once the task is done or the wait is over, with the
/// task as it then is. With an `Idempotency-Key` or an `id` of your own, sending it again is safe: the same task
/// is answered, and nothing is added twice.
///
/// As `multipart/form-data` the parts are: `task`, the JSON without its files; any number of files named `source`
/// or `data`, whose file name is their path; or one zip named `source_zip` or `data_zip`.
#[utoipa::path(
    post,
    path = "/api/v1/tasks",
    operation_id = "add_task",
    tag = "tasks",
    params(
        ("wait" = Option<api::schema::Wait>, Query, description = "How long to wait for the task to be done, at most: seconds, or text with a unit"),
        ("Idempotency-Key" = Option<super::IdempotencyKey>, Header, description = "The task's id follows from it and the user"),
    ),
    request_body(content(
        (NewTask = "application/json", example = json!({
            "source": {"main.c": "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n"},
            "compile": {"command": "cc -O2 -o main main.c", "limits": {"wall": "10s"}},
            "execute": {"command": "./main", "limits": {"wall": "2s", "memory": "256MiB"}}
        })),
        (Form = "multipart/form-data"),
    )),
    responses(
        (status = 201, description = "Added", body = Task, headers(("Location" = String, description = "The task's URL"))),
        (status = 200, description = "It was added before", body = Task, headers(("Location" = String, description = "The task's URL"))),
    ),
)]
pub(crate) async fn add(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Refusal> {
    let wait = params::wait(request.uri(), &gateway.options)?;
    let key = Key::read(request.headers())?;
    let admission = Admission::of(request.extensions())?;
    let new = read(&gateway, request).await?;
    let mut unpacking = Unpacking::new(&gateway, &admission);
    let add = prepare(&mut unpacking, &caller, key.as_ref(), new).await?;
    let adds = offload(&gateway, &admission, vec![add]).await?;
    // Before the task is added: who is refused has added nothing.
    let waiting = wait
        .map(|_| gateway.waiting.take(admission.account(), 1))
        .transpose()?;
    // Kept to say which field names a blob that is not there; its files are shared, not copied.
    let specs: Vec<_> = adds.iter().map(|add| add.spec.clone()).collect();
    let id = adds.first().map(|add| add.id).ok_or(Refusal::Panicked)?;
    let added = gateway.calls.add(adds).await.map_err(|error| match error {
        CallError::Conflict(id) => blame_conflict(id, None, key.as_ref()),
        error => {
            let specs: Vec<_> = specs.iter().map(|spec| (String::new(), spec)).collect();
            blame_missing_blob(error, &specs)
        }
    })?;
    drop(specs);
    if let Some(waiting) = waiting {
        admission.move_to(waiting);
    }
    let existed = added.iter().any(|added| added.existed);
    let status = if existed {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let place = [(header::LOCATION, format!("/api/v1/tasks/{id}"))];
    let answered = async {
        let loaded = load_within(&gateway, &admission, id, wait).await?;
        answer(&gateway, &admission, loaded).await
    };
    let response = answered
        .await
        .map_err(|refusal: Refusal| refusal.of_answer(id, "added"))?;
    Ok((status, place, response).into_response())
}

async fn read(gateway: &Gateway, request: Request) -> Result<NewTask, Refusal> {
    match body::media_type(request.headers()).as_str() {
        JSON => body::read_json(request, gateway.options.max_body, api::parse).await,
        "multipart/form-data" => read_multipart(gateway, request).await,
        actual => Err(Refusal::MediaType {
            expected: "application/json or multipart/form-data",
            actual: actual.to_string(),
        }),
    }
}
