//! The connection of an executor that serves the output of its tasks: requests to it, and its answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use model::{
    AttemptId, OutputAnswer, OutputContent, OutputPosition, OutputRead, OutputRequest, OutputSource,
};
use rpc::{OutputAnswerStream, OutputRequestStream};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::followed_stream::FollowedStream;
use super::ring_budget::RingBudget;

/// How many followers that are behind their ring may read at the same time.
const OWN_READS: usize = 8;
/// How many reads at the end of streams may be open at the same time.
const SHARED_READS: usize = OutputRead::MAX_OPEN - OWN_READS;
/// Requests that the executor has not taken yet. If there are more, its connection is dead.
const WAITING_REQUESTS: usize = 4 * OutputRead::MAX_OPEN;

/// An executor's session that serves the output of its tasks at this judicator.
pub(crate) struct OutputConnection {
    requests: mpsc::Sender<OutputRequest>,
    reads: Mutex<OpenReads>,
    pub(super) streams: Mutex<HashMap<(AttemptId, OutputSource), Arc<FollowedStream>>>,
    pub(super) own_reads: Semaphore,
    pub(super) shared_reads: Semaphore,
    pub(super) ring_budget: Arc<RingBudget>,
    closed: CancellationToken,
}

/// The reads of output that an executor has not answered yet.
#[derive(Default)]
struct OpenReads {
    next_id: u64,
    answers: HashMap<u64, oneshot::Sender<OutputContent>>,
}

/// A read of output that an executor has not answered yet. Dropping it tells the executor to stop.
struct OpenRead<'a> {
    connection: &'a OutputConnection,
    id: u64,
}

impl OutputConnection {
    /// Returns the requests to the executor. The answers are handled while somebody polls the requests.
    pub(super) fn open(
        answers: OutputAnswerStream,
        ring_budget: Arc<RingBudget>,
    ) -> (Arc<OutputConnection>, OutputRequestStream) {
        let (sender, mut receiver) = mpsc::channel(WAITING_REQUESTS);
        let connection = Arc::new(OutputConnection {
            requests: sender,
            reads: Mutex::default(),
            streams: Mutex::default(),
            own_reads: Semaphore::new(OWN_READS),
            shared_reads: Semaphore::new(SHARED_READS),
            ring_budget,
            closed: CancellationToken::new(),
        });
        let requests = stream::poll_fn(move |context| receiver.poll_recv(context));
        let answered = connection.clone();
        // The executor is gone when its answers end.
        let end = stream::once(std::future::ready(None));
        let answers = answers.map(Some).chain(end).filter_map(move |answer| {
            match answer {
                Some(answer) => answered.on_answer(answer),
                None => answered.close(),
            }
            std::future::ready(None)
        });
        let requests = stream::select(requests.map(Ok), answers);
        let closed = connection.closed.clone().cancelled_owned().boxed();
        (connection, requests.take_until(closed).boxed())
    }

    /// The executor has to connect again.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// Waits until the connection ends.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Waits for the executor's answer. Never returns if the connection ends: `closed` does.
    pub(super) async fn read(&self, attempt_id: AttemptId, at: OutputPosition) -> OutputContent {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut reads = self.lock();
            reads.next_id += 1;
            let id = reads.next_id;
            reads.answers.insert(id, sender);
            id
        };
        let open = OpenRead { connection: self, id };
        self.send(OutputRequest::Read(OutputRead { id, attempt_id, at }));
        let Ok(content) = answer.await else {
            return std::future::pending().await;
        };
        drop(open);
        match content {
            // An executor that breaks the contract gets the same treatment as one without the attempt.
            OutputContent::Bytes(bytes) if bytes.is_empty() || bytes.len() > OutputRead::MAX_BYTES => {
                OutputContent::Unknown
            }
            content => content,
        }
    }

    /// Waits for the permit of a follower to read for itself.
    pub(super) async fn own_read_permit(&self) -> SemaphorePermit<'_> {
        permit_of(&self.own_reads).await
    }

    /// Waits for the permit to have a read open at the end of a stream.
    pub(super) async fn shared_read_permit(&self) -> SemaphorePermit<'_> {
        permit_of(&self.shared_reads).await
    }

    fn on_answer(&self, answer: OutputAnswer) {
        // Nobody waits for an answer that crosses with a stop.
        if let Some(waiting) = self.lock().answers.remove(&answer.id) {
            let _ = waiting.send(answer.content);
        }
    }

    fn send(&self, request: OutputRequest) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.requests.try_send(request) {
            tracing::debug!("an executor does not take requests for output; closing its connection");
            self.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenReads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenRead<'_> {
    fn drop(&mut self) {
        let unanswered = self.connection.lock().answers.remove(&self.id).is_some();
        if unanswered {
            self.connection.send(OutputRequest::Stop { id: self.id });
        }
    }
}

async fn permit_of(semaphore: &Semaphore) -> SemaphorePermit<'_> {
    match semaphore.acquire().await {
        Ok(permit) => permit,
        // The semaphores are never closed.
        Err(_) => std::future::pending().await,
    }
}

/// The stream, which keeps the guard until it ends or is dropped.
pub(super) fn with_guard<T: Send + 'static>(
    items: BoxStream<'static, T>,
    guard: impl Send + 'static,
) -> BoxStream<'static, T> {
    stream::unfold(Some((items, guard)), |state| async move {
        let (mut items, guard) = state?;
        let item = items.next().await?;
        Some((item, Some((items, guard))))
    })
    .boxed()
}
