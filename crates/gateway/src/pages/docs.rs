//! The documentation page of the API, rendered from the OpenAPI document.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use super::layout::{HtmlPage, Section, html_response};
use crate::GatewayOptions;
use crate::gateway::Gateway;
use crate::openapi;
use crate::problem_response::PROBLEM_KINDS;

/// Placeholder for the server's address in the cached page.
const SERVER: &str = "{SERVER}";

/// An example that adds a task as JSON.
const FIRST_TASK: &str = r#"curl '{SERVER}/api/v1/tasks?wait=10' -H 'Content-Type: application/json' -d '
  {"source": {"hello.sh": "echo Hello, $(cat)"},
   "execute": {"command": "sh hello.sh", "input": "world", "limits": {"wall": "2s"}}}'"#;

/// An example that adds a task as a form.
const WITH_FILES: &str = r#"curl '{SERVER}/api/v1/tasks?wait=10' \
  -F 'task={"execute": {"command": "sh hello.sh", "input": "world"}}' \
  -F 'source=@hello.sh'"#;

/// In the order of the page.
const TAGS: [&str; 5] = ["tasks", "groups", "blobs", "nodes", "operations"];
const TYPES: [&str; 56] = [
    "NewTask",
    "Compile",
    "Execute",
    "ChosenId",
    "User",
    "KeepPattern",
    "Labels",
    "GroupName",
    "LanguageName",
    "RootName",
    "Command",
    "Word",
    "Environment",
    "Content",
    "Network",
    "Limits",
    "Duration",
    "Size",
    "StackSize",
    "ProcessCount",
    "OpenFileCount",
    "Files",
    "File",
    "Task",
    "Attempt",
    "AttemptEnd",
    "Id",
    "Sha256",
    "Time",
    "Status",
    "TaskResult",
    "Outcome",
    "Reason",
    "KeptFile",
    "LeftOut",
    "LeftOutReason",
    "Page",
    "Brief",
    "Cancelled",
    "Retried",
    "Groups",
    "Group",
    "StreamEvent",
    "Event",
    "Output",
    "Step",
    "Stream",
    "Executor",
    "Capacity",
    "OfferedLanguage",
    "OfferedRoot",
    "Language",
    "Root",
    "Judicator",
    "Part",
    "Problem",
];

pub(crate) async fn docs(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let page = gateway.docs_page.get_or_init(|| render(&gateway.options));
    let server = server(request.headers(), request.uri());
    html_response(page.replace(SERVER, &server), None)
}

/// Rendering takes milliseconds and any client may request the page, so the result is cached.
fn render(options: &GatewayOptions) -> String {
    let document = openapi::document(options);
    let content = html! {
        h1 { "The HTTP API" }
        p { "A task consists of source files, an optional compile command, an execute command, its input and data, and limits. "
            "Add a task and wait for its result:" }
        pre { (FIRST_TASK) }
        p { "The same with files from your disk. The name of each file is its path in the workspace:" }
        pre { (WITH_FILES) }
        p { "The OpenAPI 3.1 document is at " a href="/api/openapi.json" { "/api/openapi.json" } ". "
            "If the server requires tokens, send yours as " code { "Authorization: Bearer TOKEN" } "." }
        h2 { "Calls" }
        @for tag in TAGS { (calls(&document, tag)) }
        h2 { "Types" }
        @for name in TYPES { (schema(name, &document["components"]["schemas"][name])) }
        h2 { "Problems" }
        p { "The response to a refused request is " code { "application/problem+json" } ". It says what is wrong, in which field, "
            "the limit and the actual value." }
        div class="scroll" { table {
            thead { tr { th { "Status" } th { "Type" } th { "Title" } } }
            tbody {
                @for kind in PROBLEM_KINDS {
                    tr id=(kind.name) { td { (kind.status.as_u16()) } td { code { (kind.name) } } td { (kind.title) } }
                }
            }
        } }
    };
    let page = HtmlPage::of_version(&options.version, "The HTTP API").section(Section::Api);
    page.render(&content).into_string()
}

fn calls(document: &Value, tag: &str) -> Markup {
    html! {
        @for (path, operations) in document["paths"].as_object().into_iter().flatten() {
            @for (method, operation) in operations.as_object().into_iter().flatten().filter(|(_, operation)| operation["tags"][0] == tag) {
                h3 { span class="method" { (method.to_uppercase()) } code { (path) } }
                p { b { (text(&operation["summary"])) } }
                (prose(&operation["description"]))
                (parameters(&operation["parameters"]))
                p class="dim" {
                    @for (status, response) in operation["responses"].as_object().into_iter().flatten() {
                        @if response.get("$ref").is_none() { (status) ": " (inline(text(&response["description"]))) ". " }
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
                dd { (inline(text(&parameter["description"]))) }
            }
        }
    }
}

fn schema(name: &str, schema: &Value) -> Markup {
    html! {
        h3 id={ "type-" (name) } { (name) }
        (prose(&schema["description"]))
        dl {
            @for (field, of) in schema["properties"].as_object().into_iter().flatten() {
                dt { code { (field) } " " (type_name(of)) }
                dd { (inline(text(&of["description"]))) }
            }
        }
    }
}

/// The type of a field, as a link if it is a component of the document.
fn type_name(schema: &Value) -> Markup {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|target| target.rsplit('/').next())
    {
        return html! { a href={ "#type-" (name) } { (name) } };
    }
    let choices = schema["oneOf"].as_array();
    if let Some(choice) = choices.and_then(|choices| choices.iter().find(|choice| choice["type"] != "null")) {
        return type_name(choice);
    }
    let word = match &schema["type"] {
        Value::Array(types) => types
            .iter()
            .find_map(|word| word.as_str().filter(|word| *word != "null")),
        word => word.as_str(),
    };
    html! { span class="dim" { (word.unwrap_or_default()) } }
}

/// The address of this server as the browser used it, for examples that can be copied. A host name with special
/// characters is replaced, because it could be code for a shell or a page.
fn server(headers: &HeaderMap, uri: &Uri) -> String {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| uri.authority().map(|authority| authority.as_str()));
    let plain = |host: &&str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        !host.is_empty() && host.chars().all(fits)
    };
    // A TLS proxy sets this header.
    let proto = headers.get("x-forwarded-proto").map(HeaderValue::as_bytes);
    let scheme = if proto == Some(b"https") { "https" } else { "http" };
    format!("{scheme}://{}", host.filter(plain).unwrap_or("127.0.0.1:7000"))
}

/// Renders the Markdown that descriptions use: paragraphs, code blocks and inline code.
fn prose(value: &Value) -> Markup {
    html! {
        @for block in text(value).split("\n\n").filter(|block| !block.trim().is_empty()) {
            @if let Some(code) = block.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) {
                pre { (code.split_once('\n').map_or(code, |(_, code)| code)) }
            } @else {
                p { (inline(block)) }
            }
        }
    }
}

fn inline(text: &str) -> Markup {
    let pieces: Vec<_> = text.split('`').collect();
    // A backtick without a second one is an ordinary character.
    if pieces.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (index, piece) in pieces.into_iter().enumerate() {
            @if index.is_multiple_of(2) { (piece) } @else { code { (piece) } }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_to_a_type_has_a_target() {
        let document = openapi::document(&crate::GatewayOptions::default());
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
        assert_eq!(calls.matches("<h3>").count(), 28);
        // All Markdown is rendered.
        assert!(!shown.contains('`') && !calls.contains('`'));
        assert!(calls.contains("<code>Idempotency-Key</code>"));
    }

    #[test]
    fn code_is_shown_as_code() {
        let check = |text: &str, expected: &str| assert_eq!(prose(&text.into()).into_string(), expected);
        check("a `b<c` d", "<p>a <code>b&lt;c</code> d</p>");
        check("one\n\ntwo", "<p>one</p><p>two</p>");
        check("```sh\nls | wc\n```", "<pre>ls | wc\n</pre>");
        check("a ` b", "<p>a ` b</p>");
        check("", "");
    }

    #[test]
    fn the_cached_page_has_a_placeholder_for_the_address_in_each_example() {
        let page = render(&GatewayOptions::default());
        assert_eq!(page.matches(SERVER).count(), 2);
    }

    #[test]
    fn examples_have_the_address_of_the_server() {
        let check = |host: &'static str, proto: Option<&'static str>, expected: &str| {
            let mut headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            if let Some(proto) = proto {
                headers.insert("x-forwarded-proto", HeaderValue::from_static(proto));
            }
            assert_eq!(
                server(&headers, &Uri::from_static("/api/docs")),
                expected,
                "{host}"
            );
        };
        check("10.1.2.3:7000", None, "http://10.1.2.3:7000");
        check("[::1]:8", None, "http://[::1]:8");
        check("tasks.example", Some("https"), "https://tasks.example");
        check("a';reboot;'", None, "http://127.0.0.1:7000");
        check("<script>", Some("javascript"), "http://127.0.0.1:7000");
    }
}
