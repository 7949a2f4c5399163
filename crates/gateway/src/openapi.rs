//! The OpenAPI 3.1 document, generated from the routes and types.

mod errors;
mod example;
mod forms;

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{RefOr, Schema, SecurityRequirement};

use crate::body::JSON;
use crate::gateway::Gateway;
use crate::{GatewayOptions, MetricsAccess, blobs, groups, health, languages, nodes, problems, tasks};
use errors::ErrorModifier;
use example::ExampleModifier;
use forms::FormModifier;

/// The OpenAPI document of the gateway's HTTP API before the operator's options are applied.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Conclave",
        description = "Runs command-line tasks on many machines and never loses one.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    paths(
        tasks::add, tasks::add_many, tasks::search, tasks::get, tasks::cancel, tasks::cancel_many, tasks::retry, tasks::retry_many,
        tasks::export,
        tasks::output, tasks::events, tasks::waiting, tasks::file, tasks::files_zip, tasks::files_tar,
        groups::list, groups::get, groups::cancel, groups::retry, groups::events,
        problems::list, problems::get, problems::put, problems::remove,
        blobs::put, blobs::has, blobs::get,
        nodes::executors, nodes::drain, nodes::resume, nodes::judicators, nodes::stats, nodes::history, languages::list,
        languages::roots,
        health::healthz, health::readyz, health::metrics,
    ),
    components(schemas(
        api::TaskEvent, api::OutputEvent, api::schema::StreamEvent, api::Problem, tasks::IdempotencyKey, tasks::OutputEventId,
        api::schema::WaitReasonName, api::schema::Step, api::schema::Stream, api::schema::AttemptEnd, api::schema::LeftOutReason, api::schema::Flag,
        api::schema::GroupName, api::schema::GroupCursor, api::schema::Label, api::schema::Labels,
        api::schema::KeepPattern, api::schema::Etag, api::schema::ByteRange, api::schema::FilePath,
        api::schema::ProcessCount, api::schema::OpenFileCount,
        api::schema::Id, api::schema::ChosenId, api::schema::Time, api::schema::Status, api::schema::Reason,
        api::schema::Order, api::schema::HistorySpan, api::schema::User, api::schema::ExecutorName, api::schema::DrainReason, api::schema::Network, api::schema::LanguageName, api::schema::ExportFormat,
        api::schema::RootName, api::schema::Sha256,
        api::schema::Cursor, api::schema::IdPrefix, api::schema::Bytes, api::schema::Wait, api::schema::Duration, api::schema::Size,
        api::schema::StackSize, api::schema::Command, api::schema::Word, api::schema::Environment,
        api::schema::Content, api::schema::File, api::schema::Files,
        api::schema::ProblemName, api::schema::CaseName, api::schema::Verdict, api::schema::StopRule,
        api::schema::JudgeProtocol, api::schema::Points, api::schema::Cases, api::schema::Check, api::schema::GroupRules,
        api::Case, api::CaseEvent,
    )),
    tags(
        (name = "tasks", description = "Add tasks, follow them, get their output"),
        (name = "groups", description = "Sets of tasks that are followed as one"),
        (name = "problems", description = "Cases and checks that are kept under a name, to judge tasks by"),
        (name = "blobs", description = "Contents of files by hash: uploaded once, used by many tasks"),
        (name = "nodes", description = "Executors, judicators and statistics"),
        (name = "operations", description = "Health and metrics, for operators"),
    ),
    modifiers(&FormModifier, &ErrorModifier, &ExampleModifier),
)]
struct ApiDocument;

/// The same for all gateways. `document` applies the operator's options.
static DOCUMENT: LazyLock<utoipa::openapi::OpenApi> = LazyLock::new(ApiDocument::openapi);

/// The document for these options. It takes milliseconds, so `Gateway` caches the result.
pub(crate) fn document(options: &GatewayOptions) -> serde_json::Value {
    let mut document = DOCUMENT.clone();
    document.info.version.clone_from(&options.version);
    if options.metrics == MetricsAccess::Off {
        document.paths.paths.remove("/metrics");
    }
    if options.tokens.is_some() {
        require_tokens(&mut document, options.metrics);
    }
    let schemas = document
        .components
        .as_mut()
        .map(|components| &mut components.schemas);
    if let Some(RefOr::T(Schema::Object(batch))) = schemas.and_then(|schemas| schemas.get_mut("NewTasks"))
        && let Some(RefOr::T(Schema::Array(tasks))) = batch.properties.get_mut("tasks")
    {
        tasks.max_items = Some(options.max_batch);
    }
    let mut document = serde_json::to_value(document).unwrap_or_default();
    allow_empty_parameters(&mut document);
    api::schema::set_task_size_limits(&mut document["components"]["schemas"], &options.task_size_limits);
    document
}

/// Allows empty parameters of a search, which HTML forms send, and flags without a value. utoipa has no builder method for
/// it.
fn allow_empty_parameters(document: &mut serde_json::Value) {
    let paths = document["paths"].as_object_mut();
    for (path, operations) in paths.into_iter().flatten() {
        for operation in operations
            .as_object_mut()
            .into_iter()
            .flat_map(|all| all.values_mut())
        {
            let parameters = operation.get_mut("parameters").and_then(|all| all.as_array_mut());
            for parameter in parameters.into_iter().flatten() {
                let is_search = matches!(
                    path.as_str(),
                    "/api/v1/tasks" | "/api/v1/tasks/retry" | "/api/v1/tasks/export" | "/api/v1/groups"
                );
                let is_flag = matches!(parameter["name"].as_str(), Some("follow" | "output"));
                if parameter["in"] == "query" && parameter["name"] != "wait" && (is_search || is_flag) {
                    parameter["allowEmptyValue"] = true.into();
                }
            }
        }
    }
}

fn require_tokens(document: &mut utoipa::openapi::OpenApi, metrics: MetricsAccess) {
    if let Some(components) = &mut document.components {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("token", scheme);
    }
    document.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
    let open = |path: &str| match path {
        "/healthz" | "/readyz" => true,
        "/metrics" => metrics == MetricsAccess::Open,
        _ => false,
    };
    for (path, item) in &mut document.paths.paths {
        if let Some(operation) = &mut item.get
            && open(path)
        {
            operation.security = Some(Vec::new());
        }
    }
}

pub(crate) async fn openapi(State(gateway): State<Arc<Gateway>>) -> Response {
    let json = gateway.openapi_json.get_or_init(|| {
        let document = document(&gateway.options);
        serde_json::to_vec(&document).unwrap_or_default().into()
    });
    let headers = [(header::CONTENT_TYPE, JSON)];
    (headers, json.clone()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json() -> serde_json::Value {
        json_with(GatewayOptions {
            version: "1.2.3".into(),
            ..GatewayOptions::default()
        })
    }

    fn json_with(options: GatewayOptions) -> serde_json::Value {
        document(&options)
    }

    #[test]
    fn the_document_contains_the_options_of_the_operator() {
        let document = json();
        assert!(document["security"].is_null());
        assert!(document["components"]["securitySchemes"].is_null());
        assert_eq!(
            document["components"]["schemas"]["NewTasks"]["properties"]["tasks"]["maxItems"],
            10_000
        );

        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens");
        std::fs::write(&tokens, "a-token-of-some-length ada\n").unwrap();
        let document = json_with(GatewayOptions {
            tokens: Some(crate::Tokens::load(&tokens).unwrap()),
            metrics: MetricsAccess::Token,
            max_batch: 7,
            task_size_limits: model::TaskSizeLimits {
                args: 3,
                ..model::TaskSizeLimits::default()
            },
            ..GatewayOptions::default()
        });
        assert_eq!(document["security"], serde_json::json!([{"token": []}]));
        assert_eq!(
            document["components"]["securitySchemes"]["token"]["scheme"],
            "bearer"
        );
        assert_eq!(
            document["components"]["schemas"]["NewTasks"]["properties"]["tasks"]["maxItems"],
            7
        );
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["Execute"]["properties"]["args"]["maxItems"], 3);
        assert_eq!(
            document["paths"]["/healthz"]["get"]["security"],
            serde_json::json!([])
        );
        assert!(document["paths"]["/metrics"]["get"]["security"].is_null());

        let off = json_with(GatewayOptions {
            metrics: MetricsAccess::Off,
            ..GatewayOptions::default()
        });
        assert!(off["paths"]["/metrics"].is_null());
    }

    #[test]
    fn every_parameter_and_field_has_a_schema_with_limits() {
        let document = json();
        let schema_of = |parameter: &serde_json::Value| match parameter["schema"]["$ref"].as_str() {
            Some(target) => document
                .pointer(target.strip_prefix('#').unwrap())
                .unwrap()
                .clone(),
            None => parameter["schema"].clone(),
        };
        for (path, operations) in document["paths"].as_object().unwrap() {
            for operation in operations.as_object().unwrap().values() {
                let parameters = operation.get("parameters");
                assert!(parameters.is_none_or(|all| all.is_array()), "{path}: {operation}");
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    let schema = schema_of(parameter);
                    let name = parameter["name"].as_str().unwrap();
                    let bounded = ["pattern", "enum", "maximum", "maxLength", "format", "items"]
                        .iter()
                        .any(|word| !schema[word].is_null());
                    assert!(bounded, "{name} of {path}: {schema}");
                    assert!(
                        schema["type"].is_string(),
                        "{name} of {path} can be null: {schema}"
                    );
                }
            }
        }
        let schemas = &document["components"]["schemas"];
        for name in [
            "DrainRequest",
            "NewTask",
            "NewTasks",
            "Compile",
            "Execute",
            "Limits",
            "Form",
            "Case",
            "JudgeProgram",
            "NewJudgeProblem",
        ] {
            assert_eq!(schemas[name]["additionalProperties"], false, "{name}");
        }
        let events = &document["paths"]["/api/v1/tasks/{id}/events"]["get"]["responses"]["200"]["content"];
        assert_eq!(
            events["text/event-stream"]["schema"]["$ref"],
            "#/components/schemas/StreamEvent"
        );
        let form =
            &document["paths"]["/api/v1/tasks"]["post"]["requestBody"]["content"]["multipart/form-data"];
        assert_eq!(form["encoding"]["task"]["contentType"], "application/json");
    }

    #[test]
    fn every_reference_has_a_target() {
        fn check(value: &serde_json::Value, document: &serde_json::Value) {
            match value {
                serde_json::Value::Object(members) => {
                    if let Some(target) = members.get("$ref").and_then(|target| target.as_str()) {
                        let pointer = target.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{target}");
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
    fn every_operation_has_a_summary_and_error_responses() {
        let document = json();
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), 30, "{:?}", paths.keys());
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
    fn docs_api_md_lists_every_call() {
        let page = include_str!("../../../docs/api.md");
        let document = json();
        for (path, operations) in document["paths"].as_object().unwrap() {
            let is_row = |line: &&str| line.starts_with('|') && line.contains(&format!("{path}`"));
            for method in operations.as_object().unwrap().keys() {
                let method = method.to_uppercase();
                let listed = page.lines().filter(is_row).any(|row| row.contains(&method));
                assert!(listed, "docs/api.md lacks {method} {path}");
            }
        }
    }

    #[test]
    fn the_examples_are_valid() {
        let document = json();
        let content = |path: &str| {
            document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"].clone()
        };
        let one = content("/api/v1/tasks").to_string();
        api::parse_json::<api::NewTask>(one.as_bytes()).unwrap();
        let many = content("/api/v1/tasks/batch").to_string();
        api::parse_json::<api::NewTasks>(many.as_bytes()).unwrap();
        let problem =
            document["paths"]["/api/v1/problems/{name}"]["put"]["requestBody"]["content"]["application/json"]
                ["example"]
                .to_string();
        api::parse_json::<api::NewJudgeProblem>(problem.as_bytes()).unwrap();
        let drain = content("/api/v1/executors/{name}/drain").to_string();
        api::parse_json::<api::DrainRequest>(drain.as_bytes()).unwrap();
        let task = document["components"]["schemas"]["Task"]["examples"][0].clone();
        serde_json::from_value::<api::Task>(task).unwrap();
    }
}
