//! Limits the number of concurrent requests, in total and of one caller.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::gateway::Gateway;
use crate::params;
use crate::quota_key::QuotaKey;
use crate::quota_pool::QuotaExceeded;
use crate::request_error::RequestError;
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota, SMALL_BODY_BYTES, UNCOUNTED_BYTES};

/// Middleware that acquires the permits of a request and charges its response.
///
/// There are separate limits for requests that wait for a task, which use only memory, and for other requests, which
/// use the judicator. A request beyond a limit is refused at once: a queue would only hide the overload.
pub(crate) async fn limit_requests(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
    next: Next,
) -> Response {
    let response = run_within_limits(&gateway, request, next).await;
    response.unwrap_or_else(IntoResponse::into_response)
}

async fn run_within_limits(
    gateway: &Gateway,
    mut request: Request,
    next: Next,
) -> Result<Response, RequestError> {
    let quota = acquire_permits(gateway, &request)?;
    // Held until the search is done, not until the response is sent.
    let _search = searches_text(&request)
        .then(|| gateway.text_searches.acquire(quota.key(), 1))
        .transpose()?;
    request.extensions_mut().insert(quota.clone());
    let response = run_and_charge_response(&quota, request, next).await?;
    Ok(response.map(|body| Body::new(QuotaHoldingBody { body, quota })))
}

fn acquire_permits(gateway: &Gateway, request: &Request) -> Result<RequestQuota, QuotaExceeded> {
    let key = QuotaKey::from_extensions(request.extensions());
    let (work, bytes) = (gateway.requests.clone(), gateway.bytes.clone());
    if reads_body_first(request) {
        let size = request.body().size_hint().exact();
        let is_small = size.is_some_and(|size| size <= SMALL_BODY_BYTES);
        let upload = (!is_small).then(|| gateway.uploads.acquire(&key, 1));
        return Ok(RequestQuota::receiving(key, upload.transpose()?, work, bytes));
    }
    let permits = match *request.method() {
        // A blob is forwarded while it arrives.
        Method::PUT => &gateway.uploads,
        Method::GET | Method::HEAD if waits_for_task(request.uri()) => &gateway.waiting,
        _ => &work,
    };
    let permit = permits.acquire(&key, 1)?;
    Ok(RequestQuota::new(key, permit, bytes))
}

/// Whether the request has a body and its route calls [`RequestQuota::start_work`] when the body is complete.
fn reads_body_first(request: &Request) -> bool {
    *request.method() == Method::POST
        && matches!(
            request.uri().path(),
            "/api/v1/tasks" | "/api/v1/tasks/batch" | "/run" | "/run/commands"
        )
        && !request.body().is_end_stream()
}

/// Runs the request and charges its response, which is in memory until the client has received it.
async fn run_and_charge_response(
    quota: &RequestQuota,
    request: Request,
    next: Next,
) -> Result<Response, RequestError> {
    if !is_read_only(request.method()) {
        let response = next.run(request).await;
        // The request has taken effect and cannot be refused any more. If the response cannot be charged, the charge
        // of the request body stays.
        quota.set_charge(response_size(&response)).ok();
        return Ok(response);
    }
    let (parts, body) = request.into_parts();
    let again = (parts.clone(), next.clone());
    let response = next.run(Request::from_parts(parts, body)).await;
    let Err(_) = quota.set_charge(response_size(&response)) else {
        return Ok(response);
    };
    // The response is dropped while it waits for memory, as it is not charged yet, and created again afterwards.
    let size_then = response_size(&response);
    drop(response);
    quota.set_charge_within(QUOTA_WAIT_TIMEOUT, size_then).await?;
    let (parts, next) = again;
    let response = next.run(Request::from_parts(parts, Body::empty())).await;
    quota.set_charge(response_size(&response))?;
    Ok(response)
}

/// The bytes of a response in memory. A streamed response counts as zero.
pub(crate) fn response_size(response: &Response) -> u64 {
    counted_size(response.body().size_hint().exact().unwrap_or(0))
}

/// Small amounts count as zero.
pub(crate) fn counted_size(size: u64) -> u64 {
    if size > UNCOUNTED_BYTES { size } else { 0 }
}

/// An HTTP response body of the gateway that holds the quota of its request until the last byte is sent.
struct QuotaHoldingBody {
    body: Body,
    quota: RequestQuota,
}

/// A chunk of a gateway response body that holds the quota of its request until it is sent. Hyper reads the body to its
/// end before it sends the last chunks.
struct QuotaHoldingBytes {
    bytes: Bytes,
    _quota: RequestQuota,
}

impl AsRef<[u8]> for QuotaHoldingBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for QuotaHoldingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let hold = |bytes| {
            Bytes::from_owner(QuotaHoldingBytes {
                bytes,
                _quota: self.quota.clone(),
            })
        };
        frame.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(hold))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn is_read_only(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// A kept file may have this name, and a group may be called `files`.
fn is_event_stream(uri: &Uri) -> bool {
    let is_kept_file = || uri.path().starts_with("/api/v1/tasks/") && uri.path().contains("/files/");
    uri.path().starts_with("/live/") || uri.path().ends_with("/events") && !is_kept_file()
}

/// Whether the request waits for a task or follows its events or its output.
pub(crate) fn waits_for_task(uri: &Uri) -> bool {
    let waits =
        |pair: &str| pair.starts_with("wait=") || matches!(pair, "follow" | "follow=" | "follow=true");
    is_event_stream(uri) || uri.query().is_some_and(|query| query.split('&').any(waits))
}

/// Text searches have their own limit: a store runs few of them at a time, in the order in which they arrive.
fn searches_text(request: &Request) -> bool {
    let is_text = |(name, value): &(String, String)| name == "text" && !value.is_empty();
    is_read_only(request.method())
        && params::query_parameters(request.uri()).is_ok_and(|pairs| pairs.iter().any(is_text))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use http_body_util::BodyExt;

    use super::*;
    use crate::quota_pool::{LimitedResource, QuotaPool};

    #[test]
    fn requests_that_wait_are_recognised_by_their_url() {
        let check = |uri: &'static str, expected: bool| {
            assert_eq!(waits_for_task(&Uri::from_static(uri)), expected, "{uri}");
        };
        check("/api/v1/tasks?wait=3", true);
        check("/api/v1/tasks/x?a=b&wait=3", true);
        check("/api/v1/tasks/x/events", true);
        check("/api/v1/tasks/x/files/events", false);
        check("/api/v1/groups/g/events", true);
        check("/live/tasks?user=ada", true);
        check("/api/v1/groups/files/events", true);
        check("/api/v1/tasks/x/execute/stdout?follow", true);
        check("/api/v1/tasks/x/execute/stdout?offset=7&follow=true", true);
        check("/api/v1/tasks/x/execute/stdout?follow=false", false);
        check("/api/v1/tasks?text=wait", false);
        check("/api/v1/tasks", false);
    }

    #[test]
    fn a_request_acquires_its_permit_when_its_body_is_complete() {
        let key = QuotaKey::from(IpAddr::from(Ipv4Addr::LOCALHOST));
        let uploads = QuotaPool::new(LimitedResource::Uploads, 1, 100);
        let work = QuotaPool::new(LimitedResource::Requests, 1, 100);
        let bytes = QuotaPool::new(LimitedResource::Bytes, 100, 100);
        let upload = uploads.acquire(&key, 1).unwrap();
        let quota = RequestQuota::receiving(key.clone(), Some(upload), work.clone(), bytes);
        quota.charge(10).unwrap();
        let other = work.acquire(&key, 1).unwrap();
        assert!(quota.start_work().is_err());
        assert!(uploads.acquire(&key, 1).is_err());
        drop(other);
        quota.start_work().unwrap();
        assert!(uploads.acquire(&key, 1).is_ok() && work.acquire(&key, 1).is_err());
        // Repeating it changes nothing, and the body is still charged.
        quota.start_work().unwrap();
        assert_eq!(quota.charged_bytes(), 10);
        drop(quota);
        assert!(work.acquire(&key, 1).is_ok());
    }

    #[test]
    fn only_routes_that_read_a_body_first_start_without_a_permit() {
        let check = |method: Method, path: &str, body: &'static str, expected: bool| {
            let request = Request::builder().method(&method).uri(path);
            let request = request.body(Body::from(body)).unwrap();
            assert_eq!(reads_body_first(&request), expected, "{method} {path}");
        };
        check(Method::POST, "/api/v1/tasks", "{}", true);
        check(Method::POST, "/api/v1/tasks?wait=1", "{}", true);
        check(Method::POST, "/api/v1/tasks/batch", "{}", true);
        check(Method::POST, "/run", "{}", true);
        check(Method::POST, "/api/v1/tasks", "", false);
        check(Method::GET, "/api/v1/tasks", "{}", false);
        check(Method::PUT, "/api/v1/blobs/x", "{}", false);
        check(Method::POST, "/tasks/x/cancel", "{}", false);
    }

    #[test]
    fn text_searches_are_recognised_by_their_url() {
        let check = |uri: &str, expected: bool| {
            let request = Request::get(uri).body(Body::empty()).unwrap();
            assert_eq!(searches_text(&request), expected, "{uri}");
        };
        check("/api/v1/tasks?text=x", true);
        check("/?user=ada&text=x", true);
        check("/api/v1/tasks?te%78t=x", true);
        check("/api/v1/tasks?text=", false);
        check("/api/v1/tasks?user=text", false);
        check("/api/v1/tasks", false);
    }

    #[tokio::test]
    async fn a_response_holds_its_permit_until_its_bytes_are_dropped() {
        let key = QuotaKey::from(IpAddr::from(Ipv4Addr::LOCALHOST));
        let permits = QuotaPool::new(LimitedResource::Requests, 1, 100);
        let bytes = QuotaPool::new(LimitedResource::Bytes, 10, 100);
        let quota = RequestQuota::new(key.clone(), permits.acquire(&key, 1).unwrap(), bytes.clone());
        quota.charge(10).unwrap();
        let mut body = QuotaHoldingBody {
            body: Body::from("a response"),
            quota,
        };
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!(frame, "a response");
        assert!(permits.acquire(&key, 1).is_err() && bytes.acquire(&key, 1).is_err());
        drop(frame);
        assert!(permits.acquire(&key, 1).is_ok() && bytes.acquire(&key, 1).is_ok());
    }

    #[tokio::test]
    async fn the_charge_follows_the_bytes_in_memory() {
        let key = QuotaKey::from(IpAddr::from(Ipv4Addr::LOCALHOST));
        let permits = QuotaPool::new(LimitedResource::Requests, 2, 100);
        let bytes = QuotaPool::new(LimitedResource::Bytes, 100, 100);
        let new_quota = || RequestQuota::new(key.clone(), permits.acquire(&key, 1).unwrap(), bytes.clone());
        let (one, other) = (new_quota(), new_quota());
        one.charge(60).unwrap();
        other.charge(40).unwrap();
        assert!(other.set_charge(41).is_err());
        assert_eq!(other.charged_bytes(), 40);
        one.set_charge(10).unwrap();
        other.set_charge(90).unwrap();
        assert!(one.set_charge_within(Duration::ZERO, 20).await.is_err());
        assert_eq!(one.charged_bytes(), 0);
        drop(other);
        one.set_charge_within(QUOTA_WAIT_TIMEOUT, 20).await.unwrap();
        assert_eq!(one.charged_bytes(), 20);
    }
}
