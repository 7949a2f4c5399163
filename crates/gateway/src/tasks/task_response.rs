//! The response to a request for a task.

use std::io;

use api::Task;
use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use model::Content;

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::quota_pool::QuotaExceeded;
use crate::request_error::RequestError;
use crate::request_limits::{counted_size, response_size};
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota};
use crate::task_json::{EncodedCaseResults, task_json};
use crate::task_loading::LoadedTask;

/// Tasks of this size are serialized on a blocking thread, as they would delay other requests on the async thread.
const LARGE_TASK: u64 = 256 << 10;

/// The usual size of a kept file in the JSON of a task: its path and its hash.
const KEPT_FILE_BYTES: usize = 200;

/// The usual size of a case in the JSON of a task, without its contents: its name, the hashes of its blobs, and its outcome.
const CASE_BYTES: usize = 800;

/// Writes a task as JSON and charges the response. If the memory quota is used up, it drops the task, waits for memory,
/// and loads the task again.
pub(super) async fn task_response(
    gateway: &Gateway,
    quota: &RequestQuota,
    caller: &Caller,
    loaded: LoadedTask,
) -> Result<Response, RequestError> {
    let id = loaded.task.id;
    let results = EncodedCaseResults::load(gateway, &loaded.task).await?;
    let size = match write_if_quota_allows(quota, caller, loaded, results).await? {
        Ok(response) => return Ok(response),
        Err(NoMemoryQuota { size, .. }) => size,
    };
    quota.set_charge_within(QUOTA_WAIT_TIMEOUT, size).await?;
    let loaded = gateway.load_task(quota, gateway.calls.get(id, None)).await?;
    let results = EncodedCaseResults::load(gateway, &loaded.task).await?;
    let written = write_if_quota_allows(quota, caller, loaded, results).await?;
    // Fails only if the task has grown in the meantime.
    Ok(written.map_err(|NoMemoryQuota { exceeded, .. }| exceeded)?)
}

/// The error that the JSON of a task does not fit into the gateway's memory quota now, and the size of the JSON.
struct NoMemoryQuota {
    size: u64,
    exceeded: QuotaExceeded,
}

async fn write_if_quota_allows(
    quota: &RequestQuota,
    caller: &Caller,
    loaded: LoadedTask,
    results: EncodedCaseResults,
) -> Result<Result<Response, NoMemoryQuota>, RequestError> {
    let LoadedTask { task, permit } = loaded;
    if inline_size(&task) + results.len() < LARGE_TASK {
        // Small enough to be charged after it is written.
        let response = Json(task_json(caller, task, &results)?).into_response();
        let size = response_size(&response);
        let charged = quota.set_charge(size);
        return Ok(charged
            .map(|()| response)
            .map_err(|exceeded| NoMemoryQuota { size, exceeded }));
    }
    let (quota, caller) = (quota.clone(), caller.clone());
    let writing = move || {
        // The thread continues after the client has closed the connection, so it holds the permits itself.
        let _permit = permit;
        let task = task_json(&caller, task, &results)?;
        Ok(write_large(&quota, &task))
    };
    tokio::task::spawn_blocking(writing)
        .await
        .unwrap_or(Err(RequestError::Panicked))
}

/// Serializes the task twice: first to get its size, which is charged before the buffer is allocated.
fn write_large(quota: &RequestQuota, task: &Task) -> Result<Response, NoMemoryQuota> {
    let mut length = ByteCounter(0);
    // Serializing a task cannot fail, and neither can the writers.
    let _ = serde_json::to_writer(&mut length, task);
    let ByteCounter(length) = length;
    let size = counted_size(length as u64);
    let charged = quota.set_charge(size);
    charged.map_err(|exceeded| NoMemoryQuota { size, exceeded })?;
    let mut json = Vec::with_capacity(length);
    let _ = serde_json::to_writer(&mut json, task);
    let media_type = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, media_type)], json).into_response())
}

/// A writer that only counts bytes, to know the size of a task's JSON before the gateway writes it.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The size of the words, files, outputs and kept files in a task.
fn inline_size(task: &model::Task) -> u64 {
    let files: u64 = task.spec.contents().map(Content::inline_len).sum();
    let result = task.result.iter();
    let outputs: usize = result
        .clone()
        .flat_map(|result| result.outputs().map(|output| output.head.len()))
        .sum();
    let kept: usize = result.map(|result| result.files.len() * KEPT_FILE_BYTES).sum();
    let judging = task.spec.judging.iter();
    let cases: usize = judging.map(|judging| judging.cases.len() * CASE_BYTES).sum();
    task.spec.command_bytes() + files + (outputs + kept + cases) as u64
}
