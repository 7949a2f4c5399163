//! One task with everything known of it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use model::{Captured, Command, Content, Files, Limits, NetworkName, Outcome, Task, TaskId};

use super::layout::Page;
use super::show;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::TaskPath;
use crate::refusal::Refusal;

/// Seconds between looks at a task that is not done.
const REFRESH: u32 = 2;

/// More of a text is behind its link.
const SHOWN: usize = 64 << 10;

pub(crate) async fn task(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Response, Refusal> {
    let task = caller.own(gateway.calls.get(id, None).await?)?;
    let content = html! {
        div class="top" {
            h1 { "Task " span class="id" { (task.id) } }
            (show::status(task.status))
            @if !task.status.done() {
                form action={ "/tasks/" (task.id) "/cancel" } method="post" { button class="danger" { "Cancel" } }
            }
        }
        @if let Some(trouble) = &task.trouble { p class="bad" { (trouble) } }
        (facts(&task))
        (steps(&task))
        (files("Source", &task.spec.source))
        (files("Data", &task.spec.data))
        p { a href={ "/api/v1/tasks/" (task.id) } { "The same as JSON" } }
    };
    let title = format!("Task {}", task.id);
    let page = Page {
        title: &title,
        version: &gateway.options.version,
        refresh: (!task.status.done()).then_some(REFRESH),
    };
    Ok(page.show(&content))
}

fn facts(task: &Task) -> Markup {
    html! {
        dl {
            dt { "User" } dd { (task.spec.user) }
            dt { "Priority" } dd { (task.spec.priority) }
            dt { "Attempt" } dd { (task.attempt) }
            @if let Some(executor) = &task.executor { dt { "Executor" } dd { (executor) } }
            dt { "Added" } dd { (show::time(task.add_time)) }
            @if let Some(start) = task.start_time {
                dt { "Started" } dd { (show::time(start)) span class="dim" { ", after " (show::span(start.since(task.add_time))) } }
            }
            @if let Some(finish) = task.finish_time { dt { "Finished" } dd { (show::time(finish)) } }
        }
    }
}

fn steps(task: &Task) -> Markup {
    let result = task.result.as_ref();
    let execute = &task.spec.execute;
    html! {
        @if let Some(compile) = &task.spec.compile {
            h2 { "Compile" }
            (command(&compile.command))
            dl { @for (name, value) in &compile.env { dt { code { (name) } } dd { code { (value) } } } }
            (limits(&compile.limits, compile.network.as_ref()))
            (outcome(task.id, "compile", result.and_then(|result| result.compile.as_ref())))
        }
        h2 { "Execute" }
        (command(&execute.command))
        dl {
            @if !execute.args.is_empty() { dt { "Arguments" } dd { @for arg in &execute.args { code { (arg) } " " } } }
            @for (name, value) in &execute.env { dt { code { (name) } } dd { code { (value) } } }
        }
        (limits(&execute.limits, execute.network.as_ref()))
        (input(&execute.input))
        (outcome(task.id, "execute", result.and_then(|result| result.execute.as_ref())))
    }
}

fn command(command: &Command) -> Markup {
    match command {
        Command::Shell(text) => html! { pre { (text) } },
        Command::Argv(words) => html! { pre { @for word in words { (format!("{word:?}")) " " } } },
    }
}

fn limits(limits: &Limits, network: Option<&NetworkName>) -> Markup {
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
    } = limits;
    html! {
        div class="numbers" {
            @if let Some(wall) = wall { span { "wall " b { (show::span(*wall)) } } }
            @if let Some(cpu) = cpu { span { "CPU " b { (show::span(*cpu)) } } }
            @if let Some(memory) = memory { span { "memory " b { (show::bytes(*memory)) } } }
            @if let Some(output) = output { span { "output " b { (show::bytes(*output)) } } }
            @if let Some(processes) = processes { span { "processes " b { (processes) } } }
            @if let Some(file_size) = file_size { span { "file size " b { (show::bytes(*file_size)) } } }
            @if let Some(open_files) = open_files { span { "open files " b { (open_files) } } }
            @if let Some(stack) = stack { span { "stack " b { (show::bytes(*stack)) } } }
            @if let Some(space) = space { span { "space " b { (show::bytes(*space)) } } }
            @if let Some(network) = network { span { "network " b { (network) } } }
        }
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

fn outcome(id: TaskId, step: &str, outcome: Option<&Outcome>) -> Markup {
    let Some(outcome) = outcome else {
        return html! { p class="dim" { "No outcome yet." } };
    };
    let class = if outcome.succeeded() { "good" } else { "bad" };
    html! {
        div class="numbers" {
            span class=(class) { (outcome.reason.as_str().replace('_', " "))
                @if let Some(code) = outcome.exit_code { " with " (code) }
                @if let Some(signal) = outcome.signal { " by signal " (signal) }
            }
            span { "wall " b { (show::span(outcome.wall)) } }
            span { "CPU " b { (show::span(outcome.cpu)) } }
            span { "memory " b { (show::bytes(outcome.memory)) } }
        }
        (output(id, step, "stdout", &outcome.stdout))
        (output(id, step, "stderr", &outcome.stderr))
    }
}

fn output(id: TaskId, step: &str, name: &str, captured: &Captured) -> Markup {
    html! {
        h3 {
            (name) " "
            a class="dim" href={ "/api/v1/tasks/" (id) "/" (step) "/" (name) } {
                (show::bytes(captured.bytes.len() as u64))
                @if captured.truncated { ", the rest is cut off" }
            }
        }
        @if !captured.bytes.is_empty() { (text(&captured.bytes)) }
    }
}

fn text(bytes: &[u8]) -> Markup {
    let shown = &bytes[..bytes.len().min(SHOWN)];
    html! {
        pre { (String::from_utf8_lossy(shown)) }
        @if shown.len() < bytes.len() { p class="dim" { "Only the first " (show::bytes(SHOWN as u64)) " are shown." } }
    }
}

fn files(title: &str, files: &Files) -> Markup {
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
