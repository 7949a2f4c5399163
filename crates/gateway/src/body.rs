//! Reading a request's body, up to a limit.

use std::time::Duration;

use api::ParseError;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::refusal::Refusal;

/// A body that has not come in by then is not worth its place.
const PATIENCE: Duration = Duration::from_secs(120);

/// Parsing more than this would hold up everyone else on the thread.
const LARGE: usize = 256 << 10;

/// How much of a refused body is read all the same.
const DRAIN_BYTES: u64 = 64 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(2);

pub(crate) async fn read_json<T>(request: Request, limit: u64) -> Result<T, Refusal>
where
    T: DeserializeOwned + Send + 'static,
{
    let bytes = read(request, limit).await?;
    parse(bytes).await
}

pub(crate) async fn parse<T>(bytes: Bytes) -> Result<T, Refusal>
where
    T: DeserializeOwned + Send + 'static,
{
    if bytes.len() <= LARGE {
        return Ok(api::parse(&bytes)?);
    }
    let parsed: Result<T, ParseError> = tokio::task::spawn_blocking(move || api::parse(&bytes))
        .await
        .map_err(|_| Refusal::Panicked)?;
    Ok(parsed?)
}

pub(crate) async fn read(request: Request, limit: u64) -> Result<Bytes, Refusal> {
    let (parts, body) = request.into_parts();
    let body = refuse_early(&parts.headers, body, limit).await?;
    // What a client announces is believed up to a point: the memory comes with the bytes.
    let announced = content_length(&parts.headers).map_or(0, |length| length.min(LARGE as u64));
    let mut collected = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
    let mut stream = body.into_data_stream();
    let reading = async {
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| Refusal::Broken(error.to_string()))?;
            if collected.len() as u64 + chunk.len() as u64 > limit {
                return Err(Refusal::TooLarge { limit, actual: None });
            }
            collected.extend_from_slice(&chunk);
        }
        Ok(())
    };
    let outcome = timeout(PATIENCE, reading).await;
    match outcome {
        Ok(Ok(())) => Ok(collected.into()),
        Ok(Err(refusal)) => {
            if matches!(refusal, Refusal::TooLarge { .. }) {
                drain(stream).await;
            }
            Err(refusal)
        }
        Err(_) => Err(Refusal::Broken(format!("it took longer than {PATIENCE:?}"))),
    }
}

/// A body that says itself that it is too large is refused before any of it is kept.
pub(crate) async fn refuse_early(headers: &HeaderMap, body: Body, limit: u64) -> Result<Body, Refusal> {
    match content_length(headers) {
        Some(actual) if actual > limit => {
            // Who asks before sending is answered without sending.
            if !headers.contains_key(header::EXPECT) {
                drain(body.into_data_stream()).await;
            }
            Err(Refusal::TooLarge {
                limit,
                actual: Some(actual),
            })
        }
        _ => Ok(body),
    }
}

/// Closing on a client that is still sending makes it see a broken connection instead of the answer; so the
/// rest is read and thrown away, within reason.
async fn drain<E>(mut stream: impl Stream<Item = Result<Bytes, E>> + Unpin) {
    let reading = async {
        let mut left = DRAIN_BYTES;
        while let Some(Ok(chunk)) = stream.next().await {
            match left.checked_sub(chunk.len() as u64) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    // Whether it ended or not, the answer is the same.
    let _ = timeout(DRAIN_TIME, reading).await;
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
