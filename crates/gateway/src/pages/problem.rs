//! Errors as HTML pages for browsers, where programs get problem details as JSON.

use std::sync::Arc;

use api::Problem;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use maud::html;

use super::layout::HtmlPage;
use crate::accept_header::accepts;
use crate::gateway::Gateway;
use crate::request_error::RequestError;

/// Middleware that replaces an error response of a page by an HTML page.
pub(crate) async fn show_problem(State(gateway): State<Arc<Gateway>>, response: Response) -> Response {
    let Some(problem) = response.extensions().get::<Problem>() else {
        return response;
    };
    let content = html! {
        h1 { (problem.title) }
        p { (problem.detail) }
        p { a href="/" { "All tasks" } }
    };
    let mut page_response = HtmlPage::new(&gateway, &problem.title).respond(&content);
    *page_response.status_mut() = response.status();
    for name in [header::RETRY_AFTER, header::WWW_AUTHENTICATE] {
        if let Some(value) = response.headers().get(&name) {
            page_response.headers_mut().insert(name, value.clone());
        }
    }
    page_response
}

pub(crate) async fn route_not_found(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let error = RequestError::RouteNotFound(request.uri().path().to_string());
    respond(gateway, request.headers(), error).await
}

pub(crate) async fn method_not_allowed(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let error = RequestError::MethodNotAllowed {
        method: request.method().clone(),
        path: request.uri().path().to_string(),
    };
    respond(gateway, request.headers(), error).await
}

async fn respond(gateway: Arc<Gateway>, headers: &HeaderMap, error: RequestError) -> Response {
    let mut response = error.into_response();
    if accepts_html(headers) {
        response = show_problem(State(gateway), response).await;
    }
    let vary = HeaderValue::from_static("Accept");
    response.headers_mut().insert(header::VARY, vary);
    response
}

/// Browsers accept `text/html`; programs accept JSON or anything.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    accepts(headers, &header::ACCEPT, "text/html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_recognised_by_their_accept_header() {
        let check = |accept: &'static str, expected: bool| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(accepts_html(&headers), expected, "{accept}");
        };
        check(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            true,
        );
        check("application/json, Text/HTML;q=0.5", true);
        check("text/html;q=0, */*", false);
        check("*/*", false);
        check("application/problem+json", false);
        assert!(!accepts_html(&HeaderMap::new()));
    }
}
