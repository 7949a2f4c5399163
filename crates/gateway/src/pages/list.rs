//! The start page: statistics, a search form, and a list of tasks.

use std::sync::Arc;

use api::{parse_query, query_pairs};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use model::{GroupKey, Labels, SortOrder, Stats, TaskQuery, TaskStatus, TaskSummary, UnixTime};

use super::components;
use super::format;
use super::groups;
use super::layout::{HtmlPage, Section};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;

/// The number of tasks on a page.
const PAGE_LENGTH: usize = 50;

pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, RequestError> {
    let pairs = params::query_parameters(&uri)?;
    let mut query = parse_query(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    query.limit = query.limit.min(PAGE_LENGTH);
    query.user = caller.user_to_search(query.user)?;
    let page = gateway.calls.search(query.clone()).await?;
    let stats = gateway.calls.stats().await?;
    let content = html! {
        h1 { "Tasks" }
        (statistics(&stats))
        (form(&query))
        (results(&query, &page))
    };
    let page = HtmlPage::new(&gateway, "Tasks")
        .section(Section::Tasks)
        .caller(&caller);
    Ok(page.respond(&content))
}

/// The tasks of a page, and links to other pages.
fn results(query: &TaskQuery, page: &model::Page) -> Markup {
    let next = page.next.map(|next| TaskQuery {
        after: Some(next),
        ..query.clone()
    });
    let range = page
        .next
        .filter(|_| !page.complete)
        .map(|next| searched_range(query, next.add_time));
    html! {
        @if page.tasks.is_empty() {
            p class="dim" {
                @match &range {
                    Some(range) => { "No matching tasks among those added " (range) "." },
                    None => { "No matching tasks." },
                }
            }
        } @else {
            (table(&page.tasks))
            @if let Some(range) = &range {
                p class="dim" { "These are the matching tasks among those added " (range) "." }
            }
        }
        p class="top" {
            @if query.after.is_some() { a href=(link(&TaskQuery { after: None, ..query.clone() })) { "← First page" } }
            @if let Some(next) = next {
                a href=(link(&next)) { @if page.complete { "Next page →" } @else { "Continue search →" } }
            }
        }
    }
}

/// The time range that an incomplete search has examined.
fn searched_range(query: &TaskQuery, reached: UnixTime) -> Markup {
    html! {
        @match query.order {
            SortOrder::Newest => { "since " },
            SortOrder::Oldest => { "until " },
        }
        (format::time(reached))
    }
}

fn statistics(stats: &Stats) -> Markup {
    html! {
        div class="numbers" {
            @for (status, count) in &stats.counts {
                @if *count > 0 {
                    span { b { (count) } " " (status.as_str().replace('_', " ")) }
                }
            }
            span { b { (stats.executors) } " " (format::plural(stats.executors, "executor")) }
            span { b { (stats.held) } " of " b { (stats.slots) } " " (format::plural(stats.slots, "slot")) " in use" }
            span { b { (format!("{:.1}", stats.tasks_per_second)) } " tasks per second" }
            @if let Some(note) = stats.note() {
                span { (note) }
            }
        }
    }
}

fn form(query: &TaskQuery) -> Markup {
    let user = query.user.as_ref().map(|user| user.as_str());
    let chosen = |status: TaskStatus| query.statuses == [status];
    html! {
        form class="filters" action="/" method="get" {
            label { "User" input name="user" value=[user]; }
            label { "Group" input name="group" value=[query.group.as_ref().map(|group| group.as_str())]; }
            @for (key, value) in query.labels.iter() {
                label { "Label" input name="label" value={ (key) ":" (value) }; }
            }
            @if query.labels.is_empty() { label { "Label" input name="label" placeholder="key:value"; } }
            label { "Command contains" input name="text" value=[query.text.as_deref()]; }
            label {
                "Status"
                select name="status" {
                    option value="" { "any" }
                    @for status in TaskStatus::ALL {
                        option value=(status) selected[chosen(status)] { (status.as_str().replace('_', " ")) }
                    }
                }
            }
            label {
                "Order"
                select name="order" {
                    option value="newest" { "newest first" }
                    option value="oldest" selected[query.order == SortOrder::Oldest] { "oldest first" }
                }
            }
            button { "Search" }
        }
    }
}

fn table(tasks: &[TaskSummary]) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead {
                    tr {
                        th { "Status" } th { "Reason" } th { "Task" } th { "User" } th { "Command" } th { "Group" } th { "Labels" }
                        th { "Added" } th { "Took" } th { "Executor" }
                    }
                }
                tbody {
                    @for task in tasks {
                        tr {
                            td { (components::status(task.status, None)) }
                            td class="tight" { @if let Some(reason) = task.reason { (reason.as_str().replace('_', " ")) } }
                            td class="tight" { a class="id" href={ "/tasks/" (task.id) } { (task.id) } }
                            td { (task.user) }
                            td class="command" title=(task.command) { code { (task.command) } }
                            td { (group(task)) }
                            td { (labels(&task.labels)) }
                            td class="tight" { (format::time(task.add_time)) }
                            td class="tight" { (took(task)) }
                            td { @if let Some(executor) = &task.executor { (executor) } }
                        }
                    }
                }
            }
        }
    }
}

fn group(task: &TaskSummary) -> Markup {
    let key = task.group.clone().map(|group| GroupKey {
        user: task.user.clone(),
        group,
    });
    html! { @if let Some(key) = key { a href=(groups::link(&key)) { (key.group) } } }
}

/// Each label is a link to the tasks that have it.
pub(super) fn labels(labels: &Labels) -> Markup {
    let tasks = |key: &str, value: &str| format!("/?label={}", format::encode(&format!("{key}:{value}")));
    html! {
        @for (key, value) in labels.iter() { a href=(tasks(key, value)) { (key) "=" (value) } " " }
    }
}

fn took(task: &TaskSummary) -> String {
    let times = task.start_time.zip(task.finish_time);
    times.map_or_else(String::new, |(start, finish)| {
        format::duration(finish.since(start))
    })
}

pub(super) fn link(query: &TaskQuery) -> String {
    let pairs: Vec<_> = query_pairs(query)
        .into_iter()
        .map(|(name, value)| format!("{name}={}", format::encode(&value)))
        .collect();
    format!("/?{}", pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use model::TaskId;

    use super::*;

    #[test]
    fn a_row_has_the_reason_the_group_and_the_labels() {
        let task = TaskSummary {
            id: TaskId(uuid::Uuid::now_v7()),
            user: model::UserName::new("ada").unwrap(),
            priority: 0,
            command: "true".into(),
            status: TaskStatus::RunFailed,
            reason: Some(model::OutcomeReason::TimeLimit),
            labels: Labels::new([("hw".into(), "3 a".into())].into()).unwrap(),
            group: Some(model::GroupName::new("g").unwrap()),
            language: None,
            executor: None,
            attempt: model::AttemptNumber(1),
            add_time: UnixTime(0),
            start_time: None,
            finish_time: None,
        };
        let row = table(&[task]).into_string();
        for expected in [
            "time limit",
            "href=\"/groups/g?user=ada\"",
            "href=\"/?label=hw%3A3%20a\"",
            "hw=3 a",
        ] {
            assert!(row.contains(expected), "{expected}: {row}");
        }
    }

    #[test]
    fn an_incomplete_page_says_so_and_links_to_the_rest() {
        let query = TaskQuery {
            text: Some("needle".into()),
            ..TaskQuery::default()
        };
        let shown = |complete: bool, more: bool| {
            let next =
                more.then(|| query.cursor_at(UnixTime(1_767_225_600_000_000), TaskId(uuid::Uuid::now_v7())));
            let page = model::Page {
                tasks: vec![],
                next,
                complete,
            };
            results(&query, &page).into_string()
        };
        let range = shown(false, true);
        assert!(
            range.contains("No matching tasks among those added since"),
            "{range}"
        );
        assert!(range.contains("2026-01-01"), "{range}");
        assert!(
            range.contains("after=") && range.contains("Continue search"),
            "{range}"
        );
        let whole = shown(true, false);
        assert!(whole.contains("No matching tasks."), "{whole}");
        assert!(!whole.contains("Continue search"), "{whole}");
        assert!(shown(true, true).contains("Next page"));
    }
}
