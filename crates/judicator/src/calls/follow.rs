use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{self, BoxStream, SelectAll};
use model::{
    AttemptId, AttemptNumber, FollowRequest, InvalidField, OutputEvent, OutputPosition, OutputSource, Task,
    TaskId, TaskStatus,
};
use rpc::{CallError, OutputEventStream};
use store::TaskStore;

use crate::Judicator;
use crate::error::call_error;
use crate::live_output_hub::{
    ConnectionWatcher, LiveOutputHub, OutputConnection, StreamFollower, StreamPiece,
};
use crate::task_watchers::{TaskUpdate, TaskWatcher};

impl Judicator {
    /// The stream waits while no executor holds the task, or the executor is not connected here.
    pub(super) async fn on_follow(
        &self,
        id: TaskId,
        request: FollowRequest,
    ) -> Result<OutputEventStream, CallError> {
        let sources: HashSet<_> = request.positions.iter().map(|at| at.source).collect();
        if sources.len() < request.positions.len() {
            return Err(InvalidField::new("positions", "names a stream twice").into());
        }
        // Subscribed before the task is read, so that no change in between is missed.
        let watcher = self.watchers.watch(id);
        let task = self.read_task(id).await?;
        let mut follower = TaskOutputFollower {
            id,
            store: self.store.clone(),
            hub: self.live_output.clone(),
            watcher,
            attempt: request.attempt,
            positions: request.positions,
            ended: HashSet::new(),
            held: None,
            outputs: SelectAll::new(),
            is_done: false,
        };
        follower.on_task(&task);
        let events = stream::unfold(Some(follower), |follower| async move {
            let mut follower = follower?;
            let next = follower.next().await?;
            let continues = next.is_ok();
            Some((next, continues.then_some(follower)))
        });
        Ok(events.boxed())
    }
}

/// Follows the output of one task through its attempts, for one call.
struct TaskOutputFollower {
    id: TaskId,
    store: Arc<dyn TaskStore>,
    hub: Arc<LiveOutputHub>,
    watcher: TaskWatcher,
    /// The attempt to which the positions belong.
    attempt: Option<AttemptNumber>,
    positions: Vec<OutputPosition>,
    /// The streams of the attempt whose end was sent.
    ended: HashSet<OutputSource>,
    held: Option<FollowedAttempt>,
    /// The output of the attempt, while its executor is connected here.
    outputs: SelectAll<BoxStream<'static, OutputEvent>>,
    is_done: bool,
}

/// The attempt that an executor's session holds, and the connection of that session.
struct FollowedAttempt {
    attempt_id: AttemptId,
    connection: ConnectionWatcher,
}

impl TaskOutputFollower {
    /// The next event; `None` once the task is done.
    async fn next(&mut self) -> Option<Result<OutputEvent, CallError>> {
        while !self.is_done {
            tokio::select! {
                biased;
                update = self.watcher.updates.recv() => {
                    if let Err(error) = self.on_update(update?).await {
                        return Some(Err(error));
                    }
                }
                () = connection_changed(&mut self.held) => self.connect(),
                Some(event) = self.outputs.next(), if !self.outputs.is_empty() => {
                    self.on_event(&event);
                    return Some(Ok(event));
                }
            }
        }
        None
    }

    async fn on_update(&mut self, update: TaskUpdate) -> Result<(), CallError> {
        match update {
            TaskUpdate::Assigned(attempt_id) => self.on_attempt(attempt_id),
            TaskUpdate::StatusChanged(event) if event.status.is_done() => self.is_done = true,
            // The attempt that is followed goes on.
            TaskUpdate::StatusChanged(event)
                if event.status != TaskStatus::Retrying && self.held.is_some() => {}
            TaskUpdate::StatusChanged(_) | TaskUpdate::Reread => {
                match self.store.get_after_event(self.id).await.map_err(call_error)? {
                    Some(task) => self.on_task(&task),
                    // Retention has removed it.
                    None => self.is_done = true,
                }
            }
        }
        Ok(())
    }

    fn on_task(&mut self, task: &Task) {
        self.is_done = task.status.is_done();
        match task.session {
            Some(session) if !self.is_done => self.on_attempt(AttemptId {
                task: task.id,
                session,
                attempt: task.attempt,
            }),
            _ => {
                self.held = None;
                self.connect();
            }
        }
    }

    fn on_attempt(&mut self, attempt_id: AttemptId) {
        let is_late = self.attempt.is_some_and(|attempt| attempt_id.attempt < attempt);
        let is_held = self
            .held
            .as_ref()
            .is_some_and(|held| held.attempt_id == attempt_id);
        if is_late || is_held {
            return;
        }
        if self.attempt.is_some_and(|attempt| attempt != attempt_id.attempt) {
            // The next attempt writes its output from the beginning.
            self.positions.iter_mut().for_each(|at| at.offset = 0);
            self.ended.clear();
        }
        self.attempt = Some(attempt_id.attempt);
        self.held = Some(FollowedAttempt {
            attempt_id,
            connection: self.hub.watch(attempt_id.session),
        });
        self.connect();
    }

    /// Follows the streams at the executor, if it is connected now.
    fn connect(&mut self) {
        self.outputs = SelectAll::new();
        let Some(FollowedAttempt {
            attempt_id,
            connection,
        }) = &mut self.held
        else {
            return;
        };
        let Some(connection) = connection.current() else {
            return;
        };
        for at in &self.positions {
            if !self.ended.contains(&at.source) {
                self.outputs
                    .push(follow_stream(connection.clone(), *attempt_id, *at));
            }
        }
    }

    fn on_event(&mut self, event: &OutputEvent) {
        match event {
            OutputEvent::Written { at, bytes, .. } => {
                for position in self.positions.iter_mut().filter(|one| one.source == at.source) {
                    position.offset = at.offset + bytes.len() as u64;
                }
            }
            OutputEvent::StreamEnded { source, .. } => {
                self.ended.insert(*source);
            }
        }
    }
}

async fn connection_changed(held: &mut Option<FollowedAttempt>) {
    match held {
        Some(held) => held.connection.changed().await,
        None => std::future::pending().await,
    }
}

/// The events of one stream of an attempt, until it ends.
fn follow_stream(
    connection: Arc<OutputConnection>,
    attempt_id: AttemptId,
    at: OutputPosition,
) -> BoxStream<'static, OutputEvent> {
    let attempt = attempt_id.attempt;
    let follower = StreamFollower::new(connection, attempt_id, at);
    stream::unfold(Some((follower, at)), move |state| async move {
        let (mut follower, at) = state?;
        Some(match follower.next(at.offset).await {
            StreamPiece::Bytes(bytes) => {
                let next = OutputPosition {
                    offset: at.offset + bytes.len() as u64,
                    ..at
                };
                (
                    OutputEvent::Written { attempt, at, bytes },
                    Some((follower, next)),
                )
            }
            StreamPiece::Ended { truncated } => {
                let source = at.source;
                let ended = OutputEvent::StreamEnded {
                    attempt,
                    source,
                    truncated,
                };
                (ended, None)
            }
        })
    })
    .boxed()
}
