//! How many tasks were done lately.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const WINDOW: Duration = Duration::from_secs(10);
const BUCKETS: usize = WINDOW.as_secs() as usize;

/// One bucket for each second of the window, and one for the second that is not over.
pub(crate) struct Pace {
    start: Instant,
    buckets: Mutex<[Bucket; BUCKETS + 1]>,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    second: u64,
    tasks: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            start: Instant::now(),
            buckets: Mutex::new([Bucket::default(); BUCKETS + 1]),
        }
    }
}

impl Pace {
    pub(crate) fn on_done(&self) {
        self.count(self.start.elapsed().as_secs());
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.rate(self.start.elapsed())
    }

    fn count(&self, second: u64) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = &mut buckets[(second % (BUCKETS as u64 + 1)) as usize];
        if bucket.second != second {
            *bucket = Bucket { second, tasks: 0 };
        }
        bucket.tasks += 1;
    }

    fn rate(&self, elapsed: Duration) -> f64 {
        let now = elapsed.as_secs();
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = buckets
            .iter()
            .filter(|bucket| bucket.second + BUCKETS as u64 >= now);
        let tasks: u64 = recent.map(|bucket| bucket.tasks).sum();
        // The window is the full seconds in it and what has passed of this one; a young process has less.
        let span = elapsed.as_secs_f64() - now.saturating_sub(BUCKETS as u64) as f64;
        if span > 0.0 { tasks as f64 / span } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_seconds_count() {
        let pace = Pace::default();
        for second in [0, 0, 3, 3, 3, 3] {
            pace.count(second);
        }
        let check = |at: f64, expected: f64| {
            let found = pace.rate(Duration::from_secs_f64(at));
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
