//! The API calls on blobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use model::InvalidField;
use rpc::{ByteStream, CallError};

use crate::body;
use crate::gateway::Gateway;
use crate::params::BlobPath;
use crate::request_error::RequestError;

/// Get a blob
#[utoipa::path(
    get,
    path = "/api/v1/blobs/{sha256}",
    operation_id = "get_blob",
    tag = "blobs",
    params(("sha256" = api::schema::Sha256, Path, description = "SHA-256 of the bytes")),
    responses((status = 200, description = "The bytes of the blob", body = api::schema::Bytes, content_type = "application/octet-stream")),
)]
pub(crate) async fn get(
    State(gateway): State<Arc<Gateway>>,
    BlobPath(hash): BlobPath,
) -> Result<Response, RequestError> {
    // Before the size: the error for a damaged blob says that it is damaged, the size only that it is missing.
    let bytes = gateway.calls.get_blob(hash).await?;
    let size = gateway.blob_size(hash).await?;
    let headers = [
        (header::CONTENT_LENGTH, size.to_string()),
        (header::CONTENT_TYPE, "application/octet-stream".to_string()),
        (header::CONTENT_DISPOSITION, "attachment".to_string()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_string()),
        // Whatever it is, a browser must not run it as a page of this site.
        (header::CONTENT_SECURITY_POLICY, "sandbox".to_string()),
        // The hash identifies the content.
        (header::ETAG, format!("\"{hash}\"")),
        (
            header::CACHE_CONTROL,
            "private, max-age=31536000, immutable".to_string(),
        ),
    ];
    Ok((StatusCode::OK, headers, Body::from_stream(bytes)).into_response())
}

/// Check whether a blob exists
///
/// The `Content-Length` of the response is its size.
#[utoipa::path(
    head,
    path = "/api/v1/blobs/{sha256}",
    operation_id = "has_blob",
    tag = "blobs",
    params(("sha256" = api::schema::Sha256, Path, description = "SHA-256 of the bytes")),
    responses((status = 200, description = "The blob exists", headers(("Content-Length" = u64, description = "Size of the blob")))),
)]
pub(crate) async fn has(
    State(gateway): State<Arc<Gateway>>,
    BlobPath(hash): BlobPath,
) -> Result<Response, RequestError> {
    let size = gateway.blob_size(hash).await?;
    let headers = [
        (header::CONTENT_LENGTH, size.to_string()),
        (header::CONTENT_TYPE, "application/octet-stream".to_string()),
    ];
    Ok((StatusCode::OK, headers, Body::empty()).into_response())
}

/// Put a blob
///
/// The request body is the bytes of the blob, with any content type. It is safe to put a blob again.
#[utoipa::path(
    put,
    path = "/api/v1/blobs/{sha256}",
    operation_id = "put_blob",
    tag = "blobs",
    params(("sha256" = api::schema::Sha256, Path, description = "SHA-256 of the bytes")),
    request_body(content = api::schema::Bytes, content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "The blob is stored", headers(("Location" = String, description = "The blob's URL"))),
        (status = 200, description = "The blob already existed", headers(("Location" = String, description = "The blob's URL"))),
    ),
)]
pub(crate) async fn put(
    State(gateway): State<Arc<Gateway>>,
    BlobPath(hash): BlobPath,
    request: Request,
) -> Result<Response, RequestError> {
    let limit = gateway.options.max_blob;
    let (parts, body) = request.into_parts();
    body::check_content_length(&parts.headers, limit)?;
    let known = gateway.calls.has_blobs(vec![hash]).await?;
    // The body is read even if the blob exists, to report bytes that do not match their hash.
    let exceeded = Arc::new(AtomicBool::new(false));
    let put = gateway
        .calls
        .put_blob(hash, None, limit_size(body, limit, exceeded.clone()))
        .await;
    if exceeded.load(Ordering::Relaxed) {
        return Err(RequestError::BodyTooLarge { limit, actual: None });
    }
    put?;
    let existed = known.into_iter().flatten().next().is_some();
    let status = if existed {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let location = [(header::LOCATION, format!("/api/v1/blobs/{hash}"))];
    Ok((status, location).into_response())
}

/// Ends the stream with an error beyond `limit` bytes, and sets `exceeded`.
fn limit_size(body: Body, limit: u64, exceeded: Arc<AtomicBool>) -> ByteStream {
    let mut size = 0;
    body.into_data_stream()
        .map(move |chunk| {
            let chunk = chunk.map_err(|error| {
                let problem = format!("is incomplete: {error}; send it again");
                CallError::Invalid(InvalidField::new("body", problem))
            })?;
            size += chunk.len() as u64;
            if size > limit {
                // Recorded separately, as the RPC protocol may not preserve the error of a stream.
                exceeded.store(true, Ordering::Relaxed);
                return Err(CallError::TooLarge { limit, actual: size });
            }
            Ok(chunk)
        })
        .boxed()
}
