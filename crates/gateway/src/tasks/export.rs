//! All tasks that match a search as a file, which is written while it is sent.

use std::sync::Arc;

use api::{ExportedTask, TaskExportFormat, parse_export_query};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use model::{Page, TaskQuery, TaskSummary};
use rpc::CallError;

use crate::caller::Caller;
use crate::content_disposition::attachment;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;
use crate::request_limits::counted_size;
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota};
use crate::task_json::{EncodedCaseResults, task_json};
use crate::task_loading::run_in_own_task;

/// How many tasks one call to a judicator finds.
const PAGE_TASKS: usize = 200;
/// Tasks of one export that are loaded at the same time.
const LOADS_AT_ONCE: usize = 2;

/// Export tasks
///
/// All tasks that meet the given conditions, the oldest first: each whole task as JSON on one line, or one row of CSV for each
/// task under a row with the names of the columns. Text in a cell that a spreadsheet would take for a formula begins with
/// an apostrophe. A task that is removed meanwhile is left out. If another one cannot be read, the connection is aborted.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/export",
    operation_id = "export_tasks",
    tag = "tasks",
    params(
        ("format" = Option<api::schema::ExportFormat>, Query, description = "`jsonl` (the default) or `csv`"),
        ("id" = Option<Vec<api::schema::Id>>, Query, style = Form, explode = false, max_items = 1000, description = "Any of these ids, separated by commas"),
        ("id_prefix" = Option<api::schema::IdPrefix>, Query, description = "The beginning of the id, 4 to 36 characters"),
        ("user" = Option<api::schema::User>, Query, description = "The owner of the task"),
        ("status" = Option<Vec<api::schema::Status>>, Query, style = Form, explode = false, description = "Any of these statuses, separated by commas"),
        ("reason" = Option<Vec<api::schema::Reason>>, Query, style = Form, explode = false, description = "Any of these reasons of the last step, separated by commas"),
        ("label" = Option<Vec<api::schema::Label>>, Query, style = Form, explode = true, max_items = 16, description = "A label as `key:value`; give the parameter once for each label"),
        ("group" = Option<api::schema::GroupName>, Query, description = "The group of the task"),
        ("language" = Option<api::schema::LanguageName>, Query, description = "The language of the task"),
        ("retried" = Option<api::schema::Flag>, Query, description = "Whether another task repeats it"),
        ("executor" = Option<api::schema::ExecutorName>, Query, description = "The executor to which the task is assigned"),
        ("from" = Option<api::schema::Time>, Query, description = "Added at or after this time, RFC 3339"),
        ("until" = Option<api::schema::Time>, Query, description = "Added before this time, RFC 3339"),
        ("text" = Option<String>, Query, max_length = 1024, description = "Part of the execute command, up to 1024 characters, case-insensitive"),
        ("order" = Option<api::schema::Order>, Query, description = "`oldest` (the default) or `newest` first"),
    ),
    responses((
        status = 200, description = "The file",
        content((api::schema::Bytes = "application/jsonl"), (api::schema::Bytes = "text/csv")),
    )),
)]
pub(crate) async fn export(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    method: Method,
    uri: Uri,
) -> Result<Response, RequestError> {
    let pairs = params::query_parameters(&uri)?;
    let (mut query, format) =
        parse_export_query(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    query.user = caller.user_to_search(query.user)?;
    query.limit = PAGE_TASKS;
    // An error of the search has a response of its own, and does not cut a file off.
    let first = gateway.calls.search(query.clone()).await?;
    let body = match method {
        Method::HEAD => Body::empty(),
        _ => Body::from_stream(file(
            ExportedTasks {
                gateway,
                quota,
                caller,
                query,
            },
            first,
            format,
        )),
    };
    let (name, media_type) = match format {
        TaskExportFormat::Jsonl => ("tasks.jsonl", "application/jsonl"),
        TaskExportFormat::Csv => ("tasks.csv", "text/csv; charset=utf-8; header=present"),
    };
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "private, no-cache"),
    ];
    let download = [(header::CONTENT_DISPOSITION, attachment(name))];
    Ok((headers, download, body).into_response())
}

/// The tasks of an export: what finds them, and the request that they are loaded for.
#[derive(Clone)]
struct ExportedTasks {
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    caller: Caller,
    query: TaskQuery,
}

/// The heading, and then the tasks, which are loaded while the client reads.
fn file(
    tasks: ExportedTasks,
    first: Page,
    format: TaskExportFormat,
) -> BoxStream<'static, Result<Bytes, RequestError>> {
    let heading = match format {
        TaskExportFormat::Jsonl => None,
        TaskExportFormat::Csv => Some(Ok(Bytes::from(ExportedTask::csv_heading()))),
    };
    let lines = tasks
        .clone()
        .summaries(first)
        .map_ok(move |summary| {
            let tasks = tasks.clone();
            async move { tasks.line(summary, format).await }
        })
        .try_buffered(LOADS_AT_ONCE)
        .try_filter(|line| std::future::ready(!line.is_empty()));
    stream::iter(heading).chain(lines).boxed()
}

impl ExportedTasks {
    /// All tasks that match, page by page.
    fn summaries(self, first: Page) -> BoxStream<'static, Result<TaskSummary, RequestError>> {
        let pages = stream::try_unfold((self, Some(first)), |(mut tasks, page)| async move {
            let page = match (page, tasks.query.after) {
                (Some(first), _) => first,
                (None, Some(_)) => tasks.next_page().await?,
                (None, None) => return Ok(None),
            };
            tasks.query.after = page.next;
            let summaries = stream::iter(page.tasks.into_iter().map(Ok));
            Ok::<_, RequestError>(Some((summaries, (tasks, None))))
        });
        pages.try_flatten().boxed()
    }

    /// In a task of its own, so that a client that does not read blocks no other search.
    async fn next_page(&self) -> Result<Page, RequestError> {
        let tasks = self.clone();
        let search = async move {
            let (searches, key) = (&tasks.gateway.text_searches, tasks.quota.key());
            let _turn = match tasks.query.text {
                Some(_) => Some(searches.acquire_within(QUOTA_WAIT_TIMEOUT, key, 1).await?),
                None => None,
            };
            Ok::<_, RequestError>(tasks.gateway.calls.search(tasks.query.clone()).await?)
        };
        let stopping = || CallError::Unavailable("the gateway stops; try again".into());
        run_in_own_task(search)
            .await
            .unwrap_or_else(|| Err(stopping().into()))
    }

    /// The line of one task; empty if the task was removed meanwhile.
    async fn line(&self, summary: TaskSummary, format: TaskExportFormat) -> Result<Bytes, RequestError> {
        let caller = self.caller.clone();
        let write = move |task: model::Task, results: EncodedCaseResults| {
            let task = task_json(&caller, task, &results)?;
            Ok(match format {
                TaskExportFormat::Jsonl => {
                    // Writing a task cannot fail.
                    let mut line = serde_json::to_vec(&task).unwrap_or_default();
                    line.push(b'\n');
                    line
                }
                TaskExportFormat::Csv => ExportedTask::from(task).to_csv_row().into_bytes(),
            })
        };
        let loaded = self
            .gateway
            .load_with_results_for_body(&self.quota, summary.id, write)
            .await
            .and_then(|line| line);
        match loaded {
            Ok(line) => {
                let size = counted_size(line.len() as u64);
                self.quota.set_charge_within(QUOTA_WAIT_TIMEOUT, size).await?;
                Ok(line.into())
            }
            Err(RequestError::Call(CallError::NoTask(_))) => Ok(Bytes::new()),
            Err(error) => Err(error),
        }
    }
}
