//! The API calls on groups of tasks. A group belongs to a user, like its tasks.

use std::sync::Arc;

use api::{CancelledTasks, GroupPage, GroupState, RetriedTasks, parse_group_query};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use axum::{Extension, Json};
use futures::StreamExt;
use model::{GroupKey, GroupName, TaskQuery, UserName};

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, GroupParameters, GroupPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::tasks;

/// List groups
///
/// Sorted by user and name.
#[utoipa::path(
    get,
    path = "/api/v1/groups",
    operation_id = "list_groups",
    tag = "groups",
    params(
        ("user" = Option<api::schema::User>, Query, description = "The owner of the groups"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The length of the page, 1 to 1000; the default is 100"),
        ("after" = Option<api::schema::GroupCursor>, Query, description = "The `next` of the previous page"),
    ),
    responses((status = 200, description = "A page of groups", body = GroupPage)),
)]
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<GroupPage>, RequestError> {
    Ok(Json(list_page(&gateway, &caller, &uri).await?.into()))
}

pub(crate) async fn list_page(
    gateway: &Gateway,
    caller: &Caller,
    uri: &Uri,
) -> Result<model::GroupPage, RequestError> {
    let pairs = params::query_parameters(uri)?;
    let mut query = parse_group_query(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    query.user = caller.user_to_search(query.user)?;
    Ok(gateway.calls.groups(query).await?)
}

/// Get a group
///
/// With `wait`, the response is sent when all tasks of the group are done or the wait is over.
#[utoipa::path(
    get,
    path = "/api/v1/groups/{group}",
    operation_id = "get_group",
    tag = "groups",
    params(
        ("group" = api::schema::GroupName, Path, description = "The group's name"),
        ("user" = Option<api::schema::User>, Query, description = "The owner of the group, if it is not the caller"),
        ("wait" = Option<api::schema::Wait>, Query, description = "The longest time to wait until all tasks are done: seconds, or text with a unit"),
    ),
    responses((status = 200, description = "The group", body = GroupState)),
)]
pub(crate) async fn get(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    GroupPath(group): GroupPath,
    uri: Uri,
) -> Result<Json<GroupState>, RequestError> {
    let GroupParameters { user, wait } = GroupParameters::read(&uri, &["user", "wait"], &gateway.options)?;
    let key = group_key(&caller, user, group)?;
    let waiting = gateway.calls.group(key.clone(), wait);
    let state = match gateway.stop.run_until_cancelled(waiting).await {
        Some(state) => state?,
        None => gateway.calls.group(key, None).await?,
    };
    Ok(Json(state.into()))
}

/// Cancel a group
///
/// Cancels all tasks of the group that are not done.
#[utoipa::path(
    delete,
    path = "/api/v1/groups/{group}",
    operation_id = "cancel_group",
    tag = "groups",
    params(
        ("group" = api::schema::GroupName, Path, description = "The group's name"),
        ("user" = Option<api::schema::User>, Query, description = "The owner of the group, if it is not the caller"),
    ),
    responses((status = 200, description = "How many tasks were cancelled", body = CancelledTasks)),
)]
pub(crate) async fn cancel(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    GroupPath(group): GroupPath,
    uri: Uri,
) -> Result<Json<CancelledTasks>, RequestError> {
    let key = key_from_uri(&gateway, &caller, group, &uri)?;
    Ok(Json(cancel_group(&gateway, key).await?))
}

pub(crate) async fn cancel_group(gateway: &Gateway, key: GroupKey) -> Result<CancelledTasks, RequestError> {
    // A wrong name is an error, not a group without tasks.
    gateway.calls.group(key.clone(), None).await?;
    let query = TaskQuery {
        user: Some(key.user),
        group: Some(key.group),
        ..TaskQuery::default()
    };
    tasks::cancel_matching(gateway, query).await
}

/// Retry what did not succeed in a group
///
/// Adds a task for each task of the group that is done, has not succeeded and was not retried yet. It is safe to send the
/// request again: a task is retried once. If there are so many tasks that the request takes too long, the response has
/// `"more": true`; the next request retries the rest. A task that cannot be read, or whose files are lost, is left out.
#[utoipa::path(
    post,
    path = "/api/v1/groups/{group}/retry",
    operation_id = "retry_group",
    tag = "groups",
    params(
        ("group" = api::schema::GroupName, Path, description = "The group's name"),
        ("user" = Option<api::schema::User>, Query, description = "The owner of the group, if it is not the caller"),
    ),
    responses((status = 200, description = "The new tasks", body = RetriedTasks)),
)]
pub(crate) async fn retry(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    GroupPath(group): GroupPath,
    uri: Uri,
) -> Result<Json<RetriedTasks>, RequestError> {
    let key = key_from_uri(&gateway, &caller, group, &uri)?;
    Ok(Json(retry_group(&gateway, &quota, key).await?))
}

pub(crate) async fn retry_group(
    gateway: &Gateway,
    quota: &RequestQuota,
    key: GroupKey,
) -> Result<RetriedTasks, RequestError> {
    let call = |continues| gateway.calls.retry_group(key.clone(), continues);
    tasks::retry_all(quota, call).await
}

/// Follow a group
///
/// Server-sent events: `event: group` with the current state of the group, then some of the later ones, a few in a second.
/// The stream ends when all tasks are done. The `data` of each is a `Group` as JSON on one line. If an error ends the stream
/// early, the last event is `event: problem`, whose `data` is a `Problem`.
#[utoipa::path(
    get,
    path = "/api/v1/groups/{group}/events",
    operation_id = "follow_group",
    tag = "groups",
    params(
        ("group" = api::schema::GroupName, Path, description = "The group's name"),
        ("user" = Option<api::schema::User>, Query, description = "The owner of the group, if it is not the caller"),
    ),
    responses((
        status = 200, description = "States of the group until all tasks are done", body = api::schema::StreamEvent,
        content_type = "text/event-stream",
    )),
)]
pub(crate) async fn events(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    GroupPath(group): GroupPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    let key = key_from_uri(&gateway, &caller, group, &uri)?;
    let states = gateway.calls.group_events(key).await?;
    let events = states
        .map(|state| match state {
            Ok(state) => tasks::sse_event("group", &GroupState::from(state)),
            Err(error) => tasks::problem_event(&error.into()),
        })
        .take_until(gateway.stop.clone().cancelled_owned());
    Ok(tasks::sse_response(events.boxed()))
}

fn key_from_uri(
    gateway: &Gateway,
    caller: &Caller,
    group: GroupName,
    uri: &Uri,
) -> Result<GroupKey, RequestError> {
    let GroupParameters { user, .. } = GroupParameters::read(uri, &["user"], &gateway.options)?;
    Ok(group_key(caller, user, group)?)
}

/// The group of the named user or of the caller.
pub(crate) fn group_key(
    caller: &Caller,
    user: Option<UserName>,
    group: GroupName,
) -> Result<GroupKey, model::InvalidField> {
    let user = caller.group_owner(user)?;
    Ok(GroupKey { user, group })
}
