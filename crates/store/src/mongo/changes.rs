//! Change events of all judicators: read from a MongoDB change stream over the tasks, groups and executors, and sent to the
//! subscribers in this process.

mod event;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ToolRequirement;
use mongodb::bson::doc;
use mongodb::change_stream::event::ResumeToken;
use supervise::{Component, Supervisor};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::event::StreamEvent;
use self::stream::StreamMessage;
use super::context::StoreContext;
use crate::{ChangeEvent, StoreError};

/// A subscriber that falls behind by more events than this gets [`ChangeEvent::EventsLost`].
const CHANNEL_CAPACITY: usize = 8192;
/// The server replies at least once a second. A stream without a reply for this long is opened again.
const STREAM_TIMEOUT: Duration = Duration::from_secs(4);
/// The delay between two tries to open the stream.
const REOPEN_DELAY: Duration = Duration::from_millis(200);
/// After this many failures to resume the stream while the server responds, it starts at the present instead.
const MAX_FAILED_REOPENS: u32 = 5;
/// How long the first try to open the stream may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The background follower of the MongoDB change stream over the tasks and groups, which hands out subscriptions to its events.
pub(super) struct ChangeFeed {
    events: broadcast::Sender<TimestampedEvent>,
    context: Arc<StoreContext>,
    runtime: Handle,
    follower: JoinHandle<()>,
}

/// A change event with the MongoDB cluster time at which the change was committed.
#[derive(Clone, Debug)]
struct TimestampedEvent {
    cluster_time: u64,
    event: ChangeEvent,
}

impl ChangeFeed {
    /// Returns when the stream is open: all later changes are in it.
    pub(super) async fn follow(
        context: Arc<StoreContext>,
        supervisor: &Supervisor,
        stop: &CancellationToken,
    ) -> Result<ChangeFeed, StoreError> {
        let (events, _) = broadcast::channel(CHANNEL_CAPACITY);
        let (opened, first_open) = oneshot::channel();
        let run = follow(context.clone(), events.clone(), opened);
        let follower = supervisor.spawn(Component::StoreChanges, stop, run);
        let changes = ChangeFeed {
            events,
            context,
            runtime: Handle::current(),
            follower,
        };
        match timeout(OPEN_TIMEOUT, first_open).await {
            Ok(Ok(())) => Ok(changes),
            _ => Err(StoreError::Timeout {
                step: "open the change stream",
            }),
        }
    }

    /// The stream lags behind the commits of this process. A new subscriber must only see changes that are later than
    /// the replies it has got, so older events are filtered out.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        let (sender, receiver) = broadcast::channel(CHANNEL_CAPACITY);
        let since = self.context.last_commit_time();
        self.runtime
            .spawn(forward_newer(self.events.subscribe(), sender, since));
        receiver
    }
}

impl Drop for ChangeFeed {
    fn drop(&mut self) {
        // The reader of the stream ends when its receiver is dropped.
        self.follower.abort();
    }
}

/// Ends when the subscriber is gone or the store is closed.
async fn forward_newer(
    mut events: broadcast::Receiver<TimestampedEvent>,
    subscriber: broadcast::Sender<ChangeEvent>,
    since: u64,
) {
    use broadcast::error::RecvError;
    loop {
        let next = tokio::select! {
            next = events.recv() => next,
            () = subscriber.closed() => return,
        };
        let change = match next {
            Ok(TimestampedEvent { cluster_time, event }) if cluster_time > since => event,
            Ok(_) => continue,
            Err(RecvError::Lagged(_)) => ChangeEvent::EventsLost,
            Err(RecvError::Closed) => return,
        };
        // The subscriber may be gone by now.
        let _ = subscriber.send(change);
    }
}

/// Runs until it is aborted. When the stream ends, it is resumed where it ended. If that is not possible, it starts at
/// the present and subscribers get [`ChangeEvent::EventsLost`].
async fn follow(
    context: Arc<StoreContext>,
    events: broadcast::Sender<TimestampedEvent>,
    opened: oneshot::Sender<()>,
) {
    let mut opened = Some(opened);
    let mut resume_token: Option<ResumeToken> = None;
    let mut failed_reopens = 0;
    loop {
        let (sender, mut messages) = mpsc::channel(1024);
        #[expect(clippy::disallowed_methods, reason = "ends with its receiver")]
        tokio::spawn(stream::read(context.clone(), resume_token.clone(), sender));
        let mut publisher = ChangePublisher::new(&events);
        while let Ok(Some(next)) = timeout(STREAM_TIMEOUT, messages.recv()).await {
            match next {
                StreamMessage::Opened(token) => {
                    if opened.take().is_none_or(|opened| opened.send(()).is_err()) && resume_token.is_none() {
                        publisher.publish(u64::MAX, ChangeEvent::EventsLost);
                    }
                    resume_token = token.or(resume_token);
                }
                StreamMessage::Event(event, token) => {
                    publisher.on_event(event);
                    resume_token = token.or(resume_token);
                    failed_reopens = 0;
                    if messages.is_empty() {
                        publisher.publish_queued();
                    }
                }
                StreamMessage::Idle(token) => {
                    publisher.publish_queued();
                    resume_token = token.or(resume_token);
                    failed_reopens = 0;
                }
                StreamMessage::HistoryLost => resume_token = None,
            }
        }
        publisher.publish_queued();
        // A server that is down says nothing about the resume token; only failures of a reachable server count.
        if server_responds(&context).await {
            failed_reopens += 1;
        }
        if failed_reopens == MAX_FAILED_REOPENS {
            tracing::warn!("change stream could not be resumed; starting a new one");
            (resume_token, failed_reopens) = (None, 0);
        }
        sleep(REOPEN_DELAY).await;
    }
}

async fn server_responds(context: &StoreContext) -> bool {
    let database = context.database.clone();
    // The driver has no timeout for a reply.
    #[expect(
        clippy::disallowed_methods,
        reason = "a driver call must not be dropped midway, so its task may outlive the timeout"
    )]
    let reply = tokio::spawn(async move { database.run_command(doc! { "ping": 1 }).await });
    matches!(timeout(STREAM_TIMEOUT, reply).await, Ok(Ok(Ok(_))))
}

/// The sender of the MongoDB change stream's events to the store's subscribers in this process.
struct ChangePublisher<'t> {
    events: &'t broadcast::Sender<TimestampedEvent>,
    /// How many tasks of each requirement were queued since the last publication. They are published as one event when no
    /// more stream events are at hand.
    queued: BTreeMap<ToolRequirement, usize>,
    cluster_time: u64,
}

impl<'t> ChangePublisher<'t> {
    fn new(events: &'t broadcast::Sender<TimestampedEvent>) -> ChangePublisher<'t> {
        ChangePublisher {
            events,
            queued: BTreeMap::new(),
            cluster_time: 0,
        }
    }

    fn on_event(&mut self, event: StreamEvent) {
        if event.cluster_time != self.cluster_time {
            self.publish_queued();
            self.cluster_time = event.cluster_time;
        }
        if let Some(requires) = event.queued {
            *self.queued.entry(requires).or_default() += 1;
        }
        event
            .changes
            .into_iter()
            .for_each(|change| self.publish(event.cluster_time, change));
    }

    fn publish_queued(&mut self) {
        for (requires, count) in std::mem::take(&mut self.queued) {
            self.publish(self.cluster_time, ChangeEvent::TasksQueued { requires, count });
        }
    }

    fn publish(&self, cluster_time: u64, event: ChangeEvent) {
        // There may be no subscribers.
        let _ = self.events.send(TimestampedEvent { cluster_time, event });
    }
}
