//! The HTML of the page Run. Without scripts it is a form; `web/editor.js` makes an editor of it.

mod cases;

use api::{Language, Root};
use maud::{Markup, html};
use model::{Limits, TaskId};

use super::commands::TaskCommands;
use super::fill_in::limit_text;
use super::form::{CASES, FILES, FormContent, FormFile, LIMITS, ReferredContent, RunForm};
use super::problem::{FormProblem, WAIT_LABEL};
use super::step_limits::StepLimits;
use crate::gateway::Gateway;
use crate::pages::components::UserText;
use crate::pages::layout::StyleNonce;

/// What the page Run shows: the form, its choices, and what came of it.
pub(super) struct RunView<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) languages: &'a [Language],
    /// The row of the chosen language.
    pub(super) chosen: Option<&'a model::Language>,
    pub(super) default_limits: StepLimits,
    pub(super) roots: &'a [Root],
    pub(super) form: &'a RunForm,
    pub(super) problem: Option<&'a FormProblem>,
    pub(super) task: Option<TaskId>,
    pub(super) commands: Option<&'a TaskCommands>,
    pub(super) nonce: &'a StyleNonce,
}

/// Labels of the limits, in the order of `LIMITS`.
const LIMIT_LABELS: [&str; 9] = [
    "Wall time",
    "CPU time",
    "Memory",
    "Output",
    "Processes",
    "Largest file",
    "Open files",
    "Stack",
    "All files together",
];

/// How the controls with words are read.
const WORDS_HINT: &str =
    "Words as in a shell, separated by spaces or line ends; quotes keep spaces. Nothing is expanded.";

impl RunView<'_> {
    pub(super) fn render(&self) -> Markup {
        html! {
            div class="row" {
                h1 { "Run" }
                p id="run-keys" class="dim needs-script" { kbd { "Ctrl" } " " kbd { "Enter" } " runs. " kbd { "Esc" } " then " kbd { "Tab" } " leaves the editor." }
            }
            div class="run" {
                (self.form_element())
                section id="run-result" class="run-result" aria-labelledby="run-result-title" {
                    h2 id="run-result-title" { "Result" }
                    (self.result())
                }
            }
        }
    }

    fn form_element(&self) -> Markup {
        html! {
            form id="run-form" class="run-form" action="/run" method="post" enctype="multipart/form-data" novalidate
                data-nonce=(self.nonce.as_str()) data-task=[self.task.map(|id| id.to_string())] {
                p id="run-message" class="run-message" role="alert" {
                    @if let Some(problem) = self.problem {
                        @match problem.control {
                            Some(control) => { a href={ "#" (id_of(control)) } { (label_of(control)) } ": " }
                            None => {}
                        }
                        (problem.message)
                    }
                }
                div class="run-bar" {
                    (self.language())
                    button type="submit" class="primary" { "Run" }
                    button type="button" id="run-reset" class="needs-script" { "Reset" }
                }
                (self.files())
                (self.commands_fields())
                (self.input())
                (self.cases())
                (self.limits())
                (self.more())
                (self.as_commands())
            }
        }
    }

    fn language(&self) -> Markup {
        let current = self.form.get("language").trim();
        let (offered, others): (Vec<&Language>, Vec<&Language>) =
            self.languages.iter().partition(|language| language.executors > 0);
        let is_current = |language: &Language| {
            let names = std::iter::once(&language.name).chain(&language.aliases);
            let mut names = names.map(|name| name.as_str());
            !current.is_empty() && names.any(|name| name == current.to_ascii_lowercase())
        };
        let is_known = current.is_empty() || self.languages.iter().any(is_current);
        let option = |language: &Language| {
            html! { option value=(language.name) data-source=(language.source_name) selected[is_current(language)] { (language.title) } }
        };
        self.field("language", "Language", None, &|described| html! {
            select id=(id_of("language")) name="language" aria-describedby=(described) aria-invalid=[self.invalid("language")] {
                option value="" selected[current.is_empty()] { "None: commands of your own" }
                @if !is_known { option value=(current) selected { (current) } }
                @if !offered.is_empty() {
                    optgroup label="On an executor now" { @for language in &offered { (option(language)) } }
                }
                @if !others.is_empty() {
                    optgroup label="No executor has these now" { @for language in &others { (option(language)) } }
                }
            }
        })
    }

    fn files(&self) -> Markup {
        let empty = FormFile::default();
        let blank = (!self.form.has_text_files()).then_some(&empty);
        html! {
            fieldset id=(id_of(FILES)) class="run-files" aria-describedby={ (error_id(FILES)) } tabindex="-1" {
                legend { "Files" }
                (self.error(FILES))
                div id="run-file-list" {
                    @for (index, file) in self.form.files.iter().chain(blank).enumerate() { (file_block(index, file)) }
                }
                div class="run-uploads" {
                    div class="field" {
                        label for="upload" { "Attach files" }
                        input id="upload" type="file" name="upload" multiple;
                        span class="hint" { "Stored under their names. " span class="needs-script" { "Or drop files here: text opens in the editor." } }
                    }
                    ul id="run-attached" class="run-attached needs-script" aria-label="Attached files" {}
                }
            }
        }
    }

    fn commands_fields(&self) -> Markup {
        let line = |command: Option<&str>, fallback: &str| command.unwrap_or(fallback).to_string();
        let chosen = self.chosen;
        let compile = chosen.map_or("no compile step", |row| {
            row.compile.as_deref().unwrap_or("no compile step")
        });
        let execute = line(chosen.map(|row| row.execute.as_str()), "for example: sh main.sh");
        let open = chosen.is_none() || self.any_filled(&["compile.command", "execute.command"]);
        html! {
            details id="run-commands" open[open] {
                summary { "Commands" @if chosen.is_some() { span class="dim" { " (the language has its own)" } } }
                div class="run-stack" {
                    (self.text("compile.command", "Compile command", compile, Some("A shell line that runs first.")))
                    (self.text("execute.command", "Command", &execute, Some("A shell line that runs the program.")))
                }
            }
        }
    }

    fn input(&self) -> Markup {
        let note = match &self.form.input {
            None => html! {},
            Some(referred) => html! {
                p class="notice" { "The input is " (described(referred)) ", so it is kept as it is. A text below takes its place." }
                (hidden(referred, "input_"))
            },
        };
        html! {
            div class="run-stack" {
                (self.area("execute.args", "Arguments", 1, Some(WORDS_HINT)))
                (note)
                (self.area("execute.input", "Input", 3, None))
                details {
                    summary { "Input from a file" }
                    div class="field" { label for="input_upload" { "File" } input id="input_upload" type="file" name="input_upload"; }
                }
            }
        }
    }

    fn limits(&self) -> Markup {
        let step = |step: &'static str, title: &str, default: &Limits| {
            html! {
                fieldset {
                    legend { (title) }
                    div class="form-grid" {
                        @for (name, label) in LIMITS.into_iter().zip(LIMIT_LABELS) {
                            @let placeholder = limit_text(default, name).unwrap_or_else(|| "no limit".to_string());
                            (self.text(&format!("{step}.limits.{name}"), label, &placeholder, None))
                        }
                    }
                }
            }
        };
        let open = self.any_filled_within(&["compile.limits.", "execute.limits."]);
        html! {
            details id="run-limits" open[open] {
                summary { "Limits" span class="dim" { " (empty: the default that is shown)" } }
                p class="hint" { "Times like 250ms, 2s or 1m30s; sizes like 64KiB or 256MiB." }
                div class="run-stack" {
                    (step("execute", "Of the program", &self.default_limits.execute))
                    (step("compile", "Of the compile command", &self.default_limits.compile.unwrap_or_default()))
                }
            }
        }
    }

    fn more(&self) -> Markup {
        let shows_user = self.gateway.options.tokens.is_none();
        let names = [
            "execute.env",
            "compile.env",
            "keep",
            "labels",
            "group",
            "user",
            "root",
            "execute.network",
            "compile.network",
            "priority",
            "attempts",
            "wait_for_executor",
        ];
        html! {
            details open[self.any_filled(&names)] {
                summary { "More: variables, kept files, group, labels, root" }
                div class="run-stack" {
                    (self.area("execute.env", "Environment variables", 2, Some("Each as NAME=VALUE; quotes keep spaces.")))
                    (self.area("compile.env", "Environment variables of the compile command", 1, Some("Each as NAME=VALUE.")))
                    (self.area("keep", "Files to keep", 1, Some("Patterns like out/*.csv, separated by spaces.")))
                    (self.area("labels", "Labels", 1, Some("Each as NAME=VALUE.")))
                    div class="form-grid" {
                        (self.text("group", "Group", "none", None))
                        @if shows_user { (self.text("user", "User", crate::caller::DEFAULT_USER, None)) }
                        (self.root())
                        (self.text("priority", "Priority", "0", None))
                        (self.text("attempts", "Attempts", "default", None))
                        (self.text("execute.network", "Network", "none", None))
                        (self.text("compile.network", "Network of the compile command", "none", None))
                    }
                    label class="run-check" {
                        input type="checkbox" name="wait_for_executor" value="true" checked[!self.form.get("wait_for_executor").is_empty()];
                        (WAIT_LABEL)
                    }
                }
            }
        }
    }

    fn root(&self) -> Markup {
        let current = self.form.get("root").trim();
        let mut names: Vec<&str> = self.roots.iter().map(|root| root.name.as_str()).collect();
        names.dedup();
        let is_known = current.is_empty() || names.contains(&current);
        self.field("root", "Root", None, &|described| html! {
            select id=(id_of("root")) name="root" aria-describedby=(described) aria-invalid=[self.invalid("root")] {
                option value="" { "default" }
                @if !is_known { option value=(current) selected { (current) } }
                @for name in &names { option value=(name) selected[*name == current] { (name) } }
            }
        })
    }

    fn as_commands(&self) -> Markup {
        let shown = |name: &str| {
            let commands = self.commands?;
            Some(match name {
                "curl" => commands.curl.as_str(),
                "cli" => commands.cli.as_str(),
                _ => commands.json.as_str(),
            })
        };
        html! {
            details id="run-as" open[self.commands.is_some()] {
                summary { "As curl, CLI or JSON" }
                p { button type="submit" formaction="/run/commands" { "Show what is in the form now" } }
                p id="run-as-note" class="hint" { @if let Some(note) = self.commands.and_then(|commands| commands.note.as_ref()) { (note) } }
                @for (name, title) in [("curl", "curl"), ("cli", "Command line"), ("json", "JSON")] {
                    @let id = format!("run-as-{name}");
                    div class="run-as" hidden[self.commands.is_none()] {
                        p class="run-as-title" { strong { (title) } " "
                            button type="button" class="copy needs-script" data-copy-from=(id) aria-label={ "Copy as " (title) } { "❐ Copy" }
                        }
                        pre id=(id) tabindex="0" { (shown(name).unwrap_or_default()) }
                    }
                }
            }
        }
    }

    fn result(&self) -> Markup {
        html! {
            div id="run-share" class="run-share" hidden[self.task.is_none()] {
                @let link = self.task.map(|id| format!("/run?from={id}"));
                a id="run-link" href=(link.as_deref().unwrap_or("/run")) { "Link to this run" } " "
                button type="button" id="run-copy-link" class="copy needs-script" data-copy=(link.unwrap_or_default()) aria-label="Copy the link" { "❐ Copy" }
                @if self.gateway.options.tokens.is_some() { span class="hint" { "Whoever opens it must be allowed to see your tasks." } }
            }
            @match self.task {
                Some(id) => {
                    div id="run-task" hx-get={ "/tasks/" (id) "/fragment" } hx-trigger="load" {
                        p { a href={ "/tasks/" (id) } { "Task " (id) } }
                    }
                }
                None => {
                    div id="run-task" {
                        p class="dim" { "The output appears here while the task runs, then its times and memory against the limits." }
                    }
                }
            }
        }
    }

    /// A control with its label, its hint and the error about it. The control is described by the ids that it gets.
    fn field(&self, name: &str, label: &str, hint: Option<&str>, control: &dyn Fn(&str) -> Markup) -> Markup {
        let hint_id = format!("hint-{}", id_of(name));
        let described = match hint {
            Some(_) => format!("{} {hint_id}", error_id(name)),
            None => error_id(name),
        };
        html! {
            div class="field" {
                label for=(id_of(name)) { (label) }
                (control(&described))
                @if let Some(hint) = hint { span class="hint" id=(hint_id) { (hint) } }
                (self.error(name))
            }
        }
    }

    fn text(&self, name: &str, label: &str, placeholder: &str, hint: Option<&str>) -> Markup {
        self.field(name, label, hint, &|described| html! {
            input id=(id_of(name)) name=(name) value=(self.form.get(name)) placeholder=(placeholder)
                aria-describedby=(described) aria-invalid=[self.invalid(name)] autocomplete="off" spellcheck="false";
        })
    }

    fn area(&self, name: &str, label: &str, rows: u8, hint: Option<&str>) -> Markup {
        self.field(name, label, hint, &|described| html! {
            // HTML drops a line end at the start.
            textarea id=(id_of(name)) name=(name) rows=(rows) aria-describedby=(described) aria-invalid=[self.invalid(name)]
                autocomplete="off" spellcheck="false" { "\n" (self.form.get(name)) }
        })
    }

    fn error(&self, name: &str) -> Markup {
        let problem = self.problem.filter(|problem| problem.control == Some(name));
        html! { span class="error" id=(error_id(name)) { @if let Some(problem) = problem { (problem.message) } } }
    }

    fn invalid(&self, name: &str) -> Option<&'static str> {
        let problem = self.problem?;
        (problem.control == Some(name)).then_some("true")
    }

    fn any_filled(&self, names: &[&str]) -> bool {
        let is_wrong = |name: &&str| self.invalid(name).is_some();
        names
            .iter()
            .any(|name| !self.form.get(name).is_empty() || is_wrong(name))
    }

    fn any_filled_within(&self, prefixes: &[&str]) -> bool {
        let names = super::form::FIELDS.iter();
        let within = names.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        within.into_iter().any(|name| self.any_filled(&[name]))
    }
}

fn file_block(index: usize, file: &FormFile) -> Markup {
    let number = index + 1;
    html! {
        div class="run-file" data-file=(number) {
            div class="field" {
                label for={ "path-" (number) } { "Name of file " (number) }
                input id={ "path-" (number) } name="path" value=(file.path) placeholder="the usual name of the language"
                    autocomplete="off" spellcheck="false";
            }
            @if file.executable { input type="hidden" name="executable" value="true"; }
            @match &file.content {
                FormContent::Text(text) => {
                    div class="field" {
                        label for={ "text-" (number) } { "Content of file " (number) }
                        // HTML drops a line end at the start.
                        textarea id={ "text-" (number) } name="text" rows="14" spellcheck="false" autocomplete="off" { "\n" (text) }
                    }
                }
                FormContent::Referred(referred) => {
                    p class="notice" { (UserText(&file.path)) " is " (described(referred)) ", so it is kept as it is. Empty its name to leave it out." }
                    (hidden(referred, ""))
                }
            }
        }
    }
}

/// A content that is not shown, in words.
fn described(referred: &ReferredContent) -> Markup {
    match referred {
        // Four characters for three bytes.
        ReferredContent::Base64(text) => {
            html! { "not text that a form can hold (" (text.len() / 4 * 3) " bytes or a little less)" }
        }
        ReferredContent::Blob(hash) => {
            html! { "binary or larger than 64 KiB (" a href={ "/api/v1/blobs/" (crate::pages::format::encode(hash)) } { "its blob" } ")" }
        }
    }
}

fn hidden(referred: &ReferredContent, prefix: &str) -> Markup {
    let (name, value) = match referred {
        ReferredContent::Base64(text) => ("base64", text),
        ReferredContent::Blob(hash) => ("blob", hash),
    };
    html! { input type="hidden" name={ (prefix) (name) } value=(value); }
}

/// The id of a control. Dots would need escapes in selectors.
pub(super) fn id_of(name: &str) -> String {
    format!("run-{}", name.replace(['.', '_'], "-"))
}

fn error_id(name: &str) -> String {
    format!("error-{}", id_of(name))
}

/// A control in words, for the message above the form.
fn label_of(control: &str) -> String {
    let limit = |name: &str| {
        let index = LIMITS.iter().position(|limit| *limit == name)?;
        LIMIT_LABELS.get(index).copied()
    };
    let words = match control {
        FILES => "Files",
        CASES => "Cases",
        "check.kind" => "Check",
        "check.float_tolerance" => "Tolerance of numbers",
        "compile.command" => "Compile command",
        "execute.command" => "Command",
        "execute.args" => "Arguments",
        "execute.input" => "Input",
        "execute.env" => "Environment variables",
        "compile.env" => "Environment variables of the compile command",
        "execute.network" => "Network",
        "compile.network" => "Network of the compile command",
        "keep" => "Files to keep",
        other => {
            if let Some(label) = other.strip_prefix("execute.limits.").and_then(limit) {
                return label.to_string();
            }
            if let Some(label) = other.strip_prefix("compile.limits.").and_then(limit) {
                return format!("{label} of the compile command");
            }
            let mut characters = other.chars();
            let first = characters.next().map(|first| first.to_ascii_uppercase());
            return first
                .into_iter()
                .chain(characters)
                .collect::<String>()
                .replace('_', " ");
        }
    };
    words.to_string()
}
