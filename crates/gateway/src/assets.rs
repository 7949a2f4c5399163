//! The style sheet and the scripts of the pages. The build script has put the hash of each into its name.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::accept_header::accepts;

/// A file that pages load, as it is embedded in the program.
struct Asset {
    /// The name without the hash.
    asked: &'static str,
    name: &'static str,
    content: &'static [u8],
    gzip: &'static [u8],
}

static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The URL of the asset with this name. `None` if the program was built without it.
pub(crate) fn url(asked: &str) -> Option<String> {
    let asset = ASSETS.iter().find(|asset| asset.asked == asked)?;
    Some(format!("/assets/{}", asset.name))
}

/// Serves an asset. It is public, and never changes under its name.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return (
            StatusCode::NOT_FOUND,
            "There is no such file. Reload the page that asked for it.\n",
        )
            .into_response();
    };
    let accepts_gzip = accepts(&headers, &header::ACCEPT_ENCODING, "gzip");
    let mut response = if accepts_gzip { asset.gzip } else { asset.content }.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(content_type(asset.name)),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=31536000, immutable"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if accepts_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn get(url: &str, accept: Option<&'static str>) -> Response {
        let accept = accept.map(|accept| (header::ACCEPT_ENCODING, HeaderValue::from_static(accept)));
        let name = url.trim_start_matches("/assets/").to_string();
        asset(Path(name), accept.into_iter().collect()).await
    }

    #[tokio::test]
    async fn assets_are_served_compressed_to_those_who_accept_it() {
        let url = url("site.css").unwrap();
        for (accept, coding) in [
            (None, None),
            (Some("gzip, br"), Some("gzip")),
            (Some("gzip;q=0"), None),
        ] {
            let response = get(&url, accept).await;
            let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
            assert_eq!(header(header::CONTENT_ENCODING), coding, "{accept:?}");
            assert_eq!(header(header::CONTENT_TYPE), Some("text/css; charset=utf-8"));
            assert!(header(header::CACHE_CONTROL).unwrap().contains("immutable"));
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body.starts_with(b"\x1f\x8b"), coding.is_some(), "{accept:?}");
        }
        assert_eq!(
            get("/assets/site-0.css", None).await.status(),
            StatusCode::NOT_FOUND
        );
    }
}
