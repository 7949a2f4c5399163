//! Group commit for adds: calls that arrive while a transaction is in progress share the next one.

use std::sync::Arc;

use model::AddedTask;
use supervise::{Component, FailureWatch, Supervisor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{PreparedTask, add};
use crate::StoreError;
use crate::mongo::context::StoreContext;
use crate::mongo::failure::{MongoFailure, copy_error};
use crate::mongo::retry::{RetryPolicy, TOTAL_TIMEOUT};

const STEP: &str = "add tasks";

// Bounds of one transaction, so that no caller waits long for its commit.
const GROUP_MAX_REQUESTS: usize = 512;
const GROUP_MAX_TASKS: usize = 2000;
const GROUP_MAX_BYTES: usize = 8 << 20;
/// How much memory the queued requests may take, in KiB. Further callers wait until some is free.
const QUEUE_KIB: usize = 64 << 10;
const QUEUE_LENGTH: usize = 4096;

/// The queue of `add` calls to the MongoDB store, and the background task that adds many of them in one transaction.
pub(in crate::mongo) struct AddBatcher {
    requests: mpsc::Sender<AddRequest>,
    queue_memory: Arc<Semaphore>,
    failures: FailureWatch,
}

/// One call of `add` in the queue of the MongoDB store's [`AddBatcher`]: its tasks, and the channel for the reply.
struct AddRequest {
    queued_at: Instant,
    tasks: Vec<PreparedTask>,
    payload_bytes: usize,
    reply: oneshot::Sender<Result<Vec<AddedTask>, StoreError>>,
    queue_permit: OwnedSemaphorePermit,
}

impl AddBatcher {
    /// The background task ends when the batcher is dropped and its queue is empty.
    pub(in crate::mongo) fn start(
        context: Arc<StoreContext>,
        supervisor: &Supervisor,
        stop: &CancellationToken,
    ) -> AddBatcher {
        let (requests, queue) = mpsc::channel(QUEUE_LENGTH);
        supervisor.spawn(Component::StoreAdder, stop, run(context, queue));
        AddBatcher {
            requests,
            queue_memory: Arc::new(Semaphore::new(QUEUE_KIB)),
            failures: supervisor.failures(),
        }
    }

    /// Returns when the tasks are durable.
    pub(in crate::mongo) async fn add(&self, tasks: Vec<PreparedTask>) -> Result<Vec<AddedTask>, StoreError> {
        let payload_bytes = tasks.iter().map(PreparedTask::payload_bytes).sum::<usize>();
        let share = (payload_bytes >> 10).clamp(1, QUEUE_KIB) as u32;
        let permit = self.queue_memory.clone().acquire_many_owned(share).await;
        let (reply, answer) = oneshot::channel();
        let request = AddRequest {
            queued_at: Instant::now(),
            tasks,
            payload_bytes,
            reply,
            queue_permit: permit.map_err(|_| StoreError::Closed)?,
        };
        if self.requests.send(request).await.is_err() {
            return Err(StoreError::component_lost(self.failures.clone()).await);
        }
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::component_lost(self.failures.clone()).await),
        }
    }
}

async fn run(context: Arc<StoreContext>, mut queue: mpsc::Receiver<AddRequest>) {
    while let Some(first) = queue.recv().await {
        let (mut payload_bytes, mut task_count) = (0, 0);
        let mut group = vec![];
        let mut next = Some(first);
        while let Some(request) = next.take() {
            if request.payload_bytes >= GROUP_MAX_BYTES {
                // A large request takes long, so it gets a transaction of its own and the others do not wait for it.
                let context = context.clone();
                #[expect(
                    clippy::disallowed_methods,
                    reason = "one request with a deadline; a panic drops its answer channel"
                )]
                tokio::spawn(async move { handle(&context, vec![request]).await });
            } else if let Some(request) = request.unless_expired() {
                payload_bytes += request.payload_bytes;
                task_count += request.tasks.len();
                group.push(request);
            }
            if group.len() < GROUP_MAX_REQUESTS
                && task_count < GROUP_MAX_TASKS
                && payload_bytes < GROUP_MAX_BYTES
            {
                next = queue.try_recv().ok();
            }
        }
        handle(&context, group).await;
    }
}

impl AddRequest {
    /// Drops a request whose caller has gone, and replies with an error to one that waited too long. Nothing of the
    /// request was tried yet.
    fn unless_expired(self) -> Option<AddRequest> {
        if self.reply.is_closed() {
            return None;
        }
        if self.queued_at.elapsed() >= TOTAL_TIMEOUT {
            let _ = self.reply.send(Err(StoreError::Timeout { step: STEP }));
            return None;
        }
        Some(self)
    }
}

async fn handle(context: &Arc<StoreContext>, group: Vec<AddRequest>) {
    if group.is_empty() {
        return;
    }
    let payload_bytes = group.iter().map(|request| request.payload_bytes).sum();
    let (batches, replies): (Vec<_>, Vec<_>) = group
        .into_iter()
        .map(|request| (request.tasks, (request.reply, request.queue_permit)))
        .unzip();
    let batches = Arc::new(batches);
    let answers = RetryPolicy::new(STEP)
        .with_payload(payload_bytes)
        .run(|_| {
            let added = add(context.clone(), batches.clone());
            async move {
                added.await.map_err(|failure| match failure {
                    MongoFailure::TransactionTooLarge => MongoFailure::Refused(StoreError::BatchTooLarge),
                    other => other,
                })
            }
        })
        .await;
    // A caller may have stopped waiting. Its tasks are added nevertheless.
    match answers {
        Ok(answers) => {
            for ((reply, _), answer) in replies.into_iter().zip(answers) {
                let _ = reply.send(answer);
            }
        }
        Err(error) => {
            for (reply, _) in replies {
                let _ = reply.send(Err(copy_error(&error)));
            }
        }
    }
}
