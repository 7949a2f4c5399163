use std::sync::Arc;

use api::{Page, parse_query};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::refusal::Refusal;

/// Search for tasks
///
/// Every condition that is given must hold; an empty one is as if it were left out. Pages stay correct while tasks are
/// being added.
///
/// For each page the server looks at a bounded number of tasks. A search that no index answers, as one for a text,
/// may therefore end before the page is full: `complete` is then false, and `next` says where to go on.
#[utoipa::path(
    get,
    path = "/api/v1/tasks",
    operation_id = "search_tasks",
    tag = "tasks",
    params(
        ("id" = Option<Vec<api::schema::Id>>, Query, style = Form, explode = false, max_items = 1000, description = "Any of these ids, with commas between"),
        ("id_prefix" = Option<api::schema::IdPrefix>, Query, description = "How the id begins, 4 to 36 characters; unless a user is named, the page is then in the order of ids", example = "01890a5d-ac"),
        ("user" = Option<api::schema::User>, Query, description = "Who owns it"),
        ("status" = Option<Vec<api::schema::Status>>, Query, style = Form, explode = false, description = "Any of these statuses, with commas between", example = json!(["pending", "running"])),
        ("executor" = Option<api::schema::ExecutorName>, Query, description = "Who holds it"),
        ("from" = Option<api::schema::Time>, Query, description = "Added at or after this time, RFC 3339", example = "2026-01-31T12:00:00Z"),
        ("until" = Option<api::schema::Time>, Query, description = "Added before this time, RFC 3339"),
        ("text" = Option<String>, Query, max_length = 1024, description = "Part of a command, up to 1024 characters, whatever the case of its letters"),
        ("order" = Option<api::schema::Order>, Query, description = "`newest` (the default) or `oldest` first"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The length of the page, 1 to 1000; 100 if left out"),
        ("after" = Option<api::schema::Cursor>, Query, description = "The `next` of the page before, of the same search"),
    ),
    responses((status = 200, description = "A page of tasks", body = Page)),
)]
pub(crate) async fn search(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page>, Refusal> {
    let pairs = params::pairs(&uri)?;
    let mut query = parse_query(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    query.user = caller.searched(query.user)?;
    Ok(Json(gateway.calls.search(query).await?.into()))
}
