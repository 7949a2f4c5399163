//! Receives hints that there may be work.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use model::{ExecutorName, SessionId};
use rpc::Calls;
use supervise::{Component, Supervisor};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// The pause before the watch is opened again. Without hints the heartbeat still brings work.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The background task that wakes the report loop at each hint of the judicator; dropping it stops the task.
pub(super) struct HintWatch(AbortHandle);

impl HintWatch {
    pub(super) fn start(
        calls: &Arc<dyn Calls>,
        name: &ExecutorName,
        session: SessionId,
        hint: &Arc<Notify>,
    ) -> HintWatch {
        let (calls, name, hint) = (calls.clone(), name.clone(), hint.clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "supervised by itself: restarted inside, and hints may be lost"
        )]
        let task = tokio::spawn(async move {
            let listen = || listen(calls.clone(), name.clone(), session, hint.clone());
            // The task ends when it is aborted.
            let never = CancellationToken::new();
            Supervisor::run_restarting(Component::HintWatch, &never, listen).await;
        });
        HintWatch(task.abort_handle())
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
            Err(error) => tracing::debug!(%error, "watch for hints failed; retrying"),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

impl Drop for HintWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
