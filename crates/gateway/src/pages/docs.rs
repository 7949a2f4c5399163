//! The API described for people, from the same document that describes it for programs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use super::layout::Page;
use crate::gateway::Gateway;
use crate::openapi;
use crate::problem::KINDS;

const FIRST_TASK: &str = r#"curl 'http://127.0.0.1:7000/api/v1/tasks?wait=10' -H 'Content-Type: application/json' -d '
  {"source": {"hello.sh": "echo Hello, $(cat)"},
   "execute": {"command": "sh hello.sh", "input": "world", "limits": {"wall": "2s"}}}'"#;

const WITH_FILES: &str = r#"curl 'http://127.0.0.1:7000/api/v1/tasks?wait=10' \
  -F 'task={"execute": {"command": "sh hello.sh", "input": "world"}}' \
  -F 'source=@hello.sh'"#;

/// In the order in which one learns them.
const TAGS: [&str; 4] = ["tasks", "blobs", "nodes", "operations"];
const TYPES: [&str; 24] = [
    "NewTask",
    "Compile",
    "Execute",
    "Command",
    "Content",
    "Limits",
    "Duration",
    "Size",
    "Files",
    "File",
    "Task",
    "Id",
    "Time",
    "Status",
    "TaskResult",
    "Outcome",
    "Reason",
    "Page",
    "Brief",
    "Event",
    "Executor",
    "Judicator",
    "Part",
    "Problem",
];

pub(crate) async fn docs(State(gateway): State<Arc<Gateway>>) -> Response {
    let version = &gateway.options.version;
    let document = serde_json::to_value(openapi::document(version)).unwrap_or_default();
    let content = html! {
        h1 { "The HTTP API" }
        p { "A task is source files, an optional compile command, an execute command, its input and data, and limits. "
            "Add one and wait for it:" }
        pre { (FIRST_TASK) }
        p { "The same with files from your disk, each file's name being its path in the workspace:" }
        pre { (WITH_FILES) }
        p { "Programs find all of this in " a href="/api/openapi.json" { "/api/openapi.json" } " (OpenAPI 3.1). "
            "Where the operator has set tokens, send yours as " code { "Authorization: Bearer TOKEN" } "." }
        h2 { "Calls" }
        @for tag in TAGS { (calls(&document, tag)) }
        h2 { "Types" }
        @for name in TYPES { (schema(name, &document["components"]["schemas"][name])) }
        h2 { "Problems" }
        p { "What is refused is answered as " code { "application/problem+json" } ": what is wrong, in which field, "
            "the limit and the actual value." }
        table {
            thead { tr { th { "Status" } th { "Type" } th { "Title" } } }
            tbody {
                @for kind in KINDS {
                    tr id=(kind.name) { td { (kind.status.as_u16()) } td { code { (kind.name) } } td { (kind.title) } }
                }
            }
        }
    };
    let page = Page {
        title: "The HTTP API",
        version,
        refresh: None,
    };
    page.show(&content)
}

fn calls(document: &Value, tag: &str) -> Markup {
    html! {
        @for (path, operations) in document["paths"].as_object().into_iter().flatten() {
            @for (method, operation) in operations.as_object().into_iter().flatten().filter(|(_, operation)| operation["tags"][0] == tag) {
                h3 { span class="method" { (method.to_uppercase()) } code { (path) } }
                p { b { (text(&operation["summary"])) } " " (text(&operation["description"])) }
                (parameters(&operation["parameters"]))
                p class="dim" {
                    @for (status, response) in operation["responses"].as_object().into_iter().flatten() {
                        @if response.get("$ref").is_none() { (status) ": " (text(&response["description"])) ". " }
                    }
                }
            }
        }
    }
}

fn parameters(parameters: &Value) -> Markup {
    html! {
        dl {
            @for parameter in parameters.as_array().into_iter().flatten() {
                dt { code { (text(&parameter["name"])) } " " span class="dim" { (text(&parameter["in"])) } }
                dd { (text(&parameter["description"])) }
            }
        }
    }
}

fn schema(name: &str, schema: &Value) -> Markup {
    html! {
        h3 id={ "type-" (name) } { (name) }
        p { (text(&schema["description"])) }
        dl {
            @for (field, of) in schema["properties"].as_object().into_iter().flatten() {
                dt { code { (field) } " " (kind(of)) }
                dd { (text(&of["description"])) }
            }
        }
    }
}

/// The type of a field in a word, as a link where it is one of ours.
fn kind(schema: &Value) -> Markup {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|target| target.rsplit('/').next())
    {
        return html! { a href={ "#type-" (name) } { (name) } };
    }
    let choices = schema["oneOf"].as_array();
    if let Some(choice) = choices.and_then(|choices| choices.iter().find(|choice| choice["type"] != "null")) {
        return kind(choice);
    }
    let word = match &schema["type"] {
        Value::Array(types) => types
            .iter()
            .find_map(|word| word.as_str().filter(|word| *word != "null")),
        word => word.as_str(),
    };
    html! { span class="dim" { (word.unwrap_or_default()) } }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_to_a_type_leads_to_it() {
        let document = serde_json::to_value(openapi::document("1")).unwrap();
        let schemas = &document["components"]["schemas"];
        let shown: String = TYPES
            .iter()
            .map(|name| schema(name, &schemas[name]).into_string())
            .collect();
        for link in shown.split("href=\"#").skip(1) {
            let target = link.split('"').next().unwrap();
            assert!(shown.contains(&format!("id=\"{target}\"")), "{target}");
        }
        assert!(TYPES.iter().all(|name| schemas[name].is_object()));
        let calls: String = TAGS
            .iter()
            .map(|tag| calls(&document, tag).into_string())
            .collect();
        assert_eq!(calls.matches("<h3>").count(), 16);
    }
}
