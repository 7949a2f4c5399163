//! Keeps a connection to a judicator, and answers its requests for output.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{AbortHandle, abortable};
use futures::stream::{self, FuturesUnordered};
use futures::{FutureExt, StreamExt};
use model::{ExecutorName, OutputAnswer, OutputContent, OutputRead, OutputRequest, SessionId};
use rpc::{CallError, Calls};
use supervise::{Component, Supervisor};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::FILE_READS;
use super::answer::{FoundOutput, OutputReader};
use crate::now;
use crate::slot_pool::SlotPool;

/// How many answers may wait for a judicator that does not take them. The output of further requests is not read yet.
const WAITING_ANSWERS: usize = 16;
const _: () = assert!(
    FILE_READS < WAITING_ANSWERS,
    "hanging reads must not use up all answers"
);
/// The pauses before the executor connects again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The pause after an error that will not go away soon: the judicator is too old for this call.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(30);

/// The background task that serves the output of this executor's tasks to a judicator; dropping it stops the task.
pub(crate) struct OutputServer {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// What the background task of an [`OutputServer`] needs.
#[derive(Clone)]
struct OutputServerSetup {
    calls: Arc<dyn Calls>,
    slot_pool: Arc<SlotPool>,
    name: ExecutorName,
    session: SessionId,
}

/// Why the connection of an [`OutputServer`] has ended.
#[derive(Debug)]
enum ConnectionEnd {
    Failed(CallError),
    /// The judicator has ended it.
    Closed,
    /// The judicator has sent far more requests than it may have open.
    TooManyRequests,
}

/// The pause before an [`OutputServer`] connects again, which doubles while connections are short.
struct ReconnectPause {
    next: Duration,
}

impl OutputServer {
    pub(crate) fn start(
        calls: &Arc<dyn Calls>,
        slot_pool: &Arc<SlotPool>,
        name: &ExecutorName,
        session: SessionId,
    ) -> OutputServer {
        let setup = OutputServerSetup {
            calls: calls.clone(),
            slot_pool: slot_pool.clone(),
            name: name.clone(),
            session,
        };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "supervised by itself: restarted inside, and live output may be lost"
        )]
        let task = tokio::spawn(async move {
            let serve = || {
                let (setup, stopped) = (setup.clone(), stopped.clone());
                async move {
                    stopped.run_until_cancelled(setup.serve()).await;
                }
            };
            Supervisor::run_restarting(Component::OutputServer, &stopped, serve).await;
        });
        OutputServer { stop, task }
    }

    /// Returns when nothing of the task is left.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        // A panic was handled by the supervisor.
        let _ = (&mut self.task).await;
    }
}

impl Drop for OutputServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl OutputServerSetup {
    async fn serve(self) {
        let mut pause = ReconnectPause { next: FIRST_PAUSE };
        loop {
            let begun = now();
            let end = self.serve_one_connection().await;
            tracing::debug!(?end, "connection for live output ended; connecting again");
            tokio::time::sleep(pause.after(&end, now() - begun)).await;
        }
    }

    async fn serve_one_connection(&self) -> ConnectionEnd {
        let (answers, mut waiting) = mpsc::channel(WAITING_ANSWERS);
        let stream = stream::poll_fn(move |context| waiting.poll_recv(context)).boxed();
        let connected = self.calls.serve_output(self.name.clone(), self.session, stream);
        let mut requests = match connected.await {
            Ok(requests) => requests,
            Err(error) => return ConnectionEnd::Failed(error),
        };
        let reader = OutputReader {
            slot_pool: &self.slot_pool,
        };
        let mut open = HashMap::<u64, AbortHandle>::new();
        let mut answering = FuturesUnordered::new();
        let mut refused = VecDeque::new();
        loop {
            tokio::select! {
                // Before further requests: an answered one makes room for another.
                biased;
                Some(answered) = answering.next() => {
                    // A request that was stopped is no longer open.
                    if let Ok(id) = answered {
                        open.remove(&id);
                    }
                }
                Ok(permit) = answers.reserve(), if !refused.is_empty() => {
                    if let Some(id) = refused.pop_front() {
                        permit.send(OutputAnswer { id, content: OutputContent::Unknown });
                    }
                }
                () = answers.closed() => return ConnectionEnd::Closed,
                // Always polled: in one process, a judicator takes the answers while its requests are polled.
                request = requests.next() => match request {
                    None => return ConnectionEnd::Closed,
                    Some(Err(error)) => return ConnectionEnd::Failed(error),
                    Some(Ok(OutputRequest::Read(read))) if open.len() < OutputRead::MAX_OPEN => {
                        let answer = answer(reader, read, &answers).map(move |()| read.id);
                        let (answer, handle) = abortable(answer);
                        answering.push(answer);
                        if let Some(replaced) = open.insert(read.id, handle) {
                            replaced.abort();
                        }
                    }
                    Some(Ok(OutputRequest::Read(_))) if refused.len() >= OutputRead::MAX_OPEN => {
                        return ConnectionEnd::TooManyRequests;
                    }
                    Some(Ok(OutputRequest::Read(read))) => refused.push_back(read.id),
                    Some(Ok(OutputRequest::Stop { id })) => {
                        if let Some(stopped) = open.remove(&id) {
                            stopped.abort();
                        }
                    }
                }
            }
        }
    }
}

/// Answers one request, when there is an answer and room for it.
async fn answer(reader: OutputReader<'_>, read: OutputRead, answers: &mpsc::Sender<OutputAnswer>) {
    loop {
        reader.wait_until_available(&read).await;
        // Before the room for the answer: reads on a disk that hangs must leave room for output that is in memory.
        let file_permit = match reader.find(&read) {
            Some(FoundOutput::InFile(_)) => reader.file_permit().await,
            Some(FoundOutput::InMemory(_)) | None => None,
        };
        // Nothing is read before there is room, so that requests without room have no bytes in memory.
        let Ok(permit) = answers.reserve().await else {
            return;
        };
        let content = match (reader.find(&read), file_permit) {
            (Some(FoundOutput::InMemory(read_output)), _) => read_output(),
            (Some(FoundOutput::InFile(read_output)), Some(permit)) => permit.read(read_output).await,
            // It is in a file only now, or it is no longer where it was.
            (Some(FoundOutput::InFile(_)), None) | (None, _) => None,
        };
        if let Some(content) = content {
            return permit.send(OutputAnswer { id: read.id, content });
        }
    }
}

impl ReconnectPause {
    fn after(&mut self, end: &ConnectionEnd, lasted: Duration) -> Duration {
        if lasted >= MAX_PAUSE {
            self.next = FIRST_PAUSE;
        }
        let longer = (self.next * 2).min(MAX_PAUSE);
        let pause = std::mem::replace(&mut self.next, longer);
        match end {
            ConnectionEnd::Failed(CallError::Internal(_)) => PAUSE_AFTER_REFUSAL,
            ConnectionEnd::Failed(_) | ConnectionEnd::Closed | ConnectionEnd::TooManyRequests => pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{
        AttemptEnd, BlobHash, CapturedOutput, CompletedAttempt, Outcome, OutputPosition, OutputSource,
        StepName, StreamName, TaskForm, TaskResult,
    };

    use super::*;
    use crate::fixtures;
    use crate::slot_pool::tests::SlotPoolFixture;

    #[tokio::test(start_paused = true)]
    async fn reads_on_a_hanging_disk_leave_room_for_output_in_memory() {
        let fixture = SlotPoolFixture::new();
        let slot_pool = &*fixture.slot_pool;
        let attempt_id = fixtures::attempt_id(SessionId(uuid::Uuid::now_v7()));
        let stdout = CapturedOutput {
            size: 100,
            blob: Some(BlobHash::of("missing")),
            ..CapturedOutput::small("head")
        };
        let result = TaskResult {
            execute: Some(Outcome {
                stdout,
                ..fixtures::outcome()
            }),
            ..TaskResult::default()
        };
        let complete = CompletedAttempt {
            attempt_id,
            form: TaskForm::CURRENT,
            end: AttemptEnd::Result(result),
        };
        slot_pool.spool.add(complete, None, Duration::ZERO);
        let request = |id, offset| OutputRead {
            id,
            attempt_id,
            at: OutputPosition {
                source: OutputSource::new(StepName::Execute, StreamName::Stdout),
                offset,
            },
        };
        // As if a thread read for each of them and the disk hung.
        let file_reads = slot_pool.live_outputs.file_reads.clone();
        let hanging = file_reads.acquire_many_owned(FILE_READS as u32).await.unwrap();
        let (answers, mut answered) = mpsc::channel(WAITING_ANSWERS);
        let reader = OutputReader { slot_pool };
        let mut in_file: FuturesUnordered<_> = (0..2 * WAITING_ANSWERS as u64)
            .map(|id| answer(reader, request(id, 50), &answers))
            .collect();
        assert!(in_file.next().now_or_never().is_none());
        let in_memory = answer(reader, request(1000, 0), &answers);
        let timeout = Duration::from_secs(60);
        tokio::time::timeout(timeout, in_memory)
            .await
            .expect("room for an answer");
        let first = answered.recv().await.expect("an answer");
        assert_eq!(
            (first.id, first.content),
            (1000, OutputContent::Bytes("head".into()))
        );
        drop(hanging);
        in_file.next().await.expect("the disk works again");
    }

    #[test]
    fn pauses_grow_until_a_connection_lasts() {
        let mut pause = ReconnectPause { next: FIRST_PAUSE };
        let mut check = |end: ConnectionEnd, lasted: Duration, expected: Duration| {
            assert_eq!(pause.after(&end, lasted), expected, "{end:?} after {lasted:?}");
        };
        let unavailable = || ConnectionEnd::Failed(CallError::Unavailable("x".into()));
        let too_old = ConnectionEnd::Failed(CallError::Internal("x".into()));
        check(unavailable(), Duration::ZERO, FIRST_PAUSE);
        check(ConnectionEnd::Closed, Duration::ZERO, FIRST_PAUSE * 2);
        check(too_old, Duration::ZERO, PAUSE_AFTER_REFUSAL);
        check(ConnectionEnd::TooManyRequests, Duration::ZERO, FIRST_PAUSE * 8);
        for factor in [16, 32] {
            check(unavailable(), Duration::ZERO, FIRST_PAUSE * factor);
        }
        check(unavailable(), Duration::ZERO, MAX_PAUSE);
        check(ConnectionEnd::Closed, MAX_PAUSE, FIRST_PAUSE);
    }
}
