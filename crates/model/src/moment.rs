//! A point in time, for people to read. Nothing is decided by comparing the clocks of machines.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub i64);

impl Moment {
    pub fn minus(self, span: Duration) -> Moment {
        Moment(self.0.saturating_sub(micros(span)))
    }

    pub fn plus(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(micros(span)))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Moment {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Moment(micros(since)),
            Err(before) => Moment(-micros(before.duration())),
        }
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
