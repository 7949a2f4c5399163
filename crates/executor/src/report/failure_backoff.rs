//! Pauses an executor that fails to run tasks, so that a broken machine does not use up the attempts of the whole queue.
//!
//! A pure state machine: callers pass the time in.

use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The report loop's backoff after attempts that the executor could not run. It takes no task for a pause, then one
/// task as a probe. The pause doubles until a probe succeeds.
#[derive(Default)]
pub(super) struct FailureBackoff {
    pause: Option<Duration>,
    until: Option<Instant>,
}

impl FailureBackoff {
    pub(super) fn on_failure(&mut self, now: Instant) {
        // Attempts that had started before the pause do not lengthen it.
        if self.until.is_none() {
            let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(MAX_PAUSE));
            self.pause = Some(pause);
            self.until = Some(now + pause);
        }
    }

    pub(super) fn on_success(&mut self) {
        *self = FailureBackoff::default();
    }

    /// When the pause ends and the executor asks for a task again.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.until
    }

    /// Ends the pause if it is over. Returns whether it did: then a report is due.
    pub(super) fn end_if_over(&mut self, now: Instant) -> bool {
        let over = self.until.is_some_and(|until| until <= now);
        if over {
            self.until = None;
        }
        over
    }

    /// How many of the vacant slots to offer to the judicator.
    pub(super) fn limit_vacant(&self, vacant: u32) -> u32 {
        match (self.until, self.pause) {
            (Some(_), _) => 0,
            (None, Some(_)) => vacant.min(1),
            (None, None) => vacant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_an_attempt_succeeds() {
        let now = Instant::now();
        let mut backoff = FailureBackoff::default();
        assert_eq!((backoff.limit_vacant(8), backoff.ends_at()), (8, None));
        backoff.on_failure(now);
        backoff.on_failure(now);
        assert_eq!(
            (backoff.limit_vacant(8), backoff.ends_at()),
            (0, Some(now + FIRST_PAUSE))
        );
        assert!(!backoff.end_if_over(now));
        assert!(backoff.end_if_over(now + FIRST_PAUSE));
        assert_eq!(
            (backoff.limit_vacant(8), backoff.ends_at()),
            (1, None),
            "one task as a probe"
        );
        backoff.on_failure(now);
        assert_eq!(backoff.ends_at(), Some(now + FIRST_PAUSE * 2));
        for _ in 0..20 {
            assert!(backoff.end_if_over(now + MAX_PAUSE));
            backoff.on_failure(now);
        }
        assert_eq!(backoff.ends_at(), Some(now + MAX_PAUSE));
        backoff.on_success();
        assert_eq!((backoff.limit_vacant(8), backoff.ends_at()), (8, None));
    }
}
