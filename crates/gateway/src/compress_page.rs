//! Compresses pages for clients that accept gzip. Event streams and files pass unchanged.

use std::io::Write;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use hyper::body::Body as _;

use crate::accept_header::accepts;

/// A smaller page fits into the first packets anyway.
const MIN_BYTES: u64 = 1 << 10;

/// Middleware that compresses HTML responses.
pub(crate) async fn compress_page(request: Request, next: Next) -> Response {
    let accepted = accepts(request.headers(), &header::ACCEPT_ENCODING, "gzip");
    let mut response = next.run(request).await;
    let is_page = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    // Pages are in memory as a whole. What is streamed has no exact size.
    let size = response.body().size_hint().exact();
    if !is_page || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    response
        .headers_mut()
        .append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if !accepted || size.is_none_or(|size| size < MIN_BYTES) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(page) = body.collect().await.map(|page| page.to_bytes()) else {
        return Response::from_parts(parts, Body::empty());
    };
    let mut encoder = GzEncoder::new(Vec::with_capacity(page.len() / 4), Compression::fast());
    // Writing to memory does not fail; if it did, the page is sent as it is.
    let body = match encoder.write_all(&page).and_then(|()| encoder.finish()) {
        Ok(compressed) => {
            parts
                .headers
                .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.remove(header::CONTENT_LENGTH);
            Body::from(compressed)
        }
        Err(_) => Body::from(page),
    };
    Response::from_parts(parts, body)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::Router;
    use axum::middleware::from_fn;
    use axum::response::Html;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn only_pages_are_compressed_and_only_where_that_is_accepted() {
        let page = "<p>long</p>".repeat(1000);
        let app = Router::new()
            .route(
                "/page",
                get({
                    let page = page.clone();
                    || async move { Html(page) }
                }),
            )
            .route("/text", get(|| async { "text".repeat(1000) }))
            .layer(from_fn(compress_page));
        for (path, accept, coding) in [
            ("/page", "gzip, br", Some("gzip")),
            ("/page", "br", None),
            ("/text", "gzip", None),
        ] {
            let request = Request::get(path).header(header::ACCEPT_ENCODING, accept);
            let response = app
                .clone()
                .oneshot(request.body(Body::empty()).unwrap())
                .await
                .unwrap();
            let found = response
                .headers()
                .get(header::CONTENT_ENCODING)
                .map(|value| value.to_str().unwrap());
            assert_eq!(found, coding, "{path} {accept}");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            if coding.is_some() {
                let mut text = String::new();
                flate2::read::GzDecoder::new(&body[..])
                    .read_to_string(&mut text)
                    .unwrap();
                assert_eq!(text, page);
            }
        }
    }
}
