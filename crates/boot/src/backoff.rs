//! How long to wait before a service that died is started again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);

/// Deaths soon after a start, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlyDeaths(u32);

impl EarlyDeaths {
    /// A service that lived for longer than the longest pause costs no more by being started at once than by being
    /// waited for, so such a life begins the count anew.
    pub(crate) fn after(self, lived: Duration, most: Duration) -> EarlyDeaths {
        match lived >= most.max(FIRST) {
            true => EarlyDeaths(1),
            false => EarlyDeaths(self.0.saturating_add(1)),
        }
    }

    /// None the first time; then doubling. Never none for what keeps dying, whatever is configured.
    pub(crate) fn pause(self, most: Duration) -> Duration {
        match self.0 {
            0 | 1 => Duration::ZERO,
            deaths => {
                let doublings = deaths.saturating_sub(2).min(20);
                (FIRST * (1 << doublings)).min(most.max(FIRST))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_the_longest_and_begin_anew_after_a_good_life() {
        fn check(lives: &[u64], most: u64, expected: &[u64]) {
            let most = Duration::from_millis(most);
            let mut deaths = EarlyDeaths::default();
            let mut pauses = Vec::new();
            for lived in lives {
                deaths = deaths.after(Duration::from_millis(*lived), most);
                pauses.push(u64::try_from(deaths.pause(most).as_millis()).unwrap());
            }
            assert_eq!(pauses, expected, "{lives:?}");
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
        // No setting makes it spin.
        check(&[5, 5, 5], 0, &[0, 200, 200]);
        assert_eq!(EarlyDeaths(u32::MAX).pause(Duration::MAX), FIRST * (1 << 20));
    }
}
