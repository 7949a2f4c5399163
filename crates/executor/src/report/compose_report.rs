//! Composes the next report from the state of the executor.

use std::time::Instant;

use model::{ExecutingAttempt, ExecutorInfo, Report, ReportIntent, TaskForm};

use super::ReportLoop;
use crate::spool::ReportBatch;

/// The limit on the bytes of results in one report; further results go into the next report. With the attempts that it
/// names as executing, a report stays below 1 MiB.
pub(super) const REPORT_BYTES: usize = 800 << 10;
/// The limit on the number of results in one report.
const REPORT_RESULTS: usize = 1000;
/// The executor takes no tasks while more results than these wait for their uploads, or more bytes of them in memory.
const MAX_UPLOADING: usize = 1000;
const MAX_UPLOADING_BYTES: usize = 64 << 20;

impl ReportLoop {
    pub(super) fn compose_report(&mut self, now: Instant) -> Report {
        let ReportBatch {
            complete,
            left_over,
            paused,
            uploading,
            uploading_bytes,
        } = self
            .slot_pool
            .spool
            .next_batch(self.result_bytes_limit, REPORT_RESULTS);
        self.results_left_over = !left_over.is_empty();
        self.reported.clear();
        self.reported
            .extend(complete.iter().map(|complete| complete.attempt_id));
        // Taking no tasks bounds the spool.
        let is_spool_full = self.results_left_over
            || uploading.len() > MAX_UPLOADING
            || uploading_bytes > MAX_UPLOADING_BYTES;
        self.look_for_room();
        let mut executing: Vec<_> = self.attempts.executing().collect();
        // The judicator releases an attempt that the report does not name.
        executing.extend(
            left_over
                .into_iter()
                .chain(paused)
                .map(|attempt_id| ExecutingAttempt {
                    attempt_id,
                    status: None,
                }),
        );
        executing.extend(uploading);
        let (vacant, intent) = match &self.stopping {
            None if is_spool_full || self.waits_for_room || self.slot_pool.reserve.is_low() => {
                (0, ReportIntent::Stay)
            }
            None => (
                self.failure_backoff.limit_vacant(self.attempts.vacant(now)),
                ReportIntent::Stay,
            ),
            // The last report is sent when there is nothing left to report afterwards.
            Some(_) if executing.is_empty() && self.attempts.is_empty() => (0, ReportIntent::Leave),
            Some(_) => (0, ReportIntent::Stay),
        };
        let executor_info = ExecutorInfo {
            slots: self.options.slots,
            host: self.data_folder.host.clone(),
            version: self.options.version.clone(),
            self_kill: self.options.self_kill,
            capacity: Some(self.options.capacity),
            newest_form: self.newest_form(),
            tools: self.tools.for_next_report(self.session.id, now),
            load: self.load.load(now),
        };
        let header = self
            .session
            .next_report(self.data_folder.name.clone(), executor_info);
        Report {
            complete,
            executing,
            vacant,
            intent,
            ..header
        }
    }

    /// Without cells, an executor judges only if its operator wants that.
    fn newest_form(&self) -> TaskForm {
        match self.options.cells.is_some() || self.options.judge_without_cells {
            true => TaskForm::NEWEST,
            false => TaskForm::NEWEST_WITHOUT_CELLS,
        }
    }

    /// Without room for its output and files, a task would block its slot and then lose them, so other executors run it.
    fn look_for_room(&mut self) {
        let has_room = self.slot_pool.has_room_for_task();
        match (has_room, self.waits_for_room) {
            (false, false) => tracing::warn!(
                "too much output waits for its upload (executor.outgoing); taking no tasks until there is room"
            ),
            (true, true) => tracing::info!("there is room for output again; taking tasks"),
            (true, false) | (false, true) => {}
        }
        self.waits_for_room = !has_room;
    }
}
