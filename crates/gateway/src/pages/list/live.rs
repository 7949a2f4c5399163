//! The parts of the start page that change while it is shown.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use model::{SortOrder, TaskId, TaskQuery};

use super::{ListContent, ListRequest, counts, parameters, rows};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::pages::live::{LiveParts, live_response, task_changes};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

pub(super) fn url(query: &TaskQuery) -> String {
    format!("/live/tasks?{}", parameters(query))
}

/// On the first page of the newest tasks, new ones appear. Other pages show the changes of the tasks that they have.
pub(crate) async fn live_list(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    let request = ListRequest::read(&uri, &headers, &caller)?;
    let ticks = task_changes(gateway.clone());
    let reader = Arc::new(ListReader {
        gateway: gateway.clone(),
        grows: request.query.order == SortOrder::Newest && request.query.after.is_none(),
        request,
        shown: Mutex::new(None),
    });
    let render = move || render_parts(reader.clone());
    let turns = gateway.loading.clone();
    Ok(live_response(gateway, quota, turns, ticks, render))
}

async fn render_parts(reader: Arc<ListReader>) -> Result<LiveParts, RequestError> {
    let content = reader.read().await?;
    let query = &reader.request.query;
    let mut parts = vec![
        ("counts", counts::counts(query, &content)),
        ("rows", rows::rows(&reader.request, &content.page)),
    ];
    if reader.grows {
        parts.push(("paging", rows::paging(query, &content.page)));
    }
    Ok(LiveParts { parts, ended: false })
}

/// Reads what one live page shows, again and again.
struct ListReader {
    gateway: Arc<Gateway>,
    request: ListRequest,
    /// Whether new tasks appear.
    grows: bool,
    /// The tasks of a page that no others join.
    shown: Mutex<Option<Vec<TaskId>>>,
}

impl ListReader {
    async fn read(&self) -> Result<ListContent, RequestError> {
        let query = &self.request.query;
        let shown = || self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = shown().clone().filter(|ids| !ids.is_empty());
        let mut content = ListContent::read(&self.gateway, query).await?;
        match ids {
            Some(ids) => {
                let same = TaskQuery {
                    ids,
                    user: query.user.clone(),
                    order: query.order,
                    limit: query.limit,
                    ..TaskQuery::default()
                };
                content.page = self.gateway.calls.search(same).await?;
            }
            None if !self.grows => {
                *shown() = Some(content.page.tasks.iter().map(|task| task.id).collect());
            }
            None => {}
        }
        Ok(content)
    }
}
