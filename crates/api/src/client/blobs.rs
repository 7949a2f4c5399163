//! Calls about blobs, which hold the content of files.

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt};
use model::BlobHash;
use reqwest::{Method, header};

use super::progress::TransferProgress;
use super::{HttpClient, HttpClientError};

/// The bytes of a blob that the HTTP client downloads from a gateway, as a stream.
pub type BlobDownload = BoxStream<'static, Result<Bytes, HttpClientError>>;

impl HttpClient {
    /// Stores a blob; `hash` must be the hash of the bytes. A stream cannot be sent again: see `should_retry`.
    pub async fn put_blob<S, E>(&self, hash: BlobHash, bytes: S) -> Result<(), HttpClientError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let progress = TransferProgress::start();
        let request = self
            .http
            .put(self.url(&format!("/api/v1/blobs/{hash}")))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(reqwest::Body::wrap_stream(progress.clone().recording(bytes)));
        let response = self.send(request, &progress, self.idle_timeout).await?;
        self.check_status(response, &progress, self.single_attempt_timeouts())
            .await
            .map(drop)
            .map_err(|failed| failed.error)
    }

    /// The blob's size, if it exists.
    pub async fn has_blob(&self, hash: BlobHash) -> Result<Option<u64>, HttpClientError> {
        let call = self.call(Method::HEAD, &format!("/api/v1/blobs/{hash}"));
        match self.send_with_retries(call).await {
            Err(error) if error.problem().is_some_and(|problem| problem.status == 404) => Ok(None),
            Err(error) => Err(error),
            Ok((headers, _)) => {
                let length = headers.get(header::CONTENT_LENGTH);
                let size = length.and_then(|length| length.to_str().ok()?.parse().ok());
                size.map(Some).ok_or(HttpClientError::UnexpectedResponse {
                    server: self.base.to_string(),
                    problem: "the Content-Length of a blob is missing".into(),
                })
            }
        }
    }

    pub async fn get_blob(&self, hash: BlobHash) -> Result<BlobDownload, HttpClientError> {
        let call = self.call(Method::GET, &format!("/api/v1/blobs/{hash}"));
        let response = self.open(&call).await?;
        Ok(self.stream_body(response, self.idle_timeout).boxed())
    }
}
