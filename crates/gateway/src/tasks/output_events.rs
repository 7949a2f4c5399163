//! The events of a task together with its output.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use axum::response::sse::Event;
use bytes::Bytes;
use futures::Stream;
use futures::stream::{self, StreamExt};
use model::{
    AttemptNumber, BlobHash, CapturedOutput, OutputEvent, OutputPosition, OutputSource, Task, TaskId,
};
use rpc::{ByteStream, TaskEvent};

use super::events::{problem_event, sse_event_with_id, status_event};
use super::get::MAX_JUDICATOR_LAG;
use super::kept_bytes::blob_bytes;
use super::output::output_of;
use super::output_event_id::OutputEventId;
use super::task_follower::{FollowedEvent, TaskFollower};
use super::utf8_chunks::Utf8Chunks;
use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_limits::counted_size;
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota};

/// The most bytes of output in one event.
const MAX_PIECE: usize = 64 << 10;

/// The status changes and the output of a task until it is done. The event with the final status is the last one. The output
/// continues after the event with the last id, unless the task has begun another attempt.
pub(super) fn output_events(
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    id: TaskId,
    last_id: Option<OutputEventId>,
) -> impl Stream<Item = Event> + Send + 'static {
    let feed = TaskFeed::new(gateway, quota, id, last_id);
    stream::unfold(feed, |mut feed| async move {
        let event = match feed.next().await? {
            Ok(FeedItem::Status(event)) => status_event(event),
            Ok(FeedItem::Output(piece)) => piece.event(),
            Err(error) => problem_event(&error),
        };
        Some((event, feed))
    })
}

/// What a client that follows a task with its output learns.
pub(crate) enum FeedItem {
    Status(TaskEvent),
    Output(OutputPiece),
}

/// A piece of a task's output. Its bytes are text where the output is UTF-8: no character is cut.
pub(crate) struct OutputPiece {
    pub(crate) attempt: AttemptNumber,
    pub(crate) source: OutputSource,
    offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// How far the client is that has received it.
    id: OutputEventId,
}

impl OutputPiece {
    pub(super) fn event(self) -> Event {
        let event = api::OutputEvent {
            attempt: self.attempt.0,
            step: self.source.step,
            stream: self.source.stream,
            offset: self.offset,
            text: None,
            base64: None,
        };
        sse_event_with_id("output", self.id, &event.with_bytes(self.bytes))
    }
}

/// The statuses and the output of a task, for one client.
pub(crate) struct TaskFeed {
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    id: TaskId,
    phase: FeedPhase,
    /// The attempt that wrote what was sent.
    attempt: Option<AttemptNumber>,
    pieces: BTreeMap<OutputSource, OutputPieces>,
    /// Received bytes that are not sent yet.
    pending: Option<(OutputSource, Bytes)>,
}

/// Where the events of a task come from.
enum FeedPhase {
    Live(Box<TaskFollower>),
    /// The task is done. The rest of its output comes from the result, and then its final status.
    Result {
        open: Option<(OutputSource, ByteStream)>,
        rest: VecDeque<(OutputSource, RestOfOutput)>,
        last: TaskEvent,
    },
    Ended,
}

/// The part of a kept output that a client has not received.
#[derive(Debug)]
enum RestOfOutput {
    Inline(Bytes),
    Blob { hash: BlobHash, range: Range<u64> },
}

/// How much of an output stream was sent as events.
#[derive(Debug, Default)]
struct OutputPieces {
    sent: u64,
    chunks: Utf8Chunks,
}

impl OutputPieces {
    fn after(sent: u64) -> OutputPieces {
        OutputPieces {
            sent,
            chunks: Utf8Chunks::default(),
        }
    }

    fn received(&self) -> u64 {
        self.sent + self.chunks.held_bytes()
    }

    /// Takes a piece that is sent now, with its offset.
    fn send(&mut self, piece: Vec<u8>) -> Option<(u64, Vec<u8>)> {
        let offset = self.sent;
        self.sent += piece.len() as u64;
        (!piece.is_empty()).then_some((offset, piece))
    }
}

impl TaskFeed {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        quota: RequestQuota,
        id: TaskId,
        last_id: Option<OutputEventId>,
    ) -> TaskFeed {
        let attempt = last_id.map(|last| last.attempt);
        let positions = match last_id {
            Some(last) => last.positions(),
            None => OutputSource::ALL.map(|source| OutputPosition { source, offset: 0 }),
        };
        let pieces = positions.map(|at| (at.source, OutputPieces::after(at.offset)));
        let follower = TaskFollower::new(gateway.clone(), quota.clone(), id, attempt, positions);
        TaskFeed {
            phase: FeedPhase::Live(Box::new(follower)),
            gateway,
            quota,
            id,
            attempt,
            pieces: BTreeMap::from(pieces),
            pending: None,
        }
    }

    /// The item with the final status, or an error, is the last one.
    pub(crate) async fn next(&mut self) -> Option<Result<FeedItem, RequestError>> {
        loop {
            let step = match self.take_pending() {
                Some((source, bytes)) => Ok(self.output_item(source, |chunks| chunks.push(&bytes))),
                None if matches!(self.phase, FeedPhase::Ended) => return None,
                None => self.advance().await,
            };
            match step {
                Ok(Some(item)) => return Some(Ok(item)),
                Ok(None) => {}
                Err(error) => {
                    self.phase = FeedPhase::Ended;
                    return Some(Err(error));
                }
            }
        }
    }

    /// The next item from the executor or the result. `None` if there may be one in `pending`.
    async fn advance(&mut self) -> Result<Option<FeedItem>, RequestError> {
        match &mut self.phase {
            FeedPhase::Live(follower) => {
                let event = follower.next().await?;
                self.on_event(event).await
            }
            FeedPhase::Result { open, rest, last } => {
                if let Some((source, bytes)) = open {
                    let source = *source;
                    match bytes.next().await.transpose()? {
                        Some(bytes) => self.pending = Some((source, bytes)),
                        None => {
                            *open = None;
                            return Ok(self.output_item(source, Utf8Chunks::finish));
                        }
                    }
                } else if let Some((source, rest)) = rest.pop_front() {
                    *open = Some((source, rest.open(&self.gateway).await?));
                } else {
                    let last = last.clone();
                    self.phase = FeedPhase::Ended;
                    return Ok(Some(FeedItem::Status(last)));
                }
                Ok(None)
            }
            FeedPhase::Ended => Ok(None),
        }
    }

    async fn on_event(&mut self, event: FollowedEvent) -> Result<Option<FeedItem>, RequestError> {
        match event {
            FollowedEvent::Status(event) if event.status.is_done() => {
                let rest = self.rest_of_result().await?;
                self.phase = FeedPhase::Result {
                    open: None,
                    rest,
                    last: event,
                };
                Ok(None)
            }
            FollowedEvent::Status(event) => Ok(Some(FeedItem::Status(event))),
            FollowedEvent::Output(OutputEvent::Written { attempt, at, bytes }) => {
                self.begin_attempt(attempt);
                self.pending = Some((at.source, bytes));
                Ok(None)
            }
            FollowedEvent::Output(OutputEvent::StreamEnded { attempt, source, .. }) => {
                self.begin_attempt(attempt);
                Ok(self.output_item(source, Utf8Chunks::finish))
            }
        }
    }

    /// A new attempt begins again at offset 0.
    fn begin_attempt(&mut self, attempt: AttemptNumber) {
        if self.attempt != Some(attempt) {
            self.attempt = Some(attempt);
            self.pieces.clear();
        }
    }

    fn take_pending(&mut self) -> Option<(OutputSource, Bytes)> {
        let (source, bytes) = self.pending.as_mut()?;
        let (source, piece) = (*source, bytes.split_to(bytes.len().min(MAX_PIECE)));
        self.pending.take_if(|(_, bytes)| bytes.is_empty());
        Some((source, piece))
    }

    fn output_item(
        &mut self,
        source: OutputSource,
        take: impl FnOnce(&mut Utf8Chunks) -> Vec<u8>,
    ) -> Option<FeedItem> {
        let pieces = self.pieces.entry(source).or_default();
        let piece = take(&mut pieces.chunks);
        let (offset, bytes) = pieces.send(piece)?;
        let attempt = self.attempt?;
        let id = OutputEventId {
            attempt,
            // Bytes that wait for the rest of a character are not sent yet.
            offsets: OutputSource::ALL.map(|source| self.pieces.get(&source).map_or(0, |one| one.sent)),
        };
        Some(FeedItem::Output(OutputPiece {
            attempt,
            source,
            offset,
            bytes,
            id,
        }))
    }

    /// What the result has beyond what was received. Bytes in the result itself are copied, because they may be slices of
    /// an RPC message with the whole task; they are charged first.
    async fn rest_of_result(&mut self) -> Result<VecDeque<(OutputSource, RestOfOutput)>, RequestError> {
        let which = (self.id, MAX_JUDICATOR_LAG);
        // The task is done, so it is the same when it is loaded again after its memory is charged.
        let measure = |task: &Task| {
            let heads = outputs(task).map(|(_, output)| output.head.len() as u64);
            (task.attempt, heads.sum())
        };
        let (attempt, bytes) = self.gateway.load_for_body(&self.quota, which, measure).await?;
        self.begin_attempt(attempt);
        let size = counted_size(bytes);
        self.quota.set_charge_within(QUOTA_WAIT_TIMEOUT, size).await?;
        let received: BTreeMap<_, _> = self
            .pieces
            .iter()
            .map(|(source, pieces)| (*source, pieces.received()))
            .collect();
        let copy = move |task: &Task| {
            let rest = |(source, output): (OutputSource, &CapturedOutput)| {
                let received = received.get(&source).copied().unwrap_or(0);
                (source, RestOfOutput::of(output, received))
            };
            outputs(task).map(rest).collect()
        };
        self.gateway.load_for_body(&self.quota, which, copy).await
    }
}

fn outputs(task: &Task) -> impl Iterator<Item = (OutputSource, &CapturedOutput)> {
    let result = task.result.as_ref();
    OutputSource::ALL
        .into_iter()
        .filter_map(move |source| Some((source, output_of(result?, source)?)))
}

impl RestOfOutput {
    fn of(output: &CapturedOutput, received: u64) -> RestOfOutput {
        match output.blob {
            Some(hash) => RestOfOutput::Blob {
                hash,
                range: received.min(output.size)..output.size,
            },
            None => {
                let received = usize::try_from(received).unwrap_or(usize::MAX);
                let rest = output.head.get(received..).unwrap_or_default();
                RestOfOutput::Inline(Bytes::copy_from_slice(rest))
            }
        }
    }

    async fn open(self, gateway: &Gateway) -> Result<ByteStream, RequestError> {
        match self {
            RestOfOutput::Inline(bytes) if bytes.is_empty() => Ok(stream::empty().boxed()),
            RestOfOutput::Inline(bytes) => Ok(stream::iter([Ok(bytes)]).boxed()),
            RestOfOutput::Blob { hash, range } => Ok(blob_bytes(&gateway.calls, hash, range).await?),
        }
    }
}

#[cfg(test)]
mod tests;
