//! Applies a judicator's answer to a report: forgets results, uploads again, kills and starts attempts.

use std::sync::Arc;
use std::time::Instant;

use model::{Content, ReportInstructions, ReportIntent, TaskForm};

use super::ReportLoop;
use super::compose_report::REPORT_BYTES;
use crate::attempt_control::AttemptControl;
use crate::now;

/// An answer with more bytes of task files than this may have been cut short by the judicator.
const LARGE_ANSWER: u64 = 8 << 20;

impl ReportLoop {
    pub(super) fn on_answer(&mut self, answer: ReportInstructions, sent: Instant, intent: ReportIntent) {
        self.session.on_answered(intent);
        self.tools.on_answered(self.session.id, sent);
        self.result_bytes_limit = REPORT_BYTES;
        self.attempts.on_report_answered(now() - sent);
        self.attempts.on_reported();
        self.extend_warden_deadline(sent);
        for attempt_id in &answer.delete {
            self.revoke(attempt_id);
        }
        self.forget_or_upload_again(&answer, sent);
        self.schedule.on_answered(self.results_left_over);
        if intent == ReportIntent::Stay {
            self.on_drain(answer.drain);
        }
        let mut bytes = 0;
        // The judicator repeats assignments of an answer that was lost, even while this executor stops. An assignment that
        // is not taken is missing in the next report, and the judicator releases it.
        let takes = self.stopping.is_none() && !self.slot_pool.reserve.is_low() && self.drain.is_none();
        let assigned = if takes { answer.assign } else { Vec::new() };
        for assignment in assigned {
            let attempt_id = assignment.attempt_id;
            bytes += assignment.spec.contents().map(Content::inline_len).sum::<u64>();
            if self.slot_pool.spool.contains(&attempt_id) || !self.attempts.on_assigned(attempt_id, now()) {
                continue;
            }
            let form = TaskForm::of(&assignment.spec);
            let control = Arc::new(AttemptControl::new(form, self.options.stall));
            self.controls.insert(attempt_id, control.clone());
            self.slot_pool
                .live_outputs
                .on_assigned(attempt_id, &assignment.spec);
            self.fetcher.fetch_and_enqueue(assignment, control);
        }
        // The judicator may have left out tasks to bound the answer, and sends no hint for those.
        if bytes > LARGE_ANSWER {
            self.schedule.request_report();
        }
    }

    /// What the answer does not name is reported again at the heartbeat.
    fn forget_or_upload_again(&mut self, answer: &ReportInstructions, sent: Instant) {
        let spool = &self.slot_pool.spool;
        let dropped = spool.on_answered(&self.reported, answer, sent + self.options.heartbeat);
        // Before the files are dropped, so that no upload misses its file.
        for (attempt_id, files) in dropped {
            self.slot_pool.uploads.remove(&attempt_id);
            drop(files);
        }
        for attempt_id in &answer.upload_again {
            if let Some(blobs) = spool.blobs(attempt_id) {
                tracing::warn!(task = %attempt_id.task, "the store does not have all of a task's output; uploading what is missing");
                self.slot_pool.uploads.add(*attempt_id, blobs);
            }
        }
    }
}
