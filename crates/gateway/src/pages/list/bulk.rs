//! Cancels, retries and exports many tasks of the list: those that were chosen, or all that match.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use model::{InvalidField, TaskId, TaskQuery, TaskStatus};

use super::counts::{in_words, total};
use super::filters::conditions;
use super::{ListNotice, ListRequest, link, parameters};
use crate::body::read_form;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::pages::format;
use crate::pages::layout::{HtmlPage, Section};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::tasks::{cancel_matching, retry_matching};

/// Enough for the ids of the most tasks that one search may name.
const MAX_FORM_BYTES: u64 = 64 << 10;

/// The buttons under the list. The search is in the URLs, because a form that sends its fields in the URL replaces that part.
pub(super) fn actions(query: &TaskQuery) -> Markup {
    let search = parameters(query);
    let everything = TaskQuery {
        after: None,
        limit: 0,
        ..query.clone()
    };
    let everything = parameters(&everything);
    html! {
        div class="bulk-actions" {
            // Enter in a checkbox presses the first button of its form that is enabled. This one would close a dialog, and there
            // is none.
            button formmethod="dialog" hidden {}
            fieldset {
                legend { "Chosen tasks " span data-chosen aria-live="polite" {} }
                button class="danger" formaction={ "/tasks/cancel?" (search) } { "Cancel" }
                button formaction={ "/tasks/retry?" (search) } { "Retry" }
                button formaction={ "/tasks/export?" (search) } name="format" value="csv" { "Export CSV" }
                button formaction={ "/tasks/export?" (search) } name="format" value="jsonl" { "Export JSON Lines" }
            }
            fieldset {
                legend { "All that match" }
                button class="danger" formaction={ "/tasks/cancel?" (search) } name="all" value="true" { "Cancel all…" }
                button formaction={ "/tasks/retry?" (search) } name="all" value="true" { "Retry all…" }
                a class="button" href={ "/api/v1/tasks/export?format=csv&" (everything) } { "Export all as CSV" }
                a class="button" href={ "/api/v1/tasks/export?format=jsonl&" (everything) } { "Export all as JSON Lines" }
            }
        }
    }
}

/// What a button does to many tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BulkAction {
    Cancel,
    Retry,
}

impl BulkAction {
    fn verb(self) -> &'static str {
        match self {
            BulkAction::Cancel => "Cancel",
            BulkAction::Retry => "Retry",
        }
    }

    fn url(self) -> &'static str {
        match self {
            BulkAction::Cancel => "/tasks/cancel",
            BulkAction::Retry => "/tasks/retry",
        }
    }

    /// Whether the action changes tasks with this status.
    fn concerns(self, status: TaskStatus) -> bool {
        match self {
            BulkAction::Cancel => !status.is_done(),
            BulkAction::Retry => status.is_done() && status != TaskStatus::Success,
        }
    }

    /// All tasks that match the list's search and that the action changes. `None` if no task can be both.
    fn query(self, listed: &TaskQuery) -> Option<TaskQuery> {
        let is_listed = |status: &TaskStatus| listed.statuses.is_empty() || listed.statuses.contains(status);
        let all = TaskStatus::ALL.into_iter();
        let statuses: Vec<_> = all
            .filter(|status| self.concerns(*status))
            .filter(is_listed)
            .collect();
        let retried = match self {
            BulkAction::Cancel => listed.retried,
            BulkAction::Retry => Some(false),
        };
        (!statuses.is_empty()).then(|| TaskQuery {
            statuses,
            retried,
            after: None,
            limit: 0,
            ..listed.clone()
        })
    }
}

/// The content of the list's form.
#[derive(Debug, Default, PartialEq, Eq)]
struct BulkForm {
    ids: Vec<TaskId>,
    all: bool,
    confirmed: bool,
    format: String,
}

impl BulkForm {
    fn parse(pairs: Vec<(String, String)>) -> Result<BulkForm, InvalidField> {
        let mut form = BulkForm::default();
        for (name, value) in pairs {
            match name.as_str() {
                "id" => {
                    let id = value.parse::<TaskId>();
                    form.ids
                        .push(id.map_err(|error| InvalidField::new("id", format!("'{value}' {error}")))?);
                }
                "all" => form.all = value == "true",
                "confirmed" => form.confirmed = value == "true",
                "format" => form.format = value,
                _ => return Err(InvalidField::new(name, "is not a field of this form")),
            }
        }
        Ok(form)
    }
}

pub(crate) async fn cancel_listed(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    request: Request,
) -> Result<Response, RequestError> {
    change_listed(&gateway, &quota, &caller, BulkAction::Cancel, request).await
}

pub(crate) async fn retry_listed(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    request: Request,
) -> Result<Response, RequestError> {
    change_listed(&gateway, &quota, &caller, BulkAction::Retry, request).await
}

/// `cross_site` has checked that the request comes from a page of this server.
async fn change_listed(
    gateway: &Gateway,
    quota: &RequestQuota,
    caller: &Caller,
    action: BulkAction,
    request: Request,
) -> Result<Response, RequestError> {
    let listed = ListRequest::read(request.uri(), request.headers(), caller)?.query;
    let form = BulkForm::parse(read_form(request, MAX_FORM_BYTES).await?)?;
    let query = match (form.all, form.confirmed) {
        (true, false) => return confirmation(gateway, caller, action, &listed).await,
        (true, true) => action.query(&listed),
        (false, _) if form.ids.is_empty() => return Ok(back(&listed, ListNotice::NothingChosen)),
        (false, _) => Some(TaskQuery {
            ids: form.ids,
            user: caller.user_to_search(None)?,
            ..TaskQuery::default()
        }),
    };
    let notice = match (action, query) {
        (BulkAction::Cancel, Some(query)) => {
            ListNotice::Cancelled(cancel_matching(gateway, query).await?.cancelled)
        }
        (BulkAction::Retry, Some(query)) => {
            let retried = retry_matching(gateway, quota, query).await?;
            ListNotice::Retried {
                tasks: retried.tasks.len() as u64,
                more: retried.more,
            }
        }
        (BulkAction::Cancel, None) => ListNotice::Cancelled(0),
        (BulkAction::Retry, None) => ListNotice::Retried {
            tasks: 0,
            more: false,
        },
    };
    Ok(back(&listed, notice))
}

/// The download of the chosen tasks, for a form that works without a script.
pub(crate) async fn export_listed(caller: Caller, request: Request) -> Result<Response, RequestError> {
    let listed = ListRequest::read(request.uri(), request.headers(), &caller)?.query;
    let form = BulkForm::parse(read_form(request, MAX_FORM_BYTES).await?)?;
    if form.ids.is_empty() {
        return Ok(back(&listed, ListNotice::NothingChosen));
    }
    let ids: Vec<_> = form.ids.iter().map(ToString::to_string).collect();
    let format = format::encode(&form.format);
    let url = format!("/api/v1/tasks/export?format={format}&id={}", ids.join(","));
    Ok(Redirect::to(&url).into_response())
}

/// The list again, with what was done.
fn back(listed: &TaskQuery, notice: ListNotice) -> Response {
    let list = link(listed);
    let separator = if list.contains('?') { '&' } else { '?' };
    let url = format!("{list}{separator}{}={notice}", ListNotice::PARAMETER);
    Redirect::to(&url).into_response()
}

/// Asks before it changes all tasks that match, with their number.
async fn confirmation(
    gateway: &Gateway,
    caller: &Caller,
    action: BulkAction,
    listed: &TaskQuery,
) -> Result<Response, RequestError> {
    let query = action.query(listed);
    let counts = match &query {
        Some(query) => gateway.calls.count(query.clone()).await.ok(),
        None => None,
    };
    let number = match (&query, &counts) {
        (Some(_), Some(counts)) => Some(in_words(total(counts), counts)),
        (Some(_), None) => None,
        (None, _) => Some("0".into()),
    };
    let is_empty = number.as_deref() == Some("0");
    let tasks = match number.as_deref() {
        Some("1") => "1 task".to_string(),
        Some(number) => format!("{number} tasks"),
        None => "all matching tasks".into(),
    };
    let what = match action {
        BulkAction::Cancel => "Tasks that are not done end as cancelled. That cannot be undone.",
        BulkAction::Retry => {
            "Each task that is done without success and was not retried yet is added again with the same content."
        }
    };
    let conditions = conditions(query.as_ref().unwrap_or(listed));
    let html = html! {
        h1 { (action.verb()) " " (tasks) @if !is_empty { "?" } }
        @if is_empty { p { "No matching task can be changed in this way." } } @else { p { (what) } }
        dl { @for condition in &conditions { dt { (condition.name) } dd { (condition.value) } } }
        form class="row" action={ (action.url()) "?" (parameters(listed)) } method="post" {
            @if !is_empty {
                input type="hidden" name="all" value="true";
                input type="hidden" name="confirmed" value="true";
                button class=[(action == BulkAction::Cancel).then_some("danger")] { (action.verb()) " " (tasks) }
            }
            a class="button" href=(link(listed)) { "Go back" }
        }
    };
    let page = HtmlPage::new(gateway, action.verb())
        .section(Section::Tasks)
        .caller(caller);
    Ok(page.respond(&html))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_match_are_only_those_that_can_be_changed() {
        use TaskStatus::*;
        let check = |action: BulkAction, listed: &[TaskStatus], expected: Option<&[TaskStatus]>| {
            let listed = TaskQuery {
                statuses: listed.to_vec(),
                ..TaskQuery::default()
            };
            let statuses = action.query(&listed).map(|query| query.statuses);
            assert_eq!(statuses.as_deref(), expected, "{action:?} {listed:?}");
        };
        let cancel = BulkAction::Cancel;
        check(cancel, &[], Some(&[Pending, Compiling, Running, Retrying]));
        check(cancel, &[Success, Running], Some(&[Running]));
        check(cancel, &[Success], None);
        let retry = BulkAction::Retry;
        check(
            retry,
            &[],
            Some(&[CompileFailed, RunFailed, Cancelled, SystemError]),
        );
        check(retry, &[Pending, Success], None);
    }

    #[test]
    fn the_form_is_read() {
        let pairs = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect()
        };
        let id = TaskId(uuid::Uuid::now_v7());
        let form = BulkForm::parse(pairs(&[("id", &id.to_string()), ("all", "true")])).unwrap();
        assert_eq!((form.ids, form.all, form.confirmed), (vec![id], true, false));
        assert_eq!(BulkForm::parse(pairs(&[("id", "x")])).unwrap_err().field, "id");
        assert_eq!(BulkForm::parse(pairs(&[("ids", "x")])).unwrap_err().field, "ids");
    }
}
