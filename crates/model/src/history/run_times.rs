//! Run times in a fixed histogram, from which percentiles are estimated.

use std::time::Duration;

/// The upper bound of the first bucket, in microseconds.
const FIRST_BOUND: u64 = 250;
/// Two buckets for each doubling, up to more than a day, and one for everything longer.
const BUCKETS: usize = 59;

/// How long tasks ran, as the number of tasks in each of a fixed set of buckets. The bounds of the buckets never change,
/// because histograms are stored and added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTimeHistogram {
    counts: [u64; BUCKETS],
    sum: Duration,
    longest: Duration,
}

/// Run times in short: their number, mean and percentiles. The percentiles are estimates from a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTimeSummary {
    /// How many tasks.
    pub tasks: u64,
    pub mean: Duration,
    /// Half of the tasks took no longer.
    pub p50: Duration,
    /// 95 % of the tasks took no longer.
    pub p95: Duration,
}

impl Default for RunTimeHistogram {
    fn default() -> RunTimeHistogram {
        RunTimeHistogram {
            counts: [0; BUCKETS],
            sum: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }
}

impl RunTimeHistogram {
    pub fn record(&mut self, run_time: Duration) {
        let bucket = (0..BUCKETS - 1)
            .find(|bucket| run_time <= upper_bound(*bucket))
            .unwrap_or(BUCKETS - 1);
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.sum = self.sum.saturating_add(run_time);
        self.longest = self.longest.max(run_time);
    }

    pub fn add(&mut self, other: &RunTimeHistogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.longest = self.longest.max(other.longest);
    }

    /// The buckets that are not empty, with their numbers. A store writes these.
    pub fn filled_buckets(&self) -> impl Iterator<Item = (u8, u64)> {
        let counts = (0..).zip(self.counts);
        counts.filter(|(_, count)| *count > 0)
    }

    /// The sum of all run times, and the longest.
    pub fn sum_and_longest(&self) -> (Duration, Duration) {
        (self.sum, self.longest)
    }

    /// A histogram as a store has written it. `None` if there is no such bucket.
    pub fn from_stored(
        buckets: impl IntoIterator<Item = (u8, u64)>,
        (sum, longest): (Duration, Duration),
    ) -> Option<RunTimeHistogram> {
        let mut histogram = RunTimeHistogram {
            sum,
            longest,
            ..RunTimeHistogram::default()
        };
        for (bucket, count) in buckets {
            *histogram.counts.get_mut(usize::from(bucket))? = count;
        }
        Some(histogram)
    }

    /// `None` if the histogram is empty.
    pub fn summary(&self) -> Option<RunTimeSummary> {
        let tasks = self
            .counts
            .iter()
            .fold(0_u64, |sum, count| sum.saturating_add(*count));
        let mean = self.sum.as_micros().checked_div(u128::from(tasks))?;
        Some(RunTimeSummary {
            tasks,
            mean: Duration::from_micros(u64::try_from(mean).unwrap_or(u64::MAX)),
            p50: self.percentile(tasks, 0.5),
            p95: self.percentile(tasks, 0.95),
        })
    }

    /// The run times within a bucket count as evenly spread.
    fn percentile(&self, tasks: u64, part: f64) -> Duration {
        let rank = (tasks as f64 * part).ceil().max(1.0);
        let mut below = 0.0;
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = *count as f64;
            if below + count >= rank {
                let lower = bucket.checked_sub(1).map_or(Duration::ZERO, upper_bound);
                let upper = upper_bound(bucket).min(self.longest);
                let spread = upper.saturating_sub(lower);
                return (lower + spread.mul_f64((rank - below) / count)).min(self.longest);
            }
            below += count;
        }
        self.longest
    }
}

/// The longest run time of a bucket.
fn upper_bound(bucket: usize) -> Duration {
    if bucket >= BUCKETS - 1 {
        return Duration::MAX;
    }
    let doubled = FIRST_BOUND << (bucket / 2);
    Duration::from_micros(match bucket % 2 {
        0 => doubled,
        // The square root of 2.
        _ => doubled * 14_142 / 10_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(millis: impl IntoIterator<Item = u64>) -> RunTimeHistogram {
        let mut histogram = RunTimeHistogram::default();
        millis
            .into_iter()
            .for_each(|millis| histogram.record(Duration::from_millis(millis)));
        histogram
    }

    #[test]
    fn the_buckets_grow_to_more_than_a_day() {
        let bounds: Vec<_> = (0..BUCKETS).map(upper_bound).collect();
        assert!(bounds.is_sorted_by(|one, next| one < next), "{bounds:?}");
        assert!(bounds[BUCKETS - 2] > Duration::from_secs(86_400), "{bounds:?}");
    }

    #[test]
    fn percentiles_are_near_the_true_ones() {
        let check = |millis: &[u64], (mean, p50, p95): (u64, u64, u64)| {
            let summary = histogram(millis.iter().copied()).summary().unwrap();
            let near = |found: Duration, expected: u64| {
                let (found, expected) = (found.as_secs_f64() * 1000.0, expected as f64);
                assert!(
                    (found - expected).abs() <= expected * 0.2,
                    "{found} ms, not {expected} ms"
                );
            };
            assert_eq!(summary.tasks, millis.len() as u64);
            near(summary.mean, mean);
            near(summary.p50, p50);
            near(summary.p95, p95);
        };
        check(&[1500], (1500, 1500, 1500));
        check(&[0], (0, 0, 0));
        let even: Vec<_> = (1..=1000).collect();
        check(&even, (500, 500, 950));
        let mostly_short: Vec<_> = [vec![2; 90], vec![60_000; 10]].concat();
        check(&mostly_short, (6002, 2, 60_000));
        check(&[200_000_000], (200_000_000, 200_000_000, 200_000_000));
        assert_eq!(histogram([]).summary(), None);
    }

    #[test]
    fn sums_and_stored_histograms_are_the_same_as_one_histogram() {
        let (some, others) = (histogram([1, 5, 9]), histogram([0, 5, 100_000_000]));
        let mut sum = some.clone();
        sum.add(&others);
        assert_eq!(sum, histogram([1, 5, 9, 0, 5, 100_000_000]));
        let stored = RunTimeHistogram::from_stored(sum.filled_buckets(), sum.sum_and_longest());
        assert_eq!(stored, Some(sum));
        assert_eq!(
            RunTimeHistogram::from_stored([(255, 1)], Default::default()),
            None
        );
    }
}
