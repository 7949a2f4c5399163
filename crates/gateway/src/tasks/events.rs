use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{BoxStream, StreamExt};
use serde::Serialize;

use super::case_events::{CompileStepOutput, case_events};
use super::output_event_id::OutputEventId;
use super::output_events::output_events;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, TaskPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// Proxies close idle connections, most of them after 30 or 60 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Follow a task
///
/// Server-sent events: `event: status` with the task's current status, then one for every change. The stream ends when
/// the task is done. The `data` of each is an `Event` as JSON on one line. If an error ends the stream early,
/// the last event is `event: problem`, whose `data` is a `Problem`.
///
/// Of a judged task, there are also events of type `case`, whose `data` is a `CaseEvent`: the verdict on a case, as soon as it
/// is known. A second event for a case replaces the first.
///
/// With `output`, there are also events of type `output`, whose `data` is an `Output`: what the steps write, while they
/// write it. What was written before is sent first. Within an attempt, the offsets of each stream are contiguous; a new
/// attempt begins again at 0. The event with the final status comes last. The `id` of each output event says how far its
/// reader is in all streams: after a lost connection, send the last one in `Last-Event-ID`, as browsers do, and what was
/// received before is not sent again. If the task has begun another attempt since then, that is sent from its start.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}/events",
    operation_id = "follow_task",
    tag = "tasks",
    params(
        ("id" = api::schema::Id, Path, description = "The task's id"),
        ("output" = Option<api::schema::Flag>, Query, description = "`true`: also send the output of the steps"),
        ("Last-Event-ID" = Option<OutputEventId>, Header, description = "With `output`: continue after the event with this `id`"),
    ),
    responses((
        status = 200, description = "Status changes until the task is done", body = api::schema::StreamEvent,
        content_type = "text/event-stream",
        example = "event: status\ndata: {\"id\":\"01890a5d-ac96-774b-bcce-b302099a8057\",\"status\":\"running\",\"done\":false,\"executor\":\"lab-1\",\"time\":\"2026-01-31T12:00:00.123456Z\"}\n\nevent: output\nid: 1.0.0.6.0\ndata: {\"attempt\":1,\"step\":\"execute\",\"stream\":\"stdout\",\"offset\":0,\"text\":\"hello\\n\"}\n\n",
    )),
)]
pub(crate) async fn events(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    let mut with_output = false;
    for (name, value) in params::known_parameters(&uri, &["output"])? {
        with_output = params::flag(&name, &value)?;
    }
    let last_id = OutputEventId::read(&headers)?.filter(|_| with_output);
    // Errors that come later are events, so that of a task that does not exist comes first.
    let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
    let loaded = caller.check_owner(loaded)?;
    // Another attempt begins again.
    let last_id = last_id.filter(|last| last.attempt == loaded.task.attempt);
    let is_judged = loaded.task.spec.judging.is_some();
    drop(loaded);
    if is_judged {
        let output = match with_output {
            true => CompileStepOutput::After(last_id),
            false => CompileStepOutput::Without,
        };
        return Ok(sse_response(case_events(gateway, quota, id, output).boxed()));
    }
    if with_output {
        return Ok(sse_response(output_events(gateway, quota, id, last_id).boxed()));
    }
    let stop = gateway.stop.clone();
    let permit = gateway.acquire_load_permit(&quota).await?;
    let events = gateway.calls.events(id).await?;
    // The judicator loads the task only for the first event.
    drop(permit);
    let events = events
        .map(|event| match event {
            Ok(event) => status_event(event),
            Err(error) => problem_event(&error.into()),
        })
        .take_until(stop.cancelled_owned());
    Ok(sse_response(events.boxed()))
}

/// A response with server-sent events.
pub(crate) fn sse_response(events: BoxStream<'static, Event>) -> Response {
    let events = events.map(Ok::<_, Infallible>);
    // nginx would collect the events before it forwards them.
    let headers = [("x-accel-buffering", "no")];
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    (headers, events).into_response()
}

pub(super) fn status_event(event: rpc::TaskEvent) -> Event {
    let rpc::TaskEvent {
        id,
        status,
        executor,
        time,
    } = event;
    let event = api::TaskEvent {
        id,
        status,
        done: status.is_done(),
        executor,
        time,
    };
    sse_event("status", &event)
}

/// The last event of a stream that an error ends.
pub(crate) fn problem_event(error: &RequestError) -> Event {
    sse_event("problem", &error.problem())
}

pub(crate) fn sse_event(name: &str, data: &impl Serialize) -> Event {
    with_data(Event::default().event(name), data)
}

pub(super) fn sse_event_with_id(name: &str, id: OutputEventId, data: &impl Serialize) -> Event {
    with_data(Event::default().event(name).id(id.to_string()), data)
}

fn with_data(event: Event, data: &impl Serialize) -> Event {
    // Serializing the types of the API cannot fail.
    event.data(serde_json::to_string(data).unwrap_or_default())
}
