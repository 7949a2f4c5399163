//! Follows a task: its statuses and its output, through restarts of judicators.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use futures::future::{FutureExt, TryFutureExt};
use futures::stream::{BoxStream, StreamExt};
use model::{AttemptNumber, FollowRequest, OutputEvent, OutputPosition, OutputSource, TaskId};
use rpc::{CallError, EventStream, OutputEventStream, TaskEvent};
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::run_in_own_task;

/// The pauses before an interrupted stream is opened again: they grow while it fails.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How long no judicator may answer before a follower gives up. Longer than the restart of a cluster's judicators.
const MAX_OUTAGE: Duration = Duration::from_secs(60);

/// Follows the statuses and the output of a task for one client. When a judicator stops, it continues at the next one.
///
/// It holds one event at a time: a client that does not read is not waited for with bytes in memory.
pub(super) struct TaskFollower {
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    id: TaskId,
    statuses: ReopenedStream<EventStream>,
    last_status: Option<TaskEvent>,
    output: ReopenedStream<OutputEventStream>,
    /// The attempt to which the positions belong. `None` until the first byte.
    attempt: Option<AttemptNumber>,
    positions: BTreeMap<OutputSource, u64>,
}

/// What a follower of a task learns.
#[derive(Debug)]
pub(super) enum FollowedEvent {
    Status(TaskEvent),
    /// Within an attempt the bytes of each stream are contiguous. Another attempt begins again at offset 0.
    Output(OutputEvent),
}

/// A stream from a judicator that is opened again when it ends or fails, after a pause.
struct ReopenedStream<S> {
    stream: S,
    pause: Duration,
    /// Since when it has failed without an item in between.
    failing_since: Option<Instant>,
}

impl<S> ReopenedStream<S> {
    fn new(stream: S) -> ReopenedStream<S> {
        ReopenedStream {
            stream,
            pause: FIRST_PAUSE,
            failing_since: None,
        }
    }

    fn on_item(&mut self) {
        self.pause = FIRST_PAUSE;
        self.failing_since = None;
    }

    /// Returns the pause before the stream is opened again.
    fn on_end(&mut self) -> Duration {
        self.failing_since.get_or_insert_with(Instant::now);
        let pause = self.pause;
        self.pause = (pause * 2).min(MAX_PAUSE);
        pause
    }

    fn has_failed_too_long(&self) -> bool {
        self.failing_since
            .is_some_and(|since| since.elapsed() > MAX_OUTAGE)
    }
}

impl TaskFollower {
    /// The positions belong to the attempt, or to the first one of which there is output.
    pub(super) fn new(
        gateway: Arc<Gateway>,
        quota: RequestQuota,
        id: TaskId,
        attempt: Option<AttemptNumber>,
        positions: impl IntoIterator<Item = OutputPosition>,
    ) -> TaskFollower {
        let positions: BTreeMap<_, _> = positions.into_iter().map(|at| (at.source, at.offset)).collect();
        TaskFollower {
            statuses: ReopenedStream::new(open_statuses(&gateway, &quota, id, Duration::ZERO)),
            output: ReopenedStream::new(open_output(&gateway, id, attempt, &positions, Duration::ZERO)),
            last_status: None,
            attempt,
            positions,
            gateway,
            quota,
            id,
        }
    }

    /// The next event. Nothing is lost if the future is dropped. Fails if the task does not exist, if no judicator has
    /// answered for a minute, or if the gateway stops.
    pub(super) async fn next(&mut self) -> Result<FollowedEvent, RequestError> {
        let stop = self.gateway.stop.clone();
        let next = stop.run_until_cancelled(self.next_until_stop()).await;
        next.unwrap_or_else(|| Err(CallError::Unavailable("the gateway stops; try again".into()).into()))
    }

    async fn next_until_stop(&mut self) -> Result<FollowedEvent, RequestError> {
        loop {
            tokio::select! {
                status = self.statuses.stream.next() => {
                    if let Some(event) = self.on_status(status)? {
                        return Ok(FollowedEvent::Status(event));
                    }
                }
                output = self.output.stream.next() => {
                    if let Some(event) = self.on_output(output) {
                        return Ok(FollowedEvent::Output(event));
                    }
                }
            }
        }
    }

    fn on_status(
        &mut self,
        item: Option<Result<TaskEvent, CallError>>,
    ) -> Result<Option<TaskEvent>, CallError> {
        match item {
            Some(Ok(event)) => {
                self.statuses.on_item();
                // A stream that was opened again begins with the current status.
                let is_new = self.last_status.as_ref() != Some(&event);
                self.last_status = Some(event.clone());
                return Ok(is_new.then_some(event));
            }
            Some(Err(error)) if !error.is_transient() || self.statuses.has_failed_too_long() => {
                return Err(error);
            }
            None if self.statuses.has_failed_too_long() => {
                return Err(CallError::Unavailable("every judicator ends its events".into()));
            }
            // A judicator that stops ends its streams.
            Some(Err(_)) | None => {}
        }
        let pause = self.statuses.on_end();
        self.statuses.stream = open_statuses(&self.gateway, &self.quota, self.id, pause);
        Ok(None)
    }

    fn on_output(&mut self, item: Option<Result<OutputEvent, CallError>>) -> Option<OutputEvent> {
        if let Some(Ok(event)) = item {
            self.output.on_item();
            if let Some(event) = self.advance(event) {
                return event;
            }
        }
        // The stream has ended, or a part of it is missing. It also ends when the task is done, which the status says.
        let pause = self.output.on_end();
        self.output.stream = open_output(&self.gateway, self.id, self.attempt, &self.positions, pause);
        None
    }

    /// The event without bytes that were received before; `Some(None)` if nothing is left of it. `None` if bytes are missing
    /// before it.
    fn advance(&mut self, event: OutputEvent) -> Option<Option<OutputEvent>> {
        let attempt = match &event {
            OutputEvent::Written { attempt, .. } | OutputEvent::StreamEnded { attempt, .. } => *attempt,
        };
        match self.attempt {
            Some(known) if attempt < known => return Some(None),
            Some(known) if attempt > known => self.positions.values_mut().for_each(|offset| *offset = 0),
            _ => {}
        }
        self.attempt = Some(attempt);
        let OutputEvent::Written {
            attempt,
            at,
            mut bytes,
        } = event
        else {
            return Some(Some(event));
        };
        let OutputPosition { source, offset } = at;
        let Some(position) = self.positions.get_mut(&source) else {
            return Some(None);
        };
        let known = usize::try_from(position.checked_sub(offset)?).unwrap_or(usize::MAX);
        bytes.advance(known.min(bytes.len()));
        if bytes.is_empty() {
            return Some(None);
        }
        let at = OutputPosition {
            source,
            offset: *position,
        };
        *position += bytes.len() as u64;
        Some(Some(OutputEvent::Written { attempt, at, bytes }))
    }
}

/// The stream is opened when it is polled first, in a task of its own: the follower is not polled while its client does not
/// read, and must not hold a permit meanwhile.
fn open_statuses(gateway: &Arc<Gateway>, quota: &RequestQuota, id: TaskId, pause: Duration) -> EventStream {
    let (gateway, quota) = (gateway.clone(), quota.clone());
    let open = async move {
        tokio::time::sleep(pause).await;
        // The judicator loads the task only for the first event.
        let permit = gateway.acquire_load_permit(&quota).await;
        let _permit = permit.map_err(|exceeded| CallError::Busy(exceeded.to_string()))?;
        gateway.calls.events(id).await
    };
    opened(open)
}

fn open_output(
    gateway: &Arc<Gateway>,
    id: TaskId,
    attempt: Option<AttemptNumber>,
    positions: &BTreeMap<OutputSource, u64>,
    pause: Duration,
) -> OutputEventStream {
    let calls = gateway.calls.clone();
    let position = |(source, offset): (&OutputSource, &u64)| OutputPosition {
        source: *source,
        offset: *offset,
    };
    let request = FollowRequest {
        attempt,
        positions: positions.iter().map(position).collect(),
    };
    opened(async move {
        tokio::time::sleep(pause).await;
        calls.follow(id, request).await
    })
}

/// The stream that a future opens in a task of its own.
fn opened<T: Send + 'static>(
    open: impl Future<Output = Result<BoxStream<'static, Result<T, CallError>>, CallError>> + Send + 'static,
) -> BoxStream<'static, Result<T, CallError>> {
    let opened = run_in_own_task(open).map(|opened| {
        let stopped = || CallError::Unavailable("the gateway stops; try again".into());
        opened.unwrap_or_else(|| Err(stopped()))
    });
    opened.try_flatten_stream().boxed()
}
