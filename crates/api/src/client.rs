//! A client of the HTTP API, with one method for each call. The calls are in the files `tasks`, `outputs`, `files`,
//! `groups`, `problems` and `blobs`; this file sends requests and reads responses.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::Stream;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;

use crate::{
    HistoryResponse, JudicatorState, JudicatorsResponse, Language, LanguagesResponse, Root, RootsResponse,
    Stats,
};

mod blobs;
mod error;
mod events;
mod files;
mod groups;
mod nodes;
mod options;
mod outputs;
mod problems;
mod progress;
mod request;
mod resume;
mod retry;
mod tasks;
#[cfg(test)]
mod tests;
mod tls;

pub use blobs::BlobDownload;
pub use error::HttpClientError;
pub use events::{ReceivedTaskEvent, TaskStreamEvent};
pub use files::FileDownloadError;
pub use options::HttpClientOptions;
pub use outputs::OutputDownload;

use progress::TransferProgress;
use request::{RepeatableRequest, ResponseKind};
use retry::{AttemptError, HttpRetryPolicy};

/// A client of the HTTP API of a gateway, with one method for each call. Clones share their connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    http: reqwest::Client,
    base: Url,
    idle_timeout: Duration,
    retry_policy: HttpRetryPolicy,
}

/// The idle timeout and the deadline of the HTTP client for one response of a gateway.
#[derive(Clone, Copy, Debug)]
struct ResponseTimeouts {
    idle_timeout: Duration,
    /// When the whole response must have arrived. A response that has begun has at least `idle_timeout`.
    deadline: Option<Instant>,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A gateway sends a comment every 15 seconds on an event stream without events.
const EVENTS_IDLE_TIMEOUT: Duration = Duration::from_secs(45);

/// Larger bodies are sent in chunks, so that the client sees whether bytes are transferred.
const MAX_SINGLE_CHUNK_BODY: usize = 64 << 10;

impl HttpClient {
    /// `server` is an address like `http://127.0.0.1:7000`; the scheme is optional. Requests are not repeated.
    pub fn new(server: &str, token: Option<&str>) -> Result<HttpClient, HttpClientError> {
        HttpClient::with_options(
            server,
            HttpClientOptions {
                token: token.map(ToString::to_string),
                ..HttpClientOptions::default()
            },
        )
    }

    pub fn with_options(server: &str, options: HttpClientOptions) -> Result<HttpClient, HttpClientError> {
        let HttpClientOptions {
            token,
            ca_certificates,
            idle_timeout,
            retry_for,
            bypass_proxy,
            on_retry,
        } = options;
        let base = parse_base_url(server)?;
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|_| HttpClientError::InvalidToken)?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT.min(idle_timeout))
            .tcp_nodelay(true);
        // A proxy cannot reach the loopback interface of this machine.
        if bypass_proxy || matches!(base.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            builder = builder.no_proxy();
        }
        let builder = tls::configure(builder, &base, ca_certificates.as_deref())?;
        let http = builder.build().map_err(HttpClientError::Setup)?;
        Ok(HttpClient {
            http,
            base,
            idle_timeout,
            retry_policy: HttpRetryPolicy::new(idle_timeout, retry_for, on_retry),
        })
    }

    pub async fn judicators(&self) -> Result<Vec<JudicatorState>, HttpClientError> {
        let list: JudicatorsResponse = self.json(self.call(Method::GET, "/api/v1/judicators")).await?;
        Ok(list.judicators)
    }

    pub async fn languages(&self) -> Result<Vec<Language>, HttpClientError> {
        let list: LanguagesResponse = self.json(self.call(Method::GET, "/api/v1/languages")).await?;
        Ok(list.languages)
    }

    pub async fn roots(&self) -> Result<Vec<Root>, HttpClientError> {
        let list: RootsResponse = self.json(self.call(Method::GET, "/api/v1/roots")).await?;
        Ok(list.roots)
    }

    pub async fn stats(&self) -> Result<Stats, HttpClientError> {
        self.json(self.call(Method::GET, "/api/v1/stats")).await
    }

    pub async fn history(&self, span: model::HistorySpan) -> Result<HistoryResponse, HttpClientError> {
        let call = self.call(Method::GET, "/api/v1/history");
        self.json(call.with_parameter("span", Some(span.as_str()))).await
    }

    /// For requests that the client does not repeat itself: whether the caller should send it again.
    pub fn should_retry(&self, error: &HttpClientError, began: Instant) -> bool {
        self.retry_policy.should_retry(error, began.elapsed())
    }

    /// Whether the server can serve requests; the error says why not. The request is not repeated.
    pub async fn ready(&self) -> Result<(), HttpClientError> {
        self.open(&self.call(Method::GET, "/readyz")).await.map(drop)
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        // A reverse proxy may serve the API below a path.
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }

    /// The URL of a path with names of users in it, such as groups and files, which may contain any character.
    fn url_below<'a>(&self, path: &str, names: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.url(path);
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(names);
        }
        url
    }

    fn call(&self, method: Method, path: &str) -> RepeatableRequest {
        RepeatableRequest {
            method,
            url: self.url(path),
            headers: HeaderMap::new(),
            body: None,
            wait: Duration::ZERO,
            response: ResponseKind::Json,
        }
    }

    async fn json<T: DeserializeOwned>(&self, call: RepeatableRequest) -> Result<T, HttpClientError> {
        let (_, body) = self.send_with_retries(call).await?;
        serde_json::from_slice(&body).map_err(|error| HttpClientError::UnexpectedResponse {
            server: self.base.to_string(),
            problem: error.to_string(),
        })
    }

    /// Sends the request, repeats it as the options allow, and reads the whole response.
    async fn send_with_retries(
        &self,
        call: RepeatableRequest,
    ) -> Result<(HeaderMap, Bytes), HttpClientError> {
        let mut attempts = self.retry_policy.begin(call.wait);
        loop {
            let timeouts = ResponseTimeouts {
                idle_timeout: attempts.idle_timeout(),
                deadline: (call.response == ResponseKind::Json).then(|| attempts.deadline()),
            };
            match self.attempt(&call, timeouts).await {
                Ok(response) => return Ok(response),
                Err(failed) => attempts.pause_after(failed).await?,
            }
        }
    }

    async fn attempt(
        &self,
        call: &RepeatableRequest,
        timeouts: ResponseTimeouts,
    ) -> Result<(HeaderMap, Bytes), AttemptError> {
        let progress = TransferProgress::start();
        let request = self.build_request(call, &progress);
        let idle_timeout = timeouts.idle_timeout + call.wait;
        let response = self.send(request, &progress, idle_timeout).await?;
        let response = self.check_status(response, &progress, timeouts).await?;
        let headers = response.headers().clone();
        Ok((headers, self.read_body(response, &progress, timeouts).await?))
    }

    /// For requests that are not repeated. The deadline applies to error responses only, as others are streamed.
    fn single_attempt_timeouts(&self) -> ResponseTimeouts {
        ResponseTimeouts {
            idle_timeout: self.idle_timeout,
            deadline: Some(Instant::now()),
        }
    }

    /// Sends the request once and returns the response before its body.
    async fn open(&self, call: &RepeatableRequest) -> Result<Response, HttpClientError> {
        let progress = TransferProgress::start();
        let request = self.build_request(call, &progress);
        let response = self.send(request, &progress, self.idle_timeout).await?;
        self.check_status(response, &progress, self.single_attempt_timeouts())
            .await
            .map_err(|failed| failed.error)
    }

    fn build_request(&self, call: &RepeatableRequest, progress: &TransferProgress) -> RequestBuilder {
        let mut url = call.url.clone();
        if !call.wait.is_zero() {
            url.query_pairs_mut()
                .append_pair("wait", &call.wait.as_secs_f64().to_string());
        }
        let request = self.http.request(call.method.clone(), url);
        let request = request.headers(call.headers.clone());
        let Some(body) = &call.body else { return request };
        let request = request.header(header::CONTENT_TYPE, "application/json");
        if body.len() <= MAX_SINGLE_CHUNK_BODY {
            return request.body(body.clone());
        }
        let parts = progress.clone().recording(progress::chunks(body.clone()));
        request
            .header(header::CONTENT_LENGTH, body.len())
            .body(reqwest::Body::wrap_stream(parts))
    }

    async fn send(
        &self,
        request: RequestBuilder,
        progress: &TransferProgress,
        idle_timeout: Duration,
    ) -> Result<Response, HttpClientError> {
        let response = match progress.or_idle_timeout(idle_timeout, request.send()).await {
            Some(response) => response.map_err(|error| self.request_error(error)),
            None => Err(self.timeout_error(idle_timeout)),
        };
        if !matches!(response, Err(HttpClientError::Connect { .. })) {
            self.retry_policy.record_connected();
        }
        response
    }

    async fn check_status(
        &self,
        response: Response,
        progress: &TransferProgress,
        timeouts: ResponseTimeouts,
    ) -> Result<Response, AttemptError> {
        progress.record();
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let after = response.headers().get(header::RETRY_AFTER);
        let retry_after = after.and_then(|after| after.to_str().ok()?.parse().ok());
        let timeouts = ResponseTimeouts {
            deadline: timeouts.deadline.or(Some(Instant::now())),
            ..timeouts
        };
        let body = self.read_body(response, progress, timeouts).await?;
        Err(AttemptError {
            error: HttpClientError::from_response(self.base.as_str(), status, &body),
            retry_after: retry_after.map(Duration::from_secs),
        })
    }

    async fn read_body(
        &self,
        response: Response,
        progress: &TransferProgress,
        timeouts: ResponseTimeouts,
    ) -> Result<Bytes, HttpClientError> {
        let ResponseTimeouts {
            idle_timeout,
            deadline,
        } = timeouts;
        let began = Instant::now();
        let whole = self.read_body_until_idle(response, progress, idle_timeout);
        let Some(deadline) = deadline else {
            return whole.await;
        };
        let deadline = deadline.max(began + idle_timeout);
        match tokio::time::timeout_at(deadline.into(), whole).await {
            Ok(whole) => whole,
            Err(_) => Err(HttpClientError::IncompleteResponse {
                server: self.base.to_string(),
                spent: began.elapsed(),
            }),
        }
    }

    async fn read_body_until_idle(
        &self,
        mut response: Response,
        progress: &TransferProgress,
        idle_timeout: Duration,
    ) -> Result<Bytes, HttpClientError> {
        let mut body = Vec::new();
        loop {
            progress.record();
            match progress.or_idle_timeout(idle_timeout, response.chunk()).await {
                Some(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Some(Ok(None)) => return Ok(body.into()),
                Some(Err(error)) => return Err(self.request_error(error)),
                None => return Err(self.timeout_error(idle_timeout)),
            }
        }
    }

    fn stream_body(
        &self,
        response: Response,
        idle_timeout: Duration,
    ) -> impl Stream<Item = Result<Bytes, HttpClientError>> + Send + 'static {
        let client = self.clone();
        futures::stream::unfold(Some(response), move |response| {
            let client = client.clone();
            async move {
                let mut response = response?;
                match tokio::time::timeout(idle_timeout, response.chunk()).await {
                    Ok(Ok(Some(chunk))) => Some((Ok(chunk), Some(response))),
                    Ok(Ok(None)) => None,
                    Ok(Err(error)) => Some((Err(client.request_error(error)), None)),
                    Err(_) => Some((Err(client.timeout_error(idle_timeout)), None)),
                }
            }
        })
    }

    fn request_error(&self, error: reqwest::Error) -> HttpClientError {
        HttpClientError::from_reqwest(self.base.to_string(), error)
    }

    fn timeout_error(&self, idle_timeout: Duration) -> HttpClientError {
        HttpClientError::Timeout {
            server: self.base.to_string(),
            idle_timeout,
        }
    }
}

fn parse_base_url(server: &str) -> Result<Url, HttpClientError> {
    let server = server.trim();
    let text = if server.contains("://") {
        server.to_string()
    } else {
        format!("http://{server}")
    };
    let invalid = |problem: &str| HttpClientError::InvalidAddress {
        server: server.to_string(),
        problem: problem.to_string(),
    };
    let url = Url::parse(&text).map_err(|error| invalid(&error.to_string()))?;
    match (url.scheme(), url.host_str()) {
        ("http" | "https", Some(_)) => Ok(url),
        ("http" | "https", None) => Err(invalid("the host is missing")),
        _ => Err(invalid("only http:// and https:// are supported")),
    }
}
