//! The history of a node or cluster in figures: what judicators count minute by minute, and what people get to see of it.
//!
//! Each judicator counts what it has committed; the leader also samples the load. The figures of a minute are the sum over
//! all judicators. They are for people: no decision about a task depends on them.

mod run_times;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

pub use self::run_times::{RunTimeHistogram, RunTimeSummary};
use crate::{OutcomeReason, StatusCounts, UnixTime};

const MICROS_PER_MINUTE: i64 = 60_000_000;

/// A minute of wall-clock time, as the number of minutes since 1970. The figures of the history are kept under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryMinute(pub i64);

impl HistoryMinute {
    /// How many minutes are kept: the longest span, and some more, so that its first period is whole.
    pub const KEPT: i64 = 25 * 60;

    /// The minute that contains this time.
    pub fn of(time: UnixTime) -> HistoryMinute {
        HistoryMinute(time.0.div_euclid(MICROS_PER_MINUTE))
    }

    /// When the minute begins.
    pub fn start(self) -> UnixTime {
        UnixTime(self.0.saturating_mul(MICROS_PER_MINUTE))
    }

    pub fn plus(self, minutes: i64) -> HistoryMinute {
        HistoryMinute(self.0.saturating_add(minutes))
    }
}

/// What a judicator has counted in one minute, or the sum of several of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivityFigures {
    /// Tasks added.
    pub added: u64,
    /// Tasks that are done, by final status.
    pub finished: StatusCounts,
    /// Tasks that failed (`run_failed`, `compile_failed`), by the reason of their last step.
    pub failures: BTreeMap<OutcomeReason, u64>,
    /// How long the steps of the tasks with a result took.
    pub run_times: RunTimeHistogram,
    pub load: LoadFigures,
}

/// The load of the system at one moment, as the leading judicator samples it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadSample {
    /// Tasks that wait for an executor.
    pub queued: u64,
    /// For how long the oldest of them has existed; zero if there is none.
    pub oldest_age: Duration,
    /// Slots that run a task.
    pub slots_used: u64,
    /// Slots of the executors that are alive.
    pub slots: u64,
    /// Executors that are alive.
    pub executors: u64,
}

/// The sum of several samples of the load ([`LoadSample`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadFigures {
    pub samples: u64,
    /// The largest value.
    pub queued: u64,
    /// The largest value.
    pub oldest_age: Duration,
    /// The sum.
    pub slots_used: u64,
    /// The sum.
    pub slots: u64,
    /// The largest value.
    pub executors: u64,
}

impl ActivityFigures {
    pub fn add(&mut self, other: &ActivityFigures) {
        self.added = self.added.saturating_add(other.added);
        add_counts(&mut self.finished, &other.finished);
        add_counts(&mut self.failures, &other.failures);
        self.run_times.add(&other.run_times);
        self.load.add(&other.load);
    }
}

fn add_counts<K: Copy + Ord>(counts: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, more) in more {
        let count = counts.entry(*key).or_default();
        *count = count.saturating_add(*more);
    }
}

impl LoadFigures {
    pub fn add(&mut self, other: &LoadFigures) {
        *self = LoadFigures {
            samples: self.samples.saturating_add(other.samples),
            queued: self.queued.max(other.queued),
            oldest_age: self.oldest_age.max(other.oldest_age),
            slots_used: self.slots_used.saturating_add(other.slots_used),
            slots: self.slots.saturating_add(other.slots),
            executors: self.executors.max(other.executors),
        };
    }

    /// `None` without a sample.
    fn mean(&self) -> Option<PeriodLoad> {
        let mean = |sum: u64| sum as f64 / self.samples as f64;
        (self.samples > 0).then(|| PeriodLoad {
            queued: self.queued,
            oldest_age: self.oldest_age,
            slots_used: mean(self.slots_used),
            slots: mean(self.slots),
            executors: self.executors,
        })
    }
}

impl From<LoadSample> for LoadFigures {
    fn from(sample: LoadSample) -> LoadFigures {
        let LoadSample {
            queued,
            oldest_age,
            slots_used,
            slots,
            executors,
        } = sample;
        LoadFigures {
            samples: 1,
            queued,
            oldest_age,
            slots_used,
            slots,
            executors,
        }
    }
}

/// How far back a history goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HistorySpan {
    /// The last hour, minute by minute.
    #[default]
    Hour,
    /// The last day, in periods of ten minutes.
    Day,
}

impl HistorySpan {
    pub const ALL: [HistorySpan; 2] = [HistorySpan::Hour, HistorySpan::Day];

    pub fn as_str(self) -> &'static str {
        match self {
            HistorySpan::Hour => "hour",
            HistorySpan::Day => "day",
        }
    }

    /// The length of one period.
    pub fn step(self) -> Duration {
        Duration::from_secs(self.minutes_per_period().unsigned_abs() * 60)
    }

    /// The minutes that a history at this time covers. The last period is not over yet.
    pub fn minutes(self, now: UnixTime) -> Range<HistoryMinute> {
        let step = self.minutes_per_period();
        let last = HistoryMinute::of(now).0.div_euclid(step);
        let end = HistoryMinute((last + 1) * step);
        end.plus(-self.periods() * step)..end
    }

    fn minutes_per_period(self) -> i64 {
        match self {
            HistorySpan::Hour => 1,
            HistorySpan::Day => 10,
        }
    }

    fn periods(self) -> i64 {
        match self {
            HistorySpan::Hour => 60,
            HistorySpan::Day => 24 * 6,
        }
    }
}

impl fmt::Display for HistorySpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for HistorySpan {
    type Err = String;
    fn from_str(text: &str) -> Result<HistorySpan, String> {
        HistorySpan::ALL
            .into_iter()
            .find(|span| span.as_str() == text)
            .ok_or_else(|| format!("'{text}' is no span; use hour or day"))
    }
}

/// The figures of the last hour or day, period by period, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    pub span: HistorySpan,
    /// When it was read. The last period is not over at this time.
    pub time: UnixTime,
    /// One for each period, also if nothing happened in it.
    pub points: Vec<HistoryPoint>,
}

/// The figures of one period of a [`History`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryPoint {
    pub start: UnixTime,
    pub added: u64,
    pub finished: StatusCounts,
    pub failures: BTreeMap<OutcomeReason, u64>,
    /// `None` if no task finished with a result.
    pub run_time: Option<RunTimeSummary>,
    /// `None` if no judicator led, or all were stopped.
    pub load: Option<PeriodLoad>,
}

/// The load of the system in one period of a [`History`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodLoad {
    /// The most tasks that waited.
    pub queued: u64,
    /// The greatest age of the oldest task that waited.
    pub oldest_age: Duration,
    /// The mean number of slots that ran a task.
    pub slots_used: f64,
    /// The mean number of slots.
    pub slots: f64,
    /// The most executors that were alive.
    pub executors: u64,
}

impl History {
    /// Merges the figures of minutes, in any order. Those of the same period are added up, those outside of the span left
    /// out.
    pub fn merge<'f>(
        span: HistorySpan,
        time: UnixTime,
        minutes: impl IntoIterator<Item = (HistoryMinute, &'f ActivityFigures)>,
    ) -> History {
        let (range, step) = (span.minutes(time), span.minutes_per_period());
        let mut periods: BTreeMap<HistoryMinute, ActivityFigures> = BTreeMap::new();
        for (minute, figures) in minutes {
            let start = HistoryMinute(minute.0.div_euclid(step) * step);
            periods.entry(start).or_default().add(figures);
        }
        let starts = (0..span.periods()).map(|period| range.start.plus(period * step));
        let points = starts.map(|start| HistoryPoint::new(start, periods.remove(&start).unwrap_or_default()));
        History {
            span,
            time,
            points: points.collect(),
        }
    }

    /// Whether nothing was ever counted in the span.
    pub fn is_empty(&self) -> bool {
        let is_empty = |point: &HistoryPoint| {
            point.added == 0 && point.finished.values().all(|count| *count == 0) && point.run_time.is_none()
        };
        self.points.iter().all(is_empty)
    }
}

impl HistoryPoint {
    fn new(start: HistoryMinute, figures: ActivityFigures) -> HistoryPoint {
        HistoryPoint {
            start: start.start(),
            added: figures.added,
            finished: figures.finished,
            failures: figures.failures,
            run_time: figures.run_times.summary(),
            load: figures.load.mean(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskStatus;

    fn minute(minute: i64, micros: i64) -> UnixTime {
        UnixTime(minute * MICROS_PER_MINUTE + micros)
    }

    #[test]
    fn a_span_ends_with_the_period_of_now() {
        let check = |span: HistorySpan, now: UnixTime, expected: Range<i64>| {
            let expected = HistoryMinute(expected.start)..HistoryMinute(expected.end);
            assert_eq!(span.minutes(now), expected, "{span} at {now:?}");
        };
        check(HistorySpan::Hour, minute(5000, 0), 4941..5001);
        check(HistorySpan::Hour, minute(5000, 59_999_999), 4941..5001);
        check(HistorySpan::Day, minute(5000, 0), 3570..5010);
        check(HistorySpan::Day, minute(5009, 7), 3570..5010);
        check(HistorySpan::Day, minute(-1, 7), -1440..0);
        for span in HistorySpan::ALL {
            let minutes = span.minutes(minute(5009, 0));
            let kept = HistoryMinute(5009).plus(-HistoryMinute::KEPT);
            assert!(minutes.start > kept, "the figures of {span} are still kept");
            assert_eq!(span.as_str().parse(), Ok(span));
        }
        assert!("week".parse::<HistorySpan>().is_err());
    }

    #[test]
    fn the_figures_of_a_period_are_added_up() {
        let figures = |added: u64, finished: u64, load: LoadSample| {
            let mut run_times = RunTimeHistogram::default();
            run_times.record(Duration::from_secs(added));
            ActivityFigures {
                added,
                finished: [(TaskStatus::RunFailed, finished)].into(),
                failures: [(OutcomeReason::TimeLimit, finished)].into(),
                run_times,
                load: load.into(),
            }
        };
        let sample = |queued, age, slots_used| LoadSample {
            queued,
            oldest_age: Duration::from_secs(age),
            slots_used,
            slots: 4,
            executors: 1,
        };
        let one = figures(1, 2, sample(9, 3, 1));
        let other = figures(3, 4, sample(2, 8, 4));
        let before = figures(100, 100, LoadSample::default());
        let minutes = [
            (HistoryMinute(5002), &one),
            (HistoryMinute(5000), &other),
            (HistoryMinute(3569), &before),
        ];
        let history = History::merge(HistorySpan::Day, minute(5003, 0), minutes);
        assert_eq!(history.points.len(), 144);
        assert!(!history.is_empty());
        let last = history.points.last().unwrap();
        assert_eq!((last.start, last.added), (minute(5000, 0), 4));
        assert_eq!(last.finished, [(TaskStatus::RunFailed, 6)].into());
        assert_eq!(last.failures, [(OutcomeReason::TimeLimit, 6)].into());
        assert_eq!(last.run_time.unwrap().mean, Duration::from_secs(2));
        let load = PeriodLoad {
            queued: 9,
            oldest_age: Duration::from_secs(8),
            slots_used: 2.5,
            slots: 4.0,
            executors: 1,
        };
        assert_eq!(last.load, Some(load));
        let nothing = HistoryPoint {
            start: minute(4990, 0),
            ..HistoryPoint::default()
        };
        assert_eq!(history.points[142], nothing);

        let by_minutes = History::merge(HistorySpan::Hour, minute(5003, 0), minutes);
        let added: Vec<_> = by_minutes.points[56..].iter().map(|point| point.added).collect();
        assert_eq!(added, [3, 0, 1, 0]);
        let empty = History::merge(HistorySpan::Hour, minute(1, 0), []);
        assert!(empty.is_empty() && empty.points.len() == 60);
    }
}
