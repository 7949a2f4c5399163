//! Listens for hints, for as long as it is kept.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use model::{ExecutorName, SessionId};
use rpc::Calls;
use supervise::{Component, Supervisor};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// Between two tries to watch. Without hints the heartbeat still brings work.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Watching(AbortHandle);

impl Watching {
    pub(super) fn start(
        calls: &Arc<dyn Calls>,
        name: &ExecutorName,
        session: SessionId,
        hint: &Arc<Notify>,
    ) -> Watching {
        let (calls, name, hint) = (calls.clone(), name.clone(), hint.clone());
        let task = tokio::spawn(async move {
            let listen = || listen(calls.clone(), name.clone(), session, hint.clone());
            // It is ended by aborting it.
            let never = CancellationToken::new();
            Supervisor::keep_running(Component::HintWatch, &never, listen).await;
        });
        Watching(task.abort_handle())
    }
}

async fn listen(calls: Arc<dyn Calls>, name: ExecutorName, session: SessionId, hint: Arc<Notify>) {
    loop {
        match calls.watch(name.clone(), session).await {
            Ok(mut hints) => {
                while let Some(Ok(())) = hints.next().await {
                    hint.notify_one();
                }
            }
            Err(error) => tracing::debug!(%error, "no hints for now"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}
