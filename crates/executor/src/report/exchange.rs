//! Sending a report and waiting for its answer, and what the wardens are told about it.

use std::time::{Duration, Instant};

use model::{Report, ReportAnswer};
use rpc::CallError;
use tokio_util::sync::CancellationToken;

use super::stopping::FAREWELL;
use super::{Contact, Reporter};

/// The call was dropped; nobody knows what became of it.
pub(super) struct NoAnswer {
    pub(super) within: Duration,
}

impl Reporter {
    pub(super) async fn exchange(
        &mut self,
        report: Report,
        stop: &CancellationToken,
    ) -> Result<Result<ReportAnswer, CallError>, NoAnswer> {
        let calls = self.calls.clone();
        let mut call = calls.report(report);
        if self.options.contact == Contact::SameProcess && self.stopping.is_none() {
            let sent = Instant::now();
            let pause = self.options.self_kill / 3;
            loop {
                tokio::select! {
                    // An answer that is there ends the report, and with it the right to let the tasks live.
                    biased;
                    answer = &mut call => return Ok(answer),
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(pause) => self.on_store_silent(sent),
                }
            }
        }
        let within = self.patience(Instant::now());
        let answer = tokio::time::timeout(within, call).await;
        answer.map_err(|_| NoAnswer { within })
    }

    /// The report is under way in this process, so the session lives (see [`Contact::SameProcess`]). If this loop
    /// hangs, nobody tells the wardens, and they end the tasks.
    fn on_store_silent(&mut self, sent: Instant) {
        let now = Instant::now();
        self.look_after_slots(now);
        self.stay_in_touch(now);
        let silent = now - sent;
        if silent >= self.options.self_kill && !self.slots.is_empty() {
            tracing::warn!(
                ?silent,
                tasks = self.slots.all().len(),
                "the store does not answer; tasks go on meanwhile"
            );
        }
    }

    /// Long enough for a busy judicator, short enough for another try before the tasks have to be stopped.
    fn patience(&self, now: Instant) -> Duration {
        let usual = self.options.self_kill / 2;
        let Some(stopping) = &self.stopping else {
            return usual;
        };
        // What is due next must not wait for an answer.
        let left = stopping.until().map(|at| at.saturating_duration_since(now));
        usual.min(left.unwrap_or(FAREWELL))
    }

    /// The judicator has heard from us at this time or later: from then on the time counts.
    pub(super) fn stay_in_touch(&mut self, heard: Instant) {
        self.told_out_of_touch = false;
        let until = heard + self.options.self_kill;
        // Telling every warden after every report would cost more than it gives.
        if until.saturating_duration_since(self.in_touch_until) >= self.options.self_kill / 10 {
            self.bench.in_touch(until);
            self.in_touch_until = until;
        }
    }

    /// The wardens end the tasks by themselves; the operator should learn why.
    pub(super) fn tell_if_out_of_touch(&mut self, now: Instant) {
        if now < self.in_touch_until || self.slots.is_empty() || self.told_out_of_touch {
            return;
        }
        self.told_out_of_touch = true;
        tracing::warn!(
            tasks = self.slots.all().len(),
            self_kill = ?self.options.self_kill,
            "no judicator has answered for executor.self_kill; running tasks are stopped"
        );
    }
}
