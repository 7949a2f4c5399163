//! The encoded form of a task's earlier attempts.

use model::{AttemptNumber, AttemptRecord, ExecutorName, UnixTime};
use serde::{Deserialize, Serialize};

/// The encoded form of one attempt of a task that began (`AttemptRecord`).
#[derive(Serialize, Deserialize)]
pub(super) struct AttemptDocument<'a> {
    executor: &'a str,
    attempt: u32,
    start_time: i64,
    /// The time and the name of the end.
    #[serde(borrow)]
    end: Option<(i64, &'a str)>,
}

impl<'a> From<&'a AttemptRecord> for AttemptDocument<'a> {
    fn from(record: &'a AttemptRecord) -> AttemptDocument<'a> {
        let AttemptRecord {
            executor,
            attempt,
            start_time,
            end,
        } = record;
        AttemptDocument {
            executor: executor.as_str(),
            attempt: attempt.0,
            start_time: start_time.0,
            end: end.map(|(time, end)| (time.0, end.as_str())),
        }
    }
}

impl TryFrom<AttemptDocument<'_>> for AttemptRecord {
    type Error = postcard::Error;

    fn try_from(document: AttemptDocument<'_>) -> Result<AttemptRecord, postcard::Error> {
        let AttemptDocument {
            executor,
            attempt,
            start_time,
            end,
        } = document;
        let end = end.map(|(time, end)| Ok((UnixTime(time), end.parse()?)));
        Ok(AttemptRecord {
            executor: ExecutorName::new(executor).map_err(|_| postcard::Error::SerdeDeCustom)?,
            attempt: AttemptNumber(attempt),
            start_time: UnixTime(start_time),
            end: end
                .transpose()
                .map_err(|_: String| postcard::Error::SerdeDeCustom)?,
        })
    }
}
