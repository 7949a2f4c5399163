//! Following the output of a task at all judicators at once.
//!
//! A judicator serves the output of the executors that are connected to it, so the follower does not know which one has it.
//! It merges the streams of all, and opens a stream that fails again where the follower is.

mod progress;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use model::{FollowRequest, OutputEvent, TaskId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tonic::{Code, Status, Streaming};

use self::progress::{FollowProgress, MergeDecision};
use super::channels::JudicatorChannels;
use super::classify::{FailoverDecision, classify_status};
use super::{CALL_TIMEOUT, RpcClient, parsed_answer};
use crate::wire::{ParseMessage, encode_id, error_from_status, judicator_error, proto};
use crate::{CallError, OutputEventStream};

/// The pause before a judicator is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// The same for a judicator of a version that cannot follow this task.
const OTHER_VERSION_PAUSE: Duration = Duration::from_secs(10);
/// The stream fails if no judicator serves it for this long.
const UNREACHABLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns when the first judicator serves the stream.
pub(super) async fn follow(
    client: &RpcClient,
    id: TaskId,
    request: FollowRequest,
) -> Result<OutputEventStream, CallError> {
    let judicators = client.channels.judicators();
    let mut merge = OutputMerge {
        target: FollowTarget {
            channels: client.channels.clone(),
            id,
            progress: Arc::new(Mutex::new(FollowProgress::new(request))),
        },
        judicators,
        known: HashSet::new(),
        open: HashSet::new(),
        unreachable_since: Instant::now(),
        last_error: None,
        steps: SelectAll::new(),
    };
    merge.add_new_judicators();
    let mut next = merge.next().await;
    if let Some(Err(error)) = next {
        return Err(error);
    }
    // The first step only says that a judicator serves the stream, unless the task is done.
    let merge = next.take().map(|_| merge);
    let events = stream::unfold(merge, |merge| async move {
        let mut merge = merge?;
        loop {
            match merge.next().await? {
                Ok(MergedStep::Opened) => {}
                Ok(MergedStep::Event(event)) => return Some((Ok(event), Some(merge))),
                Err(error) => return Some((Err(error), None)),
            }
        }
    });
    Ok(events.boxed())
}

/// What one follower follows: the task, how far it has come, and the connections to the judicators.
#[derive(Clone)]
struct FollowTarget {
    channels: JudicatorChannels,
    id: TaskId,
    progress: Arc<Mutex<FollowProgress>>,
}

/// The streams of a task's output at all judicators, merged into one.
struct OutputMerge {
    target: FollowTarget,
    judicators: watch::Receiver<Vec<String>>,
    /// The judicators in `steps`.
    known: HashSet<String>,
    /// The judicators that serve the stream now.
    open: HashSet<String>,
    /// Since when no judicator serves the stream. Counts only while `open` is empty.
    unreachable_since: Instant,
    last_error: Option<CallError>,
    steps: SelectAll<BoxStream<'static, (String, JudicatorStep)>>,
}

/// What happens at one judicator at which a follower follows.
enum JudicatorStep {
    /// It serves the stream.
    Opened,
    Event(OutputEvent),
    /// The task is done.
    Ended,
    /// It failed; it is asked again after a pause.
    Failed(CallError),
    /// Every judicator would refuse the request.
    Refused(CallError),
    /// It has left the list of judicators.
    Removed,
}

/// What a follower learns from the merged streams.
enum MergedStep {
    Opened,
    Event(OutputEvent),
}

impl OutputMerge {
    /// The next step; `None` once the task is done.
    async fn next(&mut self) -> Option<Result<MergedStep, CallError>> {
        loop {
            let gives_up_at = self.unreachable_since + UNREACHABLE_TIMEOUT;
            let (address, step) = tokio::select! {
                Some(step) = self.steps.next(), if !self.steps.is_empty() => step,
                Ok(()) = self.judicators.changed() => {
                    self.add_new_judicators();
                    continue;
                }
                () = sleep_until(gives_up_at), if self.open.is_empty() => {
                    let unknown = || CallError::Unavailable("no judicator is known".into());
                    return Some(Err(self.last_error.take().unwrap_or_else(unknown)));
                }
            };
            match step {
                JudicatorStep::Opened => {
                    self.open.insert(address);
                    return Some(Ok(MergedStep::Opened));
                }
                JudicatorStep::Event(event) => return Some(Ok(MergedStep::Event(event))),
                JudicatorStep::Ended => return None,
                JudicatorStep::Refused(error) => return Some(Err(error)),
                JudicatorStep::Failed(error) => {
                    tracing::debug!(judicator = address, %error, "could not follow output; trying again");
                    self.last_error = Some(error.of_judicator(&address));
                    self.on_closed(&address);
                }
                JudicatorStep::Removed => {
                    self.known.remove(&address);
                    self.on_closed(&address);
                    // It may be on the list again.
                    self.add_new_judicators();
                }
            }
        }
    }

    fn on_closed(&mut self, address: &str) {
        if self.open.remove(address) && self.open.is_empty() {
            self.unreachable_since = Instant::now();
        }
    }

    fn add_new_judicators(&mut self) {
        let listed = self.judicators.borrow_and_update().clone();
        for address in listed {
            if self.known.insert(address.clone()) {
                let steps = follow_at(self.target.clone(), address, self.judicators.clone());
                self.steps.push(steps);
            }
        }
    }
}

/// What happens at one judicator, until it leaves the list.
fn follow_at(
    target: FollowTarget,
    address: String,
    mut judicators: watch::Receiver<Vec<String>>,
) -> BoxStream<'static, (String, JudicatorStep)> {
    let (named, listed) = (address.clone(), address.clone());
    let removed = async move {
        let is_gone = |list: &Vec<String>| !list.contains(&listed);
        if judicators.wait_for(is_gone).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let judicator = FollowedJudicator {
        target,
        address,
        pause: None,
        next_pause: FIRST_PAUSE,
        events: None,
    };
    let steps = stream::unfold(judicator, |mut judicator| async move {
        let step = judicator.next().await;
        Some((step, judicator))
    });
    let end = stream::once(std::future::ready(JudicatorStep::Removed));
    let steps = steps.take_until(removed.boxed()).chain(end);
    steps.map(move |step| (named.clone(), step)).boxed()
}

/// One judicator at which a follower follows: its stream, or the pause until the stream is opened again.
struct FollowedJudicator {
    target: FollowTarget,
    address: String,
    pause: Option<Duration>,
    next_pause: Duration,
    events: Option<Streaming<proto::OutputEvent>>,
}

impl FollowedJudicator {
    async fn next(&mut self) -> JudicatorStep {
        loop {
            let Some(events) = &mut self.events else {
                return match self.open().await {
                    Ok(()) => JudicatorStep::Opened,
                    Err(status) => self.on_failed(status),
                };
            };
            let event = match events.message().await {
                Ok(Some(event)) => event,
                Ok(None) => return JudicatorStep::Ended,
                Err(status) => return self.on_failed(status),
            };
            self.next_pause = FIRST_PAUSE;
            let event = match parsed_answer(event.parse()) {
                Ok(event) => event,
                Err(error) => return self.on_broken(error),
            };
            let decision = self.progress().merge(event);
            match decision {
                MergeDecision::PassOn(event) => return JudicatorStep::Event(event),
                MergeDecision::Drop => {}
                MergeDecision::Gap => {
                    let error = CallError::Internal("a judicator left out some output".into());
                    return self.on_broken(error);
                }
            }
        }
    }

    /// Opens the stream where the follower is now.
    async fn open(&mut self) -> Result<(), Status> {
        if let Some(pause) = self.pause {
            sleep(pause).await;
        }
        let Some(mut connections) = self.target.channels.connections_of(&self.address) else {
            return Err(Status::unavailable("the address is not valid"));
        };
        let request = proto::FollowRequest {
            id: encode_id(self.target.id.0),
            ..self.progress().request().into()
        };
        let call = timeout(CALL_TIMEOUT, connections.output.follow(request)).await;
        let call =
            call.map_err(|_| Status::deadline_exceeded(format!("no answer within {CALL_TIMEOUT:?}")))?;
        self.events = Some(call?.into_inner());
        Ok(())
    }

    fn on_failed(&mut self, status: Status) -> JudicatorStep {
        let is_other_version = status.code() == Code::Unimplemented;
        let is_refused = classify_status(&status) == FailoverDecision::ReturnError;
        // tonic itself refuses a message; only a judicator knows that a request is wrong.
        let is_refused = is_refused && judicator_error(&status).is_some();
        let error = error_from_status(status);
        if is_refused {
            return JudicatorStep::Refused(error);
        }
        let step = self.on_broken(error);
        if is_other_version {
            self.pause = Some(OTHER_VERSION_PAUSE);
        }
        step
    }

    fn on_broken(&mut self, error: CallError) -> JudicatorStep {
        self.events = None;
        self.pause = Some(self.next_pause);
        self.next_pause = (self.next_pause * 2).min(MAX_PAUSE);
        JudicatorStep::Failed(error)
    }

    fn progress(&self) -> MutexGuard<'_, FollowProgress> {
        self.target
            .progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
