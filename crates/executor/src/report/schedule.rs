//! Decides when the next report is sent.
//!
//! A pure state machine: callers pass the time in.

use std::time::{Duration, Instant};

use crate::attempt_table::AttemptTable;

/// While attempts wait for a slot, results are collected into one report for this long, or for half the average round trip
/// of a report if that is longer.
const BATCH_WINDOW: Duration = Duration::from_millis(10);
/// The start of an attempt is reported if it still runs after this time; most short tasks have ended by then.
const START_REPORT_DELAY: Duration = Duration::from_millis(25);
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Decides when the report loop sends the next report: at the heartbeat, earlier after a change, later after a failure.
pub(super) struct ReportSchedule {
    heartbeat: Duration,
    last_sent: Option<Instant>,
    requested: bool,
    ended_since: Option<Instant>,
    retry: Option<RetryDelay>,
}

/// The pause of the report loop before it sends a report again after a failure.
struct RetryDelay {
    at: Instant,
    pause: Duration,
}

impl ReportSchedule {
    pub(super) fn new(heartbeat: Duration) -> ReportSchedule {
        ReportSchedule {
            heartbeat,
            last_sent: None,
            requested: true,
            ended_since: None,
            retry: None,
        }
    }

    /// Makes the next report due at once, unless a retry delay runs.
    pub(super) fn request_report(&mut self) {
        self.requested = true;
    }

    pub(super) fn on_ended(&mut self, now: Instant) {
        self.ended_since.get_or_insert(now);
    }

    pub(super) fn on_sent(&mut self, now: Instant) {
        self.last_sent = Some(now);
        self.requested = false;
        self.ended_since = None;
    }

    /// Delays the next report, whatever else happens, so that a failing judicator is not flooded.
    pub(super) fn on_failed(&mut self, now: Instant) {
        let pause = self
            .retry
            .as_ref()
            .map_or(FIRST_RETRY_DELAY, |retry| (retry.pause * 2).min(self.heartbeat));
        self.retry = Some(RetryDelay {
            at: now + pause,
            pause,
        });
    }

    /// If results are left over, the next report follows at once.
    pub(super) fn on_answered(&mut self, results_left: bool) {
        self.retry = None;
        self.requested |= results_left;
    }

    /// When the next report is due; `waiting` is the number of attempts that wait for a slot.
    pub(super) fn next_report_at(&self, attempts: &AttemptTable, waiting: usize, now: Instant) -> Instant {
        if let Some(retry) = &self.retry {
            return retry.at;
        }
        let (Some(last_sent), false) = (self.last_sent, self.requested) else {
            return now;
        };
        // While attempts wait, no slot is idle during the batch window.
        let batch_window = if waiting > attempts.total_slots() {
            BATCH_WINDOW.max(attempts.average_round_trip() / 2)
        } else {
            Duration::ZERO
        };
        let batch_ends_at = self.ended_since.map(|since| since + batch_window);
        let start_due_at = attempts
            .unreported_since()
            .map(|since| since + START_REPORT_DELAY);
        let heartbeat = last_sent + self.heartbeat;
        [batch_ends_at, start_due_at]
            .into_iter()
            .flatten()
            .fold(heartbeat, Instant::min)
    }
}

#[cfg(test)]
mod tests {
    use model::{AttemptId, AttemptNumber, SessionId, TaskId, TaskStatus};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const HEARTBEAT: Duration = Duration::from_secs(2);

    fn sent(now: Instant) -> ReportSchedule {
        let mut schedule = ReportSchedule::new(HEARTBEAT);
        schedule.on_sent(now);
        schedule
    }

    #[test]
    fn a_report_is_due_after_a_change_or_at_the_heartbeat() {
        let now = Instant::now();
        let mut attempts = AttemptTable::new(2);
        assert_eq!(
            ReportSchedule::new(HEARTBEAT).next_report_at(&attempts, 0, now),
            now,
            "the first report is due at once"
        );
        assert_eq!(sent(now).next_report_at(&attempts, 0, now), now + HEARTBEAT);
        let mut schedule = sent(now);
        schedule.request_report();
        assert_eq!(schedule.next_report_at(&attempts, 0, now + MS), now + MS);
        let mut schedule = sent(now);
        schedule.on_ended(now + 7 * MS);
        assert_eq!(
            schedule.next_report_at(&attempts, 2, now + 8 * MS),
            now + 7 * MS,
            "a slot may be idle"
        );
        assert_eq!(
            schedule.next_report_at(&attempts, 3, now + 8 * MS),
            now + 7 * MS + BATCH_WINDOW,
            "all slots have work"
        );
        let attempt_id = AttemptId {
            task: TaskId(uuid::Uuid::now_v7()),
            session: SessionId(uuid::Uuid::now_v7()),
            attempt: AttemptNumber(1),
        };
        attempts.on_assigned(attempt_id, now);
        attempts.on_started(&attempt_id, TaskStatus::Running, now + 3 * MS);
        assert_eq!(
            sent(now).next_report_at(&attempts, 0, now),
            now + 3 * MS + START_REPORT_DELAY
        );
    }

    #[test]
    fn retry_delays_double_up_to_the_heartbeat() {
        let now = Instant::now();
        let attempts = AttemptTable::new(2);
        let mut schedule = sent(now);
        schedule.on_failed(now);
        schedule.request_report();
        schedule.on_ended(now);
        assert_eq!(
            schedule.next_report_at(&attempts, 0, now),
            now + FIRST_RETRY_DELAY
        );
        schedule.on_failed(now);
        assert_eq!(
            schedule.next_report_at(&attempts, 0, now),
            now + FIRST_RETRY_DELAY * 2
        );
        for _ in 0..20 {
            schedule.on_failed(now);
        }
        assert_eq!(schedule.next_report_at(&attempts, 0, now), now + HEARTBEAT);
        schedule.on_answered(false);
        schedule.on_sent(now);
        assert_eq!(schedule.next_report_at(&attempts, 0, now), now + HEARTBEAT);
    }
}
