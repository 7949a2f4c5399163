use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::gateway::Gateway;
use crate::params::BlobPath;
use crate::refusal::Refusal;

/// Ask whether a blob exists
///
/// Its size is the `Content-Length` of the answer.
#[utoipa::path(
    head,
    path = "/api/v1/blobs/{sha256}",
    operation_id = "has_blob",
    tag = "blobs",
    params(("sha256" = api::schema::Sha256, Path, description = "SHA-256 of the bytes")),
    responses((status = 200, description = "It exists", headers(("Content-Length" = u64, description = "Its size")))),
)]
pub(crate) async fn has(
    State(gateway): State<Arc<Gateway>>,
    BlobPath(hash): BlobPath,
) -> Result<Response, Refusal> {
    let size = gateway.blob_size(hash).await?;
    let headers = [
        (header::CONTENT_LENGTH, size.to_string()),
        (header::CONTENT_TYPE, "application/octet-stream".to_string()),
    ];
    Ok((StatusCode::OK, headers, Body::empty()).into_response())
}
