//! Minimum transfer rate: detects clients that send or receive too slowly.
//!
//! Only the time in which the gateway waits for the client counts, not the time of a slow disk or a busy judicator.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The rate at which a client of the gateway must send request bodies and read responses, or the transfer fails. For
/// each `window` of waiting it must transfer at least `window` times `bytes_per_second` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinTransferRate {
    pub(crate) bytes_per_second: u64,
    pub(crate) window: Duration,
}

impl MinTransferRate {
    /// At least one: even a rate of zero requires progress.
    pub(crate) fn bytes_per_window(&self) -> u64 {
        let bytes = u128::from(self.bytes_per_second) * self.window.as_millis() / 1000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }
}

/// The time for which the gateway waited for a client, and the bytes, since the client last met the minimum rate. An
/// average over the whole transfer would let a client send most of it at once and take hours for the rest.
#[derive(Debug)]
struct RateWindow {
    rate: MinTransferRate,
    waited: Duration,
    bytes: u64,
}

impl RateWindow {
    fn new(rate: MinTransferRate) -> RateWindow {
        RateWindow {
            rate,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    fn record(&mut self, waited: Duration, bytes: u64) {
        self.waited += waited;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= self.rate.bytes_per_window() {
            self.restart();
        }
    }

    fn restart(&mut self) {
        self.waited = Duration::ZERO;
        self.bytes = 0;
    }

    /// How much longer the gateway may wait for the next bytes.
    fn remaining(&self) -> Duration {
        self.rate.window.saturating_sub(self.waited)
    }
}

/// Measures how long the gateway waits for a client in one transfer, and detects if it is below the minimum rate.
#[derive(Debug)]
pub(crate) struct TransferRateMonitor {
    window: RateWindow,
    waiting_since: Option<Instant>,
    /// Created at the first wait: most transfers never wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl TransferRateMonitor {
    pub(crate) fn new(rate: MinTransferRate) -> TransferRateMonitor {
        TransferRateMonitor {
            window: RateWindow::new(rate),
            waiting_since: None,
            timer: None,
        }
    }

    pub(crate) fn on_progress(&mut self, bytes: usize) {
        let waited = self.waiting_since.take().map(|since| since.elapsed());
        self.window.record(waited.unwrap_or_default(), bytes as u64);
    }

    /// Starts again, as the gateway does not wait for the client any more.
    pub(crate) fn restart(&mut self) {
        self.waiting_since = None;
        self.window.restart();
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        self.window.remaining().is_zero()
    }

    /// To be polled while the gateway waits for the client. Ready when the client is too slow.
    pub(crate) fn poll_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let remaining = self.window.remaining();
        let deadline = match self.waiting_since {
            Some(since) => since + remaining,
            None => *self.waiting_since.insert(Instant::now()) + remaining,
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_below_the_rate_is_too_slow() {
        // Steps of (seconds of waiting, bytes received), and the number of steps after which the client is too slow.
        let check = |steps: &[(f64, u64)], expected: Option<usize>| {
            let mut window = RateWindow::new(MinTransferRate {
                bytes_per_second: 1024,
                window: Duration::from_secs(10),
            });
            let too_slow = steps.iter().position(|&(seconds, bytes)| {
                window.record(Duration::from_secs_f64(seconds), bytes);
                window.remaining().is_zero()
            });
            assert_eq!(too_slow.map(|index| index + 1), expected, "{steps:?}");
        };
        check(&[(9.9, 1)], None);
        check(&[(10.0, 1)], Some(1));
        // One byte per second is too slow, also after a large chunk at the start.
        check(&[(1.0, 1); 20], Some(10));
        check(&[&[(0.1, 64 << 20)], &[(1.0, 1); 20][..]].concat(), Some(11));
        // 10 KB/s, evenly and in bursts.
        check(&[(0.1, 1000); 1000], None);
        check(&[(9.0, 90_000); 1000], None);
        // Just above and just below the rate.
        check(&[(1.0, 1138); 1000], None);
        check(&[(1.0, 1023); 1000], Some(10));
        // Bytes that arrive without waiting are never too slow.
        check(&[(0.0, 1); 1000], None);
    }

    #[test]
    fn a_rate_of_zero_requires_progress() {
        let mut window = RateWindow::new(MinTransferRate {
            bytes_per_second: 0,
            window: Duration::from_secs(10),
        });
        for _ in 0..100 {
            window.record(Duration::from_secs(9), 1);
            assert!(!window.remaining().is_zero());
        }
        window.record(Duration::from_secs(10), 0);
        assert!(window.remaining().is_zero());
    }
}
