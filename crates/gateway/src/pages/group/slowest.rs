//! The tasks of a group that ran longest.

use std::time::Duration;

use maud::{Markup, html};
use model::{GroupKey, TaskQuery, TaskStatus, TaskSummary};

use super::super::components::{self, UserText};
use super::super::format;
use super::super::groups::tasks_query;
use crate::gateway::Gateway;
use crate::request_error::RequestError;

/// The slowest tasks are searched among so many.
const SLOWEST_READ: usize = 500;
const SLOWEST_SHOWN: usize = 5;

/// The tasks of a group that ran longest, among the newest ones.
#[derive(Default)]
pub(super) struct Slowest {
    tasks: Vec<(Duration, TaskSummary)>,
    /// Whether not all tasks of the group that have run were compared.
    of_newest: bool,
}

impl Slowest {
    pub(super) async fn read(gateway: &Gateway, key: &GroupKey) -> Result<Slowest, RequestError> {
        let query = TaskQuery {
            statuses: vec![
                TaskStatus::Success,
                TaskStatus::RunFailed,
                TaskStatus::CompileFailed,
            ],
            limit: SLOWEST_READ,
            ..tasks_query(key)
        };
        let page = gateway.calls.search(query).await?;
        Ok(Slowest::of(page))
    }

    fn of(page: model::Page) -> Slowest {
        let took = |task: &TaskSummary| Some(task.finish_time?.since(task.start_time?));
        let mut tasks: Vec<_> = page
            .tasks
            .into_iter()
            .filter_map(|task| Some((took(&task)?, task)))
            .collect();
        tasks.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
        tasks.truncate(SLOWEST_SHOWN);
        Slowest {
            tasks,
            of_newest: page.next.is_some(),
        }
    }

    pub(super) fn show(&self, key: &GroupKey) -> Markup {
        let Some((longest, _)) = self.tasks.first() else {
            return html! {};
        };
        html! {
            h2 { "Slowest tasks" }
            @if self.of_newest { p class="dim" { "Of the " (SLOWEST_READ) " tasks that were added last." } }
            table class="cards" {
                caption class="visually-hidden" { "Slowest tasks of the group " (UserText(key.group.as_str())) }
                thead {
                    tr {
                        th scope="col" { "Task" } th scope="col" { "Status" } th scope="col" { "Command" }
                        th scope="col" { "Ran for" }
                    }
                }
                tbody {
                    @for (took, task) in &self.tasks {
                        tr {
                            th scope="row" { (components::task_link(task.id)) }
                            td data-label="Status" { (components::status(task.status, task.reason)) }
                            td class="command" data-label="Command" { code { (UserText(&task.command)) } }
                            td class="tight" data-label="Ran for" {
                                (format::duration(*took))
                                " " meter value=(took.as_secs_f64()) max=(longest.as_secs_f64().max(f64::MIN_POSITIVE)) aria-hidden="true" {}
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{AttemptNumber, GroupName, Labels, Page, TaskId, UnixTime, UserName};

    use super::*;

    fn key() -> GroupKey {
        GroupKey {
            user: UserName::new("ada").unwrap(),
            group: GroupName::new("sweep").unwrap(),
        }
    }

    fn summary_of(id: u128, ran: Option<u64>) -> TaskSummary {
        let start_time = Some(UnixTime(1));
        TaskSummary {
            id: TaskId(uuid::Uuid::from_u128(id)),
            user: key().user,
            priority: 0,
            command: "<b>".into(),
            status: TaskStatus::Success,
            reason: None,
            labels: Labels::default(),
            group: Some(key().group),
            language: None,
            executor: None,
            attempt: AttemptNumber(1),
            add_time: UnixTime(0),
            start_time,
            finish_time: ran.map(|seconds| UnixTime(1).plus(Duration::from_secs(seconds))),
        }
    }

    #[test]
    fn the_slowest_tasks_are_shown_first() {
        let tasks = (1..=7)
            .map(|n| summary_of(n.into(), Some(n)))
            .chain([summary_of(8, None)]);
        let mut page = Page {
            tasks: tasks.collect(),
            next: None,
            complete: true,
        };
        let slowest = Slowest::of(page.clone());
        let seconds: Vec<_> = slowest.tasks.iter().map(|(took, _)| took.as_secs()).collect();
        assert_eq!(seconds, [7, 6, 5, 4, 3]);
        let shown = slowest.show(&key()).into_string();
        assert!(shown.contains("7 s") && shown.contains("&lt;b&gt;"), "{shown}");
        assert!(!shown.contains("added last"), "{shown}");
        page.next = Some(model::SearchCursor {
            add_time: UnixTime(0),
            id: TaskId(uuid::Uuid::from_u128(1)),
            fingerprint: 0,
        });
        assert!(
            Slowest::of(page)
                .show(&key())
                .into_string()
                .contains("Of the 500 tasks")
        );
    }
}
