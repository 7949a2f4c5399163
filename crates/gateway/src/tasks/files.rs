use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use model::{KeptFile, TaskId};

use super::kept_bytes::blob_bytes;
use crate::caller::Caller;
use crate::content_disposition::attachment;
use crate::gateway::Gateway;
use crate::params::{self, FilePath};
use crate::range_request::RangedContent;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedTask;

/// Get a kept file
///
/// `result.files` of a task lists its kept files. One range can be requested. The `ETag` is the SHA-256 of the file.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}/files/{path}",
    operation_id = "get_file",
    tag = "tasks",
    params(
        ("id" = api::schema::Id, Path, description = "The task's id"),
        ("path" = api::schema::FilePath, Path, description = "The path of the file in the workspace, with its slashes"),
        ("Range" = Option<api::schema::ByteRange>, Header, description = "One range of bytes"),
        ("If-Range" = Option<api::schema::Etag>, Header, description = "The range is valid only for this `ETag`"),
    ),
    responses(
        (status = 200, description = "The content of the file", body = api::schema::Bytes, content_type = "application/octet-stream"),
        (status = 206, description = "The requested range of it", body = api::schema::Bytes, content_type = "application/octet-stream"),
    ),
)]
pub(crate) async fn file(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    FilePath { id, path }: FilePath,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let LoadedTask { task, permit } = load(&gateway, &quota, &caller, id).await?;
    let status = task.status;
    let files = task.result.map(|result| result.files).unwrap_or_default();
    drop(permit);
    let found = files.into_iter().find(|file| file.path.as_str() == path);
    let Some(KeptFile { size, blob, .. }) = found else {
        return Err(RequestError::NoFile { id, path, status });
    };
    let content = RangedContent { size, hash: blob };
    let range = content.requested_range(&method, &headers)?;
    let bytes = match method {
        Method::HEAD => futures::stream::empty().boxed(),
        _ => blob_bytes(&gateway.calls, blob, range.bytes(size)).await?,
    };
    let download = [(header::CONTENT_DISPOSITION, attachment(&path))];
    Ok((DOWNLOAD_HEADERS, download, content.respond(&range, bytes)).into_response())
}

/// A browser must not guess the type of a file that an untrusted program wrote, nor run it as a page of this site.
const DOWNLOAD_HEADERS: [(header::HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "application/octet-stream"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, "sandbox"),
    (header::CACHE_CONTROL, "private, no-cache"),
];

pub(super) async fn load(
    gateway: &Gateway,
    quota: &RequestQuota,
    caller: &Caller,
    id: TaskId,
) -> Result<LoadedTask, RequestError> {
    let loaded = gateway.load_task(quota, gateway.calls.get(id, None)).await?;
    caller.check_owner(loaded)
}
