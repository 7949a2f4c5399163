//! What can go wrong with each operation.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

use crate::problem::KINDS;

pub(super) struct Errors;

impl utoipa::Modify for Errors {
    fn modify(&self, document: &mut OpenApi) {
        for (path, item) in &mut document.paths.paths {
            for (method, operation) in operations(item) {
                let Some(operation) = operation else { continue };
                for status in statuses(method, path) {
                    operation.responses.responses.insert(
                        status.to_string(),
                        RefOr::Ref(Ref::from_response_name(name(*status))),
                    );
                }
            }
        }
        if let Some(components) = &mut document.components {
            components.responses.extend(responses());
        }
    }
}

fn operations(item: &mut PathItem) -> [(&'static str, &mut Option<Operation>); 5] {
    [
        ("get", &mut item.get),
        ("head", &mut item.head),
        ("post", &mut item.post),
        ("put", &mut item.put),
        ("delete", &mut item.delete),
    ]
}

fn statuses(method: &str, path: &str) -> &'static [u16] {
    match (method, path) {
        (_, "/healthz" | "/metrics") => &[],
        (_, "/readyz") => &[503],
        ("post", _) => &[400, 401, 403, 408, 409, 413, 415, 422, 429, 500, 503],
        ("put", _) => &[400, 401, 403, 408, 413, 422, 429, 500, 503],
        ("delete", _) => &[401, 403, 404, 409, 422, 429, 500, 503],
        ("get", "/api/v1/tasks") => &[401, 403, 422, 429, 500, 503],
        (_, path) if path.contains('{') => &[401, 403, 404, 422, 429, 500, 503],
        _ => &[401, 403, 429, 500, 503],
    }
}

fn name(status: u16) -> String {
    format!("Problem{status}")
}

/// One response for each status, which may stand for several kinds of problem.
fn responses() -> BTreeMap<String, RefOr<Response>> {
    let mut titles: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for kind in KINDS {
        titles.entry(kind.status.as_u16()).or_default().push(kind.title);
    }
    titles
        .into_iter()
        .map(|(status, titles)| {
            let content = ContentBuilder::new()
                .schema(Some(Ref::from_schema_name("Problem")))
                .build();
            let response = ResponseBuilder::new()
                .description(describe(status, &titles))
                .content(api::Problem::MEDIA_TYPE, content)
                .build();
            (name(status), RefOr::T(response))
        })
        .collect()
}

fn describe(status: u16, titles: &[&str]) -> String {
    let again = match StatusCode::from_u16(status) {
        Ok(StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) => {
            "; try again after `Retry-After` seconds"
        }
        _ => "",
    };
    format!("{}{again}", titles.join("; or: "))
}
