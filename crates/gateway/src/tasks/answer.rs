//! A task as the answer to a call.

use api::Task;
use axum::Json;
use axum::response::{IntoResponse, Response};
use model::Content;

use crate::admission::Admission;
use crate::refusal::Refusal;

/// From this size of files and outputs, writing the JSON would hold a worker of the async runtime for too long.
const LARGE: u64 = 256 << 10;

pub(super) async fn answer(admission: &Admission, task: model::Task) -> Result<Response, Refusal> {
    if size(&task) < LARGE {
        return Ok(Json(Task::from(task)).into_response());
    }
    let admission = admission.clone();
    let writing = move || {
        // The thread goes on when the client has closed its connection: it has its place until it is done.
        let _admission = admission;
        Json(Task::from(task)).into_response()
    };
    tokio::task::spawn_blocking(writing)
        .await
        .map_err(|_| Refusal::Panicked)
}

fn size(task: &model::Task) -> u64 {
    let files: u64 = task.spec.contents().map(Content::inline_len).sum();
    let outcomes = task
        .result
        .iter()
        .flat_map(|result| [&result.compile, &result.execute])
        .flatten();
    let outputs: usize = outcomes
        .map(|outcome| outcome.stdout.bytes.len() + outcome.stderr.bytes.len())
        .sum();
    files + outputs as u64
}
