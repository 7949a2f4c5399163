//! Points in time: wall-clock times for people, and the age of a store for retention.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A wall-clock time in microseconds since 1970, for people to read. No decision compares the clocks of two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixTime(pub i64);

/// The age of a task store in microseconds: the time that leading judicators have measured while they led. Retention
/// uses it in place of a wall clock.
///
/// Each leader adds what it measures on its monotonic clock, so setting a clock or switching the machines off makes no
/// store older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StoreAge(pub i64);

impl UnixTime {
    pub fn minus(self, span: Duration) -> UnixTime {
        UnixTime(self.0.saturating_sub(micros(span)))
    }

    pub fn plus(self, span: Duration) -> UnixTime {
        UnixTime(self.0.saturating_add(micros(span)))
    }

    /// The time that passed since `earlier`; zero if `earlier` is not earlier.
    pub fn since(self, earlier: UnixTime) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for UnixTime {
    fn from(time: SystemTime) -> UnixTime {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => UnixTime(micros(since)),
            Err(before) => UnixTime(-micros(before.duration())),
        }
    }
}

impl StoreAge {
    pub fn minus(self, span: Duration) -> StoreAge {
        StoreAge(self.0.saturating_sub(micros(span)))
    }

    pub fn plus(self, span: Duration) -> StoreAge {
        StoreAge(self.0.saturating_add(micros(span)))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
