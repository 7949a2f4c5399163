//! The calls on the documentation page: what each does, an example for the shell, and a form that sends it.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::prose::{inline, prose, text};
use super::{SERVER, is_required, needs_token, type_name};
use crate::pages::server_address::CURL_TOKEN;

/// A call of the OpenAPI document.
pub(super) struct ApiCall<'a> {
    document: &'a Value,
    path: &'a str,
    method: &'a str,
    operation: &'a Value,
}

/// In the order in which the calls of one path are shown.
const METHODS: [&str; 5] = ["post", "get", "head", "put", "delete"];

/// The calls of the document with this tag.
pub(super) fn calls_with_tag<'a>(document: &'a Value, tag: &'a str) -> impl Iterator<Item = ApiCall<'a>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(move |(path, operations)| {
        METHODS
            .into_iter()
            .filter_map(move |method| Some((method, operations.get(method)?)))
            .filter(move |(_, operation)| operation["tags"][0] == tag)
            .map(move |(method, operation)| ApiCall {
                document,
                path,
                method,
                operation,
            })
    })
}

impl ApiCall<'_> {
    fn id(&self) -> String {
        format!("call-{}", text(&self.operation["operationId"]))
    }

    /// The link in the contents of the page.
    pub(super) fn link(&self) -> Markup {
        html! { a href={ "#" (self.id()) } { (text(&self.operation["summary"])) } }
    }

    pub(super) fn show(&self, try_it: bool) -> Markup {
        let operation = self.operation;
        html! {
            section class="call" aria-labelledby=(self.id()) {
                h3 id=(self.id()) { (text(&operation["summary"])) }
                p { span class="method" { (self.method.to_uppercase()) } " " code { (self.path) } }
                (prose(&operation["description"]))
                (self.parameters())
                @if let Some((media_type, content)) = self.body() {
                    p { "Body: " code { (media_type) } " " (type_name(&content["schema"])) }
                }
                h4 { "Example" }
                pre { (self.curl()) }
                h4 { "Responses" }
                dl {
                    @for (status, response) in operation["responses"].as_object().into_iter().flatten() {
                        @if response.get("$ref").is_none() {
                            dt { (status) }
                            dd { (inline(text(&response["description"]))) " " (self.response_type(response)) }
                        }
                    }
                    dt { "errors" }
                    dd { (self.errors()) ": a " a href="#type-Problem" { "Problem" } }
                }
                @if try_it { (self.form()) }
            }
        }
    }

    fn response_type(&self, response: &Value) -> Markup {
        let content = response["content"].as_object().and_then(|all| all.iter().next());
        html! { @if let Some((media_type, content)) = content { span class="dim" { (media_type) } " " (type_name(&content["schema"])) } }
    }

    fn errors(&self) -> String {
        let responses = self.operation["responses"].as_object().into_iter().flatten();
        let errors = responses.filter(|(_, response)| response.get("$ref").is_some());
        let statuses: Vec<_> = errors.map(|(status, _)| status.as_str()).collect();
        if statuses.is_empty() {
            "none".into()
        } else {
            statuses.join(", ")
        }
    }

    fn parameters(&self) -> Markup {
        html! {
            @if self.each_parameter().next().is_some() {
                dl {
                    @for parameter in self.each_parameter() {
                        dt { code { (text(&parameter["name"])) } " " span class="dim" { (text(&parameter["in"])) } }
                        dd { (inline(text(&parameter["description"]))) }
                    }
                }
            }
        }
    }

    fn each_parameter(&self) -> impl Iterator<Item = &Value> {
        self.operation["parameters"].as_array().into_iter().flatten()
    }

    /// The media type and the description of the body that an example has; JSON before others.
    fn body(&self) -> Option<(&str, &Value)> {
        let content: &Map<String, Value> = self.operation["requestBody"]["content"].as_object()?;
        let json = content.get_key_value("application/json");
        let found = json.or_else(|| content.iter().next());
        found.map(|(media_type, content)| (media_type.as_str(), content))
    }

    fn example_body(&self) -> Option<(&str, String)> {
        let (media_type, content) = self.body()?;
        let example = match &content["example"] {
            // What the example of the type `Sha256` is the hash of.
            Value::Null => "hello".to_string(),
            example => serde_json::to_string_pretty(example).unwrap_or_default(),
        };
        Some((media_type, example))
    }

    fn schema_of<'b>(&'b self, parameter: &'b Value) -> &'b Value {
        let schema = &parameter["schema"];
        let target = schema["$ref"]
            .as_str()
            .and_then(|target| target.strip_prefix('#'));
        target
            .and_then(|target| self.document.pointer(target))
            .unwrap_or(schema)
    }

    fn example_of(&self, parameter: &Value) -> String {
        let schema = self.schema_of(parameter);
        let candidates = [
            &parameter["example"],
            &schema["example"],
            &schema["examples"][0],
            &schema["enum"][0],
            &schema["minimum"],
        ];
        let found = candidates.into_iter().find(|value| !value.is_null());
        match found {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }

    /// A command that sends the call. `SERVER` stands for the address of this server.
    pub(super) fn curl(&self) -> String {
        let mut path = self.path.to_string();
        for parameter in self
            .each_parameter()
            .filter(|parameter| parameter["in"] == "path")
        {
            let example = self.example_of(parameter);
            path = path.replace(&format!("{{{}}}", text(&parameter["name"])), &example);
        }
        // Changes of many tasks need a condition.
        if let Some(group) = self
            .each_parameter()
            .find(|parameter| parameter["name"] == "group")
            && group["in"] == "query"
            && self.method != "get"
        {
            path += &format!("?group={}", self.example_of(group));
        }
        let method = match self.method {
            "get" => String::new(),
            "head" => " -I".into(),
            other => format!(" -X {}", other.to_uppercase()),
        };
        let is_stream = self.operation["responses"]["200"]["content"]
            .as_object()
            .is_some_and(|content| content.contains_key("text/event-stream"));
        let unbuffered = if is_stream { " -N" } else { "" };
        let security = self.operation.get("security");
        let token = if security.map_or_else(|| needs_token(self.document), is_required) {
            CURL_TOKEN
        } else {
            ""
        };
        let body = self
            .example_body()
            .map_or_else(String::new, |(media_type, body)| {
                let body = body.replace('\'', "'\\''");
                format!(" \\\n  -H 'Content-Type: {media_type}' -d '{body}'")
            });
        format!("curl{unbuffered}{method} '{SERVER}{path}'{token}{body}")
    }

    /// Works only with scripts, which also make it visible.
    fn form(&self) -> Markup {
        let method = self.method.to_uppercase();
        let question = (method == "DELETE").then(|| format!("Send {method} {}?", self.path));
        html! {
            details class="try needs-script" {
                summary { "Try it" span class="visually-hidden" { ": " (text(&self.operation["summary"])) } }
                form data-try data-method=(method) data-path=(self.path) data-question=[question] {
                    div class="form-grid" {
                        @for parameter in self.each_parameter() { (self.field(parameter)) }
                    }
                    @if let Some((media_type, example)) = self.example_body() {
                        label class="field" {
                            "Body, " (media_type)
                            textarea rows=(example.lines().count().clamp(2, 16)) spellcheck="false" data-in="body" data-type=(media_type) {
                                "\n" (example)
                            }
                        }
                    }
                    p class="row" {
                        button class="primary" { "Send" }
                        button type="button" data-try-stop hidden { "Stop" }
                    }
                }
                div data-try-result hidden {
                    p role="status" { b data-try-status {} }
                    pre tabindex="0" role="region" aria-label="Headers of the response" data-try-headers {}
                    pre tabindex="0" role="region" aria-label="Body of the response" data-try-body {}
                    p class="dim" data-try-note {}
                }
            }
        }
    }

    fn field(&self, parameter: &Value) -> Markup {
        let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
        let schema = self.schema_of(parameter);
        let example = self.example_of(parameter);
        let is_path = place == "path";
        let is_required = parameter["required"] == true;
        // A path within the files of a task has slashes.
        let slashes = is_path && name == "path";
        let choices: Vec<&str> = if schema["type"] == "boolean" {
            vec!["true", "false"]
        } else {
            let values = schema["enum"].as_array().into_iter().flatten();
            values.filter_map(Value::as_str).collect()
        };
        html! {
            label class="field" {
                span { code { (name) } " " (place) @if is_required { ", required" } }
                @if choices.is_empty() {
                    input required[is_required] spellcheck="false" autocomplete="off" value=[is_path.then_some(&example)]
                        placeholder=(example) data-in=(place) data-name=(name) data-slashes[slashes];
                } @else {
                    select data-in=(place) data-name=(name) {
                        @if !is_required { option value="" { "not set" } }
                        @for choice in choices { option { (choice) } }
                    }
                }
            }
        }
    }
}
