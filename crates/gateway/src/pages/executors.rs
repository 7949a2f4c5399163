//! The list of executors, and the page of one executor with the forms to drain and to resume it.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{Redirect, Response};
use maud::{Markup, Render, html};
use model::{
    DrainReason, ExecutorDrain, ExecutorName, ExecutorState, Health, InvalidField, MachineLoad, TaskQuery,
    TaskStatus, TaskSummary,
};
use rpc::CallError;

use super::components::{self, NoticeKind, UserText, attribute_text};
use super::format;
use super::layout::{HtmlPage, Section};
use super::list;
use super::live::{self, LiveParts};
use crate::body;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::ExecutorPath;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// Executors report every two seconds by default.
const LIVE_INTERVAL: Duration = Duration::from_secs(2);
/// The seconds after which a browser without scripts reloads the page.
const REFRESH_SECONDS: u32 = 10;
/// A form has a reason only.
const MAX_FORM_BYTES: u64 = 16 << 10;
/// The most tasks that the page of an executor lists.
const MAX_TASKS: usize = 100;

pub(crate) async fn executors(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
) -> Result<Response, RequestError> {
    let executors = gateway.calls.executors().await?;
    let content = html! {
        h1 { "Executors" }
        div hx-ext="sse,morph" sse-connect="/live/executors" {
            div sse-swap="executors" hx-swap="morph:innerHTML" { (list_of(&executors, &caller)) }
        }
    };
    let page = HtmlPage::new(&gateway, "Executors")
        .section(Section::Executors)
        .caller(&caller)
        .refresh_without_script(Some(REFRESH_SECONDS));
    Ok(page.respond(&content))
}

pub(crate) async fn live_executors(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
) -> Response {
    let rendering = gateway.clone();
    let turns = gateway.loading.clone();
    live::live_response(gateway, quota, turns, live::every(LIVE_INTERVAL), move || {
        let (gateway, caller) = (rendering.clone(), caller.clone());
        async move {
            let executors = gateway.calls.executors().await?;
            Ok(LiveParts {
                parts: vec![("executors", list_of(&executors, &caller))],
                ended: false,
            })
        }
    })
}

pub(crate) async fn executor(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    ExecutorPath(name): ExecutorPath,
) -> Result<Response, RequestError> {
    let (executor, tasks) = read_one(&gateway, &caller, &name).await?;
    let live = format!("/live/executors/{name}");
    let content = html! {
        h1 { "Executor " (name) }
        div hx-ext="sse,morph" sse-connect=(live) {
            div sse-swap="state" hx-swap="morph:innerHTML" { (state(&executor, &caller)) }
            h2 { "Tasks in its slots" }
            div sse-swap="tasks" hx-swap="morph:innerHTML" { (tasks.render()) }
        }
        // Not in a part that is replaced while someone writes.
        (drain_form(&name, &caller))
        (tools(&executor))
    };
    let title = format!("Executor {name}");
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Executors)
        .caller(&caller);
    Ok(page.respond(&content))
}

pub(crate) async fn live_executor(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    ExecutorPath(name): ExecutorPath,
) -> Response {
    let rendering = gateway.clone();
    let turns = gateway.loading.clone();
    live::live_response(gateway, quota, turns, live::every(LIVE_INTERVAL), move || {
        let (gateway, caller, name) = (rendering.clone(), caller.clone(), name.clone());
        async move {
            let (executor, tasks) = read_one(&gateway, &caller, &name).await?;
            Ok(LiveParts {
                parts: vec![("state", state(&executor, &caller)), ("tasks", tasks.render())],
                ended: false,
            })
        }
    })
}

/// The form on the page of an executor. `cross_site` has checked that the request comes from a page of this server.
pub(crate) async fn drain(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    ExecutorPath(name): ExecutorPath,
    request: Request,
) -> Result<Redirect, RequestError> {
    caller.require_operator()?;
    let fields = body::read_form(request, MAX_FORM_BYTES).await?;
    let reason = fields.iter().find(|(field, _)| field == "reason");
    let reason = reason.map_or("", |(_, reason)| reason.trim());
    let reason =
        DrainReason::new(reason).map_err(|problem| InvalidField::new("reason", problem.to_string()))?;
    let page = page_of(&name);
    gateway.calls.drain(name, reason, caller.user().cloned()).await?;
    Ok(page)
}

/// The button on the pages of executors.
pub(crate) async fn resume(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    ExecutorPath(name): ExecutorPath,
) -> Result<Redirect, RequestError> {
    caller.require_operator()?;
    let page = page_of(&name);
    gateway.calls.resume(name).await?;
    Ok(page)
}

fn page_of(name: &ExecutorName) -> Redirect {
    Redirect::to(&link(name))
}

/// The URL of an executor's page. The characters of a name need no escape.
pub(super) fn link(name: &ExecutorName) -> String {
    format!("/executors/{name}")
}

async fn read_one(
    gateway: &Gateway,
    caller: &Caller,
    name: &ExecutorName,
) -> Result<(ExecutorState, ExecutorTasks), RequestError> {
    let executors = gateway.calls.executors().await?;
    let executor = executors.into_iter().find(|executor| executor.name == *name);
    let executor = executor.ok_or_else(|| CallError::NoExecutor(name.clone()))?;
    let query = TaskQuery {
        user: caller.user_to_search(None)?,
        executor: Some(name.clone()),
        statuses: TaskStatus::ALL
            .into_iter()
            .filter(|status| !status.is_done())
            .collect(),
        limit: MAX_TASKS,
        ..TaskQuery::default()
    };
    let shown = gateway.calls.search(query.clone()).await?.tasks;
    let tasks = ExecutorTasks {
        count: executor.tasks,
        query,
        shown,
    };
    Ok((executor, tasks))
}

fn list_of(executors: &[ExecutorState], caller: &Caller) -> Markup {
    if executors.is_empty() {
        return components::empty_state(
            "No executor",
            &html! { p { "Start one with " code { "conclave executor --judicator HOST:7010" } ". Tasks wait until one joins." } },
        );
    }
    let is_alive = |executor: &&ExecutorState| executor.health == Health::Alive;
    let slots: u32 = executors
        .iter()
        .filter(is_alive)
        .map(|executor| executor.slots)
        .sum();
    let tasks: u32 = executors.iter().map(|executor| executor.tasks).sum();
    let drained = executors
        .iter()
        .filter(|executor| executor.drain.is_some())
        .count();
    html! {
        ul class="numbers" {
            li { b { (executors.iter().filter(is_alive).count()) } " alive" }
            li { b { (drained) } " drained" }
            li { b { (tasks) } " tasks in " b { (slots) } " slots" }
        }
        table class="cards whole-words" {
            caption class="visually-hidden" { "Executors" }
            thead { tr {
                th scope="col" { "Executor" } th scope="col" { "State" } th scope="col" { "Slots in use" }
                th scope="col" { "Load" } th scope="col" { "Memory in use" } th scope="col" { "Host" }
                th scope="col" { "Version" } th scope="col" { "Since" } th scope="col" { "Last report" }
                @if caller.may_operate() { th scope="col" { "Action" } }
            } }
            tbody { @for executor in executors { (row(executor, caller)) } }
        }
    }
}

fn row(executor: &ExecutorState, caller: &Caller) -> Markup {
    let ExecutorState { name, load, .. } = executor;
    html! {
        tr id={ "executor-" (name) } {
            th scope="row" class="name" data-label="Executor" title=(name) { a href=(link(name)) { (name) } }
            td data-label="State" {
                (badges(executor))
                @if let Some(drain) = &executor.drain { p { (drain_words(drain)) } }
            }
            td data-label="Slots in use" { (slots(executor)) }
            td data-label="Load" { @if let Some(load) = load { (load_average(*load)) } @else { (not_known()) } }
            td data-label="Memory in use" { @if let Some(load) = load { (memory(*load)) } @else { (not_known()) } }
            td class="name" data-label="Host" title=(attribute_text(&executor.host)) { (UserText(&executor.host)) }
            td class="name" data-label="Version" title=(attribute_text(&executor.version)) { (UserText(&executor.version)) }
            td data-label="Since" class="tight" { (format::time(executor.since)) }
            td data-label="Last report" class="tight" { (format::time(executor.report_time)) }
            @if caller.may_operate() {
                td data-label="Action" {
                    @if executor.drain.is_some() { (resume_button(name)) }
                    @else { a class="button" href={ (link(name)) "#drain" } aria-label={ "Drain " (name) } { "Drain…" } }
                }
            }
        }
    }
}

/// What changes while the page of an executor is open.
fn state(executor: &ExecutorState, caller: &Caller) -> Markup {
    html! {
        @if let Some(drain) = &executor.drain {
            (components::notice(NoticeKind::Busy, &html! {
                p { (drain_words(drain)) }
                p { "It ends the tasks that it has, and gets no new ones until it is resumed." }
                @if caller.may_operate() { (resume_button(&executor.name)) }
            }))
        }
        dl {
            dt { "State" } dd { (badges(executor)) }
            dt { "Slots in use" } dd { (slots(executor)) }
            dt { "Load" } dd { @if let Some(load) = executor.load { (load_average(load)) } @else { (not_known()) } }
            dt { "Memory in use" } dd { @if let Some(load) = executor.load { (memory(load)) } @else { (not_known()) } }
            @if let Some(capacity) = executor.capacity {
                dt { "A slot has" }
                dd {
                    (format::bytes(capacity.memory)) " of memory, " (capacity.processes) " processes, " (capacity.open_files)
                    " open files"
                }
            }
            dt { "Host" } dd { (UserText(&executor.host)) }
            dt { "Version" } dd { (UserText(&executor.version)) }
            dt { "Session" } dd { span class="id" { (executor.session) } " since " (format::time(executor.since)) }
            dt { "Last report" } dd { (format::time(executor.report_time)) }
        }
    }
}

fn badges(executor: &ExecutorState) -> Markup {
    let (class, mark) = match executor.health {
        Health::Alive => ("status good", "✓"),
        Health::Gone => ("status bad", "✗"),
    };
    html! {
        span class=(class) { span class="dot" aria-hidden="true" { (mark) } (executor.health.as_str()) }
        @if executor.drain.is_some() {
            " " span class="status wait" { span class="dot" aria-hidden="true" { "‖" } "drained" }
        }
    }
}

fn drain_words(drain: &ExecutorDrain) -> Markup {
    html! {
        "Drained since " (format::time(drain.since))
        @if let Some(user) = &drain.by { " by " (UserText(user.as_str())) }
        ": " (UserText(drain.reason.as_str()))
    }
}

fn slots(executor: &ExecutorState) -> Markup {
    html! {
        (executor.tasks) " of " (executor.slots)
        (components::bar(f64::from(executor.tasks), f64::from(executor.slots)))
    }
}

fn load_average(load: MachineLoad) -> Markup {
    html! {
        (format!("{:.2}", load.load_average())) " on " (load.cores) " " (format::plural(load.cores, "core"))
        (components::bar(load.load_average(), f64::from(load.cores)))
    }
}

fn memory(load: MachineLoad) -> Markup {
    let used = load.memory_total.saturating_sub(load.memory_available);
    html! {
        (format::bytes(used)) " of " (format::bytes(load.memory_total))
        (components::bar(used as f64, load.memory_total as f64))
    }
}

/// An executor or judicator of an older version does not say.
fn not_known() -> Markup {
    html! { span class="dim" { "not known" } }
}

fn resume_button(name: &ExecutorName) -> Markup {
    html! {
        form class="inline" method="post" action={ (link(name)) "/resume" } {
            button aria-label={ "Resume " (name) } { "Resume" }
        }
    }
}

fn drain_form(name: &ExecutorName, caller: &Caller) -> Markup {
    html! {
        section id="drain" {
            h2 { "Drain" }
            @if caller.may_operate() {
                p class="dim" {
                    "A drained executor ends the tasks that it has and gets no new ones, also after a restart, until it is resumed."
                }
                form class="filters" method="post" action={ (link(name)) "/drain" } {
                    label class="field" {
                        "Reason"
                        input name="reason" required maxlength=(DrainReason::MAX_CHARACTERS) placeholder="new disk" autocomplete="off";
                    }
                    button { "Drain" }
                }
            } @else {
                p class="dim" { "Only the operators of this server may drain and resume executors." }
            }
        }
    }
}

fn tools(executor: &ExecutorState) -> Markup {
    let (languages, roots) = (executor.tools.languages(), executor.tools.roots());
    html! {
        h2 { "Languages" }
        @if languages.is_empty() { p class="dim" { "It has no language of the table." } }
        @else {
            div class="scroll" tabindex="0" role="region" aria-label="Languages" { table {
                thead { tr { th scope="col" { "Language" } th scope="col" { "Version" } th scope="col" { "Root" } } }
                tbody {
                    @for language in languages {
                        tr {
                            th scope="row" { (language.name) }
                            td { @if let Some(version) = &language.version { (UserText(version)) } @else { (not_known()) } }
                            td { @if let Some(root) = &language.root { (root) } @else { span class="dim" { "default" } } }
                        }
                    }
                }
            } }
        }
        h2 { "Roots" }
        @if roots.is_empty() { p class="dim" { "It has no named root." } }
        @else {
            ul { @for root in roots {
                li {
                    (root.name) " "
                    @if let Some(sha256) = root.sha256 { span class="id dim" { (sha256) } }
                    @else { span class="dim" { "a folder of the operator" } }
                }
            } }
        }
    }
}

/// The tasks that an executor has, as far as the caller may see them.
struct ExecutorTasks {
    /// How many the executor has.
    count: u32,
    query: TaskQuery,
    shown: Vec<TaskSummary>,
}

impl Render for ExecutorTasks {
    fn render(&self) -> Markup {
        let hidden = u64::from(self.count).saturating_sub(self.shown.len() as u64);
        html! {
            @if self.shown.is_empty() {
                p class="dim" {
                    @if self.count == 0 { "It has no tasks." } @else { (self.count) " " (format::plural(self.count, "task")) " of other users." }
                }
            } @else {
                table class="cards" {
                    caption class="visually-hidden" { "Tasks in its slots" }
                    thead { tr {
                        th scope="col" { "Task" } th scope="col" { "Status" } th scope="col" { "User" }
                        th scope="col" { "Command" } th scope="col" { "Since" }
                    } }
                    tbody { @for task in &self.shown {
                        tr {
                            th scope="row" data-label="Task" { (components::task_link(task.id)) }
                            td data-label="Status" { (components::status(task.status, task.reason)) }
                            td data-label="User" { (UserText(task.user.as_str())) }
                            td data-label="Command" class="command" { code { (UserText(&task.command)) } }
                            td data-label="Since" class="tight" { @if let Some(start) = task.start_time { (format::time(start)) } }
                        }
                    } }
                }
                @if hidden > 0 { p class="dim" { "And " (hidden) " more." } }
                p { a href=(list::link(&self.query)) { "Search for them" } }
            }
        }
    }
}
