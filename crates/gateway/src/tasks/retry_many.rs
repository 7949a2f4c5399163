use std::sync::Arc;

use api::{RetriedTasks, parse_filter};
use axum::extract::State;
use axum::http::Uri;
use axum::{Extension, Json};
use model::TaskQuery;
use rpc::{CallError, RetryProgress};
use tokio::time::Instant;

use super::cancel_many::MAX_CHANGE_TIME;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// What the id of a new task takes in the response.
const RETRIED_ID_BYTES: u64 = 64;

/// Retry many tasks
///
/// Adds a task for each task that meets the given conditions, is done, has not succeeded and was not retried yet. At least one
/// condition is required. It is safe to send the request again: a task is retried once. If there are so many tasks that the
/// request takes too long, the response has `"more": true`; the next request retries the rest. A task that cannot be read, or
/// whose files are lost, is left out.
#[utoipa::path(
    post,
    path = "/api/v1/tasks/retry",
    operation_id = "retry_tasks",
    tag = "tasks",
    params(
        ("id" = Option<Vec<api::schema::Id>>, Query, style = Form, explode = false, max_items = 1000, description = "Any of these ids, separated by commas"),
        ("id_prefix" = Option<api::schema::IdPrefix>, Query, description = "The beginning of the id, 4 to 36 characters"),
        ("user" = Option<api::schema::User>, Query, description = "The owner of the task"),
        ("status" = Option<Vec<api::schema::Status>>, Query, style = Form, explode = false, description = "Any of these statuses, separated by commas", example = json!(["run_failed"])),
        ("reason" = Option<Vec<api::schema::Reason>>, Query, style = Form, explode = false, description = "Any of these reasons of the last step, separated by commas"),
        ("label" = Option<Vec<api::schema::Label>>, Query, style = Form, explode = true, max_items = 16, description = "A label as `key:value`; give the parameter once for each label"),
        ("group" = Option<api::schema::GroupName>, Query, description = "The group of the task"),
        ("language" = Option<api::schema::LanguageName>, Query, description = "The language of the task"),
        ("retried" = Option<api::schema::Flag>, Query, description = "Whether another task repeats it; no task is retried if it is true"),
        ("executor" = Option<api::schema::ExecutorName>, Query, description = "The executor to which the task is assigned"),
        ("from" = Option<api::schema::Time>, Query, description = "Added at or after this time, RFC 3339"),
        ("until" = Option<api::schema::Time>, Query, description = "Added before this time, RFC 3339"),
        ("text" = Option<String>, Query, max_length = 1024, description = "Part of the execute command, up to 1024 characters, case-insensitive"),
    ),
    responses((status = 200, description = "The new tasks", body = RetriedTasks)),
)]
pub(crate) async fn retry_many(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<RetriedTasks>, RequestError> {
    let pairs = params::query_parameters(&uri)?;
    let mut query = parse_filter(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    query.user = caller.user_to_search(query.user)?;
    Ok(Json(retry_matching(&gateway, &quota, query).await?))
}

pub(crate) async fn retry_matching(
    gateway: &Gateway,
    quota: &RequestQuota,
    query: TaskQuery,
) -> Result<RetriedTasks, RequestError> {
    retry_all(quota, |continues| {
        gateway.calls.retry_matching(query.clone(), continues)
    })
    .await
}

/// Calls a judicator until all tasks were examined or the time is over. One call retries a limited number. Nobody else knows
/// the ids of the new tasks, so they are returned also when not all tasks could be retried.
pub(crate) async fn retry_all<F>(
    quota: &RequestQuota,
    call: impl Fn(Option<RetryProgress>) -> F,
) -> Result<RetriedTasks, RequestError>
where
    F: Future<Output = Result<rpc::RetriedTasks, CallError>>,
{
    let began = Instant::now();
    let (mut tasks, mut continues) = (Vec::new(), None);
    loop {
        let retried = match call(continues).await {
            Ok(retried) => retried,
            Err(error) if !tasks.is_empty() => {
                tracing::warn!(%error, retried = tasks.len(), "could not retry all tasks");
                return Ok(RetriedTasks { tasks, more: true });
            }
            Err(error) => return Err(error.into()),
        };
        continues = retried.next;
        let charged = quota.charge(retried.ids.len() as u64 * RETRIED_ID_BYTES);
        tasks.extend(retried.ids);
        let is_over = charged.is_err() || began.elapsed() > MAX_CHANGE_TIME;
        if continues.is_none() || is_over {
            let more = continues.is_some();
            return Ok(RetriedTasks { tasks, more });
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{TaskId, UnixTime, UserName};
    use rpc::RetriedTasks as Answer;

    use super::*;
    use crate::fake_calls::{FakeCalls, gateway};

    #[tokio::test]
    async fn a_retry_that_fails_halfway_returns_the_new_ids() {
        let id = |number| TaskId(uuid::Uuid::from_u128(number));
        let next = Some(RetryProgress {
            until: UnixTime(9),
            after: None,
        });
        let answer = |ids: &[u128], next| Answer {
            ids: ids.iter().copied().map(id).collect(),
            next,
        };
        let calls = Arc::new(FakeCalls::default());
        let (gateway, quota) = gateway(calls.clone());
        let query = TaskQuery {
            user: UserName::new("ada").ok(),
            ..TaskQuery::default()
        };
        let check = async |answers: &[Answer], expected: Option<(&[u128], bool)>| {
            let mut queue = std::mem::take(&mut *calls.retry_answers.lock().unwrap());
            queue.extend(answers.iter().cloned());
            *calls.retry_answers.lock().unwrap() = queue;
            let retried = retry_matching(&gateway, &quota, query.clone()).await.ok();
            let expected = expected.map(|(ids, more)| RetriedTasks {
                tasks: answer(ids, None).ids,
                more,
            });
            assert_eq!(retried, expected, "{answers:?}");
        };
        check(
            &[answer(&[1, 2], next), answer(&[3], None)],
            Some((&[1, 2, 3], false)),
        )
        .await;
        // The second call fails.
        check(&[answer(&[1, 2], next)], Some((&[1, 2], true))).await;
        check(&[answer(&[], next)], None).await;
    }

    #[tokio::test]
    async fn a_filter_is_required_and_a_token_reaches_only_its_own_tasks() {
        let calls = Arc::new(FakeCalls::default());
        let (gateway, quota) = gateway(calls.clone());
        let ada = Caller::User(UserName::new("ada").unwrap());
        let request = async |query: &str| {
            let uri: Uri = format!("/api/v1/tasks/retry{query}").parse().unwrap();
            retry_many(State(gateway.clone()), Extension(quota.clone()), ada.clone(), uri).await
        };
        for (refused, field) in [("", "query"), ("?user=bob", "user"), ("?order=newest", "order")] {
            let error = request(refused).await.unwrap_err();
            assert_eq!(error.problem().field.as_deref(), Some(field), "{refused}");
        }
        assert!(calls.retry_queries.lock().unwrap().is_empty());
        calls.retry_answers.lock().unwrap().push_back(Answer {
            ids: vec![],
            next: None,
        });
        let Json(retried) = request("?language=go").await.unwrap();
        assert!(retried.tasks.is_empty());
        let queries = std::mem::take(&mut *calls.retry_queries.lock().unwrap());
        assert_eq!(queries[0].user, UserName::new("ada").ok());
    }
}
