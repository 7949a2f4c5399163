//! The API described for programs: OpenAPI 3.1, made from the routes and types themselves.

mod errors;
mod example;

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

use crate::gateway::Gateway;
use crate::{blobs, health, nodes, tasks};
use errors::Errors;
use example::Examples;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Conclave",
        description = "Runs command-line tasks on many machines and never loses one.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    paths(
        tasks::add, tasks::add_many, tasks::search, tasks::get, tasks::cancel, tasks::output, tasks::events,
        blobs::put, blobs::has, blobs::get,
        nodes::executors, nodes::judicators, nodes::stats,
        health::healthz, health::readyz, health::metrics,
    ),
    components(schemas(
        api::Problem,
        api::schema::Id, api::schema::Time, api::schema::Status, api::schema::Reason, api::schema::Duration,
        api::schema::Size, api::schema::Command, api::schema::Content, api::schema::File, api::schema::Files,
    )),
    tags(
        (name = "tasks", description = "Add tasks, follow them, get what they wrote"),
        (name = "blobs", description = "File content by its hash: sent once, used by many tasks"),
        (name = "nodes", description = "Who is there, and how much is done"),
        (name = "operations", description = "For those who watch over the service"),
    ),
    modifiers(&Tokens, &Errors, &Examples),
)]
struct Document;

/// The same for every request but for the version, which is put in once.
static DOCUMENT: LazyLock<utoipa::openapi::OpenApi> = LazyLock::new(Document::openapi);

struct Tokens;

impl utoipa::Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        if let Some(components) = &mut document.components {
            components.add_security_scheme("token", scheme);
        }
        // Empty beside it: where the operator has set no tokens, none is needed.
        let none = utoipa::openapi::SecurityRequirement::default();
        let token = utoipa::openapi::SecurityRequirement::new("token", Vec::<String>::new());
        document.security = Some(vec![none, token]);
    }
}

pub(crate) fn document(version: &str) -> utoipa::openapi::OpenApi {
    let mut document = DOCUMENT.clone();
    document.info.version = version.to_string();
    document
}

pub(crate) async fn openapi(State(gateway): State<Arc<Gateway>>) -> Response {
    let document = document(&gateway.options.version);
    let body = serde_json::to_vec(&document).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json() -> serde_json::Value {
        serde_json::to_value(document("1.2.3")).unwrap()
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn check(value: &serde_json::Value, document: &serde_json::Value) {
            match value {
                serde_json::Value::Object(members) => {
                    if let Some(target) = members.get("$ref").and_then(|target| target.as_str()) {
                        let place = target.strip_prefix('#').unwrap();
                        assert!(document.pointer(place).is_some(), "{target}");
                    }
                    members.values().for_each(|member| check(member, document));
                }
                serde_json::Value::Array(items) => items.iter().for_each(|item| check(item, document)),
                _ => {}
            }
        }
        let document = json();
        check(&document, &document);
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["info"]["version"], "1.2.3");
    }

    #[test]
    fn every_operation_is_told_and_says_what_can_go_wrong() {
        let document = json();
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), 12, "{:?}", paths.keys());
        for (path, operations) in paths {
            for (method, operation) in operations.as_object().unwrap() {
                assert!(operation["summary"].is_string(), "{method} {path}");
                let responses = operation["responses"].as_object().unwrap();
                assert!(
                    path == "/healthz" || responses.contains_key("503") || path == "/metrics",
                    "{method} {path}"
                );
            }
        }
    }

    #[test]
    fn every_call_is_in_the_document_for_people() {
        let page = include_str!("../../../docs/api.md");
        let document = json();
        for (path, operations) in document["paths"].as_object().unwrap() {
            let is_row = |line: &&str| line.starts_with('|') && line.contains(&format!("{path}`"));
            for method in operations.as_object().unwrap().keys() {
                let method = method.to_uppercase();
                let told = page.lines().filter(is_row).any(|row| row.contains(&method));
                assert!(told, "docs/api.md lacks {method} {path}");
            }
        }
    }

    #[test]
    fn the_examples_are_real() {
        let document = json();
        let content = |path: &str| {
            document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"].clone()
        };
        let one = content("/api/v1/tasks").to_string();
        api::parse::<api::NewTask>(one.as_bytes()).unwrap();
        let many = content("/api/v1/tasks/batch").to_string();
        api::parse::<api::NewTasks>(many.as_bytes()).unwrap();
        let task = document["components"]["schemas"]["Task"]["examples"][0].clone();
        serde_json::from_value::<api::Task>(task).unwrap();
    }
}
