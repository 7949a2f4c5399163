//! Searches, retries, and calls about all tasks that match a search.

use futures::{StreamExt, TryStreamExt};
use model::{Page, Task, TaskCounts, TaskId, TaskQuery};
use tonic::Status;

use super::answers::{parsed_answer, parsed_task};
use super::classify::busy_if_unimplemented;
use super::{CALL_TIMEOUT, RpcClient};
use crate::wire::{
    GroupRetry, MatchingRetry, ParseMessage, encode_id, error_from_status, judicator_error, proto,
    status_from_error,
};
use crate::{CallError, CancelledTasks, ChangeStream, RetriedTasks};

pub(super) async fn search(client: &RpcClient, query: TaskQuery) -> Result<Page, CallError> {
    let request: proto::Query = query.into();
    let page = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            let is_strict = request.strict_order.is_some();
            let found = connections.calls.search(request).await;
            found.map_err(|status| busy_if_refused_as_strict(status, is_strict))
        })
        .await?;
    parsed_answer(page.parse())
}

pub(super) async fn cancel_matching(
    client: &RpcClient,
    query: TaskQuery,
) -> Result<CancelledTasks, CallError> {
    let request: proto::Query = query.into();
    let answer = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            let is_strict = request.strict_order.is_some();
            let cancelled = connections.calls.cancel_matching(request).await;
            cancelled.map_err(|status| busy_if_refused_as_strict(status, is_strict))
        })
        .await?;
    parsed_answer(answer.parse())
}

pub(super) async fn retry(client: &RpcClient, id: TaskId, new_id: TaskId) -> Result<Task, CallError> {
    let request = proto::RetryRequest {
        id: encode_id(id.0),
        new_id: encode_id(new_id.0),
    };
    let task = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            connections.calls.retry(request).await
        })
        .await?;
    parsed_task(task)
}

pub(super) async fn retry_group(client: &RpcClient, retry: GroupRetry) -> Result<RetriedTasks, CallError> {
    let request: proto::RetryGroupRequest = retry.into();
    let answer = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            connections.calls.retry_group(request).await
        })
        .await?;
    parsed_answer(answer.parse())
}

pub(super) async fn retry_matching(
    client: &RpcClient,
    retry: MatchingRetry,
) -> Result<RetriedTasks, CallError> {
    let request: proto::RetryMatchingRequest = retry.into();
    let answer = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            let retried = connections.calls.retry_matching(request).await;
            retried.map_err(busy_if_unimplemented)
        })
        .await?;
    parsed_answer(answer.parse())
}

pub(super) async fn count(client: &RpcClient, query: TaskQuery) -> Result<TaskCounts, CallError> {
    let request: proto::Query = query.into();
    let counts = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            let counts = connections.calls.count(request).await;
            counts.map_err(busy_if_unimplemented)
        })
        .await?;
    parsed_answer(counts.parse())
}

pub(super) async fn changes(client: &RpcClient) -> Result<ChangeStream, CallError> {
    let (address, ticks) = client
        .call_with_address(
            CALL_TIMEOUT,
            proto::Nothing {},
            |mut connections, request| async move {
                let ticks = connections.calls.changes(request).await;
                ticks.map_err(busy_if_unimplemented)
            },
        )
        .await?;
    let channels = client.channels.clone();
    Ok(ticks
        .map_ok(|_| ())
        .map_err(error_from_status)
        .inspect_err(move |error| channels.on_stream_failed(&address, error))
        .boxed())
}

/// For a judicator of an earlier version, which refuses the order of a query with a condition that it does not know. Another
/// one may know it.
fn busy_if_refused_as_strict(status: Status, is_strict: bool) -> Status {
    match judicator_error(&status) {
        Some(CallError::Invalid(invalid)) if is_strict && invalid.field == "order" => {
            let why = "the judicator cannot search by language yet; upgrade Conclave on its node";
            status_from_error(CallError::Busy(why.into()))
        }
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use model::InvalidField;

    use super::*;

    #[test]
    fn only_a_refused_strict_order_is_left_to_another_judicator() {
        let check = |field: &str, is_strict: bool, is_busy: bool| {
            let refused = status_from_error(InvalidField::new(field, "wrong").into());
            let error = error_from_status(busy_if_refused_as_strict(refused, is_strict));
            assert_eq!(matches!(error, CallError::Busy(_)), is_busy, "{field} {error}");
        };
        check("order", true, true);
        check("order", false, false);
        check("user", true, false);
    }
}
