//! The other end: a judicator that is elsewhere, or whichever of several answers.

mod channels;
mod order;
mod repeatable;
mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use model::{
    Add, Added, BlobHash, ExecutorName, ExecutorState, Invalid, JudicatorState, Page, Query, Report,
    ReportAnswer, SessionId, Stats, Task, TaskId,
};
use tokio::sync::watch;
use tonic::Status;

use self::channels::{Asked, Channels, Peer};
use self::repeatable::{Memory, Repeatable};
use self::verdict::{Cause, Verdict, verdict};
use crate::stall::{STALL, bound_sender};
use crate::wire::{Incoming, each, hash_out, id_out, micros, problem_in, proto};
use crate::{ByteStream, CallError, Calls, EventStream, HintStream, Ready, Secret};

/// How long one judicator may take to answer before the next is tried.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same for a check. Longer than a judicator waits for its store, so that its reason is heard.
const CHECK_PATIENCE: Duration = Duration::from_secs(2);
/// And for a judicator to which one would like to come back, when nobody waits for it.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// What a judicator stores of a blob in a second, at the least.
const SLOWEST_STORE: u64 = 1 << 20;

/// Carries calls to one judicator, and to the next when that one does not answer or cannot do it.
#[derive(Clone)]
pub struct Client {
    channels: Channels,
    memory: Memory,
}

impl Client {
    pub fn new(judicators: watch::Receiver<Vec<String>>, secret: Option<Secret>) -> Client {
        Client {
            channels: Channels::new(judicators, secret),
            memory: Memory::default(),
        }
    }

    /// Makes the call on each judicator in turn until one has done it, or says what is wrong with it. All calls are
    /// safe to repeat.
    async fn call<M, T, F>(
        &self,
        times: impl Into<Times>,
        request: M,
        call: impl Fn(Peer, M) -> F,
    ) -> Result<T, CallError>
    where
        M: Clone,
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        self.call_someone(times, request, call)
            .await
            .map(|(_, answer)| answer)
    }

    /// The same, and who it was that answered.
    async fn call_someone<M, T, F>(
        &self,
        times: impl Into<Times>,
        request: M,
        call: impl Fn(Peer, M) -> F,
    ) -> Result<(String, T), CallError>
    where
        M: Clone,
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let Times { wait, patience } = times.into();
        self.probe_if_due();
        let mut refusals = Refusals::default();
        for (address, peer) in self.channels.in_turn() {
            let asked = self.channels.ask(&address, wait);
            let answer = match tokio::time::timeout(patience, call(peer, request.clone())).await {
                Ok(answer) => answer.map(tonic::Response::into_inner),
                Err(_) => Err(Status::deadline_exceeded(format!(
                    "no answer within {patience:?}"
                ))),
            };
            match answer {
                Ok(answer) => {
                    asked.on_answered();
                    return Ok((address, answer));
                }
                Err(status) => refusals.add(asked, &address, status)?,
            }
        }
        Err(refusals.most_telling())
    }

    /// Asks a judicator that was left whether it works again, while the calls go to others.
    fn probe_if_due(&self) {
        let Some((address, Peer { mut calls, .. })) = self.channels.take_probe() else {
            return;
        };
        let channels = self.channels.clone();
        tokio::spawn(async move {
            let answer = match tokio::time::timeout(PROBE_PATIENCE, calls.check(proto::Nothing {})).await {
                Ok(answer) => answer.map(drop),
                Err(_) => Err(Status::deadline_exceeded(format!(
                    "no answer within {PROBE_PATIENCE:?}"
                ))),
            };
            let answer = answer.map_err(|status| match verdict(&status) {
                Verdict::Leave(cause) | Verdict::TryNext(cause) => (cause, problem_in(status)),
                Verdict::Final => (Cause::Internal, problem_in(status)),
            });
            channels.on_probed(&address, answer);
        });
    }
}

/// How long a call may take.
struct Times {
    /// What the caller asks the judicator to wait for.
    wait: Duration,
    /// When the next judicator is tried.
    patience: Duration,
}

impl From<Duration> for Times {
    fn from(patience: Duration) -> Times {
        Times {
            wait: Duration::ZERO,
            patience,
        }
    }
}

/// Why the judicators that were asked so far could not do a call.
#[derive(Default)]
struct Refusals(Option<(Cause, CallError)>);

impl Refusals {
    /// Gives the error back if no other judicator is to be asked.
    fn add(&mut self, asked: Asked<'_>, address: &str, status: Status) -> Result<(), CallError> {
        let verdict = verdict(&status);
        let error = problem_in(status);
        let cause = match verdict {
            Verdict::Final => {
                asked.on_answered();
                return Err(error);
            }
            Verdict::TryNext(cause) => {
                asked.try_next();
                cause
            }
            Verdict::Leave(cause) => {
                asked.leave(cause, &error);
                cause
            }
        };
        if self.0.as_ref().is_none_or(|(most, _)| cause > *most) {
            self.0 = Some((cause, error.of_judicator(address)));
        }
        Ok(())
    }

    fn most_telling(self) -> CallError {
        match self.0 {
            Some((_, error)) => error,
            None => CallError::Unavailable("no judicator is known".into()),
        }
    }
}

/// Waits for as long as bytes are taken. When all of them are sent the judicator still has to store them, so what was
/// sent so far gives it further time.
async fn while_it_goes_on<T>(
    bytes: &AtomicU64,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let mut call = std::pin::pin!(call);
    let mut seen = 0;
    loop {
        let patience = STALL + Duration::from_secs(seen / SLOWEST_STORE);
        if let Ok(answer) = tokio::time::timeout(patience, &mut call).await {
            return answer;
        }
        let now = bytes.load(Ordering::Relaxed);
        if now == seen {
            return Err(Status::unavailable("no byte of the blob was taken for too long"));
        }
        seen = now;
    }
}

/// An answer that cannot be understood is the judicator's fault, not the caller's.
fn understood<T>(read: Result<T, Invalid>) -> Result<T, CallError> {
    read.map_err(|invalid| CallError::Internal(format!("a judicator's answer makes no sense: {invalid}")))
}

/// The hash first, then the bytes. If the stream itself fails it ends early: the judicator then finds another hash
/// than the one named, and keeps nothing.
fn blob_parts(hash: BlobHash, bytes: &Repeatable) -> impl Stream<Item = proto::BlobPart> + Send + 'static {
    let first = proto::BlobPart {
        hash: hash_out(hash),
        bytes: Bytes::new(),
    };
    let rest = bytes.replay().map(|bytes| proto::BlobPart {
        hash: Bytes::new(),
        bytes,
    });
    stream::once(async { first }).chain(rest)
}

#[async_trait]
impl Calls for Client {
    async fn add(&self, tasks: Vec<Add>) -> Result<Vec<Added>, CallError> {
        let request = proto::AddRequest {
            tasks: tasks.into_iter().map(Into::into).collect(),
        };
        let answer = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.calls.add(request).await
            })
            .await?;
        understood(each("tasks", answer.tasks))
    }

    async fn cancel(&self, id: TaskId) -> Result<Task, CallError> {
        let request = proto::TaskRequest {
            id: id_out(id.0),
            wait: None,
        };
        let task = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.calls.cancel(request).await
            })
            .await?;
        understood(task.read())
    }

    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError> {
        let request = proto::TaskRequest {
            id: id_out(id.0),
            wait: wait.map(micros),
        };
        let wait = wait.unwrap_or_default();
        let times = Times {
            wait,
            patience: PATIENCE.saturating_add(wait),
        };
        let task = self
            .call(times, request, |mut peer, request| async move {
                peer.calls.get(request).await
            })
            .await?;
        understood(task.read())
    }

    async fn search(&self, query: Query) -> Result<Page, CallError> {
        let request: proto::Query = query.into();
        let page = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.calls.search(request).await
            })
            .await?;
        understood(page.read())
    }

    async fn stats(&self) -> Result<Stats, CallError> {
        let stats = self
            .call(PATIENCE, proto::Nothing {}, |mut peer, request| async move {
                peer.calls.stats(request).await
            })
            .await?;
        understood(stats.read())
    }

    async fn check(&self) -> Result<Ready, CallError> {
        let ready = self
            .call(
                CHECK_PATIENCE,
                proto::Nothing {},
                |mut peer, request| async move { peer.calls.check(request).await },
            )
            .await?;
        Ok(ready.into())
    }

    async fn events(&self, id: TaskId) -> Result<EventStream, CallError> {
        let request = proto::TaskRequest {
            id: id_out(id.0),
            wait: None,
        };
        let (address, events) = self
            .call_someone(PATIENCE, request, |mut peer, request| async move {
                peer.calls.events(request).await
            })
            .await?;
        let channels = self.channels.clone();
        Ok(events
            .map_err(problem_in)
            .inspect_err(move |error| channels.on_stream_failed(&address, error))
            .map(|event| understood(event?.read()))
            .boxed())
    }

    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let request = proto::ReportRequest::from(report);
        let answer = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.calls.report(request).await
            })
            .await?;
        understood(answer.read())
    }

    async fn watch(&self, executor: ExecutorName, session: SessionId) -> Result<HintStream, CallError> {
        let request = proto::WatchRequest {
            executor: executor.to_string(),
            session: id_out(session.0),
        };
        let (address, hints) = self
            .call_someone(PATIENCE, request, |mut peer, request| async move {
                peer.calls.watch(request).await
            })
            .await?;
        // Hints are good only from the judicator that gets the reports: it alone knows how much work is wanted. When
        // another is asked first, this stream ends, and its reader begins a new one there.
        let mut preferred = self.channels.preferred();
        let moved = async move {
            let elsewhere = |first: &Option<String>| first.as_ref() != Some(&address);
            preferred.wait_for(elsewhere).await.map(drop)
        };
        Ok(hints
            .map_ok(|_| ())
            .map_err(problem_in)
            .take_until(Box::pin(moved))
            .boxed())
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError> {
        let answer = self
            .call(PATIENCE, proto::Nothing {}, |mut peer, request| async move {
                peer.calls.executors(request).await
            })
            .await?;
        understood(each("executors", answer.executors))
    }

    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        let answer = self
            .call(PATIENCE, proto::Nothing {}, |mut peer, request| async move {
                peer.calls.judicators(request).await
            })
            .await?;
        understood(each("judicators", answer.judicators))
    }

    /// Goes to the next judicator as long as all that was sent can be sent again. A large blob takes its time: only a
    /// transfer that stands still is ended.
    async fn put_blob(&self, hash: BlobHash, bytes: ByteStream) -> Result<u64, CallError> {
        let bytes = Repeatable::new(bytes, self.memory.clone());
        let mut refusals = Refusals::default();
        self.probe_if_due();
        for (address, mut peer) in self.channels.in_turn() {
            let asked = self.channels.ask(&address, Duration::ZERO);
            let sent = Arc::new(AtomicU64::new(0));
            let counted = sent.clone();
            let parts = blob_parts(hash, &bytes).inspect(move |part| {
                counted.fetch_add(part.bytes.len() as u64, Ordering::Relaxed);
            });
            match while_it_goes_on(&sent, peer.blobs.put_blob(parts)).await {
                Ok(answer) => {
                    asked.on_answered();
                    return Ok(answer.into_inner().size);
                }
                Err(status) => refusals.add(asked, &address, status)?,
            }
            if !bytes.may_repeat().await {
                break;
            }
        }
        Err(refusals.most_telling())
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        let request = proto::BlobHashes {
            hashes: hashes.into_iter().map(hash_out).collect(),
        };
        let answer = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.calls.has_blobs(request).await
            })
            .await?;
        Ok(answer.blobs.into_iter().map(|blob| blob.size).collect())
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        let request = proto::BlobHashes {
            hashes: vec![hash_out(hash)],
        };
        let (address, parts) = self
            .call_someone(PATIENCE, request, |mut peer, request| async move {
                peer.blobs.get_blob(request).await
            })
            .await?;
        let channels = self.channels.clone();
        let bytes = bound_sender(parts.map_ok(|part| part.bytes).map_err(problem_in), STALL);
        Ok(bytes
            .inspect_err(move |error| channels.on_stream_failed(&address, error))
            .boxed())
    }
}
