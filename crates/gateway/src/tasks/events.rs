use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt};
use rpc::CallError;

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::TaskPath;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// Proxies close idle connections, most of them after 30 or 60 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Follow a task
///
/// Server-sent events: `event: status` with the task's current status, then one for every change. The stream ends when
/// the task is done. The `data` of each is an `Event` as JSON on one line. If an error ends the stream early,
/// the last event is `event: problem`, whose `data` is a `Problem`.
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
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, RequestError> {
    caller.require_owner(&gateway, &quota, id).await?;
    let stop = gateway.stop.clone();
    let permit = gateway.acquire_load_permit(&quota).await?;
    let events = gateway.calls.events(id).await?;
    // The judicator loads the task only for the first event.
    drop(permit);
    let events = events
        .map(|event| Ok(sse_event(event)))
        .take_until(stop.cancelled_owned());
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn sse_event(event: Result<rpc::TaskEvent, CallError>) -> Event {
    let (name, data) = match event {
        Ok(rpc::TaskEvent {
            id,
            status,
            executor,
            time,
        }) => {
            let done = status.is_done();
            let event = api::TaskEvent {
                id,
                status,
                done,
                executor,
                time,
            };
            ("status", serde_json::to_string(&event))
        }
        Err(error) => (
            "problem",
            serde_json::to_string(&RequestError::from(error).problem()),
        ),
    };
    // Serializing these types cannot fail.
    Event::default().event(name).data(data.unwrap_or_default())
}
