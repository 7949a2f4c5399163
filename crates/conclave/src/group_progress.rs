//! The progress of a group of tasks, in numbers for people.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use api::GroupState;
use model::TaskStatus;

/// How many tasks of a group, or of a list of tasks, are in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct ProgressCounts {
    pub(crate) total: u64,
    pub(crate) done: u64,
    pub(crate) running: u64,
    /// Done without success: failed, cancelled, or ended by the platform.
    pub(crate) failed: u64,
}

/// The rate at which the tasks of a group finish, measured over the last half minute.
#[derive(Default)]
pub(crate) struct FinishRate {
    /// When how many tasks were done, oldest first.
    samples: VecDeque<(Instant, u64)>,
}

/// One line on the progress of a group: `480/500 done, 12 running, 10 failed, 3.2/s, 6s left`.
pub(crate) struct ProgressLine {
    pub(crate) counts: ProgressCounts,
    pub(crate) per_second: Option<f64>,
}

const WINDOW: Duration = Duration::from_secs(30);
/// More samples than this are not needed in the window.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

impl ProgressCounts {
    pub(crate) fn of(group: &GroupState) -> ProgressCounts {
        let count = |status: TaskStatus| group.counts.get(status.as_str()).copied().unwrap_or(0);
        ProgressCounts {
            total: group.total,
            done: group.done,
            running: count(TaskStatus::Compiling) + count(TaskStatus::Running),
            failed: group.done.saturating_sub(count(TaskStatus::Success)),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done >= self.total
    }
}

impl FinishRate {
    pub(crate) fn record(&mut self, now: Instant, done: u64) {
        // A retry in the group makes the number of done tasks fall; then the rate is measured anew.
        if self.samples.back().is_some_and(|(_, before)| done < *before) {
            self.samples.clear();
        }
        let has_first = self.samples.len() > 1;
        match self.samples.back_mut() {
            Some((time, latest)) if has_first && now.duration_since(*time) < SAMPLE_INTERVAL => {
                *latest = done;
            }
            _ => self.samples.push_back((now, done)),
        }
        while self.samples.len() > 2
            && self
                .samples
                .front()
                .is_some_and(|(time, _)| now.duration_since(*time) > WINDOW)
        {
            self.samples.pop_front();
        }
    }

    /// Tasks per second; `None` until a task has finished.
    pub(crate) fn per_second(&self, now: Instant) -> Option<f64> {
        let (first_time, first) = self.samples.front()?;
        let (_, last) = self.samples.back()?;
        let seconds = now.duration_since(*first_time).as_secs_f64();
        (last > first && seconds > 0.0).then(|| (last - first) as f64 / seconds)
    }
}

impl ProgressLine {
    fn time_left(&self) -> Option<Duration> {
        let left = self.counts.total.saturating_sub(self.counts.done);
        let seconds = left as f64 / self.per_second?;
        (left > 0)
            .then(|| Duration::try_from_secs_f64(seconds).ok())
            .flatten()
    }
}

impl fmt::Display for ProgressLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProgressCounts {
            total,
            done,
            running,
            failed,
        } = self.counts;
        write!(f, "{done}/{total} done, {running} running, {failed} failed")?;
        if let Some(rate) = self.per_second {
            write!(f, ", {rate:.1}/s")?;
        }
        match self.time_left() {
            Some(left) => write!(f, ", {} left", in_two_units(left)),
            None => Ok(()),
        }
    }
}

/// A duration in its two largest units: `7s`, `1m05s`, `2h07m`, `3d01h`.
pub(crate) fn in_two_units(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records (seconds, done) and returns the rate at the last time.
    fn rate(samples: &[(f64, u64)]) -> Option<f64> {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut rate = FinishRate::default();
        for (seconds, done) in samples {
            rate.record(at(*seconds), *done);
        }
        rate.per_second(at(samples.last().unwrap().0))
    }

    #[test]
    fn the_rate_is_that_of_the_last_half_minute() {
        assert_eq!(rate(&[(0.0, 400)]), None);
        assert_eq!(rate(&[(0.0, 400), (10.0, 400)]), None);
        // What was done before does not count.
        assert_eq!(rate(&[(0.0, 400), (10.0, 420)]), Some(2.0));
        let slow_then_fast = [(0.0, 0), (100.0, 10), (120.0, 50), (140.0, 90)];
        assert_eq!(rate(&slow_then_fast), Some(2.0));
        // Many events in a short time.
        let burst: Vec<_> = (0..=1000).map(|n| (n as f64 / 100.0, n)).collect();
        assert_eq!(rate(&burst), Some(100.0));
        // A retry begins anew.
        assert_eq!(rate(&[(0.0, 100), (5.0, 90), (10.0, 95)]), Some(1.0));
    }

    #[test]
    fn the_line_has_the_time_that_is_left() {
        let check = |total, done, per_second, expected: &str| {
            let counts = ProgressCounts {
                total,
                done,
                running: 2,
                failed: 1,
            };
            assert_eq!(ProgressLine { counts, per_second }.to_string(), expected);
        };
        check(
            500,
            480,
            Some(2.0),
            "480/500 done, 2 running, 1 failed, 2.0/s, 10s left",
        );
        check(500, 480, None, "480/500 done, 2 running, 1 failed");
        check(500, 500, Some(2.0), "500/500 done, 2 running, 1 failed, 2.0/s");
    }

    #[test]
    fn a_duration_is_printed_in_two_units() {
        let check = |seconds: u64, expected: &str| {
            assert_eq!(in_two_units(Duration::from_secs(seconds)), expected);
        };
        check(0, "0s");
        check(59, "59s");
        check(65, "1m05s");
        check(3600 + 7 * 60 + 59, "1h07m");
        check(49 * 3600, "2d01h");
    }

    #[test]
    fn everything_done_without_success_counts_as_failed() {
        let json = r#"{"group": "g", "user": "u", "total": 9, "done": 6, "add_time": "2026-01-01T00:00:00Z",
            "counts": {"success": 3, "run_failed": 1, "cancelled": 1, "system_error": 1, "running": 1, "compiling": 1},
            "reasons": {}, "finish_time": null}"#;
        let counts = ProgressCounts::of(&serde_json::from_str(json).unwrap());
        assert_eq!((counts.running, counts.failed, counts.is_done()), (2, 3, false));
    }
}
