//! The end of an executor: waits for its slots' threads and its disk, but not for ever.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::Reporter;

/// How long an end may wait for threads that hang and a disk that does not answer.
const LEAVING: Duration = Duration::from_secs(10);

/// The threads of the slots, and a channel that is closed when all of them have ended.
pub(crate) struct SlotThreads {
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) ended: mpsc::Receiver<()>,
}

impl Reporter {
    /// Waits for the threads and for the disk, but not for ever.
    pub(super) async fn leave(&self, SlotThreads { threads, mut ended }: SlotThreads) {
        let deadline = tokio::time::Instant::now() + LEAVING;
        let ended = tokio::time::timeout_at(deadline, ended.recv()).await;
        if ended.is_err() {
            tracing::error!(waited = ?LEAVING, "leaving while a slot does not end");
        }
        let over = threads
            .into_iter()
            .filter(|thread| ended.is_ok() || thread.is_finished());
        if over.filter_map(|thread| thread.join().err()).count() > 0 {
            tracing::error!("a slot's thread had panicked");
        }
        let bench = self.bench.clone();
        // A disk that is well needs no more.
        let least = Duration::from_secs(1);
        let left = deadline
            .saturating_duration_since(tokio::time::Instant::now())
            .max(least);
        let (closed, on_closed) = oneshot::channel();
        std::thread::spawn(move || {
            bench.spool.close(left);
            let _ = closed.send(());
        });
        let _ = on_closed.await;
        let written = tokio::time::timeout_at(deadline, self.session.written());
        if written.await.is_err() {
            tracing::warn!("leaving before the session was written");
        }
    }
}
