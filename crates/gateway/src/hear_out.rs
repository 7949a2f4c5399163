//! Lets a client finish sending before it is refused.
//!
//! Most refusals are decided by the head of a request. Closing on a client that is still busy with the body makes
//! it see a broken connection instead of the answer; so the rest is read and thrown away, within reason.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::StreamExt;
use hyper::body::{Frame, SizeHint};
use tokio::time::timeout;

use crate::gateway::Gateway;
use crate::measure;
use crate::pace::LeastRate;
use crate::paced_body::PacedBody;
use crate::refusal::Refusal;

/// How much of a refused body is read all the same.
const DRAIN_BYTES: u64 = 64 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(2);

pub(crate) async fn hear_out(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    read_with_least_rate(gateway.body_rate(), request, next).await
}

async fn read_with_least_rate(rate: LeastRate, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let asks_first = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let shared = Shared::new(PacedBody::new(body, rate));
    let request = Request::from_parts(parts, Body::new(shared.clone()));
    let response = next.run(request).await;
    let Some(Rest { body, begun }) = shared.take() else {
        return response;
    };
    let refused = response.status().is_client_error() || response.status().is_server_error();
    if !refused || body.is_end_stream() {
        return response;
    }
    if body.is_too_slow() {
        measure::too_slow("body");
        return closing(Refusal::TooSlow { rate }.into_response());
    }
    // Who asks before sending, and was not told to go on, is answered without sending.
    let heard = (begun || !asks_first) && drain(Body::new(body)).await;
    if heard { response } else { closing(response) }
}

/// What is left of the body stands in the way of the next request.
fn closing(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// Whether the end was reached.
async fn drain(body: Body) -> bool {
    let mut stream = body.into_data_stream();
    let reading = async {
        let mut left = DRAIN_BYTES;
        while let Some(chunk) = stream.next().await {
            let rest = chunk.ok().and_then(|chunk| left.checked_sub(chunk.len() as u64));
            match rest {
                Some(rest) => left = rest,
                None => return false,
            }
        }
        true
    };
    timeout(DRAIN_TIME, reading).await.unwrap_or(false)
}

/// A body that can be taken back from whoever reads it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Option<Rest>>>);

struct Rest {
    body: PacedBody,
    /// Whether anybody has asked for any of it.
    begun: bool,
}

impl Shared {
    fn new(body: PacedBody) -> Shared {
        Shared(Arc::new(Mutex::new(Some(Rest { body, begun: false }))))
    }

    fn take(&self) -> Option<Rest> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Rest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut *self.lock() {
            Some(rest) => {
                rest.begun = true;
                Pin::new(&mut rest.body).poll_frame(context)
            }
            // An end would make half a body look whole.
            None => Poll::Ready(Some(Err(axum::Error::new("the request is answered already")))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.lock().as_ref().is_some_and(|rest| rest.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.lock();
        rest.as_ref()
            .map_or_else(SizeHint::default, |rest| rest.body.size_hint())
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::middleware::from_fn;
    use axum::routing::post;
    use futures::stream;
    use tower::ServiceExt;

    use super::*;

    const RATE: LeastRate = LeastRate {
        bytes_per_second: 1 << 10,
        window: Duration::from_millis(50),
    };

    #[tokio::test]
    async fn a_body_that_comes_too_slowly_is_refused_as_such() {
        // Whatever its reader makes of it.
        let read = async |request: Request| match axum::body::to_bytes(request.into_body(), 100).await {
            Ok(_) => StatusCode::OK,
            Err(_) => StatusCode::BAD_REQUEST,
        };
        let routes = Router::new()
            .route("/", post(read))
            .layer(from_fn(|request, next| read_with_least_rate(RATE, request, next)));
        let first = stream::iter([Ok::<_, axum::Error>(Bytes::from_static(b"first"))]);
        let body = Body::from_stream(first.chain(stream::pending()));
        let response = routes
            .oneshot(Request::post("/").body(body).unwrap())
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
        assert_eq!(response.headers()[header::CONNECTION], "close");
    }

    #[tokio::test]
    async fn the_refused_are_heard_out() {
        // (the answer, whether the client asks first, chunks of 1 MiB that it has, how many of them are read)
        let check = async |status: StatusCode, asks: bool, chunks: usize, expected: usize| {
            let read = Arc::new(Mutex::new(0));
            let count = read.clone();
            let body = stream::iter(0..chunks).map(move |_| {
                *count.lock().unwrap() += 1;
                Ok::<_, axum::Error>(Bytes::from(vec![0; 1 << 20]))
            });
            let routes = Router::new()
                .route("/", post(async move || status))
                .layer(from_fn(|request, next| read_with_least_rate(RATE, request, next)));
            let mut request = Request::post("/");
            if asks {
                request = request.header(header::EXPECT, "100-continue");
            }
            let request = request.body(Body::from_stream(body)).unwrap();
            let response = routes.oneshot(request).await.unwrap();
            assert_eq!(*read.lock().unwrap(), expected);
            let closes = response.headers().contains_key(header::CONNECTION);
            assert_eq!(closes, status != StatusCode::OK && expected != chunks);
        };
        check(StatusCode::FORBIDDEN, false, 20, 20).await;
        check(StatusCode::SERVICE_UNAVAILABLE, false, 20, 20).await;
        check(StatusCode::FORBIDDEN, false, 100, 65).await;
        check(StatusCode::FORBIDDEN, true, 20, 0).await;
        check(StatusCode::OK, false, 20, 0).await;
    }
}
