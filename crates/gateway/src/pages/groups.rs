//! The list of groups, and the page of one group.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use model::{GroupKey, GroupState, TaskQuery, TaskStatus};

use super::components;
use super::format;
use super::layout::{HtmlPage, Section};
use super::list;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::groups::{group_key, list_page};
use crate::params::{GroupParameters, GroupPath};
use crate::request_error::RequestError;

/// The seconds after which the page of a group that is not done is reloaded.
const REFRESH_SECONDS: u32 = 2;

pub(crate) async fn groups(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, RequestError> {
    let page = list_page(&gateway, &caller, &uri).await?;
    let content = html! {
        h1 { "Groups" }
        @if page.groups.is_empty() { p class="dim" { "No groups." } } @else { (table(&page.groups)) }
        @if let Some(next) = &page.next {
            p { a href={ "/groups?after=" (format::encode(&api::GroupCursor(next.clone()).to_string())) } { "Next page →" } }
        }
    };
    let page = HtmlPage::new(&gateway, "Groups")
        .section(Section::Groups)
        .caller(&caller);
    Ok(page.respond(&content))
}

pub(crate) async fn group(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    GroupPath(name): GroupPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    let GroupParameters { user, .. } = GroupParameters::read(&uri, &["user"], &gateway.options)?;
    let key = group_key(&caller, user, name)?;
    let state = gateway.calls.group(key, None).await?;
    let title = format!("Group {}", state.key.group);
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Groups)
        .caller(&caller)
        .refresh_without_script((!state.is_done()).then_some(REFRESH_SECONDS));
    Ok(page.respond(&details(&state)))
}

/// The URL of a group's page.
pub(super) fn link(key: &GroupKey) -> String {
    let GroupKey { user, group } = key;
    format!(
        "/groups/{}?user={}",
        format::encode(group.as_str()),
        format::encode(user.as_str())
    )
}

fn table(groups: &[GroupState]) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead { tr { th { "Group" } th { "User" } th { "Done" } th { "Succeeded" } th { "Failed" } th { "Added" } th { "Finished" } } }
                tbody {
                    @for group in groups {
                        tr {
                            td { a href=(link(&group.key)) { (group.key.group) } }
                            td { (group.key.user) }
                            td class="tight" { (group.done()) " of " (group.total()) }
                            td { (count(group, TaskStatus::Success)) }
                            td { (failed(group)) }
                            td class="tight" { (format::time(group.add_time)) }
                            td class="tight" { @if let Some(finish) = group.finish_time() { (format::time(finish)) } }
                        }
                    }
                }
            }
        }
    }
}

fn details(state: &GroupState) -> Markup {
    let tasks = |status: Option<TaskStatus>| {
        list::link(&TaskQuery {
            user: Some(state.key.user.clone()),
            group: Some(state.key.group.clone()),
            statuses: status.into_iter().collect(),
            retried: Some(false),
            ..TaskQuery::default()
        })
    };
    let estimate = api::GroupState::from(state.clone()).estimate_seconds;
    html! {
        h1 { "Group " (state.key.group) }
        p { progress value=(state.done()) max=(state.total().max(1)) {} " " b { (state.done()) } " of " b { (state.total()) } " done" }
        dl {
            dt { "User" } dd { (state.key.user) }
            dt { "Added" } dd { (format::time(state.add_time)) }
            @if let Some(finish) = state.finish_time() { dt { "Finished" } dd { (format::time(finish)) } }
            @if let Some(Ok(left)) = estimate.map(std::time::Duration::try_from_secs_f64) {
                dt { "Time left" } dd { "about " (format::duration(left)) }
            }
        }
        div class="scroll" { table {
            thead { tr { th { "Status" } th { "Tasks" } } }
            tbody {
                @for (status, count) in state.counts.iter().filter(|(_, count)| **count > 0) {
                    tr { td { (components::status(*status, None)) } td { a href=(tasks(Some(*status))) { (count) } } }
                }
            }
        } }
        @if state.reasons.values().any(|count| *count > 0) {
            h2 { "Why tasks failed" }
            div class="scroll" { table {
                thead { tr { th { "Reason" } th { "Tasks" } } }
                tbody {
                    @for (reason, count) in state.reasons.iter().filter(|(_, count)| **count > 0) {
                        tr { td { (reason.as_str().replace('_', " ")) } td { (count) } }
                    }
                }
            } }
        }
        p { a href=(tasks(None)) { "All tasks of the group" } }
    }
}

fn count(group: &GroupState, status: TaskStatus) -> u64 {
    group.counts.get(&status).copied().unwrap_or(0)
}

fn failed(group: &GroupState) -> u64 {
    [
        TaskStatus::CompileFailed,
        TaskStatus::RunFailed,
        TaskStatus::SystemError,
    ]
    .map(|status| count(group, status))
    .iter()
    .sum()
}

#[cfg(test)]
mod tests {
    use model::{GroupName, OutcomeReason, UnixTime, UserName};

    use super::*;

    #[test]
    fn a_group_shows_its_progress_and_links_to_its_tasks() {
        let state = GroupState {
            key: GroupKey {
                user: UserName::new("ada l").unwrap(),
                group: GroupName::new("a&b?").unwrap(),
            },
            counts: [
                (TaskStatus::Success, 2),
                (TaskStatus::RunFailed, 1),
                (TaskStatus::Pending, 1),
            ]
            .into(),
            unknown: 0,
            reasons: [(OutcomeReason::TimeLimit, 1)].into(),
            add_time: UnixTime(0),
            last_finish: Some(UnixTime(30_000_000)),
        };
        assert_eq!(link(&state.key), "/groups/a%26b%3F?user=ada%20l");
        let shown = details(&state).into_string();
        for expected in [
            "<progress value=\"3\" max=\"4\">",
            "Group a&amp;b?",
            "about 10 s",
            "time limit",
            "group=a%26b%3F",
            "status=run%5Ffailed",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        let row = table(&[state]).into_string();
        assert!(
            row.contains("3 of 4") && row.contains("href=\"/groups/a%26b%3F?user=ada%20l\""),
            "{row}"
        );
    }
}
