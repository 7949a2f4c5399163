//! How many requests at one time.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;

use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// A request that waits holds nothing but memory, so there may be many; one that works holds the judicator.
/// Beyond its bound, either is refused at once: a queue here would only hide the overload.
pub(crate) async fn admit(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let (places, refusal) = if waits(request.uri()) {
        let limit = gateway.options.max_waiting;
        (&gateway.waiting, Refusal::TooManyWaiting { limit })
    } else {
        let limit = gateway.options.requests_in_flight;
        (&gateway.in_flight, Refusal::TooManyAtOnce { limit })
    };
    match places.clone().try_acquire_owned() {
        Ok(place) if streams(request.uri()) => hold(next.run(request).await, place),
        Ok(_place) => next.run(request).await,
        Err(_) => refusal.into_response(),
    }
}

/// An event stream is only a body: its place is taken until the last byte of it is sent.
fn hold<P: Send + 'static>(response: Response, place: P) -> Response {
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &place;
            frame
        }))
    })
}

fn streams(uri: &Uri) -> bool {
    uri.path().ends_with("/events")
}

pub(crate) fn waits(uri: &Uri) -> bool {
    streams(uri)
        || uri
            .query()
            .is_some_and(|query| query.split('&').any(|pair| pair.starts_with("wait=")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_seen_in_the_url() {
        let check = |uri: &'static str, expected: bool| {
            assert_eq!(waits(&Uri::from_static(uri)), expected, "{uri}");
        };
        check("/api/v1/tasks?wait=3", true);
        check("/api/v1/tasks/x?a=b&wait=3", true);
        check("/api/v1/tasks/x/events", true);
        check("/api/v1/tasks?text=wait", false);
        check("/api/v1/tasks", false);
    }
}
