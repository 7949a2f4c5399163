//! The encoded form of the figures of a minute.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{ActivityFigures, LoadFigures, RunTimeHistogram};
use serde::{Deserialize, Serialize};

/// The encoded form of the figures that a judicator keeps of a minute (`ActivityFigures`). Spans are microseconds.
#[derive(Serialize, Deserialize)]
pub(super) struct FiguresDocument<'a> {
    added: u64,
    #[serde(borrow)]
    finished: Vec<(&'a str, u64)>,
    failures: Vec<(&'a str, u64)>,
    run_times: Vec<(u8, u64)>,
    run_time_sum: u64,
    longest_run_time: u64,
    samples: u64,
    queued: u64,
    oldest_age: u64,
    slots_used: u64,
    slots: u64,
    executors: u64,
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl From<&ActivityFigures> for FiguresDocument<'static> {
    fn from(figures: &ActivityFigures) -> FiguresDocument<'static> {
        let ActivityFigures {
            added,
            finished,
            failures,
            run_times,
            load,
        } = figures;
        let (sum, longest) = run_times.sum_and_longest();
        FiguresDocument {
            added: *added,
            finished: finished
                .iter()
                .map(|(status, count)| (status.as_str(), *count))
                .collect(),
            failures: failures
                .iter()
                .map(|(reason, count)| (reason.as_str(), *count))
                .collect(),
            run_times: run_times.filled_buckets().collect(),
            run_time_sum: micros(sum),
            longest_run_time: micros(longest),
            samples: load.samples,
            queued: load.queued,
            oldest_age: micros(load.oldest_age),
            slots_used: load.slots_used,
            slots: load.slots,
            executors: load.executors,
        }
    }
}

impl TryFrom<FiguresDocument<'_>> for ActivityFigures {
    type Error = postcard::Error;

    fn try_from(document: FiguresDocument<'_>) -> Result<ActivityFigures, postcard::Error> {
        let sum_and_longest = (
            Duration::from_micros(document.run_time_sum),
            Duration::from_micros(document.longest_run_time),
        );
        let run_times = RunTimeHistogram::from_stored(document.run_times, sum_and_longest);
        Ok(ActivityFigures {
            added: document.added,
            finished: known_counts(document.finished),
            failures: known_counts(document.failures),
            run_times: run_times.ok_or(postcard::Error::SerdeDeCustom)?,
            load: LoadFigures {
                samples: document.samples,
                queued: document.queued,
                oldest_age: Duration::from_micros(document.oldest_age),
                slots_used: document.slots_used,
                slots: document.slots,
                executors: document.executors,
            },
        })
    }
}

/// Statuses and reasons that only newer versions know are left out.
fn known_counts<K: std::str::FromStr + Ord>(counts: Vec<(&str, u64)>) -> BTreeMap<K, u64> {
    let known = |(name, count): (&str, u64)| Some((name.parse().ok()?, count));
    counts.into_iter().filter_map(known).collect()
}
