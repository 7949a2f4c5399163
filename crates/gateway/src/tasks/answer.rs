//! A task as the answer to a call.

use std::io;

use api::Task;
use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use model::Content;

use crate::admission::{Admission, PATIENCE};
use crate::admit::{counted, size};
use crate::gateway::Gateway;
use crate::loaded::Loaded;
use crate::pool::Exhausted;
use crate::refusal::Refusal;

/// From this size of words, files and outputs, writing the JSON would hold a worker of the async runtime for too long.
const LARGE: u64 = 256 << 10;

/// Charges the answer. While there is no room for it, neither the task nor the answer is in memory.
pub(super) async fn answer(
    gateway: &Gateway,
    admission: &Admission,
    loaded: Loaded,
) -> Result<Response, Refusal> {
    let id = loaded.task.id;
    let size = match write_if_room(admission, loaded).await? {
        Ok(response) => return Ok(response),
        Err(NoRoom { size, .. }) => size,
    };
    admission.recharge_within(PATIENCE, size).await?;
    let loaded = gateway.load(admission, gateway.calls.get(id, None)).await?;
    let written = write_if_room(admission, loaded).await?;
    // No room again: the task has grown meanwhile.
    Ok(written.map_err(|NoRoom { exhausted, .. }| exhausted)?)
}

struct NoRoom {
    size: u64,
    exhausted: Exhausted,
}

async fn write_if_room(admission: &Admission, loaded: Loaded) -> Result<Result<Response, NoRoom>, Refusal> {
    let Loaded { task, place } = loaded;
    if inline_size(&task) < LARGE {
        // Charged when it is there: between the two, a worker does nothing else.
        let response = Json(Task::from(task)).into_response();
        let size = size(&response);
        let charged = admission.recharge(size);
        return Ok(charged
            .map(|()| response)
            .map_err(|exhausted| NoRoom { size, exhausted }));
    }
    let admission = admission.clone();
    let writing = move || {
        // The thread goes on when the client has closed its connection: the places are its own until it is done.
        let _place = place;
        write_large(&admission, &Task::from(task))
    };
    tokio::task::spawn_blocking(writing)
        .await
        .map_err(|_| Refusal::Panicked)
}

/// Written twice: only then is its size known before it is there, and its buffer exactly as large.
fn write_large(admission: &Admission, task: &Task) -> Result<Response, NoRoom> {
    let mut length = Length(0);
    // Nothing in a task cannot be written, and neither of the writers fails.
    let _ = serde_json::to_writer(&mut length, task);
    let Length(length) = length;
    let size = counted(length as u64);
    let charged = admission.recharge(size);
    charged.map_err(|exhausted| NoRoom { size, exhausted })?;
    let mut json = Vec::with_capacity(length);
    let _ = serde_json::to_writer(&mut json, task);
    let media_type = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, media_type)], json).into_response())
}

/// Counts what is written and keeps none of it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn inline_size(task: &model::Task) -> u64 {
    let files: u64 = task.spec.contents().map(Content::inline_len).sum();
    let outcomes = task
        .result
        .iter()
        .flat_map(|result| [&result.compile, &result.execute])
        .flatten();
    let outputs: usize = outcomes
        .map(|outcome| outcome.stdout.bytes.len() + outcome.stderr.bytes.len())
        .sum();
    task.spec.word_bytes() + files + outputs as u64
}
