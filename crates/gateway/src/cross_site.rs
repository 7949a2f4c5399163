//! Refuses what another web site makes a browser send.
//!
//! A page from anywhere may post a form to this machine's loopback, and a task is a command: without this,
//! visiting a bad page would be enough to run one. Programs that are not browsers send none of these headers.

use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::refusal::Refusal;

pub(crate) async fn refuse(request: Request, next: Next) -> Response {
    let changes_something = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes_something && !is_own(request.headers()) {
        return Refusal::CrossSite.into_response();
    }
    next.run(request).await
}

fn is_own(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    // `none` is a person's own doing: an address typed, a bookmark.
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site, "same-origin" | "none");
    }
    match text(header::ORIGIN.as_str()) {
        None => true,
        Some(origin) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some() && host == text(header::HOST.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_our_own_pages_may_post() {
        let check = |headers: &[(&'static str, &'static str)], expected: bool| {
            let headers = headers
                .iter()
                .map(|(name, value)| {
                    (
                        header::HeaderName::from_static(name),
                        HeaderValue::from_static(value),
                    )
                })
                .collect();
            assert_eq!(is_own(&headers), expected, "{headers:?}");
        };
        check(&[("host", "a:7000")], true);
        check(&[("host", "a:7000"), ("origin", "http://a:7000")], true);
        check(&[("host", "a:7000"), ("origin", "http://b")], false);
        check(&[("host", "a:7000"), ("origin", "null")], false);
        check(
            &[("sec-fetch-site", "same-origin"), ("origin", "http://proxy")],
            true,
        );
        check(&[("sec-fetch-site", "none")], true);
        check(&[("sec-fetch-site", "cross-site")], false);
        check(&[("sec-fetch-site", "same-site")], false);
    }
}
