//! Reading a request's body, up to a limit.

use api::ParseError;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use futures::StreamExt;

use crate::admission::{Admission, PATIENCE, UNCOUNTED};
use crate::pool::Exhausted;
use crate::refusal::Refusal;

/// Parsing more than this would hold up everyone else on the thread.
const LARGE: usize = 256 << 10;

pub(crate) async fn read_json<T, P>(request: Request, limit: u64, parse: P) -> Result<T, Refusal>
where
    T: Send + 'static,
    P: FnOnce(&[u8]) -> Result<T, ParseError> + Send + 'static,
{
    let admission = Admission::of(request.extensions())?;
    let bytes = read(&admission, request, limit).await?;
    admission.start_work()?;
    parse_with(&admission, bytes, parse).await
}

pub(crate) async fn parse_with<T, P>(admission: &Admission, bytes: Bytes, parse: P) -> Result<T, Refusal>
where
    T: Send + 'static,
    P: FnOnce(&[u8]) -> Result<T, ParseError> + Send + 'static,
{
    if bytes.len() <= LARGE {
        return Ok(parse(&bytes)?);
    }
    let admission = admission.clone();
    let parsing = move || -> Result<T, ParseError> {
        let _held = admission;
        parse(&bytes)
    };
    let parsed = tokio::task::spawn_blocking(parsing).await;
    Ok(parsed.map_err(|_| Refusal::Panicked)??)
}

async fn read(admission: &Admission, request: Request, limit: u64) -> Result<Bytes, Refusal> {
    let (parts, body) = request.into_parts();
    refuse_early(&parts.headers, limit)?;
    let body = charged(admission, &parts.headers, body).await?;
    // What a client announces is believed up to a point: the memory comes with the bytes.
    let announced = content_length(&parts.headers).map_or(0, |length| length.min(LARGE as u64));
    let mut collected = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
    let mut stream = body.into_data_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(broken)?;
        if collected.len() as u64 + chunk.len() as u64 > limit {
            return Err(Refusal::TooLarge { limit, actual: None });
        }
        collected.extend_from_slice(&chunk);
    }
    Ok(collected.into())
}

fn broken(error: axum::Error) -> Refusal {
    match error.into_inner().downcast::<Exhausted>() {
        Ok(exhausted) => (*exhausted).into(),
        Err(error) => Refusal::Broken(error.to_string()),
    }
}

/// A body that is charged for what is read of it, for readers that keep it. A length that is announced is charged
/// before anything is read: two bodies that are half there could only wait for each other.
pub(crate) async fn charged(admission: &Admission, headers: &HeaderMap, body: Body) -> Result<Body, Refusal> {
    if let Some(announced) = content_length(headers) {
        if announced > UNCOUNTED {
            admission.recharge_within(PATIENCE, announced).await?;
        }
        return Ok(body);
    }
    let admission = admission.clone();
    let mut read = 0;
    let chunks = body.into_data_stream().map(move |chunk| {
        let chunk = chunk?;
        read += chunk.len() as u64;
        let more = read.saturating_sub(admission.bytes());
        if read > UNCOUNTED && more > 0 {
            admission.charge(more).map_err(axum::Error::new)?;
        }
        Ok::<_, axum::Error>(chunk)
    });
    Ok(Body::from_stream(chunks))
}

/// A body that says itself that it is too large is refused before any of it is kept.
pub(crate) fn refuse_early(headers: &HeaderMap, limit: u64) -> Result<(), Refusal> {
    match content_length(headers) {
        Some(actual) if actual > limit => Err(Refusal::TooLarge {
            limit,
            actual: Some(actual),
        }),
        _ => Ok(()),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What the body is said to be, without parameters, in lower case. Nothing said is taken for JSON.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let text = headers
        .get(header::CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let text = text.as_deref().unwrap_or(JSON);
    text.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

pub(crate) const JSON: &str = "application/json";

pub(crate) fn must_be_json(headers: &HeaderMap) -> Result<(), Refusal> {
    match media_type(headers) {
        json if json == JSON => Ok(()),
        actual => Err(Refusal::MediaType {
            expected: JSON,
            actual,
        }),
    }
}
