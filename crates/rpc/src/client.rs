//! The other end: a judicator that is elsewhere, or whichever of several answers.

mod channels;
mod repeatable;

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

use self::channels::{Channels, Peer};
use self::repeatable::Repeatable;
use crate::stall::{STALL, bound_sender};
use crate::wire::{Incoming, each, hash_out, id_out, micros, problem_in, proto};
use crate::{ByteStream, CallError, Calls, EventStream, HintStream, Secret};

/// How long one judicator may take to answer before the next is tried.
const PATIENCE: Duration = Duration::from_secs(10);

/// Carries calls to one judicator, and to the next when it does not answer.
#[derive(Clone)]
pub struct Client {
    channels: Channels,
}

impl Client {
    pub fn new(judicators: watch::Receiver<Vec<String>>, secret: Option<Secret>) -> Client {
        Client {
            channels: Channels::new(judicators, secret),
        }
    }

    /// Makes the call on each judicator in turn, from the one that answered last, until one answers.
    async fn call<M, T, F>(
        &self,
        patience: Duration,
        request: M,
        call: impl Fn(Peer, M) -> F,
    ) -> Result<T, CallError>
    where
        M: Clone,
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        self.call_someone(patience, request, call)
            .await
            .map(|(_, answer)| answer)
    }

    /// The same, and who it was that answered.
    async fn call_someone<M, T, F>(
        &self,
        patience: Duration,
        request: M,
        call: impl Fn(Peer, M) -> F,
    ) -> Result<(String, T), CallError>
    where
        M: Clone,
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let mut last = CallError::Unavailable("no judicator is known".into());
        for (address, peer) in self.channels.in_turn() {
            let asked = self.channels.ask(&address);
            let answer = match tokio::time::timeout(patience, call(peer, request.clone())).await {
                Ok(answer) => answer.map(tonic::Response::into_inner).map_err(problem_in),
                Err(_) => Err(CallError::Unavailable(format!("no answer within {patience:?}"))),
            };
            match answer {
                Err(CallError::Unavailable(why)) => {
                    last = CallError::Unavailable(format!("judicator {address}: {why}"));
                }
                answer => {
                    asked.on_answered();
                    return answer.map(|answer| (address, answer));
                }
            }
        }
        Err(last)
    }
}

/// Waits for as long as the count goes on.
async fn while_it_goes_on<T>(
    count: &AtomicU64,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let mut call = std::pin::pin!(call);
    let mut seen = 0;
    loop {
        if let Ok(answer) = tokio::time::timeout(STALL, &mut call).await {
            return answer;
        }
        let now = count.load(Ordering::Relaxed);
        if now == seen {
            return Err(CallError::Unavailable("the blob does not go on".into()));
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
                peer.add(request).await
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
                peer.cancel(request).await
            })
            .await?;
        understood(task.read())
    }

    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError> {
        let request = proto::TaskRequest {
            id: id_out(id.0),
            wait: wait.map(micros),
        };
        let patience = PATIENCE.saturating_add(wait.unwrap_or_default());
        let task = self
            .call(patience, request, |mut peer, request| async move {
                peer.get(request).await
            })
            .await?;
        understood(task.read())
    }

    async fn search(&self, query: Query) -> Result<Page, CallError> {
        let request: proto::Query = query.into();
        let page = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.search(request).await
            })
            .await?;
        understood(page.read())
    }

    async fn stats(&self) -> Result<Stats, CallError> {
        let stats = self
            .call(PATIENCE, proto::Nothing {}, |mut peer, request| async move {
                peer.stats(request).await
            })
            .await?;
        understood(stats.read())
    }

    async fn events(&self, id: TaskId) -> Result<EventStream, CallError> {
        let request = proto::TaskRequest {
            id: id_out(id.0),
            wait: None,
        };
        let events = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.events(request).await
            })
            .await?;
        Ok(events
            .map(|event| understood(event.map_err(problem_in)?.read()))
            .boxed())
    }

    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let request = proto::ReportRequest::from(report);
        let answer = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.report(request).await
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
                peer.watch(request).await
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
                peer.executors(request).await
            })
            .await?;
        understood(each("executors", answer.executors))
    }

    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        let answer = self
            .call(PATIENCE, proto::Nothing {}, |mut peer, request| async move {
                peer.judicators(request).await
            })
            .await?;
        understood(each("judicators", answer.judicators))
    }

    /// Goes to the next judicator as long as all that was sent can be sent again. A large blob takes its time: only a
    /// transfer that stands still is ended.
    async fn put_blob(&self, hash: BlobHash, bytes: ByteStream) -> Result<u64, CallError> {
        let bytes = Repeatable::new(bytes);
        let mut last = CallError::Unavailable("no judicator is known".into());
        for (address, mut peer) in self.channels.in_turn() {
            let asked = self.channels.ask(&address);
            let sent = Arc::new(AtomicU64::new(0));
            let counted = sent.clone();
            let parts = blob_parts(hash, &bytes).inspect(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            let put = async { peer.put_blob(parts).await.map_err(problem_in) };
            match while_it_goes_on(&sent, put).await {
                Err(CallError::Unavailable(why)) => {
                    last = CallError::Unavailable(format!("judicator {address}: {why}"));
                    if !bytes.may_repeat().await {
                        break;
                    }
                }
                answer => {
                    asked.on_answered();
                    return Ok(answer?.into_inner().size);
                }
            }
        }
        Err(last)
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        let request = proto::BlobHashes {
            hashes: hashes.into_iter().map(hash_out).collect(),
        };
        let answer = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.has_blobs(request).await
            })
            .await?;
        Ok(answer.blobs.into_iter().map(|blob| blob.size).collect())
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        let request = proto::BlobHashes {
            hashes: vec![hash_out(hash)],
        };
        let parts = self
            .call(PATIENCE, request, |mut peer, request| async move {
                peer.get_blob(request).await
            })
            .await?;
        Ok(bound_sender(
            parts.map_ok(|part| part.bytes).map_err(problem_in),
            STALL,
        ))
    }
}
