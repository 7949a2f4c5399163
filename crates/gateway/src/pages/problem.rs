//! A problem on a page, where a program would get it as JSON.

use std::sync::Arc;

use api::Problem;
use axum::extract::State;
use axum::http::header;
use axum::response::Response;
use maud::html;

use super::layout::Page;
use crate::gateway::Gateway;

pub(crate) async fn show_problem(State(gateway): State<Arc<Gateway>>, response: Response) -> Response {
    let Some(problem) = response.extensions().get::<Problem>() else {
        return response;
    };
    let content = html! {
        h1 { (problem.title) }
        p { (problem.detail) }
        p { a href="/" { "All tasks" } }
    };
    let page = Page {
        title: &problem.title,
        version: &gateway.options.version,
        refresh: None,
    };
    let mut shown = page.show(&content);
    *shown.status_mut() = response.status();
    for name in [header::RETRY_AFTER, header::WWW_AUTHENTICATE] {
        if let Some(value) = response.headers().get(&name) {
            shown.headers_mut().insert(name, value.clone());
        }
    }
    shown
}
