//! How long boot waits before it restarts a service.

use std::time::Duration;

const FIRST_DELAY: Duration = Duration::from_millis(200);

/// How often in a row a service has exited soon after its start, from which boot derives the delay of its restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestartBackoff(u32);

impl RestartBackoff {
    /// Counts an exit. A service that ran for at least the maximum delay resets the count: restarting it at once costs no more
    /// than waiting for it.
    pub(crate) fn after_exit(self, ran_for: Duration, max_delay: Duration) -> RestartBackoff {
        match ran_for >= max_delay.max(FIRST_DELAY) {
            true => RestartBackoff(1),
            false => RestartBackoff(self.0.saturating_add(1)),
        }
    }

    /// No delay after the first exit, then a doubling delay. At least `FIRST_DELAY`, whatever is configured, so that a failing
    /// service cannot restart in a busy loop.
    pub(crate) fn delay(self, max_delay: Duration) -> Duration {
        match self.0 {
            0 | 1 => Duration::ZERO,
            exits => {
                let doublings = exits.saturating_sub(2).min(20);
                (FIRST_DELAY * (1 << doublings)).min(max_delay.max(FIRST_DELAY))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_reset_after_a_long_run() {
        fn check(runs: &[u64], max_delay: u64, expected: &[u64]) {
            let max_delay = Duration::from_millis(max_delay);
            let mut backoff = RestartBackoff::default();
            let mut delays = Vec::new();
            for ran_for in runs {
                backoff = backoff.after_exit(Duration::from_millis(*ran_for), max_delay);
                delays.push(u64::try_from(backoff.delay(max_delay).as_millis()).unwrap());
            }
            assert_eq!(delays, expected, "{runs:?}");
        }
        check(&[5], 10_000, &[0]);
        check(&[5, 5, 5, 5], 10_000, &[0, 200, 400, 800]);
        check(
            &[5; 9],
            3_000,
            &[0, 200, 400, 800, 1_600, 3_000, 3_000, 3_000, 3_000],
        );
        check(&[5, 5, 9_999, 5], 10_000, &[0, 200, 400, 800]);
        check(&[5, 5, 10_000, 5, 5], 10_000, &[0, 200, 0, 200, 400]);
        check(&[60_000, 60_000], 10_000, &[0, 0]);
        // No setting allows a busy loop.
        check(&[5, 5, 5], 0, &[0, 200, 200]);
        assert_eq!(
            RestartBackoff(u32::MAX).delay(Duration::MAX),
            FIRST_DELAY * (1 << 20)
        );
    }
}
