//! The error responses of each operation.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{
    ContentBuilder, Header, HeaderBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder,
};

use crate::problem_response::PROBLEM_KINDS;

/// A utoipa modifier that adds the error responses to each operation of the gateway's OpenAPI document.
pub(super) struct ErrorModifier;

impl utoipa::Modify for ErrorModifier {
    fn modify(&self, document: &mut OpenApi) {
        for (path, item) in &mut document.paths.paths {
            for (method, operation) in operations(item) {
                let Some(operation) = operation else { continue };
                for status in statuses(method, path).filter(|status| is_known(*status)) {
                    operation.responses.responses.insert(
                        status.to_string(),
                        RefOr::Ref(Ref::from_response_name(name(status))),
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

/// The errors of every call that requires authentication.
const GUARDED: [u16; 6] = [401, 403, 405, 429, 500, 503];

fn statuses(method: &str, path: &str) -> impl Iterator<Item = u16> {
    let (guarded, own): (&[u16], &[u16]) = match (method, path) {
        (_, "/healthz") => (&[], &[405]),
        (_, "/metrics") => (&[], &[401, 405]),
        (_, "/readyz") => (&[], &[405, 503]),
        ("post", "/api/v1/tasks/{id}/retry") => (&GUARDED, &[404, 409, 422]),
        ("post", "/api/v1/groups/{group}/retry") => (&GUARDED, &[404, 422]),
        ("post", "/api/v1/executors/{name}/drain") => (&GUARDED, &[400, 404, 408, 413, 415, 422]),
        ("post", "/api/v1/executors/{name}/resume") => (&GUARDED, &[404, 422]),
        ("post", "/api/v1/tasks/retry") => (&GUARDED, &[422]),
        ("post", _) => (&GUARDED, &[400, 408, 409, 413, 415, 422]),
        ("put", "/api/v1/problems/{name}") => (&GUARDED, &[400, 408, 413, 415, 422]),
        ("put", _) => (&GUARDED, &[400, 404, 408, 413, 422]),
        ("delete", "/api/v1/tasks") => (&GUARDED, &[422]),
        ("delete", "/api/v1/groups/{group}" | "/api/v1/problems/{name}") => (&GUARDED, &[404, 422]),
        ("delete", _) => (&GUARDED, &[404, 409, 422]),
        ("get", "/api/v1/tasks/{id}/files/{path}" | "/api/v1/tasks/{id}/{step}/{output}") => {
            (&GUARDED, &[404, 416, 422])
        }
        ("get", "/api/v1/tasks" | "/api/v1/groups" | "/api/v1/history" | "/api/v1/tasks/export") => {
            (&GUARDED, &[422])
        }
        (_, path) if path.contains('{') => (&GUARDED, &[404, 422]),
        _ => (&GUARDED, &[]),
    };
    guarded.iter().chain(own).copied()
}

fn is_known(status: u16) -> bool {
    PROBLEM_KINDS.iter().any(|kind| kind.status == status)
}

fn name(status: u16) -> String {
    format!("Problem{status}")
}

/// One response for each status, with the titles of all problems that have this status.
fn responses() -> BTreeMap<String, RefOr<Response>> {
    let mut titles: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for kind in PROBLEM_KINDS {
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
                .content(api::Problem::MEDIA_TYPE, content);
            let response = match header_of(status) {
                Some((name, header)) => response.header(name, header),
                None => response,
            };
            (name(status), RefOr::T(response.build()))
        })
        .collect()
}

fn header_of(status: u16) -> Option<(&'static str, Header)> {
    let (name, kind, description) = match status {
        401 => (
            "WWW-Authenticate",
            Type::String,
            "The authentication scheme for the token",
        ),
        405 => ("Allow", Type::String, "The allowed methods"),
        429 | 503 => (
            "Retry-After",
            Type::Integer,
            "Seconds to wait before the next attempt",
        ),
        _ => return None,
    };
    let schema = ObjectBuilder::new().schema_type(kind);
    let header = HeaderBuilder::new()
        .schema(Some(schema))
        .description(Some(description));
    Some((name, header.build()))
}

fn describe(status: u16, titles: &[&str]) -> String {
    let retry_hint = match StatusCode::from_u16(status) {
        Ok(StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) => {
            "; try again after `Retry-After` seconds"
        }
        _ => "",
    };
    format!("{}{retry_hint}", titles.join("; or: "))
}
