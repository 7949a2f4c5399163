//! A client of the HTTP API: one function for each call.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt};
use model::{BlobHash, Query, TaskId};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, header};
use serde::de::DeserializeOwned;

use crate::{
    Added, Brief, Event, Executor, Executors, Judicator, Judicators, NewTask, NewTasks, Page, Stats, Task,
    query_pairs,
};

mod error;
mod events;

pub use error::ClientError;

/// Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
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

impl Client {
    /// `server` is like `http://127.0.0.1:7000`; the scheme may be left out.
    pub fn new(server: &str, token: Option<&str>) -> Result<Client, ClientError> {
        let base = base(server)?;
        let mut headers = header::HeaderMap::new();
        if let Some(token) = token {
            let mut value = header::HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|_| ClientError::Token)?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true);
        // A proxy from the environment cannot reach this machine's own loopback.
        if matches!(base.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(ClientError::Setup)?;
        Ok(Client { http, base })
    }

    /// Adds a task; with a wait, answers once it is done or the wait is over.
    /// Set the task's id to make repeating safe.
    pub async fn add(&self, task: &NewTask, wait: Option<Duration>) -> Result<Task, ClientError> {
        let url = self.waiting_url("/api/v1/tasks", wait);
        self.json(self.http.post(url).json(task)).await
    }

    /// Adds all or none, in one call.
    pub async fn add_many(&self, tasks: Vec<NewTask>) -> Result<Vec<Brief>, ClientError> {
        let request = self.request(Method::POST, "/api/v1/tasks/batch");
        let added: Added = self.json(request.json(&NewTasks { tasks })).await?;
        Ok(added.tasks)
    }

    /// The task as it is; with a wait, once it is done or the wait is over.
    pub async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, ClientError> {
        let url = self.waiting_url(&format!("/api/v1/tasks/{id}"), wait);
        self.json(self.http.get(url)).await
    }

    pub async fn search(&self, query: &Query) -> Result<Page, ClientError> {
        let mut url = self.url("/api/v1/tasks");
        url.query_pairs_mut().extend_pairs(query_pairs(query));
        self.json(self.http.get(url)).await
    }

    /// Answers the task as it then is. A task that is done otherwise is refused with a 409 problem.
    pub async fn cancel(&self, id: TaskId) -> Result<Task, ClientError> {
        self.json(self.request(Method::DELETE, &format!("/api/v1/tasks/{id}")))
            .await
    }

    /// The task's present status, then every change until it is done.
    pub async fn events(
        &self,
        id: TaskId,
    ) -> Result<BoxStream<'static, Result<Event, ClientError>>, ClientError> {
        let request = self.request(Method::GET, &format!("/api/v1/tasks/{id}/events"));
        let response = self.send(request).await?;
        Ok(events::read(self.bytes(response)).boxed())
    }

    /// Exactly the bytes that a step wrote, up to the cap.
    pub async fn output(&self, id: TaskId, step: Step, output: Output) -> Result<Bytes, ClientError> {
        let path = format!("/api/v1/tasks/{id}/{}/{}", step.as_str(), output.as_str());
        let response = self.send(self.request(Method::GET, &path)).await?;
        response.bytes().await.map_err(|error| self.broken(error))
    }

    /// Keeps the bytes under their hash, which must be theirs.
    pub async fn put_blob<S, E>(&self, hash: BlobHash, bytes: S) -> Result<(), ClientError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let request = self
            .request(Method::PUT, &format!("/api/v1/blobs/{hash}"))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(reqwest::Body::wrap_stream(bytes));
        self.send(request).await.map(drop)
    }

    /// The blob's size, if it exists.
    pub async fn has_blob(&self, hash: BlobHash) -> Result<Option<u64>, ClientError> {
        let request = self.request(Method::HEAD, &format!("/api/v1/blobs/{hash}"));
        let response = request.send().await.map_err(|error| self.broken(error))?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                let length = response.headers().get(header::CONTENT_LENGTH);
                let size = length.and_then(|length| length.to_str().ok()?.parse().ok());
                size.map(Some).ok_or(ClientError::Answer {
                    server: self.base.to_string(),
                    problem: "it says no Content-Length for a blob".into(),
                })
            }
            _ => Err(self.refused(response).await),
        }
    }

    pub async fn get_blob(&self, hash: BlobHash) -> Result<Blob, ClientError> {
        let response = self
            .send(self.request(Method::GET, &format!("/api/v1/blobs/{hash}")))
            .await?;
        Ok(self.bytes(response).boxed())
    }

    pub async fn executors(&self) -> Result<Vec<Executor>, ClientError> {
        let answer: Executors = self.json(self.request(Method::GET, "/api/v1/executors")).await?;
        Ok(answer.executors)
    }

    pub async fn judicators(&self) -> Result<Vec<Judicator>, ClientError> {
        let answer: Judicators = self.json(self.request(Method::GET, "/api/v1/judicators")).await?;
        Ok(answer.judicators)
    }

    pub async fn stats(&self) -> Result<Stats, ClientError> {
        self.json(self.request(Method::GET, "/api/v1/stats")).await
    }

    /// Whether the server can serve requests; the error says why not.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.send(self.request(Method::GET, "/readyz")).await.map(drop)
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        // The base may lie below a folder of a reverse proxy.
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }

    fn waiting_url(&self, path: &str, wait: Option<Duration>) -> Url {
        let mut url = self.url(path);
        if let Some(wait) = wait {
            url.query_pairs_mut()
                .append_pair("wait", &wait.as_secs_f64().to_string());
        }
        url
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.broken(error))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.refused(response).await)
        }
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        let body = response.bytes().await.map_err(|error| self.broken(error))?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Answer {
            server: self.base.to_string(),
            problem: error.to_string(),
        })
    }

    fn bytes(&self, response: Response) -> impl Stream<Item = Result<Bytes, ClientError>> + Send + 'static {
        let client = self.clone();
        response
            .bytes_stream()
            .map(move |chunk| chunk.map_err(|error| client.broken(error)))
    }

    async fn refused(&self, response: Response) -> ClientError {
        ClientError::refused(self.base.to_string(), response).await
    }

    fn broken(&self, error: reqwest::Error) -> ClientError {
        ClientError::broken(self.base.to_string(), error)
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
        ("http", Some(_)) => Ok(url),
        ("http", None) => Err(wrong("it names no host")),
        _ => Err(wrong(
            "only http:// is spoken here; put a TLS proxy beside the client for https://",
        )),
    }
}
