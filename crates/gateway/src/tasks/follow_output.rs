//! One output stream of a task as bytes, while its step writes it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::{self, StreamExt};
use model::{AttemptNumber, CapturedOutput, OutputEvent, OutputPosition, Task, TaskId, TaskStatus};
use rpc::{ByteStream, CallError, TaskEvent};

use super::get::MAX_JUDICATOR_LAG;
use super::kept_bytes::output_bytes;
use super::output::output_of;
use super::task_follower::{FollowedEvent, TaskFollower};
use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// The bytes of an output stream from a position on, until its step ends. The stream fails if the attempt is lost, which
/// aborts the connection: the client must not take the output of a lost attempt for the whole.
pub(super) fn follow_output(
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    id: TaskId,
    from: OutputPosition,
) -> impl Stream<Item = Result<Bytes, RequestError>> + Send + 'static {
    let follower = TaskFollower::new(gateway.clone(), quota.clone(), id, None, [from]);
    let state = FollowedOutput {
        gateway,
        quota,
        id,
        position: from,
        attempt: None,
        source: OutputFrom::Executor(Box::new(follower)),
    };
    stream::try_unfold(state, |mut state| async move {
        Ok(state.next().await?.map(|bytes| (bytes, state)))
    })
}

/// An output stream of a task that one client follows.
struct FollowedOutput {
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    id: TaskId,
    position: OutputPosition,
    /// The attempt whose bytes were sent.
    attempt: Option<AttemptNumber>,
    source: OutputFrom,
}

/// Where the next bytes of a followed output come from.
enum OutputFrom {
    Executor(Box<TaskFollower>),
    /// The task is done; these are the remaining bytes of its result.
    Result(ByteStream),
}

impl FollowedOutput {
    async fn next(&mut self) -> Result<Option<Bytes>, RequestError> {
        loop {
            let follower = match &mut self.source {
                OutputFrom::Executor(follower) => follower,
                OutputFrom::Result(bytes) => return Ok(bytes.next().await.transpose()?),
            };
            match follower.next().await? {
                FollowedEvent::Output(OutputEvent::Written { attempt, bytes, .. }) => {
                    self.check_attempt(attempt)?;
                    self.attempt = Some(attempt);
                    self.position.offset += bytes.len() as u64;
                    return Ok(Some(bytes));
                }
                FollowedEvent::Output(OutputEvent::StreamEnded { attempt, source, .. }) => {
                    self.check_attempt(attempt)?;
                    if source == self.position.source {
                        return Ok(None);
                    }
                }
                FollowedEvent::Status(event) if event.status.is_done() => {
                    match self.rest_of_result(&event).await? {
                        Some(rest) => self.source = OutputFrom::Result(rest),
                        None => return Ok(None),
                    }
                }
                FollowedEvent::Status(event)
                    if event.status == TaskStatus::Retrying && self.position.offset > 0 =>
                {
                    if self.is_attempt_lost().await? {
                        return Err(self.lost());
                    }
                }
                FollowedEvent::Status(_) => {}
            }
        }
    }

    /// What the result has beyond the position. `None` if it has no such output.
    async fn rest_of_result(&mut self, event: &TaskEvent) -> Result<Option<ByteStream>, RequestError> {
        let source = self.position.source;
        let extract = move |task: &Task| {
            let result = task.result.as_ref();
            let output = result.map(|result| output_of(result, source).map(without_message));
            (task.attempt, output)
        };
        let which = (self.id, MAX_JUDICATOR_LAG);
        let (attempt, output) = self.gateway.load_for_body(&self.quota, which, extract).await?;
        let Some(output) = output else {
            return match event.status {
                // The last attempt was lost, and there will be no other.
                TaskStatus::SystemError if self.position.offset > 0 => Err(self.lost()),
                _ => Ok(None),
            };
        };
        self.check_attempt(attempt)?;
        let Some(output) = output else {
            return Ok(None);
        };
        let rest = self.position.offset.min(output.size)..output.size;
        Ok(Some(output_bytes(&self.gateway.calls, &output, rest).await?))
    }

    /// Whether the client's bytes came from an attempt that has ended. The task is retrying until the next attempt has reported
    /// its first step, so the status event may be behind the bytes of that attempt.
    async fn is_attempt_lost(&mut self) -> Result<bool, RequestError> {
        let sent = self.attempt;
        let extract = move |task: &Task| match sent {
            Some(sent) if sent != task.attempt => sent < task.attempt,
            _ => task.executor.is_none(),
        };
        let which = (self.id, Duration::ZERO);
        self.gateway.load_for_body(&self.quota, which, extract).await
    }

    fn check_attempt(&self, attempt: AttemptNumber) -> Result<(), RequestError> {
        match self.attempt {
            Some(sent) if sent != attempt => Err(self.lost()),
            _ => Ok(()),
        }
    }

    fn lost(&self) -> RequestError {
        CallError::Unavailable(format!(
            "an attempt of task {} was lost; its output begins again",
            self.id
        ))
        .into()
    }
}

/// A copy, because the bytes may be a slice of an RPC message with the whole task.
fn without_message(output: &CapturedOutput) -> CapturedOutput {
    CapturedOutput {
        head: Bytes::copy_from_slice(&output.head),
        ..output.clone()
    }
}

#[cfg(test)]
mod tests;
