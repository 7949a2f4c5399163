use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt};
use rpc::CallError;

use crate::admission::Admission;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::TaskPath;
use crate::refusal::Refusal;

/// Often enough for proxies that close silent connections, most of them after 30 or 60 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Follow a task
///
/// Server-sent events: `event: status` with the task's present status, then one for every change; the stream
/// ends when the task is done. The `data` of each is an `Event` in JSON on one line. `event: problem` says why the
/// stream ends before; its `data` is a `Problem`.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}/events",
    operation_id = "follow_task",
    tag = "tasks",
    params(("id" = api::schema::Id, Path, description = "The task's id")),
    responses((
        status = 200, description = "Status changes until the task is done", body = api::schema::StreamEvent,
        content_type = "text/event-stream",
        example = "event: status\ndata: {\"id\":\"01890a5d-ac96-774b-bcce-b302099a8057\",\"status\":\"running\",\"done\":false,\"executor\":\"lab-1\",\"time\":\"2026-01-31T12:00:00.123456Z\"}\n\n",
    )),
)]
pub(crate) async fn events(
    State(gateway): State<Arc<Gateway>>,
    Extension(admission): Extension<Admission>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    caller.must_own(&gateway, &admission, id).await?;
    let stop = gateway.stop.clone();
    let place = gateway.place_to_load(&admission).await?;
    let events = gateway.calls.events(id).await?;
    // The judicator has read the task for the first of them.
    drop(place);
    let events = events
        .map(|event| Ok(show(event)))
        .take_until(stop.cancelled_owned());
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn show(event: Result<rpc::Event, CallError>) -> Event {
    let (name, data) = match event {
        Ok(rpc::Event {
            id,
            status,
            executor,
            time,
        }) => {
            let done = status.done();
            let event = api::Event {
                id,
                status,
                done,
                executor,
                time,
            };
            ("status", serde_json::to_string(&event))
        }
        Err(error) => ("problem", serde_json::to_string(&Refusal::from(error).problem())),
    };
    // Both are plain structures of text: there is nothing in them that could not be written.
    Event::default().event(name).data(data.unwrap_or_default())
}
