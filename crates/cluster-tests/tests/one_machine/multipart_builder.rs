//! A `multipart/form-data` body, as a browser or curl would send it.

use cluster_tests::{HttpResponse, RawHttpClient};
use reqwest::RequestBuilder;
use serde_json::Value;

#[derive(Default)]
/// A `multipart/form-data` body with a task under construction, for a test to send to a gateway.
pub(crate) struct MultipartBuilder(Vec<u8>);

const BOUNDARY: &str = "b0undary-of-the-tests";

impl MultipartBuilder {
    pub(crate) fn task(self, task: &Value) -> MultipartBuilder {
        self.part("task", None, task.to_string().as_bytes())
    }

    pub(crate) fn part(mut self, name: &str, file_name: Option<&str>, content: &[u8]) -> MultipartBuilder {
        let file_name = file_name.map_or_else(String::new, |name| format!("; filename=\"{name}\""));
        let head =
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file_name}\r\n\r\n");
        self.0.extend_from_slice(head.as_bytes());
        self.0.extend_from_slice(content);
        self.0.extend_from_slice(b"\r\n");
        self
    }

    pub(crate) async fn post(self, web: &RawHttpClient) -> HttpResponse {
        HttpResponse::of(self.request(web, "/api/v1/tasks?wait=60")).await
    }

    /// The whole body as a request to this path.
    pub(crate) fn request(mut self, web: &RawHttpClient, path: &str) -> RequestBuilder {
        self.0.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        web.request("POST", path)
            .header("Content-Type", kind)
            .body(self.0)
    }
}
