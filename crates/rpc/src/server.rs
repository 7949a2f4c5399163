//! The judicator's end: each call is read, made, and its answer written.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::stall::{STALL, bound_receiver, bound_sender};
use crate::wire::proto::judicator_server::{Judicator, JudicatorServer};
use crate::wire::{Incoming, each, hash_in, id_in, problem_out, proto};
use crate::{CallError, Calls, Secret};

#[derive(Debug, Error)]
#[error("the RPC server failed")]
pub struct ServeError(#[from] tonic::transport::Error);

/// The largest message: a report with some tasks' outputs, or a batch of tasks.
pub(crate) const MESSAGE_LIMIT: usize = 128 << 20;

/// Serves until told to stop; calls under way are finished, streams are ended.
pub async fn serve(
    listener: TcpListener,
    calls: Arc<dyn Calls>,
    secret: Option<Secret>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let shell = Shell {
        calls,
        stop: stop.clone(),
    };
    let service = JudicatorServer::new(shell)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT);
    let guard = move |request: Request<()>| {
        if let Some(secret) = &secret {
            secret.demand(&request)?;
        }
        Ok(request)
    };
    Server::builder()
        // A peer that vanished without a word must not hold its streams for ever.
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .add_service(InterceptedService::new(service, guard))
        .serve_with_incoming_shutdown(
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            stop.cancelled_owned(),
        )
        .await?;
    Ok(())
}

struct Shell {
    calls: Arc<dyn Calls>,
    stop: CancellationToken,
}

type Answer<T> = Result<Response<T>, Status>;
type Answers<T> = BoxStream<'static, Result<T, Status>>;

fn read<M: Incoming<T>, T>(message: M) -> Result<T, Status> {
    message.read().map_err(|invalid| problem_out(invalid.into()))
}

fn write<T, M: From<T>>(answer: Result<T, CallError>) -> Answer<M> {
    answer
        .map(|answer| Response::new(M::from(answer)))
        .map_err(problem_out)
}

fn invalid<T>(read: Result<T, model::Invalid>) -> Result<T, Status> {
    read.map_err(|invalid| problem_out(invalid.into()))
}

impl Shell {
    fn stream<T: Send + 'static, M: Send + 'static>(
        &self,
        answers: BoxStream<'static, Result<T, CallError>>,
        write: impl Fn(T) -> M + Send + 'static,
    ) -> Answer<Answers<M>> {
        let stop = self.stop.clone().cancelled_owned();
        Ok(Response::new(
            answers
                .map_ok(write)
                .map_err(problem_out)
                .take_until(stop)
                .boxed(),
        ))
    }
}

#[tonic::async_trait]
impl Judicator for Shell {
    type EventsStream = Answers<proto::Event>;
    type WatchStream = Answers<proto::Nothing>;
    type GetBlobStream = Answers<proto::BlobPart>;

    async fn add(&self, request: Request<proto::AddRequest>) -> Answer<proto::AddAnswer> {
        let tasks = invalid(each("tasks", request.into_inner().tasks))?;
        let added = self.calls.add(tasks).await.map_err(problem_out)?;
        Ok(Response::new(proto::AddAnswer {
            tasks: added.into_iter().map(Into::into).collect(),
        }))
    }

    async fn cancel(&self, request: Request<proto::TaskRequest>) -> Answer<proto::Task> {
        let id = invalid(id_in("id", &request.get_ref().id))?;
        write(self.calls.cancel(id).await)
    }

    async fn get(&self, request: Request<proto::TaskRequest>) -> Answer<proto::Task> {
        let request = request.into_inner();
        let id = invalid(id_in("id", &request.id))?;
        // A wait that would outlive this process is cut short: the caller asks again, elsewhere.
        let wait = request.wait.map(Duration::from_micros);
        tokio::select! {
            task = self.calls.get(id, wait) => write(task),
            () = self.stop.cancelled() => write(self.calls.get(id, None).await),
        }
    }

    async fn search(&self, request: Request<proto::Query>) -> Answer<proto::Page> {
        let query = read(request.into_inner())?;
        write(self.calls.search(query).await)
    }

    async fn stats(&self, _: Request<proto::Nothing>) -> Answer<proto::StatsAnswer> {
        write(self.calls.stats().await)
    }

    async fn check(&self, _: Request<proto::Nothing>) -> Answer<proto::ReadyAnswer> {
        write(self.calls.check().await)
    }

    async fn events(&self, request: Request<proto::TaskRequest>) -> Answer<Self::EventsStream> {
        let id = invalid(id_in("id", &request.get_ref().id))?;
        let events = self.calls.events(id).await.map_err(problem_out)?;
        self.stream(events, Into::into)
    }

    async fn report(&self, request: Request<proto::ReportRequest>) -> Answer<proto::ReportAnswer> {
        let report = read(request.into_inner())?;
        write(self.calls.report(report).await)
    }

    async fn watch(&self, request: Request<proto::WatchRequest>) -> Answer<Self::WatchStream> {
        let request = request.into_inner();
        let executor = model::ExecutorName::new(request.executor)
            .map_err(|wrong| model::Invalid::new("executor", wrong.to_string()));
        let session = invalid(id_in("session", &request.session))?;
        let hints = self
            .calls
            .watch(invalid(executor)?, session)
            .await
            .map_err(problem_out)?;
        self.stream(hints, |()| proto::Nothing {})
    }

    async fn executors(&self, _: Request<proto::Nothing>) -> Answer<proto::ExecutorsAnswer> {
        let executors = self.calls.executors().await.map_err(problem_out)?;
        let executors = executors.into_iter().map(Into::into).collect();
        Ok(Response::new(proto::ExecutorsAnswer { executors }))
    }

    async fn judicators(&self, _: Request<proto::Nothing>) -> Answer<proto::JudicatorsAnswer> {
        let judicators = self.calls.judicators().await.map_err(problem_out)?;
        let judicators = judicators.into_iter().map(Into::into).collect();
        Ok(Response::new(proto::JudicatorsAnswer { judicators }))
    }

    async fn put_blob(&self, request: Request<Streaming<proto::BlobPart>>) -> Answer<proto::BlobSize> {
        let mut parts = request.into_inner();
        let first = tokio::time::timeout(STALL, parts.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no byte came for too long"))?;
        let first = first?.unwrap_or_default();
        let hash = invalid(hash_in("hash", &first.hash))?;
        let rest = parts.map_ok(|part| part.bytes).map_err(crate::wire::problem_in);
        let bytes = bound_sender(futures::stream::iter([Ok(first.bytes)]).chain(rest), STALL);
        let size = self.calls.put_blob(hash, bytes).await.map_err(problem_out)?;
        Ok(Response::new(proto::BlobSize { size }))
    }

    async fn has_blobs(&self, request: Request<proto::BlobHashes>) -> Answer<proto::BlobSizes> {
        let hashes = request
            .get_ref()
            .hashes
            .iter()
            .map(|hash| hash_in("hashes", hash))
            .collect();
        let sizes = self
            .calls
            .has_blobs(invalid(hashes)?)
            .await
            .map_err(problem_out)?;
        let blobs = sizes.into_iter().map(|size| proto::Existing { size }).collect();
        Ok(Response::new(proto::BlobSizes { blobs }))
    }

    async fn get_blob(&self, request: Request<proto::BlobHashes>) -> Answer<Self::GetBlobStream> {
        let hash = request.get_ref().hashes.first().map_or(&[][..], |hash| hash);
        let bytes = self
            .calls
            .get_blob(invalid(hash_in("hashes", hash))?)
            .await
            .map_err(problem_out)?;
        self.stream(bound_receiver(bytes, STALL), |bytes| proto::BlobPart {
            hash: Bytes::new(),
            bytes,
        })
    }
}
