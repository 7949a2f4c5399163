use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::gateway::Gateway;
use crate::params::BlobPath;
use crate::refusal::Refusal;

/// Get a blob
#[utoipa::path(
    get,
    path = "/api/v1/blobs/{sha256}",
    operation_id = "get_blob",
    tag = "blobs",
    params(("sha256" = api::schema::Sha256, Path, description = "SHA-256 of the bytes")),
    responses((status = 200, description = "Its bytes", body = api::schema::Bytes, content_type = "application/octet-stream")),
)]
pub(crate) async fn get(
    State(gateway): State<Arc<Gateway>>,
    BlobPath(hash): BlobPath,
) -> Result<Response, Refusal> {
    // The bytes first: of a damaged blob they say that it is damaged, not only that it is not there.
    let bytes = gateway.calls.get_blob(hash).await?;
    let size = gateway.blob_size(hash).await?;
    let headers = [
        (header::CONTENT_LENGTH, size.to_string()),
        (header::CONTENT_TYPE, "application/octet-stream".to_string()),
        (header::CONTENT_DISPOSITION, "attachment".to_string()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_string()),
        // Its name is its content.
        (header::ETAG, format!("\"{hash}\"")),
        (
            header::CACHE_CONTROL,
            "private, max-age=31536000, immutable".to_string(),
        ),
    ];
    Ok((StatusCode::OK, headers, Body::from_stream(bytes)).into_response())
}
