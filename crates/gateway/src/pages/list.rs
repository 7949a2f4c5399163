//! The first page: tasks, newest first.

use std::sync::Arc;

use api::{parse_query, query_pairs};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use model::{Brief, Moment, Order, Query, Stats, Status};

use super::layout::Page;
use super::show;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::refusal::Refusal;

/// As many as a person looks through.
const LENGTH: usize = 50;

pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, Refusal> {
    let pairs = params::pairs(&uri)?;
    let mut query = parse_query(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    query.limit = query.limit.min(LENGTH);
    query.user = caller.searched(query.user)?;
    let page = gateway.calls.search(query.clone()).await?;
    let stats = gateway.calls.stats().await?;
    let content = html! {
        h1 { "Tasks" }
        (numbers(&stats))
        (form(&query))
        (found(&query, &page))
    };
    let page = Page {
        title: "Tasks",
        version: &gateway.options.version,
        refresh: None,
    };
    Ok(page.show(&content))
}

/// The tasks of a page, and where to go from there.
fn found(query: &Query, page: &model::Page) -> Markup {
    let next = page.next.map(|next| Query {
        after: Some(next),
        ..query.clone()
    });
    let part = page
        .next
        .filter(|_| !page.complete)
        .map(|next| part(query, next.add_time));
    html! {
        @if page.tasks.is_empty() {
            p class="dim" {
                @match &part {
                    Some(part) => { "No matching tasks among those added " (part) "." },
                    None => { "No matching tasks." },
                }
            }
        } @else {
            (table(&page.tasks))
            @if let Some(part) = &part {
                p class="dim" { "These are the matching tasks among those added " (part) "." }
            }
        }
        p class="top" {
            @if query.after.is_some() { a href=(link(&Query { after: None, ..query.clone() })) { "← First page" } }
            @if let Some(next) = next {
                a href=(link(&next)) { @if page.complete { "Next page →" } @else { "Look further →" } }
            }
        }
    }
}

/// Which part of the tasks an incomplete page is about.
fn part(query: &Query, reached: Moment) -> Markup {
    html! {
        @match query.order {
            Order::Newest => { "since " },
            Order::Oldest => { "until " },
        }
        (show::time(reached))
    }
}

fn numbers(stats: &Stats) -> Markup {
    html! {
        div class="numbers" {
            @for (status, count) in &stats.counts {
                @if *count > 0 {
                    span { b { (count) } " " (status.as_str().replace('_', " ")) }
                }
            }
            span { b { (stats.executors) } " " (show::plural(stats.executors, "executor")) }
            span { b { (stats.held) } " of " b { (stats.slots) } " " (show::plural(stats.slots, "slot")) " in use" }
            span { b { (format!("{:.1}", stats.tasks_per_second)) } " tasks per second" }
            @if let Some(note) = stats.note() {
                span { (note) }
            }
        }
    }
}

fn form(query: &Query) -> Markup {
    let user = query.user.as_ref().map(|user| user.as_str());
    let chosen = |status: Status| query.statuses == [status];
    html! {
        form class="search" action="/" method="get" {
            label { "User" input name="user" value=[user]; }
            label { "Command contains" input name="text" value=[query.text.as_deref()]; }
            label {
                "Status"
                select name="status" {
                    option value="" { "any" }
                    @for status in Status::ALL {
                        option value=(status) selected[chosen(status)] { (status.as_str().replace('_', " ")) }
                    }
                }
            }
            label {
                "Order"
                select name="order" {
                    option value="newest" { "newest first" }
                    option value="oldest" selected[query.order == Order::Oldest] { "oldest first" }
                }
            }
            button { "Search" }
        }
    }
}

fn table(tasks: &[Brief]) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead {
                    tr {
                        th { "Status" } th { "Task" } th { "User" } th { "Command" } th { "Added" } th { "Took" } th { "Executor" }
                    }
                }
                tbody {
                    @for task in tasks {
                        tr {
                            td { (show::status(task.status)) }
                            td class="tight" { a class="id" href={ "/tasks/" (task.id) } { (task.id) } }
                            td { (task.user) }
                            td class="command" title=(task.command) { code { (task.command) } }
                            td class="tight" { (show::time(task.add_time)) }
                            td class="tight" { (took(task)) }
                            td { @if let Some(executor) = &task.executor { (executor) } }
                        }
                    }
                }
            }
        }
    }
}

fn took(task: &Brief) -> String {
    let times = task.start_time.zip(task.finish_time);
    times.map_or_else(String::new, |(start, finish)| show::span(finish.since(start)))
}

fn link(query: &Query) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    let pairs: Vec<_> = query_pairs(query)
        .into_iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC)))
        .collect();
    format!("/?{}", pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use model::TaskId;

    use super::*;

    #[test]
    fn a_page_that_is_not_complete_says_so_and_links_on() {
        let query = Query {
            text: Some("needle".into()),
            ..Query::default()
        };
        let shown = |complete: bool, more: bool| {
            let next = more.then(|| query.cursor_at(Moment(1_767_225_600_000_000), TaskId::generate()));
            let page = model::Page {
                tasks: vec![],
                next,
                complete,
            };
            found(&query, &page).into_string()
        };
        let part = shown(false, true);
        assert!(
            part.contains("No matching tasks among those added since"),
            "{part}"
        );
        assert!(part.contains("2026-01-01"), "{part}");
        assert!(part.contains("after=") && part.contains("Look further"), "{part}");
        let whole = shown(true, false);
        assert!(whole.contains("No matching tasks."), "{whole}");
        assert!(!whole.contains("Look further"), "{whole}");
        assert!(shown(true, true).contains("Next page"));
    }
}
