//! An HTTP client without the product's types, so that tests see the bytes on the wire.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Method, RequestBuilder};
use serde_json::Value;

/// Longer than any `?wait=` of a test. A response that never comes must fail the test.
const TIMEOUT: Duration = Duration::from_secs(90);

/// An HTTP client of one gateway without the product's types, so that tests see the bytes on the wire.
pub struct RawHttpClient {
    http: Client,
    base: String,
}

/// A complete HTTP response of a gateway, as a test received it.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl RawHttpClient {
    pub fn new(base: &str) -> RawHttpClient {
        RawHttpClient::with(base, Client::builder())
    }

    /// A client with this source address, which a gateway without tokens treats as another caller.
    pub fn from_address(base: &str, address: IpAddr) -> RawHttpClient {
        RawHttpClient::with(base, Client::builder().local_address(address))
    }

    /// A client that shows redirects instead of following them.
    pub fn without_redirects(base: &str) -> RawHttpClient {
        RawHttpClient::with(base, Client::builder().redirect(Policy::none()))
    }

    fn with(base: &str, http: ClientBuilder) -> RawHttpClient {
        // The client cannot be built without a TLS provider, even for plain HTTP.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = http.no_proxy().tls_certs_only([]).timeout(TIMEOUT).build();
        RawHttpClient {
            http: http.expect("an HTTP client"),
            base: base.trim_end_matches('/').to_string(),
        }
    }

    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        self.http.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> HttpResponse {
        HttpResponse::of(self.request("GET", path)).await
    }

    pub async fn delete(&self, path: &str) -> HttpResponse {
        HttpResponse::of(self.request("DELETE", path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> HttpResponse {
        HttpResponse::of(self.request("POST", path).json(body)).await
    }

    /// Posts bytes with the content type of JSON.
    pub async fn post_bytes(&self, path: &str, body: impl Into<Vec<u8>>) -> HttpResponse {
        let request = self
            .request("POST", path)
            .header(CONTENT_TYPE, "application/json");
        HttpResponse::of(request.body(body.into())).await
    }

    /// Adds a task, waits until it is done, and returns it as JSON.
    pub async fn run(&self, task: &Value) -> Value {
        let answer = self.post("/api/v1/tasks?wait=60", task).await;
        assert_eq!(answer.status, 201, "{task}: {}", answer.text());
        let task = answer.json();
        assert_eq!(task["done"], true, "{task:#}");
        task
    }
}

impl HttpResponse {
    pub async fn of(request: RequestBuilder) -> HttpResponse {
        let response = request.send().await.expect("an answer");
        HttpResponse {
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

    /// Asserts that the response is a problem document (RFC 9457) with this status, and returns it.
    pub fn assert_problem(&self, status: u16) -> Value {
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

    /// Asserts a problem with this status and field, whose detail contains these words.
    pub fn assert_problem_at(&self, status: u16, field: &str, words: &str) {
        let problem = self.assert_problem(status);
        assert_eq!(problem["field"], field, "{problem}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(words), "no '{words}' in {problem}");
    }
}
