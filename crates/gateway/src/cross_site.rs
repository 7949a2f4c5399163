//! Refuses requests that another web site makes a browser send.
//!
//! Any web page can post a form to the loopback address of the visitor's machine, and a task is a command: without this
//! check, visiting a malicious page could run a command. Programs other than browsers do not send these headers.
//!
//! A web site can also point its own host name at this machine after its page is loaded (DNS rebinding). The browser
//! then treats this server as that site, which could read everything here. The host name reveals such a request.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::gateway::Gateway;
use crate::request_error::RequestError;

/// Middleware that refuses cross-site requests and host names that are not trusted.
pub(crate) async fn refuse_cross_site(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
    next: Next,
) -> Response {
    // Another web site does not have the token, so with tokens any host name is safe.
    if gateway.options.tokens.is_none()
        && let Some(name) = untrusted_host(request.headers(), gateway.host_name.as_deref())
    {
        return RequestError::UntrustedHost(name).into_response();
    }
    let changes_something = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes_something && !is_same_origin(request.headers()) {
        return RequestError::CrossSite.into_response();
    }
    next.run(request).await
}

fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    // `none` means that the user typed the address or used a bookmark.
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

/// The host name of the request, if a web site could have pointed it at this server.
fn untrusted_host(headers: &HeaderMap, host_name: Option<&str>) -> Option<String> {
    // Every browser sends the header.
    let host = headers.get(header::HOST)?;
    let name = match Authority::try_from(host.as_bytes()) {
        Ok(authority) => authority.host().to_string(),
        Err(_) => return Some(String::from_utf8_lossy(host.as_bytes()).into_owned()),
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let own = name.eq_ignore_ascii_case("localhost")
        || host_name.is_some_and(|host_name| name.eq_ignore_ascii_case(host_name))
        || address.parse::<IpAddr>().is_ok();
    (!own).then_some(name)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_pages_of_this_server_may_post() {
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
            assert_eq!(is_same_origin(&headers), expected, "{headers:?}");
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
    fn only_addresses_and_names_of_this_machine_are_trusted() {
        let check = |host: &'static str, expected: Option<&str>| {
            let headers = [(header::HOST, HeaderValue::from_static(host))];
            let found = untrusted_host(&headers.into_iter().collect(), Some("rack-7"));
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
        assert_eq!(untrusted_host(&HeaderMap::new(), None), None);
    }
}
