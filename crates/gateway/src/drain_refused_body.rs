//! Reads and discards the rest of the body of a refused request.
//!
//! Most requests are refused because of their headers. If the gateway closed the connection while the client is still
//! sending the body, the client would see a broken connection instead of the response.

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
use crate::http_metrics;
use crate::min_rate::MinTransferRate;
use crate::min_rate_body::MinRateBody;
use crate::request_error::RequestError;

/// The most that is read of a refused body. After that, the connection is closed.
const DRAIN_BYTES: u64 = 64 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Middleware that enforces the minimum rate of request bodies and drains the bodies of refused requests.
pub(crate) async fn drain_refused_body(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
    next: Next,
) -> Response {
    run_with_min_rate(gateway.min_body_rate(), request, next).await
}

async fn run_with_min_rate(rate: MinTransferRate, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let expects_continue = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let shared = ReclaimableBody::new(MinRateBody::new(body, rate));
    let request = Request::from_parts(parts, Body::new(shared.clone()));
    let response = next.run(request).await;
    let Some(UnreadBody { body, was_polled }) = shared.take() else {
        return response;
    };
    let refused = response.status().is_client_error() || response.status().is_server_error();
    if !refused || body.is_end_stream() {
        return response;
    }
    if body.is_too_slow() {
        http_metrics::count_too_slow("body");
        return with_connection_close(RequestError::BodyTooSlow { rate }.into_response());
    }
    // A client that sent `Expect: 100-continue` sends no body before the handler polls it.
    let drained = (was_polled || !expects_continue) && drain(Body::new(body)).await;
    if drained {
        response
    } else {
        with_connection_close(response)
    }
}

/// The connection cannot be used again, because the rest of the body precedes the next request.
fn with_connection_close(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// Whether the end of the body was reached.
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

/// An HTTP request body that the gateway can take back from a handler, to discard what a refused request left.
#[derive(Clone)]
struct ReclaimableBody(Arc<Mutex<Option<UnreadBody>>>);

/// The part of an HTTP request body that the gateway's handler has not read, to be discarded after a refusal.
struct UnreadBody {
    body: MinRateBody,
    /// Whether the handler has tried to read the body.
    was_polled: bool,
}

impl ReclaimableBody {
    fn new(body: MinRateBody) -> ReclaimableBody {
        ReclaimableBody(Arc::new(Mutex::new(Some(UnreadBody {
            body,
            was_polled: false,
        }))))
    }

    fn take(&self) -> Option<UnreadBody> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<UnreadBody>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for ReclaimableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut *self.lock() {
            Some(rest) => {
                rest.was_polled = true;
                Pin::new(&mut rest.body).poll_frame(context)
            }
            // The end of the stream would make an incomplete body look complete.
            None => Poll::Ready(Some(Err(axum::Error::new("the response was already sent")))),
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

    const RATE: MinTransferRate = MinTransferRate {
        bytes_per_second: 1 << 10,
        window: Duration::from_millis(50),
    };

    #[tokio::test]
    async fn a_request_with_a_slow_body_is_refused_with_408() {
        // The status of the handler is replaced.
        let read = async |request: Request| match axum::body::to_bytes(request.into_body(), 100).await {
            Ok(_) => StatusCode::OK,
            Err(_) => StatusCode::BAD_REQUEST,
        };
        let routes = Router::new()
            .route("/", post(read))
            .layer(from_fn(|request, next| run_with_min_rate(RATE, request, next)));
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
    async fn the_bodies_of_refused_requests_are_drained_up_to_a_limit() {
        // (status of the response, whether the client expects 100-continue, chunks of 1 MiB, how many of them are read)
        let check = async |status: StatusCode, expects_continue: bool, chunks: usize, expected: usize| {
            let read = Arc::new(Mutex::new(0));
            let count = read.clone();
            let body = stream::iter(0..chunks).map(move |_| {
                *count.lock().unwrap() += 1;
                Ok::<_, axum::Error>(Bytes::from(vec![0; 1 << 20]))
            });
            let routes = Router::new()
                .route("/", post(async move || status))
                .layer(from_fn(|request, next| run_with_min_rate(RATE, request, next)));
            let mut request = Request::post("/");
            if expects_continue {
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
