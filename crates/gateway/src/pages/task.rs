//! The page of one task, and its button to cancel the task.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use model::{CapturedOutput, Content, Limits, NetworkName, Outcome, StepCommand, Task, TaskFiles, TaskId};

use super::components;
use super::kept_files::{attempts, kept_files};
use super::layout::{HtmlPage, Section};
use super::{format, groups, list};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::TaskPath;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedTask;
use crate::tasks::cancel_task;

/// The seconds after which the page of a task that is not done is reloaded.
const REFRESH_SECONDS: u32 = 2;

/// How much of a text is shown. Its link leads to all of it.
const MAX_TEXT_BYTES: usize = 64 << 10;

pub(crate) async fn task(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Response, RequestError> {
    let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
    let LoadedTask {
        task,
        permit: _permit,
    } = caller.check_owner(loaded)?;
    let content = html! {
        div class="top" {
            h1 { "Task " span class="id" { (task.id) } }
            (components::status(task.status, None))
            @if !task.status.is_done() {
                form action={ "/tasks/" (task.id) "/cancel" } method="post" { button class="danger" { "Cancel" } }
            }
        }
        @if let Some(trouble) = &task.trouble { p class="bad" { (trouble) } }
        (facts(&task))
        (steps(&task))
        @if let Some(result) = &task.result { (kept_files(task.id, result)) }
        (attempts(&task.ran_on))
        (files("Source", &task.spec.source))
        (files("Data", &task.spec.data))
        p { a href={ "/api/v1/tasks/" (task.id) } { "View as JSON" } }
    };
    let title = format!("Task {}", task.id);
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Tasks)
        .caller(&caller)
        .refresh_without_script((!task.status.is_done()).then_some(REFRESH_SECONDS));
    Ok(page.respond(&content))
}

/// The button on a task's page. `cross_site` has checked that the request comes from a page of this server.
pub(crate) async fn cancel(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Redirect, RequestError> {
    let page = Redirect::to(&format!("/tasks/{id}"));
    match cancel_task(&gateway, &quota, &caller, id).await {
        // If the task has ended before, its page shows how.
        Ok(_) | Err(RequestError::AlreadyDone { .. }) => Ok(page),
        Err(error) => Err(error),
    }
}

fn facts(task: &Task) -> Markup {
    html! {
        dl {
            dt { "User" } dd { (task.spec.user) }
            dt { "Priority" } dd { (task.spec.priority) }
            @if let Some(language) = &task.spec.language { dt { "Language" } dd { a href="/languages" { (language) } } }
            @if let Some(root) = &task.spec.root { dt { "Root" } dd { (root) } }
            @if let Some(key) = task.spec.group_key() { dt { "Group" } dd { a href=(groups::link(&key)) { (key.group) } } }
            @if !task.spec.labels.is_empty() { dt { "Labels" } dd { (list::labels(&task.spec.labels)) } }
            @if let Some(id) = task.spec.retry_of { dt { "Repeats" } dd { a class="id" href={ "/tasks/" (id) } { (id) } } }
            dt { "Attempt" } dd { (task.attempt) @if let Some(most) = task.spec.attempts { span class="dim" { ", up to " (most) " may be lost" } } }
            @if let Some(executor) = &task.executor { dt { "Executor" } dd { (executor) } }
            dt { "Added" } dd { (format::time(task.add_time)) }
            @if let Some(start) = task.start_time {
                dt { "Started" } dd { (format::time(start)) span class="dim" { ", after " (format::duration(start.since(task.add_time))) } }
            }
            @if let Some(finish) = task.finish_time { dt { "Finished" } dd { (format::time(finish)) } }
        }
    }
}

fn steps(task: &Task) -> Markup {
    let result = task.result.as_ref();
    let compiled = result.and_then(|result| result.compile.as_ref());
    let executed = result.and_then(|result| result.execute.as_ref());
    let execute = &task.spec.execute;
    html! {
        @if let Some(compile) = &task.spec.compile {
            h2 { "Compile" }
            (command(&compile.command))
            dl { @for (name, value) in &compile.env { dt { code { (name) } } dd { code { (value) } } } }
            (end_reason(compiled))
            (resources(&compile.limits, compile.network.as_ref(), compiled))
            (outputs(task.id, "compile", compiled))
        }
        h2 { "Execute" }
        (command(&execute.command))
        dl {
            @if !execute.args.is_empty() { dt { "Arguments" } dd { @for arg in &execute.args { code { (arg) } " " } } }
            @for (name, value) in &execute.env { dt { code { (name) } } dd { code { (value) } } }
        }
        (end_reason(executed))
        (resources(&execute.limits, execute.network.as_ref(), executed))
        (input(&execute.input))
        (outputs(task.id, "execute", executed))
    }
}

fn command(command: &StepCommand) -> Markup {
    match command {
        StepCommand::Shell(text) => html! { pre { (text) } },
        StepCommand::Argv(words) => html! { pre { @for word in words { (format!("{word:?}")) " " } } },
    }
}

/// The resources that the step has used and the limits that apply.
fn resources(limits: &Limits, network: Option<&NetworkName>, outcome: Option<&Outcome>) -> Markup {
    let Limits {
        wall,
        cpu,
        memory,
        output,
        processes,
        file_size,
        open_files,
        stack,
        space,
    } = *limits;
    let time = |used: Option<Duration>, limit: Option<Duration>| {
        used_of(used.map(format::duration), limit.map(format::duration))
    };
    let size =
        |used: Option<u64>, limit: Option<u64>| used_of(used.map(format::bytes), limit.map(format::bytes));
    let count = |limit: Option<u32>| used_of(None, limit.map(|limit| limit.to_string()));
    let rows = [
        ("Wall time", time(outcome.map(|outcome| outcome.wall), wall)),
        ("CPU time", time(outcome.map(|outcome| outcome.cpu), cpu)),
        ("Memory", size(outcome.map(|outcome| outcome.memory), memory)),
        ("Output, on each of stdout and stderr", size(None, output)),
        ("Processes and threads", count(processes)),
        ("Largest file", size(None, file_size)),
        ("Open files of each process", count(open_files)),
        ("Stack of each process", size(None, stack)),
        ("All files together", size(None, space)),
    ];
    html! {
        dl class="resources" {
            @for (label, value) in rows { dt { (label) } dd { (value) } }
            @if let Some(network) = network { dt { "Network" } dd { (network) } }
        }
    }
}

fn used_of(used: Option<String>, limit: Option<String>) -> String {
    match (used, limit) {
        (Some(used), Some(limit)) => format!("{used} of {limit}"),
        (Some(used), None) => format!("{used}, no limit"),
        (None, Some(limit)) => format!("at most {limit}"),
        (None, None) => "no limit".to_string(),
    }
}

fn input(input: &Content) -> Markup {
    match input {
        Content::Inline(bytes) if bytes.is_empty() => html! {},
        Content::Inline(bytes) => html! { h3 { "Input" } (text(bytes)) },
        Content::Blob(hash) => {
            html! { h3 { "Input" } p { a class="id" href={ "/api/v1/blobs/" (hash) } { (hash) } } }
        }
    }
}

/// Why the step ended, with its exit code or signal.
fn end_reason(outcome: Option<&Outcome>) -> Markup {
    let Some(outcome) = outcome else {
        return html! { p class="dim" { "No outcome yet." } };
    };
    let class = if outcome.succeeded() { "good" } else { "bad" };
    html! {
        p class=(class) {
            (outcome.reason.as_str().replace('_', " "))
            @if let Some(code) = outcome.exit_code { " with " (code) }
            @if let Some(signal) = outcome.signal { " by signal " (signal) }
        }
    }
}

fn outputs(id: TaskId, step: &str, outcome: Option<&Outcome>) -> Markup {
    html! {
        @if let Some(outcome) = outcome {
            (output(id, step, "stdout", &outcome.stdout))
            (output(id, step, "stderr", &outcome.stderr))
        }
    }
}

fn output(id: TaskId, step: &str, name: &str, captured: &CapturedOutput) -> Markup {
    let link = format!("/api/v1/tasks/{id}/{step}/{name}");
    // A character may be cut where the head ends.
    let cut = captured.blob.map_or(0, |_| api::cut_character(&captured.head));
    html! {
        h3 {
            (name) " "
            a class="dim" href=(link) {
                @if captured.truncated { "cut off: kept " (format::bytes(captured.size)) " of more" }
                @else { (format::bytes(captured.size)) }
            }
        }
        @if !captured.head.is_empty() {
            pre { (String::from_utf8_lossy(&captured.head[..captured.head.len() - cut])) }
        }
        @if captured.blob.is_some() {
            p class="dim" {
                "Only the first " (format::bytes(captured.head.len() as u64)) " are shown: "
                a href=(link) { "get all " (format::bytes(captured.size)) }
            }
        }
    }
}

fn text(bytes: &[u8]) -> Markup {
    let shown = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
    html! {
        pre { (String::from_utf8_lossy(shown)) }
        @if shown.len() < bytes.len() { p class="dim" { "Only the first " (format::bytes(MAX_TEXT_BYTES as u64)) " are shown." } }
    }
}

fn files(title: &str, files: &TaskFiles) -> Markup {
    html! {
        @if !files.is_empty() {
            h2 { (title) }
            @for (path, file) in files {
                details {
                    summary { code { (path) } @if file.executable { " " span class="dim" { "executable" } } }
                    @match &file.content {
                        Content::Inline(bytes) => (text(bytes)),
                        Content::Blob(hash) => p { a class="id" href={ "/api/v1/blobs/" (hash) } { (hash) } },
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_usage_are_labelled() {
        let limits = Limits {
            wall: Some(Duration::from_secs(10)),
            memory: Some(1 << 30),
            processes: Some(5),
            ..Limits::default()
        };
        let outcome = Outcome {
            reason: model::OutcomeReason::Exited,
            exit_code: Some(0),
            signal: None,
            wall: Duration::from_millis(1500),
            cpu: Duration::from_millis(20),
            memory: 12 << 20,
            stdout: CapturedOutput::default(),
            stderr: CapturedOutput::default(),
        };
        let row = |label: &str, value: &str| format!("<dt>{label}</dt><dd>{value}</dd>");
        let after = resources(&limits, None, Some(&outcome)).into_string();
        for (label, value) in [
            ("Wall time", "1.50 s of 10 s"),
            ("CPU time", "20.0 ms, no limit"),
            ("Memory", "12 MiB of 1 GiB"),
            ("Processes and threads", "at most 5"),
        ] {
            assert!(after.contains(&row(label, value)), "{label}: {after}");
        }
        let before = resources(&limits, None, None).into_string();
        assert!(before.contains(&row("Memory", "at most 1 GiB")), "{before}");
        assert!(before.contains(&row("CPU time", "no limit")), "{before}");
    }

    #[test]
    fn long_output_is_shown_in_part_with_a_link() {
        let id = TaskId(uuid::Uuid::from_u128(7));
        let mut captured = CapturedOutput {
            head: b"caf\xc3"[..].into(),
            size: 70 << 10,
            blob: Some(model::BlobHash([1; 32])),
            truncated: false,
        };
        let shown = output(id, "execute", "stdout", &captured).into_string();
        let link = format!("href=\"/api/v1/tasks/{id}/execute/stdout\"");
        assert_eq!(shown.matches(&link).count(), 2, "{shown}");
        assert!(
            shown.contains("<pre>caf</pre>") && shown.contains("get all 70 KiB"),
            "{shown}"
        );
        assert!(!shown.contains("cut off"), "{shown}");
        captured.truncated = true;
        let shown = output(id, "execute", "stdout", &captured).into_string();
        assert!(shown.contains("cut off: kept 70 KiB of more"), "{shown}");
    }
}
