//! Errors as HTML pages for browsers, where programs get problem details as JSON.

use std::sync::Arc;

use api::Problem;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use maud::{Markup, html};

use super::components::UserText;
use super::layout::HtmlPage;
use super::sign_in;
use crate::accept_header::accepts;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::problem_response::NOT_OPERATOR;
use crate::request_error::RequestError;
use crate::sign_in::NextPath;

/// An extension of responses that come from the route of a page, whose errors are pages for every client.
#[derive(Clone, Copy)]
struct FromPageRoute;

/// What the page of an error needs to know of the request that failed.
pub(super) struct FailedRequest {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
}

/// Middleware of the routes of pages.
pub(crate) async fn mark_page(mut response: Response) -> Response {
    response.extensions_mut().insert(FromPageRoute);
    response
}

/// Middleware that replaces an error response by an HTML page, if the request is for a page or from a browser.
///
/// It runs around all others, so that no error of theirs gets past it.
pub(crate) async fn show_problems(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
    next: Next,
) -> Response {
    let from_browser = accepts_html(request.headers());
    let is_call = request.uri().path().starts_with("/api/v1/");
    // Programs send many requests and get no pages.
    let failed = (from_browser || !is_call).then(|| FailedRequest {
        method: request.method().clone(),
        uri: request.uri().clone(),
        headers: request.headers().clone(),
    });
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    let for_page = response.extensions().get::<FromPageRoute>().is_some();
    if !for_page {
        let vary = HeaderValue::from_static("Accept");
        response.headers_mut().insert(header::VARY, vary);
    }
    match failed {
        Some(failed) if for_page && problem.status == StatusCode::UNAUTHORIZED => {
            sign_in::ask(&failed, response)
        }
        Some(failed) if for_page || from_browser => {
            let caller = Caller::of_request(&gateway, &failed.headers).ok();
            let mut page = HtmlPage::new(&gateway, &problem.title);
            if let Some(caller) = &caller {
                page = page.caller(caller);
            }
            replace_body(response, page.respond(&content(&problem, &failed)))
        }
        _ => response,
    }
}

pub(crate) async fn route_not_found(request: Request) -> RequestError {
    RequestError::RouteNotFound(request.uri().path().to_string())
}

pub(crate) async fn method_not_allowed(request: Request) -> RequestError {
    RequestError::MethodNotAllowed {
        method: request.method().clone(),
        path: request.uri().path().to_string(),
    }
}

/// The page with the status and the other headers of the error response, such as `Allow`.
fn replace_body(refused: Response, page: Response) -> Response {
    let (mut parts, _) = refused.into_parts();
    let (page_parts, body) = page.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    for (name, value) in page_parts.headers {
        if let Some(name) = name {
            parts.headers.insert(name, value);
        }
    }
    Response::from_parts(parts, body)
}

fn content(problem: &Problem, failed: &FailedRequest) -> Markup {
    let own = NextPath::of_request(&failed.uri);
    let sending = NextPath::of_sending_page(&failed.headers);
    let has_way_back = failed.headers.contains_key(header::REFERER) && sending != own;
    let is_sign_in = failed.uri.path() == "/sign-in";
    let is_read = matches!(failed.method, Method::GET | Method::HEAD);
    html! {
        h1 { (problem.title) }
        p { (UserText(&problem.detail)) }
        p { (next_step(problem)) }
        ul {
            @if is_sign_in {
                li { a href=(failed.uri.path_and_query().map_or("/sign-in", |path| path.as_str())) { "Sign in" } }
            } @else if problem.status == StatusCode::UNAUTHORIZED.as_u16() {
                li { a href=(own.sign_in_address()) { "Sign in" } }
            }
            @if is_read && is_temporary(problem.status) && !is_sign_in { li { a href=(own.as_str()) { "Try again" } } }
            @if has_way_back { li { a href=(sending.as_str()) { "Back to the page before" } } }
            li { a href="/" { "All tasks" } }
            li { a href=(problem.kind) { "About this problem" } }
        }
        p class="dim" { "Status " (problem.status) }
    }
}

fn is_temporary(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 503)
}

/// What the reader can do now. The detail has said what happened.
fn next_step(problem: &Problem) -> &'static str {
    match problem.status {
        401 => "Sign in with your token; then open this address again.",
        403 if problem.kind.ends_with(NOT_OPERATOR.name) => "Ask an operator of this server to do it.",
        403 => {
            "Open the pages of this server by typing its address or by a bookmark, and do there what you wanted to do."
        }
        404 => {
            "Check the address. What it names may also have been removed: tasks are kept for a limited time after they are done. \
             Where users sign in, each sees their own tasks only."
        }
        405 => "Use the links and buttons of the pages; the API documentation lists what programs can call.",
        408 => "Check your connection and send it again.",
        409 => "Go back and reload the page: it shows how things are now.",
        413 => "Send less at once, or leave out large files.",
        415 => {
            "Send it from the form of this server's pages, or with the content type that the API documentation names."
        }
        416 => "Ask for the whole content, or for a range within it.",
        400 | 422 => "Go back, correct it, and send it again.",
        429 => "Wait some seconds, then try again.",
        503 => "Wait some seconds, then try again. If it stays so, tell the operator of this server.",
        _ => "Try again. If it happens again, tell the operator of this server the address and the time.",
    }
}

/// Browsers accept `text/html`; programs accept JSON or anything.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    accepts(headers, &header::ACCEPT, "text/html")
}

#[cfg(test)]
mod tests;
