//! Whether a peer sends or takes bytes fast enough.
//!
//! Only the time counts in which the gateway waits for the peer: a slow disk or a busy judicator is not its fault.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Every `window` of waiting must bring at least `window` times `bytes_per_second` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastRate {
    pub(crate) bytes_per_second: u64,
    pub(crate) window: Duration,
}

impl LeastRate {
    /// At least one: a rate of zero still asks for progress.
    pub(crate) fn bytes_in_a_window(&self) -> u64 {
        let bytes = u128::from(self.bytes_per_second) * self.window.as_millis() / 1000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }
}

/// The waiting and the bytes since the peer last had a window's worth of bytes complete. An average over the whole
/// transfer would let a peer send most of it at once and take hours for the rest.
#[derive(Debug)]
struct Pace {
    rate: LeastRate,
    waited: Duration,
    bytes: u64,
}

impl Pace {
    fn new(rate: LeastRate) -> Pace {
        Pace {
            rate,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    fn record(&mut self, waited: Duration, bytes: u64) {
        self.waited += waited;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= self.rate.bytes_in_a_window() {
            self.restart();
        }
    }

    fn restart(&mut self) {
        self.waited = Duration::ZERO;
        self.bytes = 0;
    }

    /// How much longer the gateway waits for the next bytes.
    fn left(&self) -> Duration {
        self.rate.window.saturating_sub(self.waited)
    }
}

/// A [`Pace`] against the clock.
#[derive(Debug)]
pub(crate) struct Pacer {
    pace: Pace,
    waiting_since: Option<Instant>,
    /// Made with the first wait: most transfers have none.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Pacer {
    pub(crate) fn new(rate: LeastRate) -> Pacer {
        Pacer {
            pace: Pace::new(rate),
            waiting_since: None,
            alarm: None,
        }
    }

    pub(crate) fn on_progress(&mut self, bytes: usize) {
        let waited = self.waiting_since.take().map(|since| since.elapsed());
        self.pace.record(waited.unwrap_or_default(), bytes as u64);
    }

    /// Nothing waits for the peer any more.
    pub(crate) fn restart(&mut self) {
        self.waiting_since = None;
        self.pace.restart();
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        self.pace.left().is_zero()
    }

    /// To be called when the peer is waited for; ready once it has been too slow.
    pub(crate) fn poll_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let left = self.pace.left();
        let deadline = match self.waiting_since {
            Some(since) => since + left,
            None => *self.waiting_since.insert(Instant::now()) + left,
        };
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
        alarm.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_peer_below_the_rate_is_too_slow() {
        // Steps of (seconds of waiting, bytes that it brought), and after how many of them the peer is too slow.
        let check = |steps: &[(f64, u64)], expected: Option<usize>| {
            let mut pace = Pace::new(LeastRate {
                bytes_per_second: 1024,
                window: Duration::from_secs(10),
            });
            let too_slow = steps.iter().position(|&(seconds, bytes)| {
                pace.record(Duration::from_secs_f64(seconds), bytes);
                pace.left().is_zero()
            });
            assert_eq!(too_slow.map(|index| index + 1), expected, "{steps:?}");
        };
        check(&[(9.9, 1)], None);
        check(&[(10.0, 1)], Some(1));
        // One byte a second, and one large piece at the start do not keep a place.
        check(&[(1.0, 1); 20], Some(10));
        check(&[&[(0.1, 64 << 20)], &[(1.0, 1); 20][..]].concat(), Some(11));
        // 10 KB/s, evenly and in bursts.
        check(&[(0.1, 1000); 1000], None);
        check(&[(9.0, 90_000); 1000], None);
        // Just above and just below the rate.
        check(&[(1.0, 1138); 1000], None);
        check(&[(1.0, 1023); 1000], Some(10));
        // What comes without waiting is never too slow.
        check(&[(0.0, 1); 1000], None);
    }

    #[test]
    fn a_rate_of_zero_asks_for_progress() {
        let mut pace = Pace::new(LeastRate {
            bytes_per_second: 0,
            window: Duration::from_secs(10),
        });
        for _ in 0..100 {
            pace.record(Duration::from_secs(9), 1);
            assert!(!pace.left().is_zero());
        }
        pace.record(Duration::from_secs(10), 0);
        assert!(pace.left().is_zero());
    }
}
