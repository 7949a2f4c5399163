//! The start page: the tasks that match a search, how many there are by status, and what can be done with them.

mod bulk;
mod counts;
mod filters;
mod live;
mod notice;
mod rows;

use std::sync::Arc;

use api::{parse_query, query_pairs};
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use maud::{Markup, html};
use model::{Labels, Language, Page, SortOrder, TaskCounts, TaskQuery};

use self::notice::ListNotice;
use super::components;
use super::format;
use super::layout::{HtmlPage, Section};
use super::server_address::ServerAddress;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;

pub(crate) use bulk::{cancel_listed, export_listed, retry_listed};
pub(crate) use live::live_list;

/// The number of tasks on a page.
const PAGE_LENGTH: usize = 50;

/// The URL of the start page as it was asked for.
struct ListRequest {
    query: TaskQuery,
    notice: Option<ListNotice>,
    /// Whether the caller may see the tasks of any user.
    sees_all_users: bool,
    server: ServerAddress,
}

impl ListRequest {
    fn read(uri: &Uri, headers: &HeaderMap, caller: &Caller) -> Result<ListRequest, RequestError> {
        let mut pairs = params::query_parameters(uri)?;
        let mut notice = None;
        pairs.retain(|(name, value)| {
            let is_notice = name == ListNotice::PARAMETER;
            if is_notice {
                notice = value.parse().ok();
            }
            !is_notice
        });
        for (name, value) in &mut pairs {
            match name.as_str() {
                "from" | "until" => filters::complete_time(value),
                "label" => filters::complete_label(value),
                _ => {}
            }
        }
        let mut query = parse_query(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
        query.limit = query.limit.min(PAGE_LENGTH);
        query.user = caller.user_to_search(query.user)?;
        Ok(ListRequest {
            query,
            notice,
            sees_all_users: caller.user_to_search(None)?.is_none(),
            server: ServerAddress::of(caller, headers, uri),
        })
    }
}

/// What the page shows of the tasks. Other judicators and older ones may leave a part of it unknown.
struct ListContent {
    page: Page,
    counts: Option<TaskCounts>,
    stats: Option<model::Stats>,
}

impl ListContent {
    async fn read(gateway: &Gateway, query: &TaskQuery) -> Result<ListContent, RequestError> {
        let counted = TaskQuery {
            statuses: vec![],
            after: None,
            ..query.clone()
        };
        let (page, counts, stats) = tokio::join!(
            gateway.calls.search(query.clone()),
            gateway.calls.count(counted),
            gateway.calls.stats(),
        );
        Ok(ListContent {
            page: page?,
            counts: counts.ok(),
            stats: stats.ok(),
        })
    }
}

pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    let request = ListRequest::read(&uri, &headers, &caller)?;
    let (content, languages) = tokio::join!(
        ListContent::read(&gateway, &request.query),
        gateway.calls.languages(),
    );
    let content = content?;
    let languages: Vec<Language> = languages.unwrap_or_default();
    let html = html! {
        h1 { "Tasks" }
        @if let Some(notice) = &request.notice { (notice.show()) }
        (filters::form(&request, &languages))
        (filters::active(&request.query))
        div hx-ext="sse,morph" sse-connect=(live::url(&request.query)) {
            (part("counts", &counts::counts(&request.query, &content)))
            (results(&request, &content))
        }
    };
    let page = HtmlPage::new(&gateway, "Tasks")
        .section(Section::Tasks)
        .caller(&caller);
    Ok(page.respond(&html))
}

/// An element whose content the event of this name replaces.
fn part(name: &str, content: &Markup) -> Markup {
    html! { div id={ "tasks-" (name) } sse-swap=(name) hx-swap="morph:innerHTML" { (content) } }
}

fn results(request: &ListRequest, content: &ListContent) -> Markup {
    let query = &request.query;
    html! {
        form id="bulk" class="bulk" action="/tasks/cancel" method="post" data-choose="id" {
            (part("rows", &rows::rows(request, &content.page)))
            (bulk::actions(query))
        }
        (part("paging", &rows::paging(query, &content.page)))
    }
}

/// The executors and what they do.
fn statistics(stats: &model::Stats) -> Markup {
    html! {
        ul class="numbers" {
            li { b { (stats.executors) } " " (format::plural(stats.executors, "executor")) }
            li { b { (stats.held) } " of " b { (stats.slots) } " " (format::plural(stats.slots, "slot")) " in use" }
            li { b { (format!("{:.1}", stats.tasks_per_second)) } " tasks per second" }
            @if let Some(note) = stats.note() { li { (note) } }
        }
    }
}

/// Each label is a link to the tasks that have it.
pub(super) fn labels(labels: &Labels) -> Markup {
    let tasks = |key: &str, value: &str| format!("/?label={}", format::encode(&format!("{key}:{value}")));
    html! {
        @for (key, value) in labels.iter() {
            @let label = format!("{key}={value}");
            a class="tag" href=(tasks(key, value)) title=(components::attribute_text(&label)) { (components::UserText(&label)) } " "
        }
    }
}

pub(super) fn link(query: &TaskQuery) -> String {
    match parameters(query) {
        parameters if parameters.is_empty() => "/".into(),
        parameters => format!("/?{parameters}"),
    }
}

/// The search as a part of a URL, without what is usual.
fn parameters(query: &TaskQuery) -> String {
    let usual_limit = PAGE_LENGTH.to_string();
    let is_usual = |name: &str, value: &str| match name {
        "order" => value == SortOrder::default().to_string(),
        "limit" => value == usual_limit,
        _ => false,
    };
    let pairs = query_pairs(query).into_iter();
    let pairs = pairs.filter(|(name, value)| !is_usual(name, value));
    let pairs: Vec<_> = pairs
        .map(|(name, value)| format!("{name}={}", format::encode(&value)))
        .collect();
    pairs.join("&")
}
