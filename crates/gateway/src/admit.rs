//! How many requests at one time, and of one caller.

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

use crate::account::Account;
use crate::admission::{Admission, PATIENCE, SMALL_BODY, UNCOUNTED};
use crate::gateway::Gateway;
use crate::params;
use crate::pool::Exhausted;
use crate::refusal::Refusal;

/// A request that waits holds nothing but memory, so there may be many; one that works holds the judicator.
/// Beyond its bound, either is refused at once: a queue here would only hide the overload.
pub(crate) async fn admit(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let response = serve(&gateway, request, next).await;
    response.unwrap_or_else(IntoResponse::into_response)
}

async fn serve(gateway: &Gateway, mut request: Request, next: Next) -> Result<Response, Refusal> {
    let admission = enter(gateway, &request)?;
    // Until the search is done, not until its answer is sent.
    let _search = searches_text(&request)
        .then(|| gateway.text_searches.take(admission.account(), 1))
        .transpose()?;
    request.extensions_mut().insert(admission.clone());
    let response = run(&admission, request, next).await?;
    Ok(response.map(|body| Body::new(HeldBody { body, admission })))
}

fn enter(gateway: &Gateway, request: &Request) -> Result<Admission, Exhausted> {
    let account = Account::of(request.extensions());
    let (work, bytes) = (gateway.in_flight.clone(), gateway.bytes.clone());
    if reads_body_first(request) {
        let size = request.body().size_hint().exact();
        let is_small = size.is_some_and(|size| size <= SMALL_BODY);
        let upload = (!is_small).then(|| gateway.uploads.take(&account, 1));
        return Ok(Admission::receiving(account, upload.transpose()?, work, bytes));
    }
    let places = match *request.method() {
        // A blob is passed on while it comes.
        Method::PUT => &gateway.uploads,
        Method::GET | Method::HEAD if waits(request.uri()) => &gateway.waiting,
        _ => &work,
    };
    let place = places.take(&account, 1)?;
    Ok(Admission::new(account, place, bytes))
}

/// Whether the request has a body, and its route is one that calls [`Admission::start_work`] when the body is there.
fn reads_body_first(request: &Request) -> bool {
    *request.method() == Method::POST
        && matches!(request.uri().path(), "/api/v1/tasks" | "/api/v1/tasks/batch")
        && !request.body().is_end_stream()
}

/// Charges the answer, which is in memory until the client has taken it.
async fn run(admission: &Admission, request: Request, next: Next) -> Result<Response, Refusal> {
    if !only_reads(request.method()) {
        let response = next.run(request).await;
        // What was done cannot be refused any more: without room, the answer has what its body had.
        admission.recharge(size(&response)).ok();
        return Ok(response);
    }
    let (parts, body) = request.into_parts();
    let again = (parts.clone(), next.clone());
    let response = next.run(Request::from_parts(parts, body)).await;
    let Err(_) = admission.recharge(size(&response)) else {
        return Ok(response);
    };
    // Made again when there is room for it: while it waits it would be in memory without being counted.
    let size_then = size(&response);
    drop(response);
    admission.recharge_within(PATIENCE, size_then).await?;
    let (parts, next) = again;
    let response = next.run(Request::from_parts(parts, Body::empty())).await;
    admission.recharge(size(&response))?;
    Ok(response)
}

/// What an answer holds in memory; of one that is made while it is sent, almost nothing.
pub(crate) fn size(response: &Response) -> u64 {
    counted(response.body().size_hint().exact().unwrap_or(0))
}

pub(crate) fn counted(size: u64) -> u64 {
    if size > UNCOUNTED { size } else { 0 }
}

/// An answer that keeps its place and its bytes until the last of it is sent.
struct HeldBody {
    body: Body,
    admission: Admission,
}

/// The server takes a body to its end before it is sent, so each piece of it holds what the body holds.
struct HeldBytes {
    bytes: Bytes,
    _admission: Admission,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let hold = |bytes| {
            Bytes::from_owner(HeldBytes {
                bytes,
                _admission: self.admission.clone(),
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

fn only_reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
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

/// A store does few searches for a text at one time, in the order in which they come, whoever asks.
fn searches_text(request: &Request) -> bool {
    let is_text = |(name, value): &(String, String)| name == "text" && !value.is_empty();
    only_reads(request.method()) && params::pairs(request.uri()).is_ok_and(|pairs| pairs.iter().any(is_text))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use http_body_util::BodyExt;

    use super::*;
    use crate::pool::{Pool, Resource};

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

    #[test]
    fn a_request_takes_its_place_when_its_body_is_there() {
        let account = Account::from(IpAddr::from(Ipv4Addr::LOCALHOST));
        let uploads = Pool::new(Resource::Uploads, 1, 100);
        let work = Pool::new(Resource::Requests, 1, 100);
        let bytes = Pool::new(Resource::Bytes, 100, 100);
        let upload = uploads.take(&account, 1).unwrap();
        let admission = Admission::receiving(account.clone(), Some(upload), work.clone(), bytes);
        admission.charge(10).unwrap();
        let other = work.take(&account, 1).unwrap();
        assert!(admission.start_work().is_err());
        assert!(uploads.take(&account, 1).is_err());
        drop(other);
        admission.start_work().unwrap();
        assert!(uploads.take(&account, 1).is_ok() && work.take(&account, 1).is_err());
        // Its body is still in memory, and its place is still the same.
        admission.start_work().unwrap();
        assert_eq!(admission.bytes(), 10);
        drop(admission);
        assert!(work.take(&account, 1).is_ok());
    }

    #[test]
    fn only_routes_that_read_a_body_first_come_without_a_place() {
        let check = |method: Method, path: &str, body: &'static str, expected: bool| {
            let request = Request::builder().method(&method).uri(path);
            let request = request.body(Body::from(body)).unwrap();
            assert_eq!(reads_body_first(&request), expected, "{method} {path}");
        };
        check(Method::POST, "/api/v1/tasks", "{}", true);
        check(Method::POST, "/api/v1/tasks?wait=1", "{}", true);
        check(Method::POST, "/api/v1/tasks/batch", "{}", true);
        check(Method::POST, "/api/v1/tasks", "", false);
        check(Method::GET, "/api/v1/tasks", "{}", false);
        check(Method::PUT, "/api/v1/blobs/x", "{}", false);
        check(Method::POST, "/tasks/x/cancel", "{}", false);
    }

    #[test]
    fn searches_for_a_text_are_seen_in_the_url() {
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
    async fn an_answer_keeps_its_place_until_its_bytes_are_dropped() {
        let account = Account::from(IpAddr::from(Ipv4Addr::LOCALHOST));
        let places = Pool::new(Resource::Requests, 1, 100);
        let bytes = Pool::new(Resource::Bytes, 10, 100);
        let admission = Admission::new(account.clone(), places.take(&account, 1).unwrap(), bytes.clone());
        admission.charge(10).unwrap();
        let mut body = HeldBody {
            body: Body::from("an answer"),
            admission,
        };
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!(frame, "an answer");
        assert!(places.take(&account, 1).is_err() && bytes.take(&account, 1).is_err());
        drop(frame);
        assert!(places.take(&account, 1).is_ok() && bytes.take(&account, 1).is_ok());
    }

    #[tokio::test]
    async fn bytes_follow_what_is_in_memory() {
        let account = Account::from(IpAddr::from(Ipv4Addr::LOCALHOST));
        let places = Pool::new(Resource::Requests, 2, 100);
        let bytes = Pool::new(Resource::Bytes, 100, 100);
        let admit = || Admission::new(account.clone(), places.take(&account, 1).unwrap(), bytes.clone());
        let (one, other) = (admit(), admit());
        one.charge(60).unwrap();
        other.charge(40).unwrap();
        assert!(other.recharge(41).is_err());
        assert_eq!(other.bytes(), 40);
        one.recharge(10).unwrap();
        other.recharge(90).unwrap();
        assert!(one.recharge_within(Duration::ZERO, 20).await.is_err());
        assert_eq!(one.bytes(), 0);
        drop(other);
        one.recharge_within(PATIENCE, 20).await.unwrap();
        assert_eq!(one.bytes(), 20);
    }
}
