//! Downloads of the files that a task kept.

use std::io;

use futures::StreamExt;
use model::{BlobHash, BlobHasher, TaskId};
use reqwest::Method;
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::resume::{ResumableDownload, ResumableRequest};
use super::{HttpClient, HttpClientError};
use crate::KeptFile;

/// Why the HTTP client could not download a kept file of a task.
#[derive(Debug, Error)]
pub enum FileDownloadError {
    #[error(transparent)]
    Request(#[from] HttpClientError),
    #[error("could not write the downloaded bytes")]
    Write(#[source] io::Error),
    #[error(
        "the server sent other content than the result of the task names (SHA-256 {actual} instead of {expected})"
    )]
    WrongContent { expected: BlobHash, actual: BlobHash },
    #[error("the server sent more than the {size} bytes that the result of the task names")]
    TooLong { size: u64 },
}

impl HttpClient {
    /// Downloads a kept file of a task and verifies its hash. Continues after a lost connection, as the options of the
    /// client allow. After an error, what was written is not the file.
    pub async fn download_file(
        &self,
        id: TaskId,
        file: &KeptFile,
        to: &mut (impl AsyncWrite + Unpin + Send),
    ) -> Result<(), FileDownloadError> {
        let url = self.url_below(
            &format!("/api/v1/tasks/{id}/files"),
            file.path.as_str().split('/'),
        );
        let call = self.call(Method::GET, "").with_url(url);
        let mut bytes = ResumableDownload::new(self, ResumableRequest::Range(call), 0)
            .into_stream()
            .boxed();
        let mut hasher = BlobHasher::default();
        let mut received = 0;
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk?;
            received += chunk.len() as u64;
            if received > file.size {
                return Err(FileDownloadError::TooLong { size: file.size });
            }
            hasher.update(&chunk);
            to.write_all(&chunk).await.map_err(FileDownloadError::Write)?;
        }
        to.flush().await.map_err(FileDownloadError::Write)?;
        let actual = hasher.finish();
        match actual == file.sha256 {
            true => Ok(()),
            false => Err(FileDownloadError::WrongContent {
                expected: file.sha256,
                actual,
            }),
        }
    }
}
