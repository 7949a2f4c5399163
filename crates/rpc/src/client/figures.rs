//! The calls for figures of the whole system.

use model::{History, HistorySpan, Stats};

use super::answers::parsed_answer;
use super::classify::busy_if_unimplemented;
use super::{CALL_TIMEOUT, RpcClient};
use crate::CallError;
use crate::wire::{ParseMessage, proto};

pub(super) async fn stats(client: &RpcClient) -> Result<Stats, CallError> {
    let answer = client
        .call(
            CALL_TIMEOUT,
            proto::Nothing {},
            |mut connections, request| async move { connections.calls.stats(request).await },
        )
        .await?;
    parsed_answer(answer.parse())
}

/// A judicator of an older version keeps no history, so the next one is asked.
pub(super) async fn history(client: &RpcClient, span: HistorySpan) -> Result<History, CallError> {
    let request: proto::HistoryRequest = span.into();
    let answer = client
        .call(CALL_TIMEOUT, request, |mut connections, request| async move {
            let answer = connections.calls.history(request).await;
            answer.map_err(busy_if_unimplemented)
        })
        .await?;
    parsed_answer(answer.parse())
}
