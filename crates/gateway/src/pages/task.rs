//! The page of one task: what it is, what has happened to it, what it wrote, and why it waits. It changes while the task runs.

mod case;
mod case_strip;
mod files;
mod live;
mod preview;
mod steps;
mod timeline;
mod verdict;
mod view;

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::{Markup, html};
use model::{Task, TaskStatus, TaskWait};

pub(crate) use self::case::case;
pub(super) use self::case::{CaseContents, StoredCase, hidden_notice};
#[cfg(test)]
pub(super) use self::case_strip::tests as case_strip_fixtures;
pub(super) use self::case_strip::{case_link, mark};
pub(crate) use self::live::live_task;
pub(crate) use self::view::view_file;

use self::case_strip::cases_section;
use self::steps::StepView;
use super::components::{self, NoticeKind, UserText};
use super::layout::{HtmlPage, Section};
use super::live::END_EVENT;
use super::{format, groups, judge_problems, list, output_view};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, TaskPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedTask;
use crate::tasks::{cancel_task, retry_task};

/// The seconds after which a browser without scripts reloads the page of a task that is not done.
const REFRESH_SECONDS: u32 = 5;

/// Which parts of a task that change are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiveView {
    /// All, on the task's own page.
    Page,
    /// Those that matter on another page, beside the program.
    Fragment,
}

pub(crate) async fn task(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Response, RequestError> {
    let (loaded, wait) = load(&gateway, &quota, &caller, id).await?;
    let LoadedTask {
        task,
        permit: _permit,
    } = loaded;
    let content = html! {
        div class="row" {
            h1 { "Task " span class="id" { (task.id) } (components::copy_button(&task.id.to_string(), "Copy the id")) }
        }
        @if !task.status.is_done() { (output_view::without_script()) }
        (live_part(&task, wait.as_ref(), LiveView::Page))
        section { h2 { "About this task" } (facts(&task)) }
        (files::given_files(&task))
        p { a href={ "/api/v1/tasks/" (task.id) } { "View as JSON" } }
    };
    let title = format!("Task {}", task.id);
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Tasks)
        .caller(&caller)
        .refresh_without_script((!task.status.is_done()).then_some(REFRESH_SECONDS));
    Ok(page.respond(&content))
}

/// The part of a task's page that changes, for another page that shows it: without layout.
pub(crate) async fn fragment(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let (loaded, wait) = load(&gateway, &quota, &caller, id).await?;
    let html = live_part(&loaded.task, wait.as_ref(), LiveView::Fragment).into_string();
    Ok((super::layout::headers(None), Html(html)).into_response())
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

/// The button that adds a task which repeats this one. Its page is shown.
pub(crate) async fn retry(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Redirect, RequestError> {
    let new_id = retry_task(&gateway, &quota, &caller, id).await?;
    Ok(Redirect::to(&format!("/tasks/{new_id}")))
}

async fn load(
    gateway: &Gateway,
    quota: &RequestQuota,
    caller: &Caller,
    id: model::TaskId,
) -> Result<(LoadedTask, Option<TaskWait>), RequestError> {
    let loaded = gateway.load_task(quota, gateway.calls.get(id, None)).await?;
    let loaded = caller.check_owner(loaded)?;
    let wait = match loaded.task.status {
        // The page is useful without it.
        TaskStatus::Pending | TaskStatus::Retrying => gateway.calls.waiting(id).await.ok(),
        _ => None,
    };
    Ok((loaded, wait))
}

/// The part that changes while the task runs: its stream of events is `/live/tasks/ID`.
fn live_part(task: &Task, wait: Option<&TaskWait>, view: LiveView) -> Markup {
    let is_live = !task.status.is_done();
    let stream = is_live.then(|| format!("/live/tasks/{}", task.id));
    html! {
        div class="task-live" hx-ext=[is_live.then_some("sse,morph")] sse-connect=[stream] sse-close=[is_live.then_some(END_EVENT)] {
            @if is_live { div hidden sse-swap="reset" hx-swap="none" {} }
            @for (name, part) in parts(task, wait, view) {
                div class={ "task-" (name) } sse-swap=(name) hx-swap="morph:innerHTML"
                    aria-live=[matches!(name, "status" | "waiting").then_some("polite")] { (part) }
            }
            (cases_section(task))
            @for step in StepView::of(task) { (step.section(task, view)) }
            div sse-swap="files" hx-swap="morph:innerHTML" { (kept(task)) }
        }
    }
}

/// The parts above the steps, by the names of their events.
fn parts(task: &Task, wait: Option<&TaskWait>, view: LiveView) -> Vec<(&'static str, Markup)> {
    let mut parts = vec![("status", status(task)), ("waiting", waiting(task, wait))];
    if view == LiveView::Page {
        parts.push(("again", again(task)));
        parts.push(("timeline", timeline::timeline(task)));
    }
    parts
}

fn kept(task: &Task) -> Markup {
    html! { @if let Some(result) = &task.result { (files::kept_files(task.id, result)) } }
}

fn status(task: &Task) -> Markup {
    let reason = task.result.as_ref().and_then(|result| result.reason());
    let cancel = format!("/tasks/{}/cancel", task.id);
    html! {
        div class="row" {
            (components::status(task.status, reason))
            @if let Some(start) = task.start_time {
                @let end = task.finish_time.or(task.report_time);
                @if let Some(end) = end.filter(|_| task.status.is_done()) {
                    span class="dim" { "took " (format::duration(end.since(start))) }
                }
            }
            @if !task.status.is_done() {
                // With scripts the page stays and shows what happens.
                form class="inline" action=(cancel) method="post" hx-post=(cancel) hx-swap="none" { button class="danger" { "Cancel" } }
            }
        }
        @if let Some(trouble) = &task.trouble {
            (components::notice(NoticeKind::Bad, &html! { (UserText(trouble)) }))
        }
    }
}

/// What one may do with a task that is done.
fn again(task: &Task) -> Markup {
    html! {
        @if task.status.is_done() {
            div class="row" {
                form class="inline" action={ "/tasks/" (task.id) "/retry" } method="post" { button { "Run again" } }
                a class="button" href={ "/run?from=" (task.id) } { "Run again edited" }
            }
        }
    }
}

/// Why the task waits, in sentences.
fn waiting(task: &Task, wait: Option<&TaskWait>) -> Markup {
    let sentences = wait.map(|wait| api::TaskWait::new(task.id, task.status, wait).sentences());
    let sentences = sentences.unwrap_or_default();
    html! {
        @if !sentences.is_empty() {
            (components::notice(NoticeKind::Busy, &html! {
                strong { "It waits." }
                @for sentence in &sentences { " " (sentence) }
            }))
        }
    }
}

fn facts(task: &Task) -> Markup {
    let spec = &task.spec;
    html! {
        dl {
            dt { "User" } dd { (UserText(spec.user.as_str())) }
            dt { "Priority" } dd { (spec.priority) }
            @if let Some(language) = &spec.language { dt { "Language" } dd { a href="/languages" { (language) } } }
            @if let Some(root) = &spec.root { dt { "Root" } dd { (root) } }
            @if let Some(judging) = &spec.judging { dt { "Check" } dd { (judge_problems::check_words(&judging.check)) } }
            @if let Some(problem) = &spec.problem {
                dt { "Problem" } dd { a href=(judge_problems::link(problem)) { (problem) } }
            }
            @if let Some(key) = spec.group_key() {
                dt { "Group" } dd { a href=(groups::link(&key)) { (UserText(key.group.as_str())) } }
            }
            @if !spec.labels.is_empty() { dt { "Labels" } dd { (list::labels(&spec.labels)) } }
            @if let Some(id) = spec.retry_of { dt { "Repeats" } dd { (components::task_link(id)) } }
            dt { "Attempt" }
            dd { (task.attempt) @if let Some(most) = spec.attempts { span class="dim" { ", up to " (most) " may be lost" } } }
            @if let Some(executor) = &task.executor {
                dt { "Executor" } dd { a href={ "/executors/" (format::encode(executor.as_str())) } { (executor) } }
            }
            @if let Some(start) = task.start_time {
                dt { "Waited" } dd { (format::duration(start.since(task.add_time))) " before the last attempt was handed out" }
            }
            @if !spec.keep.is_empty() {
                dt { "Keeps" } dd { @for pattern in &spec.keep { code { (UserText(pattern.as_str())) } " " } }
            }
        }
    }
}
