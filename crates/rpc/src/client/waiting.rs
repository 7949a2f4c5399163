//! The call that tells why a task waits. Judicators of the previous version do not have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{TaskId, TaskWait};
use tonic::Code;

use super::{CALL_TIMEOUT, RpcClient, busy_if_unimplemented, parsed_answer};
use crate::CallError;
use crate::wire::{ParseMessage, encode_id, proto};

pub(super) async fn waiting(client: &RpcClient, id: TaskId) -> Result<TaskWait, CallError> {
    let request = proto::TaskRequest {
        id: encode_id(id.0),
        ..Default::default()
    };
    let any_lacks_the_call = Arc::new(AtomicBool::new(false));
    let answer = client
        .call(CALL_TIMEOUT, request, |mut connections, request| {
            let any_lacks_the_call = any_lacks_the_call.clone();
            async move {
                let answer = connections.calls.waiting(request).await;
                answer.map_err(|status| {
                    any_lacks_the_call.fetch_or(status.code() == Code::Unimplemented, Ordering::Relaxed);
                    busy_if_unimplemented(status)
                })
            }
        })
        .await;
    match answer {
        Ok(answer) => parsed_answer(answer.parse()),
        Err(CallError::Busy(_)) if any_lacks_the_call.load(Ordering::Relaxed) => Ok(TaskWait::not_known()),
        Err(error) => Err(error),
    }
}
