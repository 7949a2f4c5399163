//! How many tasks finished during the last seconds.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const WINDOW: Duration = Duration::from_secs(10);
const SECONDS: usize = WINDOW.as_secs() as usize;

/// Counts the tasks that finished during the last seconds, for the throughput in a judicator's statistics. It has one
/// count for each full second, and one for the current second.
pub(crate) struct ThroughputWindow {
    start: Instant,
    counts: Mutex<[SecondCount; SECONDS + 1]>,
}

/// The number of tasks that finished in one second, for the throughput in a judicator's statistics.
#[derive(Clone, Copy, Default)]
struct SecondCount {
    second: u64,
    tasks: u64,
}

impl Default for ThroughputWindow {
    fn default() -> ThroughputWindow {
        ThroughputWindow {
            start: Instant::now(),
            counts: Mutex::new([SecondCount::default(); SECONDS + 1]),
        }
    }
}

impl ThroughputWindow {
    pub(crate) fn on_done(&self) {
        self.count(self.start.elapsed().as_secs());
    }

    pub(crate) fn tasks_per_second(&self) -> f64 {
        self.rate(self.start.elapsed())
    }

    fn count(&self, second: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = &mut counts[(second % (SECONDS as u64 + 1)) as usize];
        if count.second != second {
            *count = SecondCount { second, tasks: 0 };
        }
        count.tasks += 1;
    }

    fn rate(&self, elapsed: Duration) -> f64 {
        let now = elapsed.as_secs();
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = counts.iter().filter(|count| count.second + SECONDS as u64 >= now);
        let tasks: u64 = recent.map(|count| count.tasks).sum();
        // The window covers its full seconds and the elapsed part of the current one. A young process has less.
        let span = elapsed.as_secs_f64() - now.saturating_sub(SECONDS as u64) as f64;
        if span > 0.0 { tasks as f64 / span } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tasks_within_the_window_count() {
        let throughput = ThroughputWindow::default();
        for second in [0, 0, 3, 3, 3, 3] {
            throughput.count(second);
        }
        let check = |at: f64, expected: f64| {
            let found = throughput.rate(Duration::from_secs_f64(at));
            assert!(
                (found - expected).abs() < 1e-9,
                "at {at}: {found}, not {expected}"
            );
        };
        check(4.0, 1.5);
        check(12.0, 0.4);
        check(30.0, 0.0);
    }
}
