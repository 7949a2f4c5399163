//! How many tasks match, by status.

use maud::{Markup, html};
use model::{TaskCounts, TaskQuery, TaskStatus};

use super::{ListContent, link, statistics};
use crate::pages::format;

/// A link for each status that switches it on and off, with the number of tasks that have it.
pub(super) fn counts(query: &TaskQuery, content: &ListContent) -> Markup {
    let counts = content.counts.as_ref();
    html! {
        nav aria-label="Tasks by status" {
            ul class="chips" {
                (chip(&with_statuses(query, vec![]), query.statuses.is_empty(), "all", counts.map(total).zip(counts)))
                @for status in TaskStatus::ALL {
                    @let tasks = counts.map(|counts| counts.counts.get(&status).copied().unwrap_or(0));
                    @let is_chosen = query.statuses.contains(&status);
                    @if is_chosen || tasks != Some(0) {
                        (chip(&toggled(query, status), is_chosen, &format::words(status.as_str()), tasks.zip(counts)))
                    }
                }
            }
        }
        @if let Some(counts) = counts {
            @if !counts.complete { p class="dim" { "Only the newest tasks are counted." } }
        } @else {
            p class="dim" { "The numbers are not known now." }
        }
        @if let Some(stats) = &content.stats { (statistics(stats)) }
    }
}

fn chip(target: &TaskQuery, is_chosen: bool, name: &str, tasks: Option<(u64, &TaskCounts)>) -> Markup {
    html! {
        li {
            a href=(link(target)) aria-current=[is_chosen.then_some("true")] {
                (name)
                @if let Some((tasks, counts)) = tasks { " " b { (in_words(tasks, counts)) } }
            }
        }
    }
}

pub(super) fn total(counts: &TaskCounts) -> u64 {
    counts.counts.values().sum()
}

/// `10,000+` if there may be more.
pub(super) fn in_words(tasks: u64, counts: &TaskCounts) -> String {
    let more = if counts.complete { "" } else { "+" };
    format!("{}{more}", format::grouped(tasks))
}

fn toggled(query: &TaskQuery, status: TaskStatus) -> TaskQuery {
    let mut statuses = query.statuses.clone();
    match statuses.contains(&status) {
        true => statuses.retain(|chosen| *chosen != status),
        false => statuses.push(status),
    }
    with_statuses(query, statuses)
}

/// The first page of the search with other statuses.
fn with_statuses(query: &TaskQuery, statuses: Vec<TaskStatus>) -> TaskQuery {
    TaskQuery {
        statuses,
        after: None,
        ..query.clone()
    }
}

#[cfg(test)]
mod tests {
    use model::Page;

    use super::*;

    fn shown(statuses: &[TaskStatus], counts: Option<TaskCounts>) -> String {
        let query = TaskQuery {
            statuses: statuses.to_vec(),
            ..TaskQuery::default()
        };
        let content = ListContent {
            page: Page::default(),
            counts,
            stats: None,
        };
        super::counts(&query, &content).into_string()
    }

    #[test]
    fn a_status_is_switched_on_and_off_by_its_number() {
        let counts = |complete| TaskCounts {
            counts: [(TaskStatus::Pending, 1234), (TaskStatus::Success, 0)].into(),
            complete,
        };
        let all = shown(&[], Some(counts(true)));
        assert!(
            all.contains(r#"<a href="/?status=pending">pending <b>1,234</b></a>"#),
            "{all}"
        );
        assert!(
            all.contains(r#"<a href="/" aria-current="true">all <b>1,234</b></a>"#),
            "{all}"
        );
        assert!(!all.contains("success"), "{all}");
        let chosen = shown(&[TaskStatus::Success], Some(counts(false)));
        assert!(
            chosen.contains(r#"<a href="/" aria-current="true">success <b>0+</b></a>"#),
            "{chosen}"
        );
        assert!(chosen.contains("status=success%2Cpending"), "{chosen}");
        assert!(
            chosen.contains("1,234+") && chosen.contains("newest tasks"),
            "{chosen}"
        );
    }

    #[test]
    fn unknown_numbers_are_left_out() {
        let unknown = shown(&[], None);
        assert!(
            unknown.contains(">cancelled</a>") && !unknown.contains("<b>"),
            "{unknown}"
        );
        assert!(unknown.contains("not known now"), "{unknown}");
    }
}
