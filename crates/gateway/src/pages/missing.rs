//! What is not there: a page for a browser, a problem in JSON for a program.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::problem::show_problem;
use crate::gateway::Gateway;
use crate::refusal::Refusal;

pub(crate) async fn no_route(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let refusal = Refusal::NoRoute(request.uri().path().to_string());
    answer(gateway, request.headers(), refusal).await
}

pub(crate) async fn no_method(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let refusal = Refusal::NoMethod {
        method: request.method().clone(),
        path: request.uri().path().to_string(),
    };
    answer(gateway, request.headers(), refusal).await
}

async fn answer(gateway: Arc<Gateway>, headers: &HeaderMap, refusal: Refusal) -> Response {
    let mut response = refusal.into_response();
    if wants_page(headers) {
        response = show_problem(State(gateway), response).await;
    }
    let vary = HeaderValue::from_static("Accept");
    response.headers_mut().insert(header::VARY, vary);
    response
}

/// Browsers name HTML when they ask for a page; programs ask for JSON or for anything.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|kind| {
            let mut parts = kind.split(';').map(str::trim);
            let is_page = parts
                .next()
                .is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"));
            // `q=0` says that it is not wanted.
            is_page && !parts.any(|part| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_known_by_what_they_accept() {
        let check = |accept: &'static str, expected: bool| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(wants_page(&headers), expected, "{accept}");
        };
        check(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            true,
        );
        check("application/json, Text/HTML;q=0.5", true);
        check("text/html;q=0, */*", false);
        check("*/*", false);
        check("application/problem+json", false);
        assert!(!wants_page(&HeaderMap::new()));
    }
}
