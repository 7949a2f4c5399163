//! The phases of an orderly stop.
//!
//! A pure state machine: callers pass the time in.

use std::time::{Duration, Instant};

/// How long the executor retries its last report, once no task is left, before it exits without an answer.
pub(super) const GOODBYE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long uploads may go on at least, once no task is left.
pub(super) const UPLOAD_TIMEOUT: Duration = Duration::from_secs(3);

/// How far the orderly stop of an executor has come: it waits for attempts, kills them, and sends a last report.
#[derive(Debug, PartialEq)]
pub(super) enum StopPhase {
    /// Running attempts may continue until this time.
    GracePeriod(Instant),
    /// The remaining attempts were killed, and some of their processes still exist.
    WaitingForKilled,
    /// All attempts have ended, and files of their results are uploaded until this time. What is left then is uploaded by the
    /// next process.
    Uploading(Instant),
    /// Only the answer to the last report is missing; the executor waits for it until this time.
    Goodbye(Instant),
}

impl StopPhase {
    /// Ends the grace period if it is over. Returns whether it did: then the caller kills the remaining attempts.
    pub(super) fn end_grace_if_over(&mut self, now: Instant) -> bool {
        let over = matches!(self, StopPhase::GracePeriod(until) if *until <= now);
        if over {
            *self = StopPhase::WaitingForKilled;
        }
        over
    }

    /// No attempt is left, and files of results are still being uploaded.
    pub(super) fn on_only_uploads_left(&mut self, now: Instant) {
        let until = now + UPLOAD_TIMEOUT;
        match self {
            StopPhase::GracePeriod(grace_ends) => *self = StopPhase::Uploading(until.max(*grace_ends)),
            StopPhase::WaitingForKilled => *self = StopPhase::Uploading(until),
            StopPhase::Uploading(_) | StopPhase::Goodbye(_) => {}
        }
    }

    /// Nothing is left but the last report. Returns whether that is new.
    pub(super) fn on_all_ended(&mut self, now: Instant) -> bool {
        let is_new = !matches!(self, StopPhase::Goodbye(_));
        if is_new {
            *self = StopPhase::Goodbye(now + GOODBYE_TIMEOUT);
        }
        is_new
    }

    /// When this phase times out, if it does.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        match self {
            StopPhase::GracePeriod(until) | StopPhase::Uploading(until) | StopPhase::Goodbye(until) => {
                Some(*until)
            }
            StopPhase::WaitingForKilled => None,
        }
    }

    /// Whether the executor exits now, without an answer to its last report or with uploads left.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self, StopPhase::Uploading(until) | StopPhase::Goodbye(until) if *until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goodbye_timeout_starts_when_no_attempt_is_left() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut stopping = StopPhase::GracePeriod(at(5));
        assert!(!stopping.end_grace_if_over(at(4)));
        assert!(stopping.end_grace_if_over(at(5)));
        assert!(!stopping.end_grace_if_over(at(6)), "only once");
        // There is no timeout for the exit of killed processes.
        assert_eq!((stopping.ends_at(), stopping.is_overdue(at(100))), (None, false));
        assert!(stopping.on_all_ended(at(100)));
        assert!(!stopping.on_all_ended(at(102)), "only once");
        assert_eq!(stopping, StopPhase::Goodbye(at(103)));
        assert!(!stopping.is_overdue(at(102)));
        assert!(stopping.is_overdue(at(103)));
    }

    #[test]
    fn uploads_have_the_rest_of_the_grace_period_and_a_minimum() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let check = |mut stopping: StopPhase, expected: Instant| {
            stopping.on_only_uploads_left(at(10));
            stopping.on_only_uploads_left(at(11));
            assert_eq!(stopping, StopPhase::Uploading(expected));
            assert!(!stopping.end_grace_if_over(expected));
            assert!(!stopping.is_overdue(at(12)) && stopping.is_overdue(expected));
            assert!(stopping.on_all_ended(at(12)));
            stopping.on_only_uploads_left(at(13));
            assert_eq!(stopping, StopPhase::Goodbye(at(15)));
        };
        check(StopPhase::GracePeriod(at(30)), at(30));
        check(StopPhase::GracePeriod(at(11)), at(13));
        check(StopPhase::WaitingForKilled, at(13));
    }

    #[test]
    fn the_grace_period_ends_when_no_attempt_is_left() {
        let now = Instant::now();
        let mut stopping = StopPhase::GracePeriod(now + GOODBYE_TIMEOUT);
        stopping.on_all_ended(now);
        assert_eq!(stopping.ends_at(), Some(now + GOODBYE_TIMEOUT));
        assert!(!stopping.end_grace_if_over(now + GOODBYE_TIMEOUT));
    }
}
