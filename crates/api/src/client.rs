//! A client of the HTTP API: one function for each call.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt};
use model::{BlobHash, Query, TaskId};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;

use crate::{
    Added, Brief, Event, Executor, Executors, Judicator, Judicators, NewTask, NewTasks, Page, Stats, Task,
    query_pairs,
};

mod call;
mod error;
mod events;
mod options;
mod progress;
mod repeat;
#[cfg(test)]
mod tests;
mod tls;

pub use error::ClientError;
pub use options::ClientOptions;

use call::{Answer, Call};
use progress::Progress;
use repeat::{Failed, Repeat};

/// Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    silence: Duration,
    repeat: Repeat,
}

/// How long a server may take to answer.
#[derive(Clone, Copy, Debug)]
struct Patience {
    silence: Duration,
    /// Until when the whole answer is to be there. An answer that has begun has `silence` at least.
    deadline: Option<Instant>,
}

/// Which step's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Compile,
    Execute,
}

/// Which of a step's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
}

/// A blob's bytes as they come in.
pub type Blob = BoxStream<'static, Result<Bytes, ClientError>>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A gateway sends a sign of life every 15 seconds when there is nothing to tell.
const EVENTS_SILENCE: Duration = Duration::from_secs(45);

/// Larger bodies are handed to the connection in parts, so that it can be seen whether they move.
const WHOLE_BODY: usize = 64 << 10;

impl Client {
    /// `server` is like `http://127.0.0.1:7000`; the scheme may be left out. Each call is made once.
    pub fn new(server: &str, token: Option<&str>) -> Result<Client, ClientError> {
        Client::with(
            server,
            ClientOptions {
                token: token.map(ToString::to_string),
                ..ClientOptions::default()
            },
        )
    }

    pub fn with(server: &str, options: ClientOptions) -> Result<Client, ClientError> {
        let ClientOptions {
            token,
            authorities,
            silence,
            repeat_for,
            direct,
            on_repeat,
        } = options;
        let base = base(server)?;
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value =
                HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(|_| ClientError::Token)?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT.min(silence))
            .tcp_nodelay(true);
        // A proxy from the environment cannot reach this machine's own loopback.
        if direct || matches!(base.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            builder = builder.no_proxy();
        }
        let builder = tls::set_up(builder, &base, authorities.as_deref())?;
        let http = builder.build().map_err(ClientError::Setup)?;
        Ok(Client {
            http,
            base,
            silence,
            repeat: Repeat::new(silence, repeat_for, on_repeat),
        })
    }

    /// Adds a task; with a wait, answers once it is done or the wait is over.
    /// Set the task's id to make repeating safe.
    pub async fn add(&self, task: &NewTask, wait: Option<Duration>) -> Result<Task, ClientError> {
        let call = self.call(Method::POST, "/api/v1/tasks");
        self.json(call.sending(task).waiting(wait)).await
    }

    /// Adds all or none, in one call.
    pub async fn add_many(&self, tasks: Vec<NewTask>) -> Result<Vec<Brief>, ClientError> {
        let call = self.call(Method::POST, "/api/v1/tasks/batch");
        let added: Added = self.json(call.sending(&NewTasks { tasks })).await?;
        Ok(added.tasks)
    }

    /// The task as it is; with a wait, once it is done or the wait is over.
    pub async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, ClientError> {
        let call = self.call(Method::GET, &format!("/api/v1/tasks/{id}"));
        self.json(call.waiting(wait)).await
    }

    pub async fn search(&self, query: &Query) -> Result<Page, ClientError> {
        let mut call = self.call(Method::GET, "/api/v1/tasks");
        call.url.query_pairs_mut().extend_pairs(query_pairs(query));
        self.json(call).await
    }

    /// Answers the task as it then is. A task that is done otherwise is refused with a 409 problem.
    pub async fn cancel(&self, id: TaskId) -> Result<Task, ClientError> {
        self.json(self.call(Method::DELETE, &format!("/api/v1/tasks/{id}")))
            .await
    }

    /// The task's present status, then every change until it is done. Made once, whatever the options say.
    pub async fn events(
        &self,
        id: TaskId,
    ) -> Result<BoxStream<'static, Result<Event, ClientError>>, ClientError> {
        let call = self.call(Method::GET, &format!("/api/v1/tasks/{id}/events"));
        let response = self.open(&call).await?;
        Ok(events::read(self.bytes(response, EVENTS_SILENCE)).boxed())
    }

    /// Exactly the bytes that a step wrote, up to the cap.
    pub async fn output(&self, id: TaskId, step: Step, output: Output) -> Result<Bytes, ClientError> {
        let path = format!("/api/v1/tasks/{id}/{}/{}", step.as_str(), output.as_str());
        let mut call = self.call(Method::GET, &path);
        call.answer = Answer::Bytes;
        let (_, body) = self.answer(call).await?;
        Ok(body)
    }

    /// Keeps the bytes under their hash, which must be theirs. A stream can be sent once: see `is_worth_repeating`.
    pub async fn put_blob<S, E>(&self, hash: BlobHash, bytes: S) -> Result<(), ClientError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let progress = Progress::start();
        let request = self
            .http
            .put(self.url(&format!("/api/v1/blobs/{hash}")))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(reqwest::Body::wrap_stream(progress.clone().noting(bytes)));
        let response = self.send(request, &progress, self.silence).await?;
        self.accepted(response, &progress, self.patience())
            .await
            .map(drop)
            .map_err(|failed| failed.error)
    }

    /// The blob's size, if it exists.
    pub async fn has_blob(&self, hash: BlobHash) -> Result<Option<u64>, ClientError> {
        let call = self.call(Method::HEAD, &format!("/api/v1/blobs/{hash}"));
        match self.answer(call).await {
            Err(error) if error.problem().is_some_and(|problem| problem.status == 404) => Ok(None),
            Err(error) => Err(error),
            Ok((headers, _)) => {
                let length = headers.get(header::CONTENT_LENGTH);
                let size = length.and_then(|length| length.to_str().ok()?.parse().ok());
                size.map(Some).ok_or(ClientError::Answer {
                    server: self.base.to_string(),
                    problem: "it says no Content-Length for a blob".into(),
                })
            }
        }
    }

    pub async fn get_blob(&self, hash: BlobHash) -> Result<Blob, ClientError> {
        let call = self.call(Method::GET, &format!("/api/v1/blobs/{hash}"));
        let response = self.open(&call).await?;
        Ok(self.bytes(response, self.silence).boxed())
    }

    pub async fn executors(&self) -> Result<Vec<Executor>, ClientError> {
        let answer: Executors = self.json(self.call(Method::GET, "/api/v1/executors")).await?;
        Ok(answer.executors)
    }

    pub async fn judicators(&self) -> Result<Vec<Judicator>, ClientError> {
        let answer: Judicators = self.json(self.call(Method::GET, "/api/v1/judicators")).await?;
        Ok(answer.judicators)
    }

    pub async fn stats(&self) -> Result<Stats, ClientError> {
        self.json(self.call(Method::GET, "/api/v1/stats")).await
    }

    /// For calls that are made once: whether one that began then and failed with this should be made again.
    pub fn is_worth_repeating(&self, error: &ClientError, began: Instant) -> bool {
        self.repeat.allows(error, began.elapsed())
    }

    /// Whether the server can serve requests; the error says why not. One attempt.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.open(&self.call(Method::GET, "/readyz")).await.map(drop)
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        // The base may lie below a folder of a reverse proxy.
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }

    fn call(&self, method: Method, path: &str) -> Call {
        Call {
            method,
            url: self.url(path),
            body: None,
            wait: Duration::ZERO,
            answer: Answer::Json,
        }
    }

    async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let (_, body) = self.answer(call).await?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Answer {
            server: self.base.to_string(),
            problem: error.to_string(),
        })
    }

    /// The whole answer, after as many attempts as the options allow.
    async fn answer(&self, call: Call) -> Result<(HeaderMap, Bytes), ClientError> {
        let mut attempts = self.repeat.begin(call.wait);
        loop {
            let patience = Patience {
                silence: attempts.silence(),
                deadline: (call.answer == Answer::Json).then(|| attempts.deadline()),
            };
            match self.attempt(&call, patience).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => attempts.pause_after(failed).await?,
            }
        }
    }

    async fn attempt(&self, call: &Call, patience: Patience) -> Result<(HeaderMap, Bytes), Failed> {
        let progress = Progress::start();
        let request = self.request(call, &progress);
        let silence = patience.silence + call.wait;
        let response = self.send(request, &progress, silence).await?;
        let response = self.accepted(response, &progress, patience).await?;
        let headers = response.headers().clone();
        Ok((headers, self.read(response, &progress, patience).await?))
    }

    /// For calls that are made once. Only their refusals are read whole.
    fn patience(&self) -> Patience {
        Patience {
            silence: self.silence,
            deadline: Some(Instant::now()),
        }
    }

    /// The beginning of an answer that may be long. One attempt.
    async fn open(&self, call: &Call) -> Result<Response, ClientError> {
        let progress = Progress::start();
        let request = self.request(call, &progress);
        let response = self.send(request, &progress, self.silence).await?;
        self.accepted(response, &progress, self.patience())
            .await
            .map_err(|failed| failed.error)
    }

    fn request(&self, call: &Call, progress: &Progress) -> RequestBuilder {
        let mut url = call.url.clone();
        if !call.wait.is_zero() {
            url.query_pairs_mut()
                .append_pair("wait", &call.wait.as_secs_f64().to_string());
        }
        let request = self.http.request(call.method.clone(), url);
        let Some(body) = &call.body else { return request };
        let request = request.header(header::CONTENT_TYPE, "application/json");
        if body.len() <= WHOLE_BODY {
            return request.body(body.clone());
        }
        let parts = progress.clone().noting(progress::parts(body.clone()));
        request
            .header(header::CONTENT_LENGTH, body.len())
            .body(reqwest::Body::wrap_stream(parts))
    }

    async fn send(
        &self,
        request: RequestBuilder,
        progress: &Progress,
        silence: Duration,
    ) -> Result<Response, ClientError> {
        let answer = match progress.unless_silent(silence, request.send()).await {
            Some(answer) => answer.map_err(|error| self.broken(error)),
            None => Err(self.silent(silence)),
        };
        if !matches!(answer, Err(ClientError::Connect { .. })) {
            self.repeat.note_reached();
        }
        answer
    }

    async fn accepted(
        &self,
        response: Response,
        progress: &Progress,
        patience: Patience,
    ) -> Result<Response, Failed> {
        progress.note();
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let after = response.headers().get(header::RETRY_AFTER);
        let retry_after = after.and_then(|after| after.to_str().ok()?.parse().ok());
        let patience = Patience {
            deadline: patience.deadline.or(Some(Instant::now())),
            ..patience
        };
        let body = self.read(response, progress, patience).await?;
        Err(Failed {
            error: ClientError::refused(self.base.as_str(), status, &body),
            retry_after: retry_after.map(Duration::from_secs),
        })
    }

    async fn read(
        &self,
        response: Response,
        progress: &Progress,
        patience: Patience,
    ) -> Result<Bytes, ClientError> {
        let Patience { silence, deadline } = patience;
        let began = Instant::now();
        let whole = self.read_all(response, progress, silence);
        let Some(deadline) = deadline else {
            return whole.await;
        };
        let deadline = deadline.max(began + silence);
        match tokio::time::timeout_at(deadline.into(), whole).await {
            Ok(whole) => whole,
            Err(_) => Err(ClientError::Unfinished {
                server: self.base.to_string(),
                spent: began.elapsed(),
            }),
        }
    }

    async fn read_all(
        &self,
        mut response: Response,
        progress: &Progress,
        silence: Duration,
    ) -> Result<Bytes, ClientError> {
        let mut body = Vec::new();
        loop {
            progress.note();
            match progress.unless_silent(silence, response.chunk()).await {
                Some(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Some(Ok(None)) => return Ok(body.into()),
                Some(Err(error)) => return Err(self.broken(error)),
                None => return Err(self.silent(silence)),
            }
        }
    }

    fn bytes(
        &self,
        response: Response,
        silence: Duration,
    ) -> impl Stream<Item = Result<Bytes, ClientError>> + Send + 'static {
        let client = self.clone();
        futures::stream::unfold(Some(response), move |response| {
            let client = client.clone();
            async move {
                let mut response = response?;
                match tokio::time::timeout(silence, response.chunk()).await {
                    Ok(Ok(Some(chunk))) => Some((Ok(chunk), Some(response))),
                    Ok(Ok(None)) => None,
                    Ok(Err(error)) => Some((Err(client.broken(error)), None)),
                    Err(_) => Some((Err(client.silent(silence)), None)),
                }
            }
        })
    }

    fn broken(&self, error: reqwest::Error) -> ClientError {
        ClientError::broken(self.base.to_string(), error)
    }

    fn silent(&self, silence: Duration) -> ClientError {
        ClientError::Silent {
            server: self.base.to_string(),
            silence,
        }
    }
}

impl Step {
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Compile => "compile",
            Step::Execute => "execute",
        }
    }
}

impl Output {
    pub fn as_str(self) -> &'static str {
        match self {
            Output::Stdout => "stdout",
            Output::Stderr => "stderr",
        }
    }
}

fn base(server: &str) -> Result<Url, ClientError> {
    let server = server.trim();
    let text = if server.contains("://") {
        server.to_string()
    } else {
        format!("http://{server}")
    };
    let wrong = |problem: &str| ClientError::Server {
        server: server.to_string(),
        problem: problem.to_string(),
    };
    let url = Url::parse(&text).map_err(|error| wrong(&error.to_string()))?;
    match (url.scheme(), url.host_str()) {
        ("http" | "https", Some(_)) => Ok(url),
        ("http" | "https", None) => Err(wrong("it names no host")),
        _ => Err(wrong("only http:// and https:// are spoken here")),
    }
}
