//! Downloads that continue at their offset after a lost connection.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use reqwest::StatusCode;
use reqwest::header::{self, HeaderValue};

use super::request::RepeatableRequest;
use super::retry::HttpAttempts;
use super::{HttpClient, HttpClientError};

/// A download by the HTTP client of a gateway that reconnects after a lost connection and continues at its offset.
pub(super) struct ResumableDownload {
    client: HttpClient,
    request: ResumableRequest,
    position: u64,
    body: Option<BoxStream<'static, Result<Bytes, HttpClientError>>>,
    /// The failed attempts since the last byte.
    attempts: Option<HttpAttempts>,
    is_over: bool,
}

/// A request of the HTTP client to a gateway for bytes from an offset on, and how it names the offset.
pub(super) enum ResumableRequest {
    /// The parameter `offset`. The bytes may be written at this moment, so a pause is no failure. A connection without
    /// bytes is replaced after this time, because it may be dead.
    Offset {
        call: RepeatableRequest,
        reconnect_after: Duration,
    },
    /// The header `Range`.
    Range(RepeatableRequest),
}

impl ResumableDownload {
    pub(super) fn new(client: &HttpClient, request: ResumableRequest, position: u64) -> ResumableDownload {
        ResumableDownload {
            client: client.clone(),
            request,
            position,
            body: None,
            attempts: None,
            is_over: false,
        }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes, HttpClientError>> + Send + 'static {
        stream::unfold(self, |mut download| async {
            let next = download.next().await?;
            download.is_over = next.is_err();
            Some((next, download))
        })
    }

    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, HttpClientError>> {
        while !self.is_over {
            let failure = match &mut self.body {
                None => match self.open().await {
                    Ok(body) => {
                        self.body = Some(body);
                        continue;
                    }
                    Err(error) => error,
                },
                Some(body) => match body.next().await {
                    None => return None,
                    Some(Ok(bytes)) => {
                        self.attempts = None;
                        self.position += bytes.len() as u64;
                        return Some(Ok(bytes));
                    }
                    Some(Err(HttpClientError::Timeout { .. })) if self.may_pause() => {
                        self.body = None;
                        continue;
                    }
                    Some(Err(error)) => error,
                },
            };
            self.body = None;
            if let Err(error) = self.pause_after(failure).await {
                return Some(Err(error));
            }
        }
        None
    }

    fn may_pause(&self) -> bool {
        matches!(self.request, ResumableRequest::Offset { .. })
    }

    async fn open(&mut self) -> Result<BoxStream<'static, Result<Bytes, HttpClientError>>, HttpClientError> {
        let (call, idle_timeout) = match &self.request {
            ResumableRequest::Offset {
                call,
                reconnect_after,
            } => {
                let offset = self.position.to_string();
                let call = call.clone().with_parameter("offset", Some(&offset));
                (call, *reconnect_after)
            }
            ResumableRequest::Range(call) => (self.ranged(call.clone()), self.client.idle_timeout),
        };
        let response = self.client.open(&call).await?;
        let is_partial = response.status() == StatusCode::PARTIAL_CONTENT;
        if call.headers.contains_key(header::RANGE) && !is_partial {
            return Err(HttpClientError::UnexpectedResponse {
                server: self.client.base.to_string(),
                problem: "the server does not continue a download".into(),
            });
        }
        Ok(self.client.stream_body(response, idle_timeout).boxed())
    }

    fn ranged(&self, call: RepeatableRequest) -> RepeatableRequest {
        match HeaderValue::from_str(&format!("bytes={}-", self.position)) {
            Ok(range) if self.position > 0 => call.with_header(header::RANGE, range),
            _ => call,
        }
    }

    /// Sleeps until the next attempt. Returns the error if there is none.
    async fn pause_after(&mut self, error: HttpClientError) -> Result<(), HttpClientError> {
        let retry_policy = &self.client.retry_policy;
        let attempts = self
            .attempts
            .get_or_insert_with(|| retry_policy.begin(Duration::ZERO));
        attempts.pause_after(error.into()).await
    }
}
