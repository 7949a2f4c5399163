//! Reading a request's body, up to a limit.

use std::time::Duration;

use api::ParseError;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use futures::StreamExt;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::refusal::Refusal;

/// A body that has not come in by then is not worth its place.
const PATIENCE: Duration = Duration::from_secs(120);

/// Parsing more than this would hold up everyone else on the thread.
const LARGE: usize = 256 << 10;

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
    refuse_early(&parts.headers, limit)?;
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
    match timeout(PATIENCE, reading).await {
        Ok(Ok(())) => Ok(collected.into()),
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Err(Refusal::Broken(format!("it took longer than {PATIENCE:?}"))),
    }
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
