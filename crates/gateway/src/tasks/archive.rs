//! All kept files of a task as one archive, which is written while it is sent.

mod tar_writer;
mod zip_writer;

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;
use futures::stream::{self, StreamExt};
use model::{KeptFile, TaskId, UnixTime};
use rpc::{ByteStream, CallError, Calls};

use super::files::load;
use super::kept_bytes::blob_bytes;
use crate::caller::Caller;
use crate::content_disposition::attachment;
use crate::gateway::Gateway;
use crate::params::{self, TaskPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use tar_writer::TarWriter;
use zip_writer::ZipStreamWriter;

/// Get all kept files as a zip
///
/// The files are stored without compression. If a file cannot be read, the connection is aborted.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}/files.zip",
    operation_id = "get_files_zip",
    tag = "tasks",
    params(("id" = api::schema::Id, Path, description = "The task's id")),
    responses((status = 200, description = "The archive", body = api::schema::Bytes, content_type = "application/zip")),
)]
pub(crate) async fn files_zip(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
    method: Method,
    uri: Uri,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let KeptFiles { files, time } = kept_files(&gateway, &quota, &caller, id).await?;
    let body = match method {
        Method::HEAD => Body::empty(),
        _ => Body::from_stream(archive(gateway.calls.clone(), files, ZipStreamWriter::new(time))),
    };
    Ok(respond(&format!("{id}.zip"), "application/zip", body))
}

/// Get all kept files as a tar
///
/// If a file cannot be read, the connection is aborted.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}/files.tar",
    operation_id = "get_files_tar",
    tag = "tasks",
    params(("id" = api::schema::Id, Path, description = "The task's id")),
    responses((status = 200, description = "The archive", body = api::schema::Bytes, content_type = "application/x-tar")),
)]
pub(crate) async fn files_tar(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
    method: Method,
    uri: Uri,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let KeptFiles { files, time } = kept_files(&gateway, &quota, &caller, id).await?;
    let body = match method {
        Method::HEAD => Body::empty(),
        _ => Body::from_stream(archive(gateway.calls.clone(), files, TarWriter::new(time))),
    };
    Ok(respond(&format!("{id}.tar"), "application/x-tar", body))
}

/// The kept files of a task, and the time that an archive has for each: when the task finished.
struct KeptFiles {
    files: Vec<KeptFile>,
    time: UnixTime,
}

async fn kept_files(
    gateway: &Gateway,
    quota: &RequestQuota,
    caller: &Caller,
    id: TaskId,
) -> Result<KeptFiles, RequestError> {
    let task = load(gateway, quota, caller, id).await?.task;
    match task.result {
        Some(result) => Ok(KeptFiles {
            files: result.files,
            time: task.finish_time.unwrap_or(task.add_time),
        }),
        None => Err(RequestError::NoOutcome {
            id,
            step: "execute",
            status: task.status,
        }),
    }
}

fn respond(name: &str, media_type: &'static str, body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "private, no-cache"),
    ];
    let download = [(header::CONTENT_DISPOSITION, attachment(name))];
    (headers, download, body).into_response()
}

/// Writes an archive of a task's kept files, one part after another. Each method returns bytes of the archive.
trait ArchiveWriter: Send + 'static {
    fn begin_file(&mut self, file: &KeptFile) -> Result<Bytes, ArchiveError>;
    fn write(&mut self, content: Bytes) -> Result<Bytes, ArchiveError>;
    fn end_file(&mut self) -> Result<Bytes, ArchiveError>;
    fn finish(&mut self) -> Result<Bytes, ArchiveError>;
}

/// Why an archive of kept files cannot be written to its end. The connection is aborted, so that nobody takes a part of
/// the archive for the whole.
#[derive(Debug, thiserror::Error)]
enum ArchiveError {
    #[error(transparent)]
    Blob(#[from] CallError),
    #[error("cannot write the archive")]
    Write(#[from] std::io::Error),
    #[error("cannot write the zip")]
    Zip(#[from] zip::result::ZipError),
}

/// An archive that is being sent: the files that remain, and the content of the current one.
struct ArchiveState<W> {
    calls: Arc<dyn Calls>,
    writer: W,
    files: std::vec::IntoIter<KeptFile>,
    content: Option<ByteStream>,
    is_finished: bool,
}

/// The bytes of the archive. The content of a file is read while the client takes it.
fn archive<W: ArchiveWriter>(
    calls: Arc<dyn Calls>,
    files: Vec<KeptFile>,
    writer: W,
) -> impl Stream<Item = Result<Bytes, ArchiveError>> + Send + 'static {
    let state = ArchiveState {
        calls,
        writer,
        files: files.into_iter(),
        content: None,
        is_finished: false,
    };
    stream::try_unfold(state, |mut state| async move {
        loop {
            let Some(bytes) = state.next().await? else {
                return Ok(None);
            };
            if !bytes.is_empty() {
                return Ok(Some((bytes, state)));
            }
        }
    })
}

impl<W: ArchiveWriter> ArchiveState<W> {
    async fn next(&mut self) -> Result<Option<Bytes>, ArchiveError> {
        if let Some(content) = &mut self.content {
            return match content.next().await.transpose()? {
                Some(bytes) => self.writer.write(bytes).map(Some),
                None => {
                    self.content = None;
                    self.writer.end_file().map(Some)
                }
            };
        }
        if let Some(file) = self.files.next() {
            let header = self.writer.begin_file(&file)?;
            // A blob of another size is an error, so a header never lies.
            self.content = Some(blob_bytes(&self.calls, file.blob, 0..file.size).await?);
            return Ok(Some(header));
        }
        if self.is_finished {
            return Ok(None);
        }
        self.is_finished = true;
        self.writer.finish().map(Some)
    }
}

/// The permissions of a file in an archive.
fn mode(file: &KeptFile) -> u32 {
    if file.executable { 0o755 } else { 0o644 }
}

#[cfg(test)]
mod tests;
