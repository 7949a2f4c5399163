//! The page of one group, which follows the group while its tasks run.

mod results;
mod slowest;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{Redirect, Response};
use futures::StreamExt;
use maud::{Markup, html};
use model::{GroupKey, GroupState, TaskQuery, TaskStatus};

pub(crate) use self::results::{MAX_TABLES, group_results, group_results_csv, live_group_results};

use self::slowest::Slowest;
use super::components::{self, NoticeKind, UserText, notice};
use super::format;
use super::groups::{FAILED, failed_count, link, link_beneath, progress, status_count, tasks_query};
use super::layout::{HtmlPage, Section};
use super::list;
use super::live::{END_EVENT, LiveParts, live_response};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::groups::{cancel_group, group_key, retry_group};
use crate::params::{self, GroupParameters, GroupPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// The seconds after which a browser without scripts reloads the page of a group that is not done.
const REFRESH_SECONDS: u32 = 5;

pub(crate) async fn group(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    GroupPath(name): GroupPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    let parameters = params::known_parameters(&uri, &["user", "retried", "cancelled", "more"])?;
    let key = group_key(&caller, params::user_parameter(&parameters)?, name)?;
    let state = gateway.calls.group(key, None).await?;
    let slowest = Slowest::read(&gateway, &state.key).await?;
    let is_judged = results::is_judged(&gateway, &quota, &state.key).await?;
    let title = format!("Group {}", state.key.group);
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Groups)
        .caller(&caller)
        .refresh_without_script((!state.is_done()).then_some(REFRESH_SECONDS));
    let content = html! {
        h1 { "Group " (UserText(state.key.group.as_str())) }
        @if is_judged { p { a class="button" href=(link_beneath("/groups", &state.key, "/results")) { "Results by case" } } }
        (details(&state, &slowest, &parameters))
    };
    Ok(page.respond(&content))
}

pub(crate) async fn live_group(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    GroupPath(name): GroupPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    let key = key_of(&gateway, &caller, name, &uri)?;
    let states = gateway.calls.group_events(key.clone()).await?;
    let latest = Arc::new(Mutex::new(None));
    let stored = latest.clone();
    // A stream that fails ends; the browser opens another one.
    let ticks = states
        .take_while(|state| std::future::ready(state.is_ok()))
        .map(move |state| *stored.lock().unwrap_or_else(PoisonError::into_inner) = state.ok());
    let render = {
        let gateway = gateway.clone();
        move || render_parts(gateway.clone(), key.clone(), latest.clone())
    };
    let turns = gateway.loading.clone();
    Ok(live_response(gateway, quota, turns, ticks.boxed(), render))
}

/// The parts of the page for the latest state, or for a new one before the first event.
async fn render_parts(
    gateway: Arc<Gateway>,
    key: GroupKey,
    latest: Arc<Mutex<Option<GroupState>>>,
) -> Result<LiveParts, RequestError> {
    let known = latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let state = match known {
        Some(state) => state,
        None => gateway.calls.group(key, None).await?,
    };
    let mut parts = vec![
        ("summary", summary(&state)),
        ("tasks", tasks(&state)),
        ("actions", actions(&state)),
    ];
    let ended = state.is_done();
    // Reading many tasks at each event would take too long.
    if ended {
        let slowest = Slowest::read(&gateway, &state.key).await?;
        parts.push(("slowest", slowest.show(&state.key)));
    }
    Ok(LiveParts { parts, ended })
}

pub(crate) async fn retry_failed(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    GroupPath(name): GroupPath,
    uri: Uri,
) -> Result<Redirect, RequestError> {
    let key = key_of(&gateway, &caller, name, &uri)?;
    let retried = retry_group(&gateway, &quota, key.clone()).await?;
    let more = if retried.more { "&more=true" } else { "" };
    Ok(Redirect::to(&format!(
        "{}&retried={}{more}",
        link(&key),
        retried.tasks.len()
    )))
}

pub(crate) async fn cancel_all(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    GroupPath(name): GroupPath,
    uri: Uri,
) -> Result<Redirect, RequestError> {
    let key = key_of(&gateway, &caller, name, &uri)?;
    let cancelled = cancel_group(&gateway, key.clone()).await?.cancelled;
    Ok(Redirect::to(&format!("{}&cancelled={cancelled}", link(&key))))
}

fn key_of(
    gateway: &Gateway,
    caller: &Caller,
    name: model::GroupName,
    uri: &Uri,
) -> Result<GroupKey, RequestError> {
    let GroupParameters { user, .. } = GroupParameters::read(uri, &["user"], &gateway.options)?;
    Ok(group_key(caller, user, name)?)
}

fn details(state: &GroupState, slowest: &Slowest, parameters: &[(String, String)]) -> Markup {
    let live = (!state.is_done()).then(|| link_beneath("/live/groups", &state.key, ""));
    let part =
        |name: &str, content: Markup| html! { div sse-swap=(name) hx-swap="morph:innerHTML" { (content) } };
    html! {
        (done_notice(parameters))
        div hx-ext="sse,morph" sse-connect=[live.as_deref()] sse-close=[live.as_ref().map(|_| END_EVENT)] {
            (part("summary", summary(state)))
            (part("actions", actions(state)))
            (part("tasks", tasks(state)))
            (part("slowest", slowest.show(&state.key)))
        }
    }
}

/// What the button did that led to this page.
fn done_notice(parameters: &[(String, String)]) -> Markup {
    let number = |name: &str| {
        let found = parameters.iter().find(|(found, _)| found == name);
        found.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let more = parameters.iter().any(|(name, _)| name == "more");
    let tasks = |count: u64| format!("{count} {}", format::plural(count, "task"));
    let text = match (number("retried"), number("cancelled")) {
        (Some(count), _) if more => {
            format!(
                "{} added. More are left: press the button again to retry the rest.",
                tasks(count)
            )
        }
        (Some(count), _) => format!("{} added that repeat those which did not succeed.", tasks(count)),
        (None, Some(count)) => format!("{} cancelled.", tasks(count)),
        (None, None) => return html! {},
    };
    notice(NoticeKind::Good, &html! { (text) })
}

fn summary(state: &GroupState) -> Markup {
    html! {
        (progress(state))
        dl {
            dt { "User" } dd { (UserText(state.key.user.as_str())) }
            dt { "Added" } dd { (format::time(state.add_time)) }
            @if let Some(finish) = state.finish_time() {
                dt { "Finished" } dd { (format::time(finish)) }
                dt { "Took" } dd { (format::duration(whole_seconds(finish.since(state.add_time)))) }
            }
            @if let Some(rate) = rate(state) { dt { "Rate" } dd { (rate) } }
            @if let Some(left) = time_left(state) { dt { "Time left" } dd { "about " (format::duration(left)) } }
        }
    }
}

fn time_left(state: &GroupState) -> Option<Duration> {
    let estimate = api::GroupState::from(state.clone()).estimate_seconds?;
    Duration::try_from_secs_f64(estimate.ceil().max(1.0)).ok()
}

/// Tenths of seconds mean nothing in a long time.
fn whole_seconds(time: Duration) -> Duration {
    if time < Duration::from_secs(10) {
        return time;
    }
    Duration::from_secs(time.as_secs_f64().round() as u64)
}

/// How many tasks ran in a time, from the first add to the last end. Cancelled tasks did not run.
fn rate(state: &GroupState) -> Option<String> {
    let ran = state
        .done()
        .saturating_sub(status_count(state, TaskStatus::Cancelled));
    let seconds = state.last_finish?.since(state.add_time).as_secs_f64();
    if ran == 0 || seconds <= 0.0 {
        return None;
    }
    let per_second = ran as f64 / seconds;
    let (number, unit) = [(1.0, "second"), (60.0, "minute"), (3600.0, "hour")]
        .map(|(scale, unit)| (per_second * scale, unit))
        .into_iter()
        .find(|(number, _)| *number >= 1.0)
        .unwrap_or((per_second * 86_400.0, "day"));
    Some(format!("{number:.1} tasks per {unit}"))
}

fn tasks(state: &GroupState) -> Markup {
    let key = &state.key;
    let by_reason: Vec<_> = state.reasons.iter().filter(|(_, count)| **count > 0).collect();
    html! {
        h2 { "Tasks" }
        ul class="chips" {
            li { a href=(list::link(&tasks_query(key))) { b { (state.total()) } " in all" } }
            @for status in TaskStatus::ALL {
                @let count = status_count(state, status);
                @if count > 0 {
                    @let query = TaskQuery { statuses: vec![status], ..tasks_query(key) };
                    li { a href=(list::link(&query)) { (components::status(status, None)) " " b { (count) } } }
                }
            }
            @if state.unknown > 0 { li { span class="tag" { (state.unknown) " of a newer version of Conclave" } } }
        }
        @if !by_reason.is_empty() {
            h2 { "Failures by reason" }
            ul class="chips" {
                @for (reason, count) in by_reason {
                    @let query = TaskQuery { reasons: vec![*reason], statuses: FAILED.to_vec(), ..tasks_query(key) };
                    li { a href=(list::link(&query)) { (format::words(reason.as_str())) " " b { (count) } } }
                }
            }
        }
    }
}

fn actions(state: &GroupState) -> Markup {
    let key = &state.key;
    let not_succeeded = failed_count(state) + status_count(state, TaskStatus::Cancelled);
    let export = |format: &str| {
        let (user, group) = (
            format::encode(key.user.as_str()),
            format::encode(key.group.as_str()),
        );
        format!("/api/v1/tasks/export?format={format}&group={group}&user={user}")
    };
    html! {
        div class="row" {
            @if not_succeeded > 0 {
                form class="inline" action=(link_beneath("/groups", key, "/retry")) method="post" {
                    button { "Retry " (not_succeeded) " that did not succeed" }
                }
            }
            @if !state.is_done() {
                form class="inline" action=(link_beneath("/groups", key, "/cancel")) method="post"
                    data-confirm="Cancel all tasks of the group that are not done?" {
                    button class="danger" { "Cancel the rest" }
                }
            }
            span { "Export: " a href=(export("csv")) { "CSV" } " " a href=(export("jsonl")) { "JSON lines" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{GroupName, OutcomeReason, UnixTime, UserName};

    use super::*;

    fn key() -> GroupKey {
        GroupKey {
            user: UserName::new("ada l").unwrap(),
            group: GroupName::new("a&b?").unwrap(),
        }
    }

    fn state(counts: &[(TaskStatus, u64)], last_finish: Option<i64>) -> GroupState {
        GroupState {
            key: key(),
            counts: counts.iter().copied().collect(),
            unknown: 0,
            reasons: [(OutcomeReason::TimeLimit, 1)].into(),
            add_time: UnixTime(0),
            last_finish: last_finish.map(|seconds| UnixTime(seconds * 1_000_000)),
        }
    }

    #[test]
    fn a_group_shows_its_progress_and_links_to_its_tasks() {
        let running = state(
            &[
                (TaskStatus::Success, 2),
                (TaskStatus::RunFailed, 1),
                (TaskStatus::Pending, 1),
            ],
            Some(30),
        );
        let shown = details(&running, &Slowest::default(), &[]).into_string();
        for expected in [
            "<progress value=\"3\" max=\"4\"",
            "about 10 s",
            "6.0 tasks per minute",
            "sse-connect=\"/live/groups/a%26b%3F?user=ada%20l\"",
            "reason=time%5Flimit",
            "group=a%26b%3F",
            "status=run%5Ffailed",
            "action=\"/groups/a%26b%3F/retry?user=ada%20l\"",
            "Retry 1 that did not succeed",
            "action=\"/groups/a%26b%3F/cancel?user=ada%20l\"",
            "href=\"/api/v1/tasks/export?format=csv&amp;group=a%26b%3F&amp;user=ada%20l\"",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        let done = state(&[(TaskStatus::Success, 2)], Some(30));
        let shown = details(&done, &Slowest::default(), &[]).into_string();
        for unexpected in ["sse-connect", "Cancel the rest", "Retry ", "Time left"] {
            assert!(!shown.contains(unexpected), "{unexpected}: {shown}");
        }
    }

    #[test]
    fn a_rate_has_a_unit_in_which_it_is_readable() {
        let check = |done: u64, seconds: Option<i64>, expected: Option<&str>| {
            let found = rate(&state(
                &[(TaskStatus::Success, done), (TaskStatus::Cancelled, 9)],
                seconds,
            ));
            assert_eq!(found.as_deref(), expected, "{done} {seconds:?}");
        };
        check(100, Some(50), Some("2.0 tasks per second"));
        check(100, Some(200), Some("30.0 tasks per minute"));
        check(1, Some(600), Some("6.0 tasks per hour"));
        check(1, Some(86_400), Some("1.0 tasks per day"));
        check(0, Some(10), None);
        check(1, Some(0), None);
        check(1, None, None);
    }

    #[test]
    fn a_button_says_what_it_did() {
        let check = |pairs: &[(&str, &str)], expected: &str| {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect();
            let shown = done_notice(&pairs).into_string();
            assert!(shown.contains(expected), "{shown}");
            assert_eq!(shown.is_empty(), expected.is_empty(), "{shown}");
        };
        check(&[("retried", "1")], "1 task added that repeat");
        check(
            &[("retried", "3"), ("more", "true")],
            "3 tasks added. More are left",
        );
        check(&[("cancelled", "2")], "2 tasks cancelled.");
        check(&[("cancelled", "<b>")], "");
        check(&[], "");
    }
}
