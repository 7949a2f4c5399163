//! HTTP as any program speaks it: no types of ours between a test and the wire.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, ClientBuilder, Method, RequestBuilder};
use serde_json::Value;

/// Longer than any wait that is asked for; an answer that never comes must fail its test.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct Web {
    http: Client,
    base: String,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Web {
    pub fn new(base: &str) -> Web {
        Web::with(base, Client::builder())
    }

    /// From this address: to a server without tokens, another caller.
    pub fn from_address(base: &str, address: IpAddr) -> Web {
        Web::with(base, Client::builder().local_address(address))
    }

    fn with(base: &str, http: ClientBuilder) -> Web {
        // No server here speaks TLS, but the client is not built without a provider for it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = http.no_proxy().tls_certs_only([]).timeout(PATIENCE).build();
        Web {
            http: http.expect("an HTTP client"),
            base: base.trim_end_matches('/').to_string(),
        }
    }

    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request("GET", path)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request("DELETE", path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request("POST", path).json(body)).await
    }

    /// Bytes that are said to be JSON.
    pub async fn post_bytes(&self, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        let request = self
            .request("POST", path)
            .header(CONTENT_TYPE, "application/json");
        Answer::of(request.body(body.into())).await
    }

    /// Adds a task and waits for it: the task as JSON, done.
    pub async fn run(&self, task: &Value) -> Value {
        let answer = self.post("/api/v1/tasks?wait=60", task).await;
        assert_eq!(answer.status, 201, "{task}: {}", answer.text());
        let task = answer.json();
        assert_eq!(task["done"], true, "{task:#}");
        task
    }
}

impl Answer {
    pub async fn of(request: RequestBuilder) -> Answer {
        let response = request.send().await.expect("an answer");
        Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.expect("a whole answer").to_vec(),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The problem that this answer is. All of them have the same form, whoever refused.
    pub fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        for part in ["type", "title", "detail"] {
            let text = problem[part].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "no {part} in {problem}");
        }
        problem
    }

    /// A problem with this field, and these words in what it says.
    pub fn blames(&self, status: u16, field: &str, words: &str) {
        let problem = self.problem(status);
        assert_eq!(problem["field"], field, "{problem}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(words), "no '{words}' in {problem}");
    }
}
