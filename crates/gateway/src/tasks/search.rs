use std::sync::Arc;

use api::{Page, parse_query};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;

/// Search for tasks
///
/// A task matches if it meets all given conditions; empty parameters are ignored. Pages stay consistent while tasks are
/// added.
///
/// The server examines a limited number of tasks for each page. A search without an index, like a text search, may
/// therefore end before the page is full. Then `complete` is false, and the search continues at `next`.
#[utoipa::path(
    get,
    path = "/api/v1/tasks",
    operation_id = "search_tasks",
    tag = "tasks",
    params(
        ("id" = Option<Vec<api::schema::Id>>, Query, style = Form, explode = false, max_items = 1000, description = "Any of these ids, separated by commas"),
        ("id_prefix" = Option<api::schema::IdPrefix>, Query, description = "The beginning of the id, 4 to 36 characters; if `user` is not given, tasks are sorted by id", example = "01890a5d-ac"),
        ("user" = Option<api::schema::User>, Query, description = "The owner of the task"),
        ("status" = Option<Vec<api::schema::Status>>, Query, style = Form, explode = false, description = "Any of these statuses, separated by commas", example = json!(["pending", "running"])),
        ("reason" = Option<Vec<api::schema::Reason>>, Query, style = Form, explode = false, description = "Any of these reasons of the last step, separated by commas", example = json!(["time_limit"])),
        ("label" = Option<Vec<api::schema::Label>>, Query, style = Form, explode = true, max_items = 16, description = "A label as `key:value`; give the parameter once for each label"),
        ("group" = Option<api::schema::GroupName>, Query, description = "The group of the task"),
        ("language" = Option<api::schema::LanguageName>, Query, description = "The language of the task"),
        ("retried" = Option<api::schema::Flag>, Query, description = "Whether another task repeats it"),
        ("executor" = Option<api::schema::ExecutorName>, Query, description = "The executor to which the task is assigned"),
        ("from" = Option<api::schema::Time>, Query, description = "Added at or after this time, RFC 3339", example = "2026-01-31T12:00:00Z"),
        ("until" = Option<api::schema::Time>, Query, description = "Added before this time, RFC 3339"),
        ("text" = Option<String>, Query, max_length = 1024, description = "Part of the execute command, up to 1024 characters, case-insensitive"),
        ("order" = Option<api::schema::Order>, Query, description = "`newest` (the default) or `oldest` first"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The length of the page, 1 to 1000; the default is 100"),
        ("after" = Option<api::schema::Cursor>, Query, description = "The `next` of the previous page of the same search"),
    ),
    responses((status = 200, description = "A page of tasks", body = Page)),
)]
pub(crate) async fn search(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page>, RequestError> {
    let pairs = params::query_parameters(&uri)?;
    let mut query = parse_query(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    query.user = caller.user_to_search(query.user)?;
    Ok(Json(gateway.calls.search(query).await?.into()))
}
