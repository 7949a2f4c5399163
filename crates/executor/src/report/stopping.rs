//! The stages of a stop.
//!
//! Pure: times come in as values.

use std::time::{Duration, Instant};

/// How long a goodbye is tried, once no task is left, before leaving without.
pub(super) const FAREWELL: Duration = Duration::from_secs(3);

#[derive(Debug, PartialEq)]
pub(super) enum Stopping {
    /// What runs may go on until then.
    Grace(Instant),
    /// What still runs has been stopped, and is not gone yet.
    Killed,
    /// Nothing is left to wait for but the answer to the goodbye, until then.
    Farewell(Instant),
}

impl Stopping {
    /// Whether the grace has just ended: then what still runs is to be killed.
    pub(super) fn end_grace_if_over(&mut self, now: Instant) -> bool {
        let over = matches!(self, Stopping::Grace(until) if *until <= now);
        if over {
            *self = Stopping::Killed;
        }
        over
    }

    pub(super) fn on_all_ended(&mut self, now: Instant) {
        if !matches!(self, Stopping::Farewell(_)) {
            *self = Stopping::Farewell(now + FAREWELL);
        }
    }

    /// When this stage ends by itself.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Stopping::Grace(until) | Stopping::Farewell(until) => Some(*until),
            Stopping::Killed => None,
        }
    }

    pub(super) fn is_out_of_time(&self, now: Instant) -> bool {
        matches!(self, Stopping::Farewell(until) if *until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goodbye_has_its_time_from_when_no_task_is_left() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut stopping = Stopping::Grace(at(5));
        assert!(!stopping.end_grace_if_over(at(4)));
        assert!(stopping.end_grace_if_over(at(5)));
        assert!(!stopping.end_grace_if_over(at(6)), "only once");
        // However long it takes until what was killed is gone.
        assert_eq!(
            (stopping.until(), stopping.is_out_of_time(at(100))),
            (None, false)
        );
        stopping.on_all_ended(at(100));
        stopping.on_all_ended(at(102));
        assert_eq!(stopping, Stopping::Farewell(at(103)));
        assert!(!stopping.is_out_of_time(at(102)));
        assert!(stopping.is_out_of_time(at(103)));
    }

    #[test]
    fn who_has_nothing_left_needs_no_grace() {
        let now = Instant::now();
        let mut stopping = Stopping::Grace(now + FAREWELL);
        stopping.on_all_ended(now);
        assert_eq!(stopping.until(), Some(now + FAREWELL));
        assert!(!stopping.end_grace_if_over(now + FAREWELL));
    }
}
