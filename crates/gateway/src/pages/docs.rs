//! The API described for people, from the same document that describes it for programs.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use super::layout::{Page, respond};
use crate::Options;
use crate::gateway::Gateway;
use crate::openapi;
use crate::problem::KINDS;

/// Stands for the server's own address in the page as it is kept.
const SERVER: &str = "{SERVER}";

/// The first task.
const FIRST_TASK: &str = r#"curl '{SERVER}/api/v1/tasks?wait=10' -H 'Content-Type: application/json' -d '
  {"source": {"hello.sh": "echo Hello, $(cat)"},
   "execute": {"command": "sh hello.sh", "input": "world", "limits": {"wall": "2s"}}}'"#;

const WITH_FILES: &str = r#"curl '{SERVER}/api/v1/tasks?wait=10' \
  -F 'task={"execute": {"command": "sh hello.sh", "input": "world"}}' \
  -F 'source=@hello.sh'"#;

/// In the order in which one learns them.
const TAGS: [&str; 4] = ["tasks", "blobs", "nodes", "operations"];
const TYPES: [&str; 33] = [
    "NewTask",
    "Compile",
    "Execute",
    "ChosenId",
    "User",
    "Command",
    "Word",
    "Environment",
    "Content",
    "Network",
    "Limits",
    "Duration",
    "Size",
    "StackSize",
    "Files",
    "File",
    "Task",
    "Id",
    "Sha256",
    "Time",
    "Status",
    "TaskResult",
    "Outcome",
    "Reason",
    "Page",
    "Brief",
    "StreamEvent",
    "Event",
    "Executor",
    "Capacity",
    "Judicator",
    "Part",
    "Problem",
];

pub(crate) async fn docs(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let page = gateway.docs_page.get_or_init(|| write(&gateway.options));
    let server = server(request.headers(), request.uri());
    respond(page.replace(SERVER, &server))
}

/// To be kept: it takes milliseconds, and anyone may ask for it.
fn write(options: &Options) -> String {
    let document = openapi::document(options);
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
        div class="scroll" { table {
            thead { tr { th { "Status" } th { "Type" } th { "Title" } } }
            tbody {
                @for kind in KINDS {
                    tr id=(kind.name) { td { (kind.status.as_u16()) } td { code { (kind.name) } } td { (kind.title) } }
                }
            }
        } }
    };
    let page = Page {
        title: "The HTTP API",
        version: &options.version,
        refresh: None,
    };
    page.write(&content).into_string()
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
                dt { code { (field) } " " (kind(of)) }
                dd { (inline(text(&of["description"]))) }
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

/// Where the reader has reached this server, for examples that can be copied. A name that a shell or a page could take
/// for anything else is not repeated.
fn server(headers: &HeaderMap, uri: &Uri) -> String {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| uri.authority().map(|authority| authority.as_str()));
    let plain = |host: &&str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        !host.is_empty() && host.chars().all(fits)
    };
    // A proxy in front that speaks TLS says so.
    let proto = headers.get("x-forwarded-proto").map(HeaderValue::as_bytes);
    let scheme = if proto == Some(b"https") { "https" } else { "http" };
    format!("{scheme}://{}", host.filter(plain).unwrap_or("127.0.0.1:7000"))
}

/// The little Markdown that descriptions have: paragraphs, blocks of code, and code inside of a sentence.
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
    // A backtick without another one is only a backtick.
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
    fn every_link_to_a_type_leads_to_it() {
        let document = openapi::document(&crate::Options::default());
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
        // Nothing is left as Markdown.
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
    fn the_page_that_is_kept_has_a_place_for_the_address_in_each_example() {
        let page = write(&Options::default());
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
