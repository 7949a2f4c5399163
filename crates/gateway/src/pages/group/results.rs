//! The results of a judged group: a table with a row for each submission and a column for each case.

mod sorting;
mod submission;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, TryStreamExt, stream};
use maud::{Markup, html};
use model::{CaseName, GroupKey, GroupName, JudgeProblem, Labels, SortOrder, TaskQuery, TaskSummary};

use self::sorting::{ResultColumn, Sorting};
use self::submission::{CaseLists, Submission};
use crate::caller::Caller;
use crate::content_disposition::attachment;
use crate::gateway::Gateway;
use crate::groups::group_key;
use crate::pages::components::{self, UserText, task_link};
use crate::pages::format;
use crate::pages::groups::{link, link_beneath, tasks_query};
use crate::pages::layout::{HtmlPage, Section};
use crate::pages::list;
use crate::pages::live::{END_EVENT, LiveParts, every, live_response};
use crate::pages::task::{case_link, mark};
use crate::params::{self, GroupPath};
use crate::quota_pool::{QuotaExceeded, QuotaPermit};
use crate::request_error::RequestError;
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota};

/// The most submissions of one table: those that were added last.
const MAX_SUBMISSIONS: usize = 500;
/// A page shows no more marks than these. A CSV file has all.
const MAX_MARKS: usize = 20_000;
const LOADS_AT_ONCE: usize = 4;
/// How many tables are read and written at one time. A table of the largest size takes some megabytes.
pub(crate) const MAX_TABLES: u64 = 4;
/// How often the table of a group that is not done is read again.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// The submissions of a group and the cases by which they were judged.
#[derive(Default)]
struct GroupResults {
    submissions: Vec<Submission>,
    /// The names of the cases of all submissions, each once.
    cases: Vec<CaseName>,
    /// Whether some submissions have no marks, because there are too many different cases.
    lacks_marks: bool,
    /// Whether the group has more tasks than were read.
    is_part: bool,
    is_done: bool,
}

pub(crate) async fn group_results(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    GroupPath(name): GroupPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    let (key, sorting) = read_parameters(&caller, name, &uri)?;
    let _turn = acquire_table_permit(&gateway, &quota).await?;
    let results = GroupResults::read(&gateway, &quota, &key).await?;
    let live = (!results.is_done).then(|| sorting.link("/live/groups", &key));
    let content = html! {
        div class="row" {
            h1 { "Results of " (UserText(key.group.as_str())) }
            a class="button" href=(link_beneath("/groups", &key, "/results.csv")) { "CSV" }
        }
        p { a href=(link(&key)) { "Back to the group" } }
        div hx-ext="sse,morph" sse-connect=[live.as_deref()] sse-close=[live.as_ref().map(|_| END_EVENT)] {
            div sse-swap="results" hx-swap="morph:innerHTML" { (results.show(&key, sorting)) }
        }
    };
    let title = format!("Results of {}", key.group);
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Groups)
        .caller(&caller);
    Ok(page.respond(&content))
}

pub(crate) async fn live_group_results(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    GroupPath(name): GroupPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    let (key, sorting) = read_parameters(&caller, name, &uri)?;
    let render = {
        let (gateway, quota) = (gateway.clone(), quota.clone());
        move || {
            let (gateway, quota, key) = (gateway.clone(), quota.clone(), key.clone());
            async move {
                let results = GroupResults::read(&gateway, &quota, &key).await?;
                Ok(LiveParts {
                    parts: vec![("results", results.show(&key, sorting))],
                    ended: results.is_done,
                })
            }
        }
    };
    let turns = gateway.tables.clone();
    Ok(live_response(gateway, quota, turns, every(READ_INTERVAL), render))
}

pub(crate) async fn group_results_csv(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    GroupPath(name): GroupPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    let (key, sorting) = read_parameters(&caller, name, &uri)?;
    let results = {
        let _turn = acquire_table_permit(&gateway, &quota).await?;
        GroupResults::read(&gateway, &quota, &key).await?
    };
    let rows = results.into_csv(sorting).map(Ok::<_, Infallible>);
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let download = [(header::CONTENT_DISPOSITION, attachment("results.csv"))];
    Ok((headers, download, Body::from_stream(stream::iter(rows))).into_response())
}

async fn acquire_table_permit(gateway: &Gateway, quota: &RequestQuota) -> Result<QuotaPermit, QuotaExceeded> {
    gateway
        .tables
        .acquire_within(QUOTA_WAIT_TIMEOUT, quota.key(), 1)
        .await
}

/// Whether the newest task of a group is judged, so that its results are worth a link.
pub(super) async fn is_judged(
    gateway: &Gateway,
    quota: &RequestQuota,
    key: &GroupKey,
) -> Result<bool, RequestError> {
    let query = TaskQuery {
        limit: 1,
        ..tasks_query(key)
    };
    let page = gateway.calls.search(query).await?;
    match page.tasks.first() {
        None => Ok(false),
        Some(task) => {
            let loaded = gateway.load_task(quota, gateway.calls.get(task.id, None)).await?;
            Ok(loaded.task.spec.judging.is_some())
        }
    }
}

fn read_parameters(caller: &Caller, name: GroupName, uri: &Uri) -> Result<(GroupKey, Sorting), RequestError> {
    let parameters = params::known_parameters(uri, &["user", "sort", "order"])?;
    let key = group_key(caller, params::user_parameter(&parameters)?, name)?;
    Ok((key, Sorting::read(&parameters)?))
}

impl GroupResults {
    async fn read(
        gateway: &Gateway,
        quota: &RequestQuota,
        key: &GroupKey,
    ) -> Result<GroupResults, RequestError> {
        // A group that does not exist has a page that says so.
        let state = gateway.calls.group(key.clone(), None).await?;
        let query = TaskQuery {
            limit: MAX_SUBMISSIONS,
            order: SortOrder::Newest,
            ..tasks_query(key)
        };
        let page = gateway.calls.search(query).await?;
        let lists = CaseLists::default();
        let submissions = stream::iter(page.tasks)
            .map(|summary| Submission::load(gateway, quota, &lists, summary))
            .buffered(LOADS_AT_ONCE);
        let submissions: Vec<_> = submissions.try_collect().await?;
        let mut results = GroupResults {
            is_part: page.next.is_some(),
            is_done: state.is_done(),
            ..GroupResults::of(submissions.into_iter().flatten())
        };
        results
            .submissions
            .sort_by_key(|submission| submission.summary.add_time);
        Ok(results)
    }

    fn of(submissions: impl IntoIterator<Item = Submission>) -> GroupResults {
        let mut results = GroupResults::default();
        let mut known = std::collections::HashSet::new();
        for submission in submissions {
            results.lacks_marks |= submission.cases.is_empty();
            // Most submissions have the same list as the one before.
            let is_same = |other: &Submission| Arc::ptr_eq(&other.cases, &submission.cases);
            if !results.submissions.last().is_some_and(is_same) {
                let new = submission
                    .cases
                    .iter()
                    .filter(|name| known.insert((*name).clone()));
                results.cases.extend(new.cloned());
            }
            results.submissions.push(submission);
        }
        results
    }

    fn show(&self, key: &GroupKey, sorting: Sorting) -> Markup {
        let mut submissions: Vec<_> = self.submissions.iter().collect();
        sorting.sort(&mut submissions);
        let most = MAX_MARKS / submissions.len().max(1);
        let cases = &self.cases[..self.cases.len().min(most)];
        html! {
            @if submissions.is_empty() {
                p class="dim" { "No task of this group is judged: its tasks have no cases." }
            } @else {
                div class="scroll" tabindex="0" role="region" aria-label="Results" {
                    table class="results" {
                        thead { tr {
                            @for column in ResultColumn::BEFORE_CASES { (sorting.heading(column, key)) }
                            @for name in cases { th scope="col" class="case-name" { (UserText(name.as_str())) } }
                            @for column in ResultColumn::AFTER_CASES { (sorting.heading(column, key)) }
                        } }
                        tbody { @for submission in &submissions { (row(submission, cases)) } }
                    }
                }
                @if cases.len() < self.cases.len() {
                    p class="dim" { "Only the first " (cases.len()) " of " (self.cases.len()) " cases are shown; the CSV file has all." }
                }
            }
            @if self.lacks_marks {
                p class="dim" { "Some submissions show no marks: the table has too many different cases." }
            }
            @if self.is_part {
                p class="dim" {
                    "Only the " (MAX_SUBMISSIONS) " tasks that were added last are shown. "
                    a href=(list::link(&tasks_query(key))) { "All tasks of the group" }
                }
            }
        }
    }

    /// The lines of a CSV file, each made when it is needed.
    fn into_csv(mut self, sorting: Sorting) -> impl Iterator<Item = String> {
        use api::csv::{exact, optional, row, user_text};
        let heading = [
            "task",
            "user",
            "labels",
            "language",
            "status",
            "verdict",
            "score",
            "max_score",
            "cpu_seconds",
            "memory_bytes",
            "added",
        ];
        let names = self.cases.iter().map(|name| user_text(name.as_str()));
        let heading = row(heading.map(exact).into_iter().chain(names));
        sorting.sort(&mut self.submissions);
        let lines = self.submissions.into_iter().map(move |submission| {
            let Submission {
                summary, judgement, ..
            } = &submission;
            let judged = judgement.as_ref();
            let labels: Vec<_> = summary
                .labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let cells = [
                exact(summary.id),
                user_text(summary.user.as_str()),
                user_text(&labels.join(" ")),
                optional(summary.language.as_ref()),
                exact(summary.status),
                optional(judged.map(|judged| judged.verdict)),
                optional(judged.map(|judged| judged.score)),
                optional(judged.map(|judged| judged.max_score)),
                optional(judged.map(|judged| judged.max_cpu.as_secs_f64())),
                optional(judged.map(|judged| judged.max_memory)),
                exact(api::format_time(summary.add_time)),
            ];
            let marks = submission
                .marks_of(&self.cases)
                .into_iter()
                .map(|mark| optional(mark.and_then(|(_, mark)| mark)));
            row(cells.into_iter().chain(marks))
        });
        [heading].into_iter().chain(lines)
    }
}

/// The labels without that of the problem, which is the same in all rows.
fn own_labels(summary: &TaskSummary) -> Labels {
    let own = summary
        .labels
        .iter()
        .filter(|(key, _)| *key != JudgeProblem::LABEL);
    let own = own
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Labels::new(own).unwrap_or_default()
}

fn row(submission: &Submission, cases: &[CaseName]) -> Markup {
    let Submission {
        summary, judgement, ..
    } = submission;
    html! {
        tr {
            th scope="row" { (task_link(summary.id)) }
            td { (list::labels(&own_labels(summary))) }
            td { @if let Some(language) = &summary.language { (language) } }
            td class="tight" {
                @match judgement {
                    Some(judged) => (components::verdict(judged.verdict)),
                    None => (components::status(summary.status, summary.reason)),
                }
            }
            td class="number" { @if let Some(judged) = judgement { (judged.score) span class="dim" { " of " (judged.max_score) } } }
            @for (name, found) in cases.iter().zip(submission.marks_of(cases)) {
                td class="case-mark" {
                    @if let Some((index, verdict)) = found { (mark(&case_link(summary.id, index), name, index, verdict)) }
                }
            }
            td class="number tight" { @if let Some(judged) = judgement { (format::duration(judged.max_cpu)) } }
            td class="number tight" { @if let Some(judged) = judgement { (format::bytes(judged.max_memory)) } }
            td class="tight" { (format::time(summary.add_time)) }
        }
    }
}

#[cfg(test)]
mod tests;
