use std::sync::Arc;
use std::time::Duration;

use api::{CancelledTasks, parse_filter};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use model::TaskQuery;
use rpc::CallError;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;

/// How long one request may change tasks. Others may add matching tasks all the time, so it could last for ever.
pub(crate) const MAX_CHANGE_TIME: Duration = Duration::from_secs(60);

/// Cancel many tasks
///
/// Cancels all tasks that meet the given conditions and are not done. At least one condition is required. It is safe to send
/// the request again: `cancelled` counts only what this request cancelled.
#[utoipa::path(
    delete,
    path = "/api/v1/tasks",
    operation_id = "cancel_tasks",
    tag = "tasks",
    params(
        ("id" = Option<Vec<api::schema::Id>>, Query, style = Form, explode = false, max_items = 1000, description = "Any of these ids, separated by commas"),
        ("id_prefix" = Option<api::schema::IdPrefix>, Query, description = "The beginning of the id, 4 to 36 characters"),
        ("user" = Option<api::schema::User>, Query, description = "The owner of the task"),
        ("status" = Option<Vec<api::schema::Status>>, Query, style = Form, explode = false, description = "Any of these statuses, separated by commas", example = json!(["pending"])),
        ("reason" = Option<Vec<api::schema::Reason>>, Query, style = Form, explode = false, description = "Any of these reasons of the last step, separated by commas"),
        ("label" = Option<Vec<api::schema::Label>>, Query, style = Form, explode = true, max_items = 16, description = "A label as `key:value`; give the parameter once for each label"),
        ("group" = Option<api::schema::GroupName>, Query, description = "The group of the task"),
        ("language" = Option<api::schema::LanguageName>, Query, description = "The language of the task"),
        ("retried" = Option<api::schema::Flag>, Query, description = "Whether another task repeats it"),
        ("executor" = Option<api::schema::ExecutorName>, Query, description = "The executor to which the task is assigned"),
        ("from" = Option<api::schema::Time>, Query, description = "Added at or after this time, RFC 3339"),
        ("until" = Option<api::schema::Time>, Query, description = "Added before this time, RFC 3339"),
        ("text" = Option<String>, Query, max_length = 1024, description = "Part of the execute command, up to 1024 characters, case-insensitive"),
    ),
    responses((status = 200, description = "How many tasks were cancelled", body = CancelledTasks)),
)]
pub(crate) async fn cancel_many(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<CancelledTasks>, RequestError> {
    let pairs = params::query_parameters(&uri)?;
    let mut query = parse_filter(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    query.user = caller.user_to_search(query.user)?;
    Ok(Json(cancel_matching(&gateway, query).await?))
}

/// Cancels all tasks that match. One call to a judicator cancels a limited number.
pub(crate) async fn cancel_matching(
    gateway: &Gateway,
    mut query: TaskQuery,
) -> Result<CancelledTasks, RequestError> {
    let began = Instant::now();
    let mut cancelled = 0;
    loop {
        let answer = gateway.calls.cancel_matching(query.clone()).await?;
        cancelled += answer.cancelled;
        query.after = answer.next;
        if query.after.is_none() {
            return Ok(CancelledTasks { cancelled });
        }
        if began.elapsed() > MAX_CHANGE_TIME {
            return Err(CallError::Busy(format!("{cancelled} tasks were cancelled, but more match")).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{UnixTime, UserName};
    use rpc::CancelledTasks as Answer;

    use super::*;
    use crate::fake_calls::{FakeCalls, gateway, task_id};

    #[tokio::test]
    async fn calls_continue_until_all_tasks_were_examined() {
        let calls = Arc::new(FakeCalls::default());
        let cursor = |time| Some(TaskQuery::default().cursor_at(UnixTime(time), task_id()));
        let answer = |cancelled, next| Answer { cancelled, next };
        calls.cancel_answers.lock().unwrap().extend([
            answer(1000, cursor(9)),
            answer(0, cursor(8)),
            answer(7, None),
            answer(1, None),
        ]);
        let (gateway, _) = gateway(calls.clone());
        let uri = Uri::from_static("/api/v1/tasks?label=a:b&status=pending");
        let ada = Caller::User(UserName::new("ada").unwrap());
        let Json(cancelled) = cancel_many(State(gateway.clone()), ada.clone(), uri)
            .await
            .unwrap();
        assert_eq!(cancelled.cancelled, 1007);
        // A caller with a token reaches their own tasks only.
        let queries = std::mem::take(&mut *calls.cancel_queries.lock().unwrap());
        // Each call continues where the one before has ended.
        let positions: Vec<_> = queries.iter().map(|query| query.after).collect();
        assert_eq!(positions, [None, cursor(9), cursor(8)]);
        assert!(
            queries
                .iter()
                .all(|query| query.user.as_ref().is_some_and(|user| user.as_str() == "ada"))
        );
        for (refused, field) in [("", "query"), ("?user=bob", "user"), ("?order=newest", "order")] {
            let uri: Uri = format!("/api/v1/tasks{refused}").parse().unwrap();
            let error = cancel_many(State(gateway.clone()), ada.clone(), uri)
                .await
                .unwrap_err();
            assert_eq!(error.problem().field.as_deref(), Some(field), "{refused}");
        }
        assert!(calls.cancel_queries.lock().unwrap().is_empty());
    }
}
