//! The age of a store: what retention goes by instead of a clock.

use std::time::Duration;

/// For how long leaders have looked after a store, all of them together, in microseconds. A leader adds what it has
/// measured on its monotonic clock, so no clock that is set and no time switched off makes a store older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Age(pub i64);

impl Age {
    pub fn minus(self, span: Duration) -> Age {
        Age(self.0.saturating_sub(micros(span)))
    }

    pub fn plus(self, span: Duration) -> Age {
        Age(self.0.saturating_add(micros(span)))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
