//! Listens for hints, for as long as it is kept.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use model::{ExecutorName, SessionId};
use rpc::Calls;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

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
        });
        Watching(task.abort_handle())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}
