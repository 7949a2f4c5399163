use std::sync::Arc;

use api::{NewTask, Task};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::{AddTask, TaskId};
use rpc::CallError;

use super::get::load_within;
use super::idempotency_key::IdempotencyKey;
use super::multipart::{MultipartTask, read_multipart};
use super::offload::offload;
use super::prepare::{add_error, conflict_error, prepare};
use super::task_response::task_response;
use super::zip_unpacker::ZipUnpacker;
use crate::body::{self, JSON};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// Add a task
///
/// The response is sent when the task is stored durably. With `wait`, it is sent when the task is done or the wait is
/// over. With an `Idempotency-Key` or your own `id`, it is safe to send the request again: the response is the same
/// task, and it is added only once.
///
/// The parts of `multipart/form-data` are: `task`, the JSON without files; any number of files named `source`, `data` or
/// `cases`, each with its path as the file name; or one zip named `source_zip`, `data_zip` or `cases_zip`.
#[utoipa::path(
    post,
    path = "/api/v1/tasks",
    operation_id = "add_task",
    tag = "tasks",
    params(
        ("wait" = Option<api::schema::Wait>, Query, description = "The longest time to wait until the task is done: seconds, or text with a unit"),
        ("Idempotency-Key" = Option<IdempotencyKey>, Header, description = "The server derives the task's id from the key and the user"),
    ),
    request_body(content(
        (NewTask = "application/json", example = json!({
            "source": {"main.c": "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n"},
            "compile": {"command": "cc -O2 -o main main.c", "limits": {"wall": "10s"}},
            "execute": {"command": "mkdir out && ./main > out/hello.txt", "limits": {"wall": "2s", "memory": "256MiB"}},
            "keep": ["out/*.txt"],
            "labels": {"assignment": "hw3"},
            "group": "sweep-17",
            "attempts": 10
        })),
        (MultipartTask = "multipart/form-data"),
    )),
    responses(
        (status = 201, description = "The task was added", body = Task, headers(("Location" = String, description = "The task's URL"))),
        (status = 200, description = "The task already existed", body = Task, headers(("Location" = String, description = "The task's URL"))),
    ),
)]
pub(crate) async fn add(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    request: Request,
) -> Result<Response, RequestError> {
    let wait = params::wait_parameter(request.uri(), &gateway.options)?;
    let key = IdempotencyKey::read(request.headers())?;
    let quota = RequestQuota::from_extensions(request.extensions())?;
    let new = read(&gateway, request).await?;
    let prepared = AcceptedTask::new(&gateway, &quota, &caller, key, new).await?;
    // Before the task is added, so that a refused request adds nothing.
    let waiting = wait
        .map(|_| gateway.waiting.acquire(quota.key(), 1))
        .transpose()?;
    let (id, existence) = prepared.add(&gateway).await?;
    if let Some(waiting) = waiting {
        quota.switch_permit(waiting);
    }
    let status = match existence {
        TaskExistence::Known => StatusCode::OK,
        TaskExistence::New => StatusCode::CREATED,
    };
    let location = [(header::LOCATION, format!("/api/v1/tasks/{id}"))];
    let response = async {
        let loaded = load_within(&gateway, &quota, id, wait).await?;
        task_response(&gateway, &quota, &caller, loaded).await
    };
    let response = response
        .await
        .map_err(|error: RequestError| error.after_effect(id, "added"))?;
    Ok((status, location, response).into_response())
}

/// A task of a request that adds one, ready to be sent to a judicator: its zips are unpacked, its large files are blobs.
pub(crate) struct AcceptedTask {
    id: TaskId,
    adds: Vec<AddTask>,
    key: Option<IdempotencyKey>,
}

/// Whether the task of a request to add one existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskExistence {
    New,
    Known,
}

impl AcceptedTask {
    pub(crate) async fn new(
        gateway: &Gateway,
        quota: &RequestQuota,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        new: NewTask,
    ) -> Result<AcceptedTask, RequestError> {
        let mut unpacker = ZipUnpacker::new(gateway, quota);
        let add = prepare(&mut unpacker, caller, key.as_ref(), new).await?;
        let id = add.id;
        let adds = offload(gateway, quota, vec![add]).await?;
        Ok(AcceptedTask { id, adds, key })
    }

    /// Returns when the task is stored durably.
    pub(crate) async fn add(self, gateway: &Gateway) -> Result<(TaskId, TaskExistence), RequestError> {
        let AcceptedTask { id, adds, key } = self;
        // For the error message about a missing blob. The contents of files are shared, not copied.
        let specs: Vec<_> = adds.iter().map(|add| add.spec.clone()).collect();
        let added = gateway.calls.add(adds).await.map_err(|error| match error {
            CallError::Conflict(id) => conflict_error(id, None, key.as_ref()),
            error => {
                let specs: Vec<_> = specs.iter().map(|spec| (String::new(), spec)).collect();
                add_error(error, &specs)
            }
        })?;
        match added.iter().any(|added| added.existed) {
            true => Ok((id, TaskExistence::Known)),
            false => Ok((id, TaskExistence::New)),
        }
    }
}

async fn read(gateway: &Gateway, request: Request) -> Result<NewTask, RequestError> {
    match body::media_type(request.headers()).as_str() {
        JSON => body::read_json(request, gateway.options.max_body, api::parse_json).await,
        "multipart/form-data" => read_multipart(gateway, request).await,
        actual => Err(RequestError::UnsupportedMediaType {
            expected: "application/json or multipart/form-data",
            actual: actual.to_string(),
        }),
    }
}
