//! The tasks of a page, and the links to other pages.

use maud::{Markup, html};
use model::{GroupKey, Page, SortOrder, TaskQuery, TaskSummary, UnixTime, UserName};

use super::{ListRequest, labels, link};
use crate::pages::components::{self, UserText, attribute_text, empty_state, task_link};
use crate::pages::server_address::ServerAddress;
use crate::pages::{executors, format, groups};

/// The table, or what to do first if there are no tasks.
pub(super) fn rows(request: &ListRequest, page: &Page) -> Markup {
    let query = &request.query;
    let range = page
        .next
        .filter(|_| !page.complete)
        .map(|next| searched_range(query, next.add_time));
    html! {
        @if !page.tasks.is_empty() {
            (table(&page.tasks))
            @if let Some(range) = &range {
                p class="dim" { "These are the matching tasks among those added " (range) "." }
            }
        } @else if let Some(range) = &range {
            p class="dim" { "No matching tasks among those added " (range) "." }
        } @else if is_filtered(request) {
            (empty_state("No matching tasks", &html! { p { a href="/" { "Show all tasks" } } }))
        } @else {
            (first_task(&request.server))
        }
    }
}

/// Whether the search leaves out tasks that the caller may see. A user with a token always searches their own.
fn is_filtered(request: &ListRequest) -> bool {
    let query = &request.query;
    let others = TaskQuery {
        user: query.user.clone().filter(|_| request.sees_all_users),
        ..query.clone()
    };
    others.has_filter() || query.after.is_some()
}

fn first_task(server: &ServerAddress) -> Markup {
    empty_state(
        "No tasks yet",
        &html! {
            p { a class="button primary" href="/run" { "Run a program" } }
            p { "Or add a task from a terminal:" }
            pre tabindex="0" {
                "conclave run" (server.flags()) " -- echo hello\n"
                "curl '" (server.url) "/api/v1/tasks?wait=10'" (server.curl_token()) " \\\n"
                "  --json '{\"execute\": {\"command\": \"echo hello\"}}'"
            }
        },
    )
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

pub(super) fn paging(query: &TaskQuery, page: &Page) -> Markup {
    let next = page.next.map(|next| TaskQuery {
        after: Some(next),
        ..query.clone()
    });
    let first = TaskQuery {
        after: None,
        ..query.clone()
    };
    html! {
        @if query.after.is_some() || next.is_some() {
            nav class="row" aria-label="Other pages" {
                @if query.after.is_some() { a class="button" href=(link(&first)) { "← First page" } }
                @if let Some(next) = next {
                    a class="button" href=(link(&next)) { @if page.complete { "Next page →" } @else { "Continue search →" } }
                }
            }
        }
    }
}

fn table(tasks: &[TaskSummary]) -> Markup {
    html! {
        table class="cards whole-words tasks" {
            thead {
                tr {
                    th scope="col" { (choose_all()) }
                    th scope="col" { "Status" }
                    th scope="col" { "Task" }
                    th scope="col" { "Command" }
                    th scope="col" { "User" }
                    th scope="col" { "Group" }
                    th scope="col" { "Language" }
                    th scope="col" { "Labels" }
                    th scope="col" { "Added" }
                    th scope="col" { "Took" }
                }
            }
            tbody { @for task in tasks { (row(task)) } }
        }
    }
}

/// A script makes it visible, because it does nothing without one.
fn choose_all() -> Markup {
    html! {
        span class="visually-hidden" { "Choose" }
        input class="needs-script" type="checkbox" id="choose-all" data-choose-all aria-label="Choose all tasks on this page" autocomplete="off";
    }
}

/// The id of the row lets a live page change it in place.
fn row(task: &TaskSummary) -> Markup {
    let key = task.group.clone().map(|group| GroupKey {
        user: task.user.clone(),
        group,
    });
    html! {
        tr id={ "task-" (task.id) } {
            td class="choose" {
                input type="checkbox" name="id" value=(task.id) aria-label={ "Choose task " (task.id) } autocomplete="off";
            }
            td class="tight outcome" { (components::status(task.status, task.reason)) }
            td data-label="Task" { (task_link(task.id)) }
            td class="command" data-label="Command" title=(attribute_text(&task.command)) { code { (UserText(&task.command)) } }
            td class="name" data-label="User" title=(attribute_text(task.user.as_str())) { a href=(of_user(&task.user)) { (UserText(task.user.as_str())) } }
            td class="name" data-label="Group" title=[key.as_ref().map(|key| attribute_text(key.group.as_str()))] {
                @if let Some(key) = &key { a href=(groups::link(key)) { (UserText(key.group.as_str())) } }
            }
            td data-label="Language" { @if let Some(language) = &task.language { (language) } }
            td class="labels" data-label="Labels" { (labels(&task.labels)) }
            td class="tight" data-label="Added" { (format::time(task.add_time)) }
            td class="tight" data-label="Took" {
                (took(task))
                // The store keeps with a row only which executor has the task now.
                @if let Some(executor) = &task.executor {
                    div class="name" title=(executor) { " on " a href=(executors::link(executor)) { (executor) } }
                }
            }
        }
    }
}

fn of_user(user: &UserName) -> String {
    link(&TaskQuery {
        user: Some(user.clone()),
        ..TaskQuery::default()
    })
}

/// How long the task ran, or has run or waited until now, which a script counts.
fn took(task: &TaskSummary) -> Markup {
    let since = |word: &str, time: UnixTime| {
        html! { (word) " " span data-since=(api::format_time(time)) { "since " (format::time(time)) } }
    };
    match (task.start_time, task.finish_time) {
        (Some(start), Some(finish)) => html! { (format::duration(finish.since(start))) },
        (None, Some(_)) => html! {},
        (Some(start), None) if task.executor.is_some() => since("runs", start),
        _ => since("waits", task.add_time),
    }
}

#[cfg(test)]
mod tests {
    use model::{AttemptNumber, GroupName, Labels, LanguageName, OutcomeReason, TaskId, TaskStatus};

    use super::*;

    fn summary() -> TaskSummary {
        TaskSummary {
            id: TaskId(uuid::Uuid::now_v7()),
            user: UserName::new("ada").unwrap(),
            priority: 0,
            command: "true".into(),
            status: TaskStatus::RunFailed,
            reason: Some(OutcomeReason::TimeLimit),
            labels: Labels::new([("hw".into(), "3 a".into())].into()).unwrap(),
            group: Some(GroupName::new("g").unwrap()),
            language: LanguageName::new("c++").ok(),
            executor: None,
            attempt: AttemptNumber(1),
            add_time: UnixTime(0),
            start_time: Some(UnixTime(1)),
            finish_time: Some(UnixTime(2_000_001)),
        }
    }

    #[test]
    fn a_row_has_the_reason_the_group_and_the_labels() {
        let task = summary();
        let row = row(&task).into_string();
        let id = task.id.to_string();
        for expected in [
            "time limit",
            "href=\"/groups/g?user=ada\"",
            "href=\"/?label=hw%3A3%20a\"",
            "hw=3 a",
            "c++",
            "2 s",
            &format!("id=\"task-{id}\""),
            &format!("value=\"{id}\""),
            &format!("data-copy=\"{id}\""),
        ] {
            assert!(row.contains(expected), "{expected}: {row}");
        }
    }

    #[test]
    fn hostile_text_is_text() {
        let task = TaskSummary {
            command: "<script>alert(1)</script>\u{202e}\"' onload=x".into(),
            user: UserName::new("<img src=x onerror=alert(1)>").unwrap(),
            group: GroupName::new("\"><svg onload=1>").ok(),
            labels: Labels::new([("k".into(), "</td><script>".into())].into()).unwrap(),
            ..summary()
        };
        let row = row(&task).into_string();
        for forbidden in ["<script", "<img", "<svg onload", "\u{202e}<"] {
            assert!(!row.contains(forbidden), "{forbidden}: {row}");
        }
        assert!(row.contains("U+202E"), "{row}");
    }

    #[test]
    fn a_task_that_is_not_done_counts_its_time() {
        let waiting = TaskSummary {
            status: TaskStatus::Pending,
            start_time: None,
            finish_time: None,
            ..summary()
        };
        let running = TaskSummary {
            status: TaskStatus::Running,
            executor: model::ExecutorName::new("e").ok(),
            finish_time: None,
            ..summary()
        };
        let shown = |task: &TaskSummary| took(task).into_string();
        assert!(shown(&waiting).starts_with("waits <span data-since=\"1970-01-01T00:00:00"));
        assert!(shown(&running).starts_with("runs <span data-since=\"1970-01-01T00:00:00.000001Z"));
    }

    fn request(query: &TaskQuery) -> ListRequest {
        ListRequest {
            query: query.clone(),
            notice: None,
            sees_all_users: true,
            server: ServerAddress {
                url: "https://host:7001".into(),
                needs_token: false,
            },
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
            let page = Page {
                tasks: vec![],
                next,
                complete,
            };
            rows(&request(&query), &page).into_string() + &paging(&query, &page).into_string()
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
        assert!(whole.contains("No matching tasks"), "{whole}");
        assert!(!whole.contains("Continue search"), "{whole}");
        assert!(shown(true, true).contains("Next page"));
    }

    #[test]
    fn an_empty_store_says_what_to_do_first() {
        let shown = |needs_token: bool| {
            let mut list = request(&TaskQuery::default());
            list.server.needs_token = needs_token;
            rows(&list, &Page::default()).into_string()
        };
        let empty = shown(false);
        for expected in [
            "href=\"/run\"",
            "conclave run --server https://host:7001 -- echo hello",
            "curl 'https://host:7001/api/v1/tasks?wait=10' \\",
        ] {
            assert!(empty.contains(expected), "{expected}: {empty}");
        }
        assert!(!empty.contains("TOKEN"), "{empty}");
        let with_token = shown(true);
        assert!(with_token.contains(" --token-file ") && with_token.contains("Authorization: Bearer "));
    }
}
