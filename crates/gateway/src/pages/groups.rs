//! The list of groups.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use model::{GroupKey, GroupState, TaskQuery, TaskStatus};

use super::components::{UserText, empty_state};
use super::format;
use super::layout::{HtmlPage, Section};
use super::list;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::groups::list_page;
use crate::params;
use crate::request_error::RequestError;

/// The statuses of tasks that are done and did not succeed. Cancelled tasks are retried too, but are not failures.
pub(super) const FAILED: [TaskStatus; 3] = [
    TaskStatus::CompileFailed,
    TaskStatus::RunFailed,
    TaskStatus::SystemError,
];

pub(crate) async fn groups(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, RequestError> {
    let page = list_page(&gateway, &caller, &uri).await?;
    let pairs = params::query_parameters(&uri)?;
    let chosen = |name: &str| {
        let mut values = pairs.iter().rev();
        let found = values.find(|(found, _)| found == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    };
    let user = chosen("user");
    // Who sees one user's groups only has nothing to choose.
    let sees_all = caller.user_to_search(None)?.is_none();
    let content = html! {
        h1 { "Groups" }
        @if sees_all { (filter(user)) }
        @if page.groups.is_empty() { (nothing(user, chosen("after"))) } @else { (table(&page.groups)) }
        @if let Some(next) = &page.next { p { a href=(next_page(user, next)) rel="next" { "Next page →" } } }
    };
    let page = HtmlPage::new(&gateway, "Groups")
        .section(Section::Groups)
        .caller(&caller);
    Ok(page.respond(&content))
}

fn next_page(user: Option<&str>, next: &GroupKey) -> String {
    let user = user.map_or_else(String::new, |user| format!("user={}&", format::encode(user)));
    let after = api::GroupCursor(next.clone()).to_string();
    format!("/groups?{user}after={}", format::encode(&after))
}

fn filter(user: Option<&str>) -> Markup {
    html! {
        form class="filters" action="/groups" method="get" {
            label class="field" { "User" input name="user" value=[user]; }
            button { "Show" }
            @if user.is_some() { a class="button" href="/groups" { "All users" } }
        }
    }
}

fn nothing(user: Option<&str>, after: Option<&str>) -> Markup {
    match (user, after) {
        (_, Some(_)) => empty_state(
            "No more groups",
            &html! { p { a href="/groups" { "The first page" } } },
        ),
        (Some(user), None) => empty_state(
            "No groups of this user",
            &html! { p { (UserText(user)) " has no tasks in a group." } },
        ),
        (None, None) => empty_state(
            "No groups yet",
            &html! {
                p { "A group is a set of tasks that is followed and counted as one, like the runs of an experiment. Give tasks "
                    "the same group when you add them, and it appears here:" }
                pre { "conclave run --group sweep-17 -- ./simulate --seed 1" }
                p { "In JSON it is " code { "\"group\": \"sweep-17\"" } "; " a href="/run" { "Run" } " has a field for it." }
            },
        ),
    }
}

fn table(groups: &[GroupState]) -> Markup {
    html! {
        table class="cards" {
            thead {
                tr {
                    th scope="col" { "Group" } th scope="col" { "User" } th scope="col" { "Done" }
                    th scope="col" class="number" { "Succeeded" } th scope="col" class="number" { "Failed" }
                    th scope="col" { "Added" } th scope="col" { "Finished" }
                }
            }
            tbody {
                @for group in groups {
                    tr {
                        th scope="row" { a href=(link(&group.key)) { (UserText(group.key.group.as_str())) } }
                        td data-label="User" { (UserText(group.key.user.as_str())) }
                        td data-label="Done" { (progress(group)) }
                        td class="number" data-label="Succeeded" { (succeeded(group)) }
                        td class="number" data-label="Failed" { (failed(group)) }
                        td class="tight" data-label="Added" { (format::time(group.add_time)) }
                        td class="tight" data-label="Finished" { @if let Some(finish) = group.finish_time() { (format::time(finish)) } }
                    }
                }
            }
        }
    }
}

/// The URL of a group's page.
pub(super) fn link(key: &GroupKey) -> String {
    link_beneath("/groups", key, "")
}

pub(super) fn link_beneath(folder: &str, key: &GroupKey, action: &str) -> String {
    let GroupKey { user, group } = key;
    let (user, group) = (format::encode(user.as_str()), format::encode(group.as_str()));
    format!("{folder}/{group}{action}?user={user}")
}

/// The tasks of a group on the page of tasks. Retried tasks are not counted, so they are not shown either.
pub(super) fn tasks_query(key: &GroupKey) -> TaskQuery {
    TaskQuery {
        user: Some(key.user.clone()),
        group: Some(key.group.clone()),
        retried: Some(false),
        ..TaskQuery::default()
    }
}

/// A number of tasks as a link to them.
fn count_link(key: &GroupKey, statuses: &[TaskStatus], count: u64) -> Markup {
    let query = TaskQuery {
        statuses: statuses.to_vec(),
        ..tasks_query(key)
    };
    html! { @if count > 0 { a href=(list::link(&query)) { (count) } } @else { "0" } }
}

pub(super) fn status_count(group: &GroupState, status: TaskStatus) -> u64 {
    group.counts.get(&status).copied().unwrap_or(0)
}

pub(super) fn failed_count(group: &GroupState) -> u64 {
    FAILED.map(|status| status_count(group, status)).iter().sum()
}

fn succeeded(group: &GroupState) -> Markup {
    let count = status_count(group, TaskStatus::Success);
    count_link(&group.key, &[TaskStatus::Success], count)
}

fn failed(group: &GroupState) -> Markup {
    count_link(&group.key, &FAILED, failed_count(group))
}

/// A bar and the same in numbers.
pub(super) fn progress(group: &GroupState) -> Markup {
    let (done, total) = (group.done(), group.total());
    html! {
        span class="progress" {
            progress value=(done) max=(total.max(1)) aria-label={ "Done: " (done) " of " (total) } {}
            span class="tight" { b { (done) } " of " (total) }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{GroupName, UnixTime, UserName};

    use super::*;

    fn key(user: &str, group: &str) -> GroupKey {
        GroupKey {
            user: UserName::new(user).unwrap(),
            group: GroupName::new(group).unwrap(),
        }
    }

    #[test]
    fn a_row_shows_the_progress_and_links_to_the_group_and_its_tasks() {
        let row = table(&[GroupState {
            key: key("ada l", "a&b?"),
            counts: [
                (TaskStatus::Success, 2),
                (TaskStatus::RunFailed, 1),
                (TaskStatus::Pending, 1),
            ]
            .into(),
            unknown: 0,
            reasons: Default::default(),
            add_time: UnixTime(0),
            last_finish: None,
        }])
        .into_string();
        for expected in [
            "<progress value=\"3\" max=\"4\" aria-label=\"Done: 3 of 4\">",
            "href=\"/groups/a%26b%3F?user=ada%20l\"",
            "a&amp;b?",
            "status=compile%5Ffailed",
        ] {
            assert!(row.contains(expected), "{expected}: {row}");
        }
    }

    #[test]
    fn the_next_page_keeps_the_user() {
        assert_eq!(next_page(None, &key("a", "g")), "/groups?after=a%2Fg");
        assert_eq!(
            next_page(Some("a b"), &key("a b", "g")),
            "/groups?user=a%20b&after=a%20b%2Fg"
        );
    }

    #[test]
    fn an_empty_list_says_what_to_do() {
        let shown = |user, after| nothing(user, after).into_string();
        assert!(shown(None, None).contains("conclave run --group"));
        assert!(shown(Some("<b>"), None).contains("&lt;b&gt;"));
        assert!(shown(Some("x"), Some("x/y")).contains("No more groups"));
    }
}
