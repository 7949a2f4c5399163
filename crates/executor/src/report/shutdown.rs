//! The shutdown of an executor: waits for the threads of its slots and for its disk, with a deadline.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::ReportLoop;

/// How long a shutdown waits for threads and a disk that hang.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The threads of the slots, and a channel that closes when all of them have ended.
pub(crate) struct SlotThreads {
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) ended: mpsc::Receiver<()>,
}

impl ReportLoop {
    /// Waits for the threads to end and for the spool and the session file to be written, with a deadline.
    pub(super) async fn shut_down(&self, SlotThreads { threads, mut ended }: SlotThreads) {
        let deadline = tokio::time::Instant::now() + SHUTDOWN_TIMEOUT;
        let ended = tokio::time::timeout_at(deadline, ended.recv()).await;
        if ended.is_err() {
            tracing::error!(waited = ?SHUTDOWN_TIMEOUT, "a slot has not ended; exiting without it");
        }
        let ended_threads = threads
            .into_iter()
            .filter(|thread| ended.is_ok() || thread.is_finished());
        if ended_threads.filter_map(|thread| thread.join().err()).count() > 0 {
            tracing::error!("the thread of a slot has panicked");
        }
        let slot_pool = self.slot_pool.clone();
        // Enough for a healthy disk, even if the threads used up the time.
        let min_time = Duration::from_secs(1);
        let left = deadline
            .saturating_duration_since(tokio::time::Instant::now())
            .max(min_time);
        let (closed, on_closed) = oneshot::channel();
        std::thread::spawn(move || {
            slot_pool.spool.close(left);
            let _ = closed.send(());
        });
        let _ = on_closed.await;
        let written = tokio::time::timeout_at(deadline, self.session.wait_until_written());
        if written.await.is_err() {
            tracing::warn!("could not write the session file in time; exiting without it");
        }
    }
}
