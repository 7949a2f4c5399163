//! The connection of an executor that serves the output of its tasks to a judicator.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use model::{ExecutorName, SessionId};

use super::{CALL_TIMEOUT, RpcClient, parsed_answer};
use crate::wire::{ParseMessage, error_from_status, first_answer, proto};
use crate::{CallError, OutputAnswerStream, OutputRequestStream};

/// Connects to the preferred judicator, which is the one that the executor watches. When another one becomes
/// preferred, the stream ends, and the executor connects again.
pub(super) async fn serve(
    client: &RpcClient,
    executor: ExecutorName,
    session: SessionId,
    answers: OutputAnswerStream,
) -> Result<OutputRequestStream, CallError> {
    let judicators = client.channels.in_failover_order();
    let mut preferred = client.channels.preferred();
    let first = preferred.borrow_and_update().clone();
    let is_first = |(address, _): &&(_, _)| Some(address) == first.as_ref();
    let first = judicators.iter().find(is_first).or(judicators.first());
    let Some((address, mut connections)) = first.cloned() else {
        return Err(CallError::Unavailable("no judicator is known".into()));
    };
    let first = first_answer(&executor, session);
    let answers = stream::iter([first]).chain(answers.map(proto::OutputAnswer::from));
    let call = connections.output.serve_output(AnswerMessages(answers.boxed()));
    let requests = tokio::time::timeout(CALL_TIMEOUT, call)
        .await
        .map_err(|_| CallError::Unavailable(format!("no answer within {CALL_TIMEOUT:?}")))?
        .map_err(error_from_status)?
        .into_inner();
    let preference_changed = async move {
        let is_another = |first: &Option<String>| first.as_ref() != Some(&address);
        preferred.wait_for(is_another).await.map(drop)
    };
    Ok(requests
        .map_err(error_from_status)
        .map(|request| parsed_answer(request?.parse()))
        .take_until(Box::pin(preference_changed))
        .boxed())
}

/// The messages of an executor that serves output. A type of its own, because the compiler loses track of the lifetime of a
/// boxed stream within a future.
struct AnswerMessages(BoxStream<'static, proto::OutputAnswer>);

impl Stream for AnswerMessages {
    type Item = proto::OutputAnswer;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<proto::OutputAnswer>> {
        self.0.poll_next_unpin(context)
    }
}
