//! The documentation page of the API, rendered from the OpenAPI document.

mod calls;
mod prose;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use self::calls::calls_with_tag;
use self::prose::{inline, prose, text};
use super::layout::{HtmlPage, Island, Section};
use super::server_address::{self, CURL_TOKEN};
use crate::GatewayOptions;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::openapi;
use crate::problem_response::PROBLEM_KINDS;

/// Placeholder for the server's address in the cached page.
const SERVER: &str = "{SERVER}";

/// Placeholder for the token in examples.
const TOKEN: &str = "{TOKEN}";

/// An example that adds a task as JSON.
const FIRST_TASK: &str = r#"curl '{SERVER}/api/v1/tasks?wait=10'{TOKEN} \
  -H 'Content-Type: application/json' -d '
  {"source": {"hello.sh": "echo Hello, $(cat)"},
   "execute": {"command": "sh hello.sh", "input": "world", "limits": {"wall": "2s"}}}'"#;

/// An example that adds a task as a form.
const WITH_FILES: &str = r#"curl '{SERVER}/api/v1/tasks?wait=10'{TOKEN} \
  -F 'task={"execute": {"command": "sh hello.sh", "input": "world"}}' \
  -F 'source=@hello.sh'"#;

/// The content of the documentation page, which takes milliseconds to render.
pub(crate) struct RenderedDocs {
    /// With forms that send calls.
    for_callers: String,
    /// For those who have to sign in first.
    for_strangers: String,
}

/// In the order of the page.
const TAGS: [&str; 6] = ["tasks", "groups", "problems", "blobs", "nodes", "operations"];
const TYPES: [&str; 67] = [
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
    "Cases",
    "Case",
    "CaseName",
    "Points",
    "Check",
    "JudgeProgram",
    "JudgeProtocol",
    "StopRule",
    "GroupRules",
    "ProblemName",
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
    "Verdict",
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
    let caller = Caller::of_request(&gateway, request.headers()).ok();
    // Any client may request the page.
    let rendered = gateway
        .rendered_docs
        .get_or_init(|| RenderedDocs::new(&gateway.options));
    let content = match caller {
        Some(_) => &rendered.for_callers,
        None => &rendered.for_strangers,
    };
    let content = content.replace(SERVER, &server_address::url(request.headers(), request.uri()));
    let mut page = HtmlPage::new(&gateway, "The HTTP API").section(Section::Api);
    if let Some(caller) = &caller {
        page = page.caller(caller).island(Island::TryIt);
    }
    page.respond(&PreEscaped(content))
}

impl RenderedDocs {
    fn new(options: &GatewayOptions) -> RenderedDocs {
        let document = openapi::document(options);
        RenderedDocs {
            for_callers: render(&document, true),
            for_strangers: render(&document, false),
        }
    }
}

fn render(document: &Value, try_it: bool) -> String {
    let content = html! {
        h1 { "The HTTP API" }
        div class="docs" {
            (contents(document))
            div {
                (introduction(document, try_it))
                h2 id="calls" { "Calls" }
                @for tag in TAGS {
                    @for call in calls_with_tag(document, tag) { (call.show(try_it)) }
                }
                h2 id="types" { "Types" }
                @for name in type_names(document) { (schema(name, &document["components"]["schemas"][name])) }
                h2 id="problems" { "Problems" }
                p { "The response to a refused request is " code { "application/problem+json" } ". It says what is wrong, in which field, "
                    "the limit and the actual value." }
                table class="cards" {
                    thead { tr { th scope="col" { "Status" } th scope="col" { "Type" } th scope="col" { "Title" } } }
                    tbody {
                        @for kind in PROBLEM_KINDS {
                            tr id=(kind.name) {
                                td data-label="Status" { (kind.status.as_u16()) }
                                th scope="row" data-label="Type" { code { (kind.name) } }
                                td data-label="Title" { (kind.title) }
                            }
                        }
                    }
                }
            }
        }
    };
    content.into_string()
}

fn introduction(document: &Value, try_it: bool) -> Markup {
    let token = if needs_token(document) { CURL_TOKEN } else { "" };
    html! {
        p { "A task consists of source files, an optional compile command, an execute command, its input and data, and limits. "
            "Add a task and wait for its result:" }
        pre { (FIRST_TASK.replace(TOKEN, token)) }
        p { "The same with files from your disk. The name of each file is its path in the workspace:" }
        pre { (WITH_FILES.replace(TOKEN, token)) }
        @if !token.is_empty() {
            p { "This server requires tokens. The examples read yours from the file that " code { "CONCLAVE_TOKEN_FILE" } " names, and send it as "
                code { "Authorization: Bearer TOKEN" } "." }
        }
        p { "The OpenAPI 3.1 document is at " a href="/api/openapi.json" { "/api/openapi.json" } "." }
        @if try_it {
            p class="needs-script" { b { "Try it" } " sends a call from this page, as you. It has effect: it adds, cancels and repeats tasks." }
        } @else {
            p { a href="/sign-in?next=%2Fapi%2Fdocs" { "Sign in" } " to try the calls on this page." }
        }
    }
}

/// Whether this server's calls need a token, except for those that say otherwise.
fn needs_token(document: &Value) -> bool {
    is_required(&document["security"])
}

/// Whether this security requirement of the document asks for anything.
fn is_required(security: &Value) -> bool {
    security.as_array().is_some_and(|all| !all.is_empty())
}

/// The types in the order of the page: those that a reader meets first, then the others.
fn type_names(document: &Value) -> impl Iterator<Item = &str> {
    let all = document["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten();
    let others = all
        .map(|(name, _)| name.as_str())
        .filter(|name| !TYPES.contains(name));
    TYPES.into_iter().chain(others)
}

/// Links to the parts of the page.
fn contents(document: &Value) -> Markup {
    html! {
        nav class="contents" aria-label="On this page" {
            ul {
                @for tag in TAGS {
                    li {
                        b { (tag) }
                        ul { @for call in calls_with_tag(document, tag) { li { (call.link()) } } }
                    }
                }
                li { a href="#types" { "Types" } }
                li { a href="#problems" { "Problems" } }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(try_it: bool) -> String {
        render(&openapi::document(&GatewayOptions::default()), try_it)
    }

    #[test]
    fn every_link_within_the_page_has_a_target() {
        let shown = shown(true);
        for link in shown.split("href=\"#").skip(1) {
            let target = link.split('"').next().unwrap();
            assert!(shown.contains(&format!("id=\"{target}\"")), "{target}");
        }
        let ids: Vec<_> = shown
            .split(" id=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{ids:?}");
    }

    #[test]
    fn every_call_and_type_is_on_the_page() {
        let document = openapi::document(&GatewayOptions::default());
        let shown = render(&document, true);
        let operations = document["paths"].as_object().unwrap().values();
        let count: usize = operations.map(|all| all.as_object().unwrap().len()).sum();
        assert_eq!(shown.matches("<section class=\"call\"").count(), count);
        assert_eq!(shown.matches("<form data-try").count(), count);
        let schemas = &document["components"]["schemas"];
        assert!(TYPES.iter().all(|name| schemas[name].is_object()));
        // All Markdown is rendered.
        let calls: String = TAGS
            .iter()
            .flat_map(|tag| calls_with_tag(&document, tag))
            .map(|call| call.show(false).into_string())
            .collect();
        assert!(!calls.contains('`'));
        assert!(calls.contains("<code>Idempotency-Key</code>"));
    }

    #[test]
    fn who_has_to_sign_in_gets_no_forms() {
        let shown = shown(false);
        assert!(!shown.contains("<form"), "there is a form");
        assert!(shown.contains("href=\"/sign-in?next=%2Fapi%2Fdocs\""));
    }

    #[test]
    fn the_cached_content_has_a_placeholder_for_the_address_in_each_example() {
        let shown = shown(true);
        assert_eq!(
            shown.matches(SERVER).count(),
            2 + shown.matches("<h4>Example").count()
        );
    }

    #[test]
    fn examples_have_each_part_of_their_path_and_the_token_that_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens");
        std::fs::write(&tokens, "ada-has-a-long-token ada\n").unwrap();
        let with_tokens = GatewayOptions {
            tokens: Some(crate::Tokens::load(&tokens).unwrap()),
            ..GatewayOptions::default()
        };
        let check = |options: &GatewayOptions, needs_token: bool| {
            let document = openapi::document(options);
            for call in TAGS.iter().flat_map(|tag| calls_with_tag(&document, tag)) {
                let example = call.curl();
                let url = example.split('\'').nth(1).unwrap();
                let path = url.strip_prefix(SERVER).unwrap();
                assert!(!path.contains("//") && !path.ends_with('/'), "{example}");
                assert!(!path.contains('{'), "{example}");
                let open = matches!(path, "/healthz" | "/readyz" | "/metrics");
                assert_eq!(example.contains(CURL_TOKEN), needs_token && !open, "{example}");
            }
            let introduction = introduction(&document, true).0;
            let expected = if needs_token { 2 } else { 0 };
            assert_eq!(introduction.matches("$CONCLAVE_TOKEN_FILE").count(), expected);
            assert!(!introduction.contains(TOKEN), "{introduction}");
        };
        check(&GatewayOptions::default(), false);
        check(&with_tokens, true);
    }
}
