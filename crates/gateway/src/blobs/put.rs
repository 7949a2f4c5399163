use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use model::Invalid;
use rpc::{ByteStream, CallError};

use crate::body;
use crate::gateway::Gateway;
use crate::params::BlobPath;
use crate::refusal::Refusal;

/// Put a blob
///
/// The body is the blob's bytes, of any content type. Putting it again is fine.
#[utoipa::path(
    put,
    path = "/api/v1/blobs/{sha256}",
    operation_id = "put_blob",
    tag = "blobs",
    params(("sha256" = api::schema::Sha256, Path, description = "SHA-256 of the bytes")),
    request_body(content = api::schema::Bytes, content_type = "application/octet-stream"),
    responses(
        (status = 201, description = "It is kept", headers(("Location" = String, description = "The blob's URL"))),
        (status = 200, description = "It was there before", headers(("Location" = String, description = "The blob's URL"))),
    ),
)]
pub(crate) async fn put(
    State(gateway): State<Arc<Gateway>>,
    BlobPath(hash): BlobPath,
    request: Request,
) -> Result<Response, Refusal> {
    let limit = gateway.options.max_blob;
    let (parts, body) = request.into_parts();
    body::refuse_early(&parts.headers, limit)?;
    let known = gateway.calls.has_blobs(vec![hash]).await?;
    // Read to the end even if it is known: bytes that do not fit their hash are a mistake worth telling.
    let exceeded = Arc::new(AtomicBool::new(false));
    let put = gateway
        .calls
        .put_blob(hash, bounded(body, limit, exceeded.clone()))
        .await;
    if exceeded.load(Ordering::Relaxed) {
        return Err(Refusal::TooLarge { limit, actual: None });
    }
    put?;
    let existed = known.into_iter().flatten().next().is_some();
    let status = if existed {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let place = [(header::LOCATION, format!("/api/v1/blobs/{hash}"))];
    Ok((status, place).into_response())
}

fn bounded(body: axum::body::Body, limit: u64, exceeded: Arc<AtomicBool>) -> ByteStream {
    let mut size = 0;
    body.into_data_stream()
        .map(move |chunk| {
            let chunk = chunk.map_err(|error| {
                let problem = format!("could not be read to its end: {error}; send it again");
                CallError::Invalid(Invalid::new("body", problem))
            })?;
            size += chunk.len() as u64;
            if size > limit {
                // Noted apart: on its way through the wire, an error inside a stream may lose its kind.
                exceeded.store(true, Ordering::Relaxed);
                return Err(CallError::TooLarge { limit, actual: size });
            }
            Ok(chunk)
        })
        .boxed()
}
