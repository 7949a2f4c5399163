//! Refuses what another web site makes a browser send.
//!
//! A page from anywhere may post a form to this machine's loopback, and a task is a command: without this,
//! visiting a bad page would be enough to run one. Programs that are not browsers send none of these headers.
//!
//! A page may also make its own name point to this machine once it is loaded (DNS rebinding); to the browser,
//! everything here is then that page's own, outputs included. Only the name itself gives it away.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::gateway::Gateway;
use crate::refusal::Refusal;

pub(crate) async fn refuse(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    // A page elsewhere has no token to send; where there are tokens, any name will do.
    if gateway.options.tokens.is_none()
        && let Some(name) = foreign_name(request.headers(), gateway.machine.as_deref())
    {
        return Refusal::ForeignName(name).into_response();
    }
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

/// The name by which the server was called, if it is one that anybody may have made point here.
fn foreign_name(headers: &HeaderMap, machine: Option<&str>) -> Option<String> {
    // No browser leaves it out.
    let said = headers.get(header::HOST)?;
    let name = match Authority::try_from(said.as_bytes()) {
        Ok(authority) => authority.host().to_string(),
        Err(_) => return Some(String::from_utf8_lossy(said.as_bytes()).into_owned()),
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let own = name.eq_ignore_ascii_case("localhost")
        || machine.is_some_and(|machine| name.eq_ignore_ascii_case(machine))
        || address.parse::<IpAddr>().is_ok();
    (!own).then_some(name)
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

    #[test]
    fn only_names_of_our_own_are_answered_to() {
        let check = |host: &'static str, expected: Option<&str>| {
            let headers = [(header::HOST, HeaderValue::from_static(host))];
            let found = foreign_name(&headers.into_iter().collect(), Some("rack-7"));
            assert_eq!(found.as_deref(), expected, "{host}");
        };
        check("localhost", None);
        check("LocalHost:7000", None);
        check("127.0.0.1:7000", None);
        check("192.0.2.7", None);
        check("[::1]:7000", None);
        check("[::1]", None);
        check("Rack-7:7000", None);
        check("evil.example:7000", Some("evil.example"));
        check("localhost.evil.example", Some("localhost.evil.example"));
        check("127.0.0.1.evil.example", Some("127.0.0.1.evil.example"));
        check("localhost@evil.example", Some("evil.example"));
        check("a b", Some("a b"));
        check("", Some(""));
        assert_eq!(foreign_name(&HeaderMap::new(), None), None);
    }
}
