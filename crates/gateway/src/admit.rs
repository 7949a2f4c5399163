//! How many requests at one time.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;

use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// A request that waits holds nothing but memory, so there may be many; one that works holds the judicator.
/// Beyond its bound, either is refused at once: a queue here would only hide the overload.
pub(crate) async fn admit(State(gateway): State<Arc<Gateway>>, mut request: Request, next: Next) -> Response {
    // What has a body works before it waits.
    let only_waits = matches!(*request.method(), Method::GET | Method::HEAD) && waits(request.uri());
    let place = if only_waits {
        to_wait(&gateway)
    } else {
        to_work(&gateway)
    };
    match place {
        Ok(place) if streams(request.uri()) => hold(next.run(request).await, place),
        Ok(place) => {
            let place = Place(Arc::new(Mutex::new(Some(place))));
            request.extensions_mut().insert(place.clone());
            let response = next.run(request).await;
            place.leave();
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn to_work(gateway: &Gateway) -> Result<OwnedSemaphorePermit, Refusal> {
    let limit = gateway.options.requests_in_flight;
    let place = gateway.in_flight.clone().try_acquire_owned();
    place.map_err(|_| Refusal::TooManyAtOnce { limit })
}

pub(crate) fn to_wait(gateway: &Gateway) -> Result<OwnedSemaphorePermit, Refusal> {
    let limit = gateway.options.max_waiting;
    let place = gateway.waiting.clone().try_acquire_owned();
    place.map_err(|_| Refusal::TooManyWaiting { limit })
}

/// The place of a request, which it may leave before it is answered.
#[derive(Clone)]
pub(crate) struct Place(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Place {
    pub(crate) fn leave(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
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
