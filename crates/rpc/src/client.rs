//! The RPC client: makes calls to judicators on other machines, with failover.

mod answers;
mod blobs;
mod call;
mod channels;
mod classify;
mod failover_order;
mod figures;
mod follow;
mod live_output;
mod many_tasks;
mod problems;
mod replay;
mod waiting;

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use model::{
    AddTask, AddedTask, BlobHash, DrainReason, ExecutorName, ExecutorState, FollowRequest, GroupKey,
    GroupPage, GroupQuery, GroupState, History, HistorySpan, JudgeProblem, JudicatorState, Language, Page,
    ProblemEditor, ProblemName, ProblemSummary, Report, ReportAnswer, SessionId, Stats, Task, TaskCounts,
    TaskId, TaskQuery, TaskWait, UserName,
};
use tokio::sync::watch;
use tonic::Status;

use self::answers::{known_event, parsed_answer, parsed_task};
use self::call::{CallFailures, CallTimes};
use self::channels::{JudicatorChannels, JudicatorConnections};
use self::classify::{FailoverDecision, FailureCause, busy_if_unimplemented, classify_status};
use self::replay::ReplayBudget;
use crate::wire::{
    GroupRetry, GroupWait, MatchingRetry, ParseMessage, encode_hash, encode_id, error_from_status, micros,
    parse_each, proto,
};
use crate::{
    BlobFileSource, ByteStream, CallError, Calls, CancelledTasks, ChangeStream, ClusterSecret, EventStream,
    GroupStateStream, HintStream, OutputAnswerStream, OutputEventStream, OutputRequestStream, Readiness,
    RetriedTasks, RetryProgress,
};

/// How long one judicator may take to answer before the client tries the next.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The same for a readiness check. It is longer than a judicator waits for its store, so that the reason arrives.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for a probe of a suspended judicator. No caller waits for it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes gRPC calls to one judicator, and to the next one if that fails.
#[derive(Clone)]
pub struct RpcClient {
    channels: JudicatorChannels,
    replay_budget: ReplayBudget,
}

impl RpcClient {
    pub fn new(judicators: watch::Receiver<Vec<String>>, secret: Option<ClusterSecret>) -> RpcClient {
        RpcClient {
            channels: JudicatorChannels::new(judicators, secret),
            replay_budget: ReplayBudget::default(),
        }
    }

    /// Tries the call on one judicator after another, until one succeeds or refuses the request itself. Every call is
    /// safe to repeat.
    async fn call<M, T, F>(
        &self,
        times: impl Into<CallTimes>,
        request: M,
        call: impl Fn(JudicatorConnections, M) -> F,
    ) -> Result<T, CallError>
    where
        M: Clone,
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        self.call_with_address(times, request, call)
            .await
            .map(|(_, answer)| answer)
    }

    /// The same, and returns the address of the judicator that answered.
    async fn call_with_address<M, T, F>(
        &self,
        times: impl Into<CallTimes>,
        request: M,
        call: impl Fn(JudicatorConnections, M) -> F,
    ) -> Result<(String, T), CallError>
    where
        M: Clone,
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let CallTimes { wait, timeout } = times.into();
        self.probe_if_due();
        let mut failures = CallFailures::default();
        for (address, connections) in self.channels.in_failover_order() {
            let pending = self.channels.begin_call(&address, wait);
            let answer = match tokio::time::timeout(timeout, call(connections, request.clone())).await {
                Ok(answer) => answer.map(tonic::Response::into_inner),
                Err(_) => Err(Status::deadline_exceeded(format!("no answer within {timeout:?}"))),
            };
            match answer {
                Ok(answer) => {
                    pending.on_answered();
                    return Ok((address, answer));
                }
                Err(status) => failures.add(pending, &address, status)?,
            }
        }
        Err(failures.into_error())
    }

    /// Probes the home judicator if it is suspended and due, while calls go to others.
    fn probe_if_due(&self) {
        let Some((address, JudicatorConnections { mut calls, .. })) = self.channels.take_probe() else {
            return;
        };
        let channels = self.channels.clone();
        #[expect(clippy::disallowed_methods, reason = "one probe with a deadline")]
        tokio::spawn(async move {
            let answer = match tokio::time::timeout(PROBE_TIMEOUT, calls.check(proto::Nothing {})).await {
                Ok(answer) => answer.map(drop),
                Err(_) => Err(Status::deadline_exceeded(format!(
                    "no answer within {PROBE_TIMEOUT:?}"
                ))),
            };
            let answer = answer.map_err(|status| match classify_status(&status) {
                FailoverDecision::Suspend(cause) | FailoverDecision::TryNext(cause) => {
                    (cause, error_from_status(status))
                }
                FailoverDecision::ReturnError => (FailureCause::Internal, error_from_status(status)),
            });
            channels.on_probed(&address, answer);
        });
    }
}

#[async_trait]
impl Calls for RpcClient {
    async fn add(&self, tasks: Vec<AddTask>) -> Result<Vec<AddedTask>, CallError> {
        let request = proto::AddRequest {
            tasks: tasks.into_iter().map(Into::into).collect(),
        };
        let answer = self
            .call(CALL_TIMEOUT, request, |mut connections, request| async move {
                connections.calls.add(request).await
            })
            .await?;
        parsed_answer(parse_each("tasks", answer.tasks))
    }

    async fn cancel_matching(&self, query: TaskQuery) -> Result<CancelledTasks, CallError> {
        many_tasks::cancel_matching(self, query).await
    }

    async fn retry(&self, id: TaskId, new_id: TaskId) -> Result<Task, CallError> {
        many_tasks::retry(self, id, new_id).await
    }

    async fn retry_group(
        &self,
        key: GroupKey,
        continues: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        many_tasks::retry_group(self, GroupRetry { key, continues }).await
    }

    async fn retry_matching(
        &self,
        query: TaskQuery,
        continues: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        many_tasks::retry_matching(self, MatchingRetry { query, continues }).await
    }

    async fn group(&self, key: GroupKey, wait: Option<Duration>) -> Result<GroupState, CallError> {
        let request: proto::GroupRequest = GroupWait { key, wait }.into();
        let state = self
            .call(
                CallTimes::with_wait(wait),
                request,
                |mut connections, request| async move { connections.calls.group(request).await },
            )
            .await?;
        parsed_answer(state.parse())
    }

    async fn groups(&self, query: GroupQuery) -> Result<GroupPage, CallError> {
        let request: proto::GroupQuery = query.into();
        let page = self
            .call(CALL_TIMEOUT, request, |mut connections, request| async move {
                connections.calls.groups(request).await
            })
            .await?;
        parsed_answer(page.parse())
    }

    async fn group_events(&self, key: GroupKey) -> Result<GroupStateStream, CallError> {
        let request: proto::GroupKey = key.into();
        let (address, states) = self
            .call_with_address(CALL_TIMEOUT, request, |mut connections, request| async move {
                connections.calls.group_events(request).await
            })
            .await?;
        let channels = self.channels.clone();
        Ok(states
            .map_err(error_from_status)
            .inspect_err(move |error| channels.on_stream_failed(&address, error))
            .map(|state| parsed_answer(state?.parse()))
            .boxed())
    }

    async fn follow(&self, id: TaskId, request: FollowRequest) -> Result<OutputEventStream, CallError> {
        follow::follow(self, id, request).await
    }

    async fn serve_output(
        &self,
        executor: ExecutorName,
        session: SessionId,
        answers: OutputAnswerStream,
    ) -> Result<OutputRequestStream, CallError> {
        live_output::serve(self, executor, session, answers).await
    }

    async fn cancel(&self, id: TaskId) -> Result<Task, CallError> {
        let request = proto::TaskRequest {
            id: encode_id(id.0),
            wait: None,
        };
        let task = self
            .call(CALL_TIMEOUT, request, |mut connections, request| async move {
                connections.calls.cancel(request).await
            })
            .await?;
        parsed_task(task)
    }

    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError> {
        let request = proto::TaskRequest {
            id: encode_id(id.0),
            wait: wait.map(micros),
        };
        let task = self
            .call(
                CallTimes::with_wait(wait),
                request,
                |mut connections, request| async move { connections.calls.get(request).await },
            )
            .await?;
        parsed_task(task)
    }

    async fn waiting(&self, id: TaskId) -> Result<TaskWait, CallError> {
        waiting::waiting(self, id).await
    }

    async fn search(&self, query: TaskQuery) -> Result<Page, CallError> {
        many_tasks::search(self, query).await
    }

    async fn count(&self, query: TaskQuery) -> Result<TaskCounts, CallError> {
        many_tasks::count(self, query).await
    }

    async fn changes(&self) -> Result<ChangeStream, CallError> {
        many_tasks::changes(self).await
    }

    async fn stats(&self) -> Result<Stats, CallError> {
        figures::stats(self).await
    }

    async fn history(&self, span: HistorySpan) -> Result<History, CallError> {
        figures::history(self, span).await
    }

    async fn check(&self) -> Result<Readiness, CallError> {
        let ready = self
            .call(
                CHECK_TIMEOUT,
                proto::Nothing {},
                |mut connections, request| async move { connections.calls.check(request).await },
            )
            .await?;
        Ok(ready.into())
    }

    async fn events(&self, id: TaskId) -> Result<EventStream, CallError> {
        let request = proto::TaskRequest {
            id: encode_id(id.0),
            wait: None,
        };
        let (address, events) = self
            .call_with_address(CALL_TIMEOUT, request, |mut connections, request| async move {
                connections.calls.events(request).await
            })
            .await?;
        let channels = self.channels.clone();
        Ok(events
            .map_err(error_from_status)
            .inspect_err(move |error| channels.on_stream_failed(&address, error))
            .filter_map(|event| async move {
                match event {
                    Ok(event) => known_event(event).map(Ok),
                    Err(error) => Some(Err(error)),
                }
            })
            .boxed())
    }

    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let request = proto::ReportRequest::from(report);
        let answer = self
            .call(CALL_TIMEOUT, request, |mut connections, request| async move {
                connections.calls.report(request).await
            })
            .await?;
        parsed_answer(answer.parse())
    }

    async fn watch(&self, executor: ExecutorName, session: SessionId) -> Result<HintStream, CallError> {
        let request = proto::WatchRequest {
            executor: executor.to_string(),
            session: encode_id(session.0),
        };
        let (address, hints) = self
            .call_with_address(CALL_TIMEOUT, request, |mut connections, request| async move {
                connections.calls.watch(request).await
            })
            .await?;
        // Only the judicator that receives the reports knows how many tasks the executor wants, so only its hints are
        // useful. When another judicator becomes preferred, this stream ends, and the executor watches there.
        let mut preferred = self.channels.preferred();
        let preference_changed = async move {
            let is_another = |first: &Option<String>| first.as_ref() != Some(&address);
            preferred.wait_for(is_another).await.map(drop)
        };
        Ok(hints
            .map_ok(|_| ())
            .map_err(error_from_status)
            .take_until(Box::pin(preference_changed))
            .boxed())
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError> {
        let answer = self
            .call(
                CALL_TIMEOUT,
                proto::Nothing {},
                |mut connections, request| async move { connections.calls.executors(request).await },
            )
            .await?;
        parsed_answer(parse_each("executors", answer.executors))
    }

    async fn drain(
        &self,
        executor: ExecutorName,
        reason: DrainReason,
        by: Option<UserName>,
    ) -> Result<ExecutorState, CallError> {
        let request = proto::DrainRequest {
            executor: executor.to_string(),
            reason: reason.to_string(),
            by: by.map(|user| user.to_string()),
        };
        let state = self
            .call(CALL_TIMEOUT, request, |mut connections, request| async move {
                let drained = connections.calls.drain(request).await;
                drained.map_err(busy_if_unimplemented)
            })
            .await?;
        parsed_answer(state.parse())
    }

    async fn resume(&self, executor: ExecutorName) -> Result<ExecutorState, CallError> {
        let request = proto::ResumeRequest {
            executor: executor.to_string(),
        };
        let state = self
            .call(CALL_TIMEOUT, request, |mut connections, request| async move {
                let resumed = connections.calls.resume(request).await;
                resumed.map_err(busy_if_unimplemented)
            })
            .await?;
        parsed_answer(state.parse())
    }

    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        let answer = self
            .call(
                CALL_TIMEOUT,
                proto::Nothing {},
                |mut connections, request| async move { connections.calls.judicators(request).await },
            )
            .await?;
        parsed_answer(parse_each("judicators", answer.judicators))
    }

    async fn languages(&self) -> Result<Vec<Language>, CallError> {
        let answer = self
            .call(
                CALL_TIMEOUT,
                proto::Nothing {},
                |mut connections, request| async move {
                    connections
                        .calls
                        .languages(request)
                        .await
                        .map_err(busy_if_unimplemented)
                },
            )
            .await?;
        parsed_answer(parse_each("languages", answer.languages))
    }

    async fn put_problem(
        &self,
        problem: JudgeProblem,
        editor: ProblemEditor,
    ) -> Result<JudgeProblem, CallError> {
        problems::put(self, problem, editor).await
    }

    async fn problem(&self, name: ProblemName) -> Result<Option<JudgeProblem>, CallError> {
        problems::get(self, name).await
    }

    async fn problems(&self) -> Result<Vec<ProblemSummary>, CallError> {
        problems::list(self).await
    }

    async fn remove_problem(&self, name: ProblemName, editor: ProblemEditor) -> Result<bool, CallError> {
        problems::remove(self, name, editor).await
    }

    async fn put_blob(
        &self,
        hash: BlobHash,
        offset: Option<u64>,
        bytes: ByteStream,
    ) -> Result<u64, CallError> {
        blobs::put(self, hash, offset, bytes).await
    }

    async fn partial_blob(&self, hash: BlobHash) -> Result<u64, CallError> {
        let request = proto::BlobHashes {
            hashes: vec![encode_hash(hash)],
        };
        let answer = self
            .call(CALL_TIMEOUT, request, |mut connections, request| async move {
                connections.calls.partial_blob(request).await
            })
            .await?;
        Ok(answer.size)
    }

    async fn put_blob_file(&self, file: BlobFileSource) -> Result<(), CallError> {
        blobs::put_file(self, file).await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        let request = proto::BlobHashes {
            hashes: hashes.into_iter().map(encode_hash).collect(),
        };
        let answer = self
            .call(CALL_TIMEOUT, request, |mut connections, request| async move {
                connections.calls.has_blobs(request).await
            })
            .await?;
        Ok(answer.blobs.into_iter().map(|blob| blob.size).collect())
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        blobs::get(self, hash, None).await
    }

    async fn get_blob_range(&self, hash: BlobHash, range: Range<u64>) -> Result<ByteStream, CallError> {
        blobs::get(self, hash, Some(range)).await
    }
}
