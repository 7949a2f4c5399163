//! The form with the conditions of the search, and those that apply now.

use api::query_pairs;
use maud::{Markup, Render, html};
use model::{Labels, Language, OutcomeReason, SortOrder, TaskQuery, TaskStatus, UnixTime};

use super::{ListRequest, link};
use crate::pages::components::UserText;
use crate::pages::format;

/// Makes a time of a browser's control, which has no zone, one of RFC 3339 in UTC.
pub(super) fn complete_time(value: &mut String) {
    let is_clock = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let Some((_, clock)) = value.split_once('T').filter(|(_, clock)| is_clock(clock)) else {
        return;
    };
    match clock.len() {
        5 => value.push_str(":00Z"),
        8 => value.push('Z'),
        _ => {}
    }
}

/// Makes `key=value`, as pages show labels, the `key:value` of the API. A key has neither of the two characters.
pub(super) fn complete_label(value: &mut String) {
    if let Some(at) = value.find([':', '=']) {
        value.replace_range(at..=at, ":");
    }
}

/// The value of a browser's control, to the second.
fn local_time(time: UnixTime) -> String {
    api::format_time(time)
        .chars()
        .take("2026-01-31T12:00:00".len())
        .collect()
}

pub(super) fn form(request: &ListRequest, languages: &[Language]) -> Markup {
    let query = &request.query;
    let user = query.user.as_ref().map(|user| user.as_str());
    html! {
        form class="filters" action="/" method="get" {
            label class="field" { "Command contains" input type="search" name="text" value=[query.text.as_deref()] maxlength=(TaskQuery::MAX_TEXT); }
            @if request.sees_all_users { label class="field" { "User" input name="user" value=[user] autocomplete="off"; } }
            label class="field" { "Status" (status_select(&query.statuses)) }
            label class="field" { "Reason" (reason_select(&query.reasons)) }
            label class="field" {
                "Order"
                select name="order" {
                    option value="newest" { "newest first" }
                    option value="oldest" selected[query.order == SortOrder::Oldest] { "oldest first" }
                }
            }
            details class="more-filters" open[has_more(query)] {
                summary { "More filters" }
                div class="form-grid" { (more_fields(query, languages)) }
            }
            // Conditions without a control of their own stay.
            @for (name, value) in query_pairs(query).into_iter().filter(|(name, _)| is_hidden(name)) {
                input type="hidden" name=(name) value=(value);
            }
            button class="primary" { "Search" }
        }
    }
}

fn more_fields(query: &TaskQuery, languages: &[Language]) -> Markup {
    html! {
        @for (key, value) in query.labels.iter() { (label_field(Some(&format!("{key}={value}")))) }
        (label_field(None))
        label class="field" { "Group" input name="group" value=[query.group.as_ref().map(|group| group.as_str())] autocomplete="off"; }
        label class="field" {
            "Language"
            input name="language" value=[query.language.as_ref().map(|language| language.as_str())] list="languages" autocomplete="off";
        }
        datalist id="languages" { @for language in languages { option value=(language.name) { (language.title) } } }
        label class="field" {
            "Executor that holds it"
            input name="executor" value=[query.executor.as_ref().map(|executor| executor.as_str())] autocomplete="off";
        }
        (time_field("Added from", "from", query.from))
        (time_field("Added before", "until", query.until))
    }
}

fn label_field(value: Option<&str>) -> Markup {
    html! { label class="field" { "Label" input name="label" value=[value] placeholder="key=value" autocomplete="off"; } }
}

/// A script shows the time in the reader's zone, and says so.
fn time_field(title: &str, name: &str, time: Option<UnixTime>) -> Markup {
    html! {
        label class="field" {
            span { (title) " " span data-zone { "(UTC)" } }
            input type="datetime-local" step="1" name=(name) value=[time.map(local_time)] data-utc;
        }
    }
}

/// Several statuses are one choice, which the numbers above the list change.
fn status_select(chosen: &[TaskStatus]) -> Markup {
    html! {
        select name="status" {
            option value="" { "any" }
            @if let [_, _, ..] = chosen { (several(chosen.iter().map(|status| status.as_str()))) }
            @for status in TaskStatus::ALL {
                option value=(status) selected[chosen == [status]] { (format::words(status.as_str())) }
            }
        }
    }
}

fn reason_select(chosen: &[OutcomeReason]) -> Markup {
    html! {
        select name="reason" {
            option value="" { "any" }
            @if let [_, _, ..] = chosen { (several(chosen.iter().map(|reason| reason.as_str()))) }
            @for reason in OutcomeReason::ALL {
                option value=(reason) selected[chosen == [reason]] { (format::words(reason.as_str())) }
            }
        }
    }
}

fn several<'a>(names: impl Iterator<Item = &'a str>) -> Markup {
    let names: Vec<_> = names.collect();
    html! { option value=(names.join(",")) selected { (format::words(&names.join(", "))) } }
}

fn has_more(query: &TaskQuery) -> bool {
    !query.labels.is_empty()
        || query.group.is_some()
        || query.language.is_some()
        || query.executor.is_some()
        || query.from.is_some()
        || query.until.is_some()
}

fn is_hidden(name: &str) -> bool {
    matches!(name, "id" | "id_prefix" | "retried")
}

/// The conditions of the search in words, each with a link that takes it away.
pub(super) fn active(query: &TaskQuery) -> Markup {
    let conditions = conditions(query);
    html! {
        @if !conditions.is_empty() {
            ul class="chips active-filters" aria-label="Conditions" {
                @for Condition { name, value, without } in &conditions {
                    li { a href=(link(without)) { (name) ": " (value) span aria-hidden="true" { "×" } span class="visually-hidden" { ", remove" } } }
                }
            }
        }
    }
}

/// A condition of a task search for people, and the search without it.
pub(super) struct Condition {
    pub(super) name: &'static str,
    pub(super) value: Markup,
    without: TaskQuery,
}

/// The conditions that the form folds away or does not have, and the statuses.
pub(super) fn conditions(query: &TaskQuery) -> Vec<Condition> {
    let base = TaskQuery {
        after: None,
        ..query.clone()
    };
    let mut found = vec![];
    let mut add_markup = |name, value: Option<Markup>, change: &dyn Fn(&mut TaskQuery)| {
        let Some(value) = value else { return };
        let mut without = base.clone();
        change(&mut without);
        found.push(Condition { name, value, without });
    };
    let mut add = |name, value: Option<String>, change: &dyn Fn(&mut TaskQuery)| {
        let value = value.map(|value| UserText(&value).render());
        add_markup(name, value, change);
    };
    let names = |names: Vec<&str>| (!names.is_empty()).then(|| format::words(&names.join(", ")));
    let tasks = query.ids.len();
    let ids = (tasks > 0).then(|| format!("{tasks} chosen"));
    let text = |value: &Option<String>| value.clone();
    add("tasks", ids, &|query| query.ids.clear());
    add(
        "id begins with",
        query.id_prefix.as_ref().map(ToString::to_string),
        &|query| query.id_prefix = None,
    );
    add("command contains", text(&query.text), &|query| query.text = None);
    add("user", query.user.as_ref().map(ToString::to_string), &|query| {
        query.user = None
    });
    add(
        "status",
        names(query.statuses.iter().map(|status| status.as_str()).collect()),
        &|query| {
            query.statuses.clear();
        },
    );
    add(
        "reason",
        names(query.reasons.iter().map(|reason| reason.as_str()).collect()),
        &|query| {
            query.reasons.clear();
        },
    );
    for (key, value) in query.labels.iter() {
        add("label", Some(format!("{key}={value}")), &|query| {
            let mut labels = std::mem::take(&mut query.labels).into_map();
            labels.remove(key);
            query.labels = Labels::new(labels).unwrap_or_default();
        });
    }
    add("group", query.group.as_ref().map(ToString::to_string), &|query| {
        query.group = None
    });
    add(
        "language",
        query.language.as_ref().map(ToString::to_string),
        &|query| query.language = None,
    );
    let retried = |retried: bool| if retried { "yes" } else { "no" }.to_string();
    add("retried", query.retried.map(retried), &|query| {
        query.retried = None
    });
    add(
        "executor",
        query.executor.as_ref().map(ToString::to_string),
        &|query| query.executor = None,
    );
    add_markup("added from", query.from.map(format::time), &|query| {
        query.from = None
    });
    add_markup("added before", query.until.map(format::time), &|query| {
        query.until = None
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browsers_time_is_in_utc() {
        let check = |value: &str, expected: &str| {
            let mut value = value.to_string();
            complete_time(&mut value);
            assert_eq!(value, expected);
        };
        check("2026-01-31T12:00", "2026-01-31T12:00:00Z");
        check("2026-01-31T12:00:07", "2026-01-31T12:00:07Z");
        check("2026-01-31T12:00:00+01:00", "2026-01-31T12:00:00+01:00");
        check("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z");
        check("yesterday", "yesterday");
        check("", "");
        assert_eq!(local_time(UnixTime(1_769_860_807_123_456)), "2026-01-31T12:00:07");
    }

    #[test]
    fn a_label_is_written_as_pages_show_it_or_as_the_api_does() {
        let check = |value: &str, expected: &str| {
            let mut value = value.to_string();
            complete_label(&mut value);
            assert_eq!(value, expected);
        };
        check("course=algo", "course:algo");
        check("course:algo", "course:algo");
        check("course:a=b", "course:a=b");
        check("course=a:b=c", "course:a:b=c");
        check("course", "course");
        check("", "");
    }

    #[test]
    fn each_condition_has_a_link_without_it() {
        let query = TaskQuery {
            text: Some("<b>".into()),
            statuses: vec![TaskStatus::RunFailed, TaskStatus::Cancelled],
            labels: Labels::new([("a".into(), "1".into()), ("b".into(), "2".into())].into()).unwrap(),
            retried: Some(false),
            ..TaskQuery::default()
        };
        let shown = active(&query).into_string();
        for expected in [
            "command contains: <bdi>&lt;b&gt;</bdi>",
            "status: <bdi>run failed, cancelled</bdi>",
            "retried: <bdi>no</bdi>",
            "href=\"/?status=run%5Ffailed%2Ccancelled&amp;label=b%3A2&amp;retried=false&amp;text=%3Cb%3E\"",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert_eq!(active(&TaskQuery::default()).into_string(), "");
        // A script shows it in the reader's zone.
        let timed = TaskQuery {
            from: Some(UnixTime(0)),
            ..TaskQuery::default()
        };
        let shown = active(&timed).into_string();
        assert!(
            shown.contains("added from: <time datetime=\"1970-01-01T00:00:00.000000Z\""),
            "{shown}"
        );
    }
}
