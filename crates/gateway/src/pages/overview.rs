//! The overview: the present state in numbers, and the last hour or day as charts and as a table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use model::{History, HistoryPoint, HistorySpan, Stats, TaskStatus};
use rpc::CallError;

use super::components::{self, NoticeKind};
use super::format;
use super::layout::{HtmlPage, Island, Section};
use super::live::{LiveParts, every, live_response};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::nodes::span_parameter;
use crate::params::refuse_parameters;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// How often the numbers of an open page are read.
const NUMBERS_INTERVAL: Duration = Duration::from_secs(3);
/// The part of the page that is live.
const NUMBERS_PART: &str = "numbers";
/// How often a browser without scripts reloads the page, in seconds.
const RELOAD_SECONDS: u32 = 30;

/// A chart of the page. The script knows what it shows by its name.
struct ChartFrame {
    name: &'static str,
    title: &'static str,
}

const CHARTS: [ChartFrame; 5] = [
    ChartFrame {
        name: "throughput",
        title: "Tasks finished per minute",
    },
    ChartFrame {
        name: "queue",
        title: "Queue: length and age of the oldest task",
    },
    ChartFrame {
        name: "run_time",
        title: "Run time of tasks",
    },
    ChartFrame {
        name: "failures",
        title: "Failed tasks per minute, by reason",
    },
    ChartFrame {
        name: "slots",
        title: "Slots in use",
    },
];

pub(crate) async fn overview(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, RequestError> {
    let span = span_parameter(&uri)?;
    let stats = gateway.calls.stats().await?;
    let history = gateway.calls.history(span).await;
    let content = html! {
        div class="row" {
            h1 { "Overview" }
            (span_links(span))
        }
        div hx-ext="sse,morph" sse-connect="/live/overview" {
            div sse-swap=(NUMBERS_PART) hx-swap="morph:innerHTML" { (numbers(&stats)) }
        }
        (history_parts(&history, span))
    };
    let page = HtmlPage::new(&gateway, "Overview")
        .section(Section::Overview)
        .caller(&caller)
        .island(Island::Charts)
        .refresh_without_script(Some(RELOAD_SECONDS));
    Ok(page.respond(&content))
}

/// The numbers of the page as server-sent events.
pub(crate) async fn live_overview(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    uri: Uri,
) -> Result<Response, RequestError> {
    refuse_parameters(&uri)?;
    let shown = gateway.clone();
    let render = move || {
        let gateway = shown.clone();
        async move {
            let stats = gateway.calls.stats().await?;
            Ok(LiveParts {
                parts: vec![(NUMBERS_PART, numbers(&stats))],
                ended: false,
            })
        }
    };
    let turns = gateway.loading.clone();
    Ok(live_response(
        gateway,
        quota,
        turns,
        every(NUMBERS_INTERVAL),
        render,
    ))
}

fn span_links(chosen: HistorySpan) -> Markup {
    html! {
        ul class="chips" aria-label="Time" {
            @for (span, name) in [(HistorySpan::Hour, "Last hour"), (HistorySpan::Day, "Last day")] {
                li { a href={ "/overview?span=" (span) } aria-current=[(span == chosen).then_some("true")] { (name) } }
            }
        }
    }
}

/// The present state.
fn numbers(stats: &Stats) -> Markup {
    let queued = stats.queued();
    html! {
        ul class="numbers" {
            li { b { (queued) } " " (format::plural(queued, "task")) " waiting" }
            @if let Some(age) = stats.oldest_queued {
                li { "the oldest for " b { (format::duration(whole_seconds(age))) } }
            }
            li { b { (stats.held) } " running" }
            li { b { (stats.held.min(stats.slots)) } " of " b { (stats.slots) } " " (format::plural(stats.slots, "slot")) " in use" }
            li { b { (stats.executors) } " " (format::plural(stats.executors, "executor")) }
            li { b { (format!("{:.1}", stats.tasks_per_second)) } " tasks per second" }
        }
        @if let Some(note) = stats.note() { (components::notice(NoticeKind::Busy, &html! { p { (note) } })) }
    }
}

/// More precise times would change the page with each reading.
fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs())
}

/// The charts and the table. Judicators of older versions have no history, and then the page has the numbers only.
fn history_parts(history: &Result<History, CallError>, span: HistorySpan) -> Markup {
    let history = match history {
        Ok(history) => history,
        Err(error) => {
            tracing::debug!(%error, "could not read the history for a page");
            let text = html! { p { "The history is not known: no judicator could read it." } };
            return components::notice(NoticeKind::Bad, &text);
        }
    };
    let advice = html! {
        p { "Charts appear when the first tasks have run. " a href="/run" { "Run a task" } ", or add some with " code { "conclave add" } "." }
    };
    html! {
        div id="no-figures" hidden[!history.is_empty()] {
            (components::empty_state(&format!("No tasks in the last {span}"), &advice))
        }
        div class="charts needs-script" data-history={ "/api/v1/history?span=" (span) } hidden[history.is_empty()] {
            p class="chart-problem" role="status" {}
            @for ChartFrame { name, title } in &CHARTS {
                section class="card" data-chart=(name) {
                    h2 { (title) }
                    div class="chart-plot" role="img" aria-label=(title) {}
                    ul class="chart-legend" {}
                }
            }
        }
        @if !history.is_empty() { (figures_table(history)) }
    }
}

/// The figures of all periods in which something happened, the newest first.
fn figures_table(history: &History) -> Markup {
    let is_shown = |point: &&HistoryPoint| {
        point.added > 0
            || point.finished.values().any(|count| *count > 0)
            || point
                .load
                .is_some_and(|load| load.queued > 0 || load.slots_used > 0.0)
    };
    html! {
        details id="figures" open {
            summary { "The same figures as a table" }
            p class="dim" {
                "At " (format::time(history.time)) ", in periods of " (format::duration(history.span.step()))
                ". Periods in which nothing happened are left out."
            }
            table class="cards" {
                thead {
                    tr {
                        th scope="col" { "Period from" } th scope="col" class="number" { "Added" }
                        th scope="col" { "Finished" } th scope="col" { "Failures" }
                        th scope="col" { "Run time: mean, median, 95 %" } th scope="col" class="number" { "Waiting" }
                        th scope="col" { "Oldest" } th scope="col" { "Slots in use" }
                    }
                }
                tbody { @for point in history.points.iter().rev().filter(is_shown) { (figures_row(point)) } }
            }
        }
    }
}

fn figures_row(point: &HistoryPoint) -> Markup {
    let load = point.load;
    html! {
        tr {
            th scope="row" class="tight" data-label="Period from" { (format::time(point.start)) }
            td class="number" data-label="Added" { (point.added) }
            td data-label="Finished" { (named_counts(&point.finished, TaskStatus::as_str)) }
            td data-label="Failures" { (named_counts(&point.failures, model::OutcomeReason::as_str)) }
            td data-label="Run time" {
                @if let Some(run_time) = point.run_time {
                    (format::duration(run_time.mean)) ", " (format::duration(run_time.p50)) ", " (format::duration(run_time.p95))
                } @else { "–" }
            }
            td class="number" data-label="Waiting" { @if let Some(load) = load { (load.queued) } @else { "not known" } }
            td data-label="Oldest" {
                @match load {
                    Some(load) if load.queued > 0 => (format::duration(whole_seconds(load.oldest_age))),
                    _ => "–",
                }
            }
            td data-label="Slots in use" {
                @if let Some(load) = load { (format!("{:.1} of {:.1}", load.slots_used, load.slots)) } @else { "not known" }
            }
        }
    }
}

/// Counts with their names, like `3 success, 1 run failed`.
fn named_counts<K: Copy>(counts: &BTreeMap<K, u64>, name: impl Fn(K) -> &'static str) -> String {
    let named = counts.iter().filter(|(_, count)| **count > 0);
    let named: Vec<_> = named
        .map(|(key, count)| format!("{count} {}", format::words(name(*key))))
        .collect();
    match named.is_empty() {
        true => "–".to_string(),
        false => named.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use model::{HistoryMinute, OutcomeReason, PeriodLoad, RunTimeSummary};

    use super::*;

    fn history(point: HistoryPoint) -> History {
        History {
            span: HistorySpan::Hour,
            time: HistoryMinute(29_453_040).start(),
            points: vec![HistoryPoint::default(), point],
        }
    }

    #[test]
    fn the_table_has_the_figures_of_the_charts() {
        let point = HistoryPoint {
            start: HistoryMinute(29_453_040).start(),
            added: 5,
            finished: [
                (TaskStatus::Success, 3),
                (TaskStatus::RunFailed, 1),
                (TaskStatus::Cancelled, 0),
            ]
            .into(),
            failures: [(OutcomeReason::TimeLimit, 1)].into(),
            run_time: Some(RunTimeSummary {
                tasks: 4,
                mean: Duration::from_millis(1500),
                p50: Duration::from_millis(2),
                p95: Duration::from_secs(60),
            }),
            load: Some(PeriodLoad {
                queued: 7,
                oldest_age: Duration::from_micros(61_234_567),
                slots_used: 1.25,
                slots: 4.0,
                executors: 1,
            }),
        };
        let page = history_parts(&Ok(history(point)), HistorySpan::Hour).into_string();
        for expected in [
            "<td class=\"number\" data-label=\"Added\">5</td>",
            ">3 success, 1 run failed</td>",
            ">1 time limit</td>",
            ">1.50 s, 2.0 ms, 60 s</td>",
            ">7</td>",
            ">61 s</td>",
            ">1.2 of 4.0</td>",
            "data-history=\"/api/v1/history?span=hour\"",
            "id=\"no-figures\" hidden",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        assert_eq!(page.matches("<th scope=\"row\"").count(), 1, "{page}");
        for ChartFrame { name, .. } in CHARTS {
            assert!(page.contains(&format!("data-chart=\"{name}\"")), "{page}");
        }
    }

    #[test]
    fn without_figures_the_page_says_what_to_do() {
        let empty = history(HistoryPoint::default());
        let page = history_parts(&Ok(empty), HistorySpan::Hour).into_string();
        assert!(
            page.contains("<div id=\"no-figures\"><div class=\"empty\">"),
            "{page}"
        );
        assert!(
            page.contains("href=\"/run\"") && !page.contains("<table"),
            "{page}"
        );
        let unknown = Err(CallError::Unavailable("old".into()));
        let page = history_parts(&unknown, HistorySpan::Day).into_string();
        assert!(page.contains("The history is not known"), "{page}");
    }

    #[test]
    fn the_numbers_are_those_of_the_moment() {
        let stats = |oldest_queued| Stats {
            counts: [(TaskStatus::Pending, 9), (TaskStatus::Success, 100)].into(),
            executors: 1,
            slots: 4,
            held: 2,
            tasks_per_second: 1.26,
            window: Duration::from_secs(10),
            oldest_queued,
        };
        let shown = numbers(&stats(Some(Duration::from_millis(3725)))).into_string();
        for expected in [
            "<b>7</b> tasks waiting",
            "the oldest for <b>3 s</b>",
            "<b>2</b> of <b>4</b> slots",
            "<b>1.3</b> tasks per second",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert!(!numbers(&stats(None)).into_string().contains("oldest"));
    }
}
