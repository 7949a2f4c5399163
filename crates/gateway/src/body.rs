//! Reading request bodies, with limits on their size and on the memory for all of them.

use api::ParseError;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use futures::StreamExt;

use crate::params;
use crate::quota_pool::QuotaExceeded;
use crate::request_error::RequestError;
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota, UNCOUNTED_BYTES};

/// Larger bodies are parsed on a blocking thread, as they would delay other requests on the async thread.
const LARGE_BODY: usize = 256 << 10;

pub(crate) async fn read_json<T, P>(request: Request, limit: u64, parse: P) -> Result<T, RequestError>
where
    T: Send + 'static,
    P: FnOnce(&[u8]) -> Result<T, ParseError> + Send + 'static,
{
    let quota = RequestQuota::from_extensions(request.extensions())?;
    let bytes = read_body(&quota, request, limit).await?;
    quota.start_work()?;
    parse_body(&quota, bytes, parse).await
}

/// Reads the body of an HTML form.
pub(crate) async fn read_form(request: Request, limit: u64) -> Result<Vec<(String, String)>, RequestError> {
    match media_type(request.headers()) {
        form if form == FORM => {}
        actual => {
            return Err(RequestError::UnsupportedMediaType {
                expected: FORM,
                actual,
            });
        }
    }
    let quota = RequestQuota::from_extensions(request.extensions())?;
    let bytes = read_body(&quota, request, limit).await?;
    let text = std::str::from_utf8(&bytes);
    let text = text.map_err(|_| RequestError::Malformed("the form is not valid UTF-8".into()))?;
    Ok(params::form_fields(text)?)
}

pub(crate) async fn parse_body<T, P>(quota: &RequestQuota, bytes: Bytes, parse: P) -> Result<T, RequestError>
where
    T: Send + 'static,
    P: FnOnce(&[u8]) -> Result<T, ParseError> + Send + 'static,
{
    if bytes.len() <= LARGE_BODY {
        return Ok(parse(&bytes)?);
    }
    let quota = quota.clone();
    let parsing = move || -> Result<T, ParseError> {
        let _quota = quota;
        parse(&bytes)
    };
    let parsed = tokio::task::spawn_blocking(parsing).await;
    Ok(parsed.map_err(|_| RequestError::Panicked)??)
}

pub(crate) async fn read_body(
    quota: &RequestQuota,
    request: Request,
    limit: u64,
) -> Result<Bytes, RequestError> {
    let (parts, body) = request.into_parts();
    check_content_length(&parts.headers, limit)?;
    let body = charge_body(quota, &parts.headers, body).await?;
    // The capacity follows the announced length only up to a limit, as a client may announce any length.
    let announced = content_length(&parts.headers).map_or(0, |length| length.min(LARGE_BODY as u64));
    let mut collected = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
    let mut stream = body.into_data_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(body_error)?;
        if collected.len() as u64 + chunk.len() as u64 > limit {
            return Err(RequestError::BodyTooLarge { limit, actual: None });
        }
        collected.extend_from_slice(&chunk);
    }
    Ok(collected.into())
}

fn body_error(error: axum::Error) -> RequestError {
    match error.into_inner().downcast::<QuotaExceeded>() {
        Ok(exceeded) => (*exceeded).into(),
        Err(error) => RequestError::BodyInterrupted(error.to_string()),
    }
}

/// Charges a body that is kept in memory. If its length is announced, it is charged before the body is read, because two
/// half-read bodies could wait for each other for ever. Otherwise it is charged while it is read.
pub(crate) async fn charge_body(
    quota: &RequestQuota,
    headers: &HeaderMap,
    body: Body,
) -> Result<Body, RequestError> {
    if let Some(announced) = content_length(headers) {
        if announced > UNCOUNTED_BYTES {
            quota.set_charge_within(QUOTA_WAIT_TIMEOUT, announced).await?;
        }
        return Ok(body);
    }
    let quota = quota.clone();
    let mut read = 0;
    let chunks = body.into_data_stream().map(move |chunk| {
        let chunk = chunk?;
        read += chunk.len() as u64;
        let more = read.saturating_sub(quota.charged_bytes());
        if read > UNCOUNTED_BYTES && more > 0 {
            quota.charge(more).map_err(axum::Error::new)?;
        }
        Ok::<_, axum::Error>(chunk)
    });
    Ok(Body::from_stream(chunks))
}

/// Refuses a body whose announced length is too large, before it is read.
pub(crate) fn check_content_length(headers: &HeaderMap, limit: u64) -> Result<(), RequestError> {
    match content_length(headers) {
        Some(actual) if actual > limit => Err(RequestError::BodyTooLarge {
            limit,
            actual: Some(actual),
        }),
        _ => Ok(()),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The media type of the body in lower case, without parameters. JSON if there is no `Content-Type`.
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
const FORM: &str = "application/x-www-form-urlencoded";

pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), RequestError> {
    match media_type(headers) {
        json if json == JSON => Ok(()),
        actual => Err(RequestError::UnsupportedMediaType {
            expected: JSON,
            actual,
        }),
    }
}
