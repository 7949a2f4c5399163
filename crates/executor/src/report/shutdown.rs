//! The orderly stop of an executor, and its shutdown: it waits for the threads of its slots and for its disk, with a deadline.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::AttemptId;
use tokio::sync::{mpsc, oneshot};

use super::ReportLoop;
use super::revoke::revoke_and_log;
use super::stop_phase::StopPhase;
use crate::now;

/// How long a shutdown waits for threads and a disk that hang.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The executor's threads that run attempts, one for each slot, and a channel that closes when all have ended.
pub(crate) struct SlotThreads {
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) ended: mpsc::Receiver<()>,
}

impl ReportLoop {
    /// Begins an orderly stop: gives back the attempts that have not started.
    pub(super) fn on_stop(&mut self) {
        let now = now();
        tracing::info!(tasks = self.attempts.attempt_ids().len(), grace = ?self.options.stop_grace, "executor is stopping");
        self.stopping = Some(StopPhase::GracePeriod(now + self.options.stop_grace));
        // An attempt that has started keeps running for the grace period, even if its event is still queued.
        while let Ok(event) = self.events.try_recv() {
            self.on_event(event);
        }
        self.give_back(|_| true);
        // The other attempts that have not started wait for blobs or for their files. One that starts at this moment is
        // named until all of its processes are gone: only then may another executor start it.
        let has_started = |attempt_id: &AttemptId| {
            let control = self.controls.get(attempt_id);
            control.is_some_and(|control| revoke_and_log(attempt_id, control))
        };
        let mut waiting = self.attempts.waiting();
        waiting.retain(|attempt_id| !has_started(attempt_id));
        self.on_given_back(waiting);
        self.advance_stop(now);
    }

    /// Enters the next phase of the stop if it is time, and kills the remaining attempts after the grace period.
    pub(super) fn advance_stop(&mut self, now: Instant) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        if self.attempts.is_empty() && self.slot_pool.spool.has_uploads() {
            stopping.on_only_uploads_left(now);
        } else if self.attempts.is_empty() && stopping.on_all_ended(now) {
            self.slot_pool.spool.end_all_deferrals();
            self.schedule.request_report();
        }
        if self.slot_pool.spool.end_all_pauses() {
            self.schedule.request_report();
        }
        // A killed attempt is named until all of its processes are gone: only then may another executor start it.
        if stopping.end_grace_if_over(now) {
            for (attempt_id, control) in &self.controls {
                revoke_and_log(attempt_id, control);
            }
        }
    }

    /// Whether the executor has to exit without an answer to its last report, or with uploads left.
    pub(super) fn is_goodbye_overdue(&self) -> bool {
        let stopping = self.stopping.as_ref();
        stopping.is_some_and(|stopping| stopping.is_overdue(now()))
    }

    pub(super) fn log_unfinished_stop(&self) {
        match self.slot_pool.spool.has_uploads() {
            true => tracing::warn!(
                "exiting before the output of all tasks is uploaded; start the executor again to upload the rest"
            ),
            false => tracing::warn!(
                "no judicator acknowledged the last report; exiting, results stay in the spool"
            ),
        }
    }

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
