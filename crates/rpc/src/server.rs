//! The RPC server: parses each request, makes the call, and encodes the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::stall_timeout::{STALL_TIMEOUT, fail_if_receiver_stalls, fail_if_sender_stalls};
use crate::wire::proto::judicator_server::{Judicator, JudicatorServer};
use crate::wire::{
    DrainCall, GroupRetry, GroupWait, MatchingRetry, ParseMessage, PutProblemCall, RemoveProblemCall,
    parse_each, parse_form, parse_hash, parse_id, proto, status_from_error,
};
use crate::{CallError, Calls, ClusterSecret};

/// Why the gRPC server of a judicator stopped.
#[derive(Debug, Error)]
#[error("the RPC server failed")]
pub struct RpcServeError(#[from] tonic::transport::Error);

/// The largest message, for a report with outputs of several tasks or a batch of tasks.
pub(crate) const MESSAGE_LIMIT: usize = 128 << 20;

/// Serves until `stop`. Then calls under way finish, and streams end.
pub async fn serve(
    listener: TcpListener,
    calls: Arc<dyn Calls>,
    secret: Option<ClusterSecret>,
    stop: CancellationToken,
) -> Result<(), RpcServeError> {
    let service = RpcService {
        calls,
        stop: stop.clone(),
    };
    let service = JudicatorServer::new(service)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT);
    let guard = move |request: Request<()>| {
        if let Some(secret) = &secret {
            secret.verify(&request)?;
        }
        Ok(request)
    };
    Server::builder()
        // A client that disappeared without closing its connection must not keep its streams open for ever.
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        // On a slow line the answer to a ping waits behind the bytes of an upload.
        .http2_keepalive_timeout(Some(STALL_TIMEOUT))
        .add_service(InterceptedService::new(service, guard))
        .serve_with_incoming_shutdown(
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            stop.cancelled_owned(),
        )
        .await?;
    Ok(())
}

/// The gRPC service of a judicator, over an implementation of [`Calls`].
struct RpcService {
    calls: Arc<dyn Calls>,
    stop: CancellationToken,
}

/// The answer of a gRPC method of the judicator's RPC server.
type RpcResult<T> = Result<Response<T>, Status>;
/// The streaming answer of a gRPC method of the judicator's RPC server.
type RpcStream<T> = BoxStream<'static, Result<T, Status>>;

fn parse<M: ParseMessage<T>, T>(message: M) -> Result<T, Status> {
    message
        .parse()
        .map_err(|invalid| status_from_error(invalid.into()))
}

fn encode<T, M: From<T>>(answer: Result<T, CallError>) -> RpcResult<M> {
    answer
        .map(|answer| Response::new(M::from(answer)))
        .map_err(status_from_error)
}

fn or_status<T>(parsed: Result<T, model::InvalidField>) -> Result<T, Status> {
    parsed.map_err(|invalid| status_from_error(invalid.into()))
}

impl RpcService {
    fn stream<T: Send + 'static, M: Send + 'static>(
        &self,
        answers: BoxStream<'static, Result<T, CallError>>,
        encode: impl Fn(T) -> M + Send + 'static,
    ) -> RpcResult<RpcStream<M>> {
        let stop = self.stop.clone().cancelled_owned();
        Ok(Response::new(
            answers
                .map_ok(encode)
                .map_err(status_from_error)
                .take_until(stop)
                .boxed(),
        ))
    }
}

#[tonic::async_trait]
impl Judicator for RpcService {
    type EventsStream = RpcStream<proto::Event>;
    type WatchStream = RpcStream<proto::Nothing>;
    type GetBlobStream = RpcStream<proto::BlobPart>;
    type ChangesStream = RpcStream<proto::Nothing>;
    type GroupEventsStream = RpcStream<proto::GroupState>;
    type FollowStream = RpcStream<proto::OutputEvent>;
    type ServeOutputStream = RpcStream<proto::OutputRequest>;

    async fn add(&self, request: Request<proto::AddRequest>) -> RpcResult<proto::AddAnswer> {
        let tasks = request.into_inner().tasks;
        let forms = tasks
            .iter()
            .filter_map(|task| Some(parse_form(task.spec.as_ref()?.form)));
        if let Some(form) = forms.max().filter(|form| !form.is_known()) {
            return Err(status_from_error(CallError::NewerForm(form)));
        }
        let tasks = or_status(parse_each("tasks", tasks))?;
        let added = self.calls.add(tasks).await.map_err(status_from_error)?;
        Ok(Response::new(proto::AddAnswer {
            tasks: added.into_iter().map(Into::into).collect(),
        }))
    }

    async fn cancel(&self, request: Request<proto::TaskRequest>) -> RpcResult<proto::Task> {
        let id = or_status(parse_id("id", &request.get_ref().id))?;
        encode(self.calls.cancel(id).await)
    }

    async fn cancel_matching(&self, request: Request<proto::Query>) -> RpcResult<proto::CancelledTasks> {
        let query = parse(request.into_inner())?;
        encode(self.calls.cancel_matching(query).await)
    }

    async fn retry(&self, request: Request<proto::RetryRequest>) -> RpcResult<proto::Task> {
        let request = request.into_inner();
        let id = or_status(parse_id("id", &request.id))?;
        let new_id = or_status(parse_id("new_id", &request.new_id))?;
        encode(self.calls.retry(id, new_id).await)
    }

    async fn retry_group(
        &self,
        request: Request<proto::RetryGroupRequest>,
    ) -> RpcResult<proto::RetriedTasks> {
        let GroupRetry { key, continues } = parse(request.into_inner())?;
        encode(self.calls.retry_group(key, continues).await)
    }

    async fn retry_matching(
        &self,
        request: Request<proto::RetryMatchingRequest>,
    ) -> RpcResult<proto::RetriedTasks> {
        let MatchingRetry { query, continues } = parse(request.into_inner())?;
        encode(self.calls.retry_matching(query, continues).await)
    }

    async fn group(&self, request: Request<proto::GroupRequest>) -> RpcResult<proto::GroupState> {
        let GroupWait { key, wait } = parse(request.into_inner())?;
        tokio::select! {
            state = self.calls.group(key.clone(), wait) => encode(state),
            () = self.stop.cancelled() => encode(self.calls.group(key, None).await),
        }
    }

    async fn groups(&self, request: Request<proto::GroupQuery>) -> RpcResult<proto::GroupPage> {
        let query = parse(request.into_inner())?;
        encode(self.calls.groups(query).await)
    }

    async fn group_events(&self, request: Request<proto::GroupKey>) -> RpcResult<Self::GroupEventsStream> {
        let key = parse(request.into_inner())?;
        let states = self.calls.group_events(key).await.map_err(status_from_error)?;
        self.stream(states, Into::into)
    }

    async fn follow(&self, request: Request<proto::FollowRequest>) -> RpcResult<Self::FollowStream> {
        let request = request.into_inner();
        let id = or_status(parse_id("id", &request.id))?;
        let events = self
            .calls
            .follow(id, parse(request)?)
            .await
            .map_err(status_from_error)?;
        // The end of the stream means that the task is done, so a stop must not look like it.
        let stopping = CallError::Unavailable("the judicator is stopping".into());
        let stopped = self.stop.clone().cancelled_owned();
        let stopped = futures::stream::once(stopped.map(|()| Some(Err(stopping))));
        let events = events.map(Some).chain(futures::stream::iter([None]));
        let events = futures::stream::select(events, stopped.boxed());
        let events = events.scan((), |(), event| std::future::ready(event));
        Ok(Response::new(
            events.map_ok(Into::into).map_err(status_from_error).boxed(),
        ))
    }

    async fn serve_output(
        &self,
        request: Request<Streaming<proto::OutputAnswer>>,
    ) -> RpcResult<Self::ServeOutputStream> {
        let mut answers = request.into_inner();
        let first = tokio::time::timeout(STALL_TIMEOUT, answers.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("received no message for too long"))?;
        let from = first?.and_then(|first| first.from);
        let from =
            from.ok_or_else(|| Status::invalid_argument("the first message must name the executor"))?;
        let (executor, session) = parse(from)?;
        // An answer that cannot be parsed ends the stream: nothing is known about the next one.
        let answers = answers
            .map(|answer| answer.ok()?.parse().ok())
            .take_while(|answer| std::future::ready(answer.is_some()))
            .filter_map(std::future::ready)
            .boxed();
        let requests = self
            .calls
            .serve_output(executor, session, answers)
            .await
            .map_err(status_from_error)?;
        self.stream(requests, Into::into)
    }

    async fn get(&self, request: Request<proto::TaskRequest>) -> RpcResult<proto::Task> {
        let request = request.into_inner();
        let id = or_status(parse_id("id", &request.id))?;
        // When this process stops, a wait ends early. The caller repeats the call at another judicator.
        let wait = request.wait.map(Duration::from_micros);
        tokio::select! {
            task = self.calls.get(id, wait) => encode(task),
            () = self.stop.cancelled() => encode(self.calls.get(id, None).await),
        }
    }

    async fn waiting(&self, request: Request<proto::TaskRequest>) -> RpcResult<proto::WaitAnswer> {
        let id = or_status(parse_id("id", &request.get_ref().id))?;
        encode(self.calls.waiting(id).await)
    }

    async fn search(&self, request: Request<proto::Query>) -> RpcResult<proto::Page> {
        let query = parse(request.into_inner())?;
        encode(self.calls.search(query).await)
    }

    async fn count(&self, request: Request<proto::Query>) -> RpcResult<proto::TaskCounts> {
        let query = parse(request.into_inner())?;
        encode(self.calls.count(query).await)
    }

    async fn changes(&self, _: Request<proto::Nothing>) -> RpcResult<Self::ChangesStream> {
        let ticks = self.calls.changes().await.map_err(status_from_error)?;
        self.stream(ticks, |()| proto::Nothing {})
    }

    async fn stats(&self, _: Request<proto::Nothing>) -> RpcResult<proto::StatsAnswer> {
        encode(self.calls.stats().await)
    }

    async fn history(&self, request: Request<proto::HistoryRequest>) -> RpcResult<proto::HistoryAnswer> {
        let span = parse(request.into_inner())?;
        encode(self.calls.history(span).await)
    }

    async fn check(&self, _: Request<proto::Nothing>) -> RpcResult<proto::ReadyAnswer> {
        encode(self.calls.check().await)
    }

    async fn events(&self, request: Request<proto::TaskRequest>) -> RpcResult<Self::EventsStream> {
        let id = or_status(parse_id("id", &request.get_ref().id))?;
        let events = self.calls.events(id).await.map_err(status_from_error)?;
        self.stream(events, Into::into)
    }

    async fn report(&self, request: Request<proto::ReportRequest>) -> RpcResult<proto::ReportAnswer> {
        let report = parse(request.into_inner())?;
        encode(self.calls.report(report).await)
    }

    async fn watch(&self, request: Request<proto::WatchRequest>) -> RpcResult<Self::WatchStream> {
        let request = request.into_inner();
        let executor = model::ExecutorName::new(request.executor)
            .map_err(|wrong| model::InvalidField::new("executor", wrong.to_string()));
        let session = or_status(parse_id("session", &request.session))?;
        let hints = self
            .calls
            .watch(or_status(executor)?, session)
            .await
            .map_err(status_from_error)?;
        self.stream(hints, |()| proto::Nothing {})
    }

    async fn languages(&self, _: Request<proto::Nothing>) -> RpcResult<proto::LanguagesAnswer> {
        let languages = self.calls.languages().await.map_err(status_from_error)?;
        let languages = languages.into_iter().map(Into::into).collect();
        Ok(Response::new(proto::LanguagesAnswer { languages }))
    }

    async fn executors(&self, _: Request<proto::Nothing>) -> RpcResult<proto::ExecutorsAnswer> {
        let executors = self.calls.executors().await.map_err(status_from_error)?;
        let executors = executors.into_iter().map(Into::into).collect();
        Ok(Response::new(proto::ExecutorsAnswer { executors }))
    }

    async fn drain(&self, request: Request<proto::DrainRequest>) -> RpcResult<proto::ExecutorState> {
        let DrainCall { executor, reason, by } = parse(request.into_inner())?;
        encode(self.calls.drain(executor, reason, by).await)
    }

    async fn resume(&self, request: Request<proto::ResumeRequest>) -> RpcResult<proto::ExecutorState> {
        let executor = parse(request.into_inner())?;
        encode(self.calls.resume(executor).await)
    }

    async fn judicators(&self, _: Request<proto::Nothing>) -> RpcResult<proto::JudicatorsAnswer> {
        let judicators = self.calls.judicators().await.map_err(status_from_error)?;
        let judicators = judicators.into_iter().map(Into::into).collect();
        Ok(Response::new(proto::JudicatorsAnswer { judicators }))
    }

    async fn put_problem(
        &self,
        request: Request<proto::PutProblemRequest>,
    ) -> RpcResult<proto::JudgeProblem> {
        let PutProblemCall { problem, editor } = parse(request.into_inner())?;
        encode(self.calls.put_problem(problem, editor).await)
    }

    async fn problem(&self, request: Request<proto::ProblemRequest>) -> RpcResult<proto::ProblemAnswer> {
        let problem = self.calls.problem(parse(request.into_inner())?).await;
        let problem = problem.map_err(status_from_error)?.map(Into::into);
        Ok(Response::new(proto::ProblemAnswer { problem }))
    }

    async fn problems(&self, _: Request<proto::Nothing>) -> RpcResult<proto::ProblemsAnswer> {
        let problems = self.calls.problems().await.map_err(status_from_error)?;
        let problems = problems.into_iter().map(Into::into).collect();
        Ok(Response::new(proto::ProblemsAnswer { problems }))
    }

    async fn remove_problem(
        &self,
        request: Request<proto::RemoveProblemRequest>,
    ) -> RpcResult<proto::RemovedProblem> {
        let RemoveProblemCall { name, editor } = parse(request.into_inner())?;
        let existed = self.calls.remove_problem(name, editor).await;
        let existed = existed.map_err(status_from_error)?;
        Ok(Response::new(proto::RemovedProblem { existed }))
    }

    async fn put_blob(&self, request: Request<Streaming<proto::BlobPart>>) -> RpcResult<proto::BlobSize> {
        let mut parts = request.into_inner();
        let first = tokio::time::timeout(STALL_TIMEOUT, parts.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("received no bytes for too long"))?;
        let first = first?.unwrap_or_default();
        let hash = or_status(parse_hash("hash", &first.hash))?;
        let rest = parts
            .map_ok(|part| part.bytes)
            .map_err(crate::wire::error_from_status);
        let bytes = fail_if_sender_stalls(
            futures::stream::iter([Ok(first.bytes)]).chain(rest),
            STALL_TIMEOUT,
        );
        let size = self
            .calls
            .put_blob(hash, first.offset, bytes)
            .await
            .map_err(status_from_error)?;
        Ok(Response::new(proto::BlobSize { size }))
    }

    async fn partial_blob(&self, request: Request<proto::BlobHashes>) -> RpcResult<proto::BlobSize> {
        let hash = request.get_ref().hashes.first().map_or(&[][..], |hash| hash);
        let hash = or_status(parse_hash("hashes", hash))?;
        let size = self.calls.partial_blob(hash).await.map_err(status_from_error)?;
        Ok(Response::new(proto::BlobSize { size }))
    }

    async fn has_blobs(&self, request: Request<proto::BlobHashes>) -> RpcResult<proto::BlobSizes> {
        let hashes = request
            .get_ref()
            .hashes
            .iter()
            .map(|hash| parse_hash("hashes", hash))
            .collect();
        let sizes = self
            .calls
            .has_blobs(or_status(hashes)?)
            .await
            .map_err(status_from_error)?;
        let blobs = sizes.into_iter().map(|size| proto::Existing { size }).collect();
        Ok(Response::new(proto::BlobSizes { blobs }))
    }

    async fn get_blob(&self, request: Request<proto::GetBlobRequest>) -> RpcResult<Self::GetBlobStream> {
        let proto::GetBlobRequest {
            hashes,
            offset,
            length,
        } = request.into_inner();
        let hash = hashes.first().map_or(&[][..], |hash| hash);
        let hash = or_status(parse_hash("hashes", hash))?;
        let bytes = match length {
            None => self.calls.get_blob(hash).await,
            Some(length) => {
                let range = offset..offset.saturating_add(length);
                self.calls.get_blob_range(hash, range).await
            }
        };
        let bytes = bytes.map_err(status_from_error)?;
        self.stream(fail_if_receiver_stalls(bytes, STALL_TIMEOUT), move |bytes| {
            proto::BlobPart {
                hash: Bytes::new(),
                bytes,
                offset: length.map(|_| offset),
            }
        })
    }
}
