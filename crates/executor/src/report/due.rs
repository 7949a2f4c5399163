//! When the next report is to be sent. Pure: times come in as values.

use std::time::{Duration, Instant};

use crate::slots::Slots;

/// While slots have work waiting, ended tasks are gathered into one report: for so long, or for as long as half an
/// exchange takes where that is more.
const GATHER: Duration = Duration::from_millis(10);
/// A task that has begun is reported if it still runs after this; most short ones are done by then.
const SETTLE: Duration = Duration::from_millis(25);
const FIRST_RETRY: Duration = Duration::from_millis(50);

pub(super) struct Due {
    heartbeat: Duration,
    last_sent: Option<Instant>,
    hinted: bool,
    ended_since: Option<Instant>,
    retry: Option<Retry>,
}

struct Retry {
    at: Instant,
    pause: Duration,
}

impl Due {
    pub(super) fn new(heartbeat: Duration) -> Due {
        Due {
            heartbeat,
            last_sent: None,
            hinted: true,
            ended_since: None,
            retry: None,
        }
    }

    pub(super) fn on_hint(&mut self) {
        self.hinted = true;
    }

    pub(super) fn on_ended(&mut self, now: Instant) {
        self.ended_since.get_or_insert(now);
    }

    pub(super) fn on_sent(&mut self, now: Instant) {
        self.last_sent = Some(now);
        self.hinted = false;
        self.ended_since = None;
    }

    /// After a failure only time brings the next report: whatever happens, the judicator is not hammered.
    pub(super) fn on_failed(&mut self, now: Instant) {
        let pause = self
            .retry
            .as_ref()
            .map_or(FIRST_RETRY, |retry| (retry.pause * 2).min(self.heartbeat));
        self.retry = Some(Retry {
            at: now + pause,
            pause,
        });
    }

    /// With results left over, the next report follows at once.
    pub(super) fn on_answered(&mut self, results_left: bool) {
        self.retry = None;
        self.hinted |= results_left;
    }

    pub(super) fn at(&self, slots: &Slots, waiting: usize, now: Instant) -> Instant {
        if let Some(retry) = &self.retry {
            return retry.at;
        }
        let (Some(last_sent), false) = (self.last_sent, self.hinted) else {
            return now;
        };
        // With enough left to do, the slots do not stand idle while a few results are gathered.
        let gather = if waiting > slots.total() {
            GATHER.max(slots.exchange() / 2)
        } else {
            Duration::ZERO
        };
        let gathered = self.ended_since.map(|since| since + gather);
        let settled = slots.unreported_since().map(|since| since + SETTLE);
        let heartbeat = last_sent + self.heartbeat;
        [gathered, settled]
            .into_iter()
            .flatten()
            .fold(heartbeat, Instant::min)
    }
}

#[cfg(test)]
mod tests {
    use model::{Attempt, Handout, SessionId, Status, TaskId};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const HEARTBEAT: Duration = Duration::from_secs(2);

    fn sent(now: Instant) -> Due {
        let mut due = Due::new(HEARTBEAT);
        due.on_sent(now);
        due
    }

    #[test]
    fn a_report_comes_when_something_changed_or_at_the_heartbeat() {
        let now = Instant::now();
        let mut slots = Slots::new(2);
        assert_eq!(Due::new(HEARTBEAT).at(&slots, 0, now), now, "the first at once");
        assert_eq!(sent(now).at(&slots, 0, now), now + HEARTBEAT);
        let mut due = sent(now);
        due.on_hint();
        assert_eq!(due.at(&slots, 0, now + MS), now + MS);
        let mut due = sent(now);
        due.on_ended(now + 7 * MS);
        assert_eq!(
            due.at(&slots, 2, now + 8 * MS),
            now + 7 * MS,
            "a slot may stand idle"
        );
        assert_eq!(
            due.at(&slots, 3, now + 8 * MS),
            now + 7 * MS + GATHER,
            "there is enough to do"
        );
        let handout = Handout {
            task: TaskId::generate(),
            session: SessionId::generate(),
            attempt: Attempt(1),
        };
        slots.on_assigned(handout, now);
        slots.on_began(&handout, Status::Running, now + 3 * MS);
        assert_eq!(sent(now).at(&slots, 0, now), now + 3 * MS + SETTLE);
    }

    #[test]
    fn after_a_failure_the_pauses_grow_whatever_happens() {
        let now = Instant::now();
        let slots = Slots::new(2);
        let mut due = sent(now);
        due.on_failed(now);
        due.on_hint();
        due.on_ended(now);
        assert_eq!(due.at(&slots, 0, now), now + FIRST_RETRY);
        due.on_failed(now);
        assert_eq!(due.at(&slots, 0, now), now + FIRST_RETRY * 2);
        for _ in 0..20 {
            due.on_failed(now);
        }
        assert_eq!(due.at(&slots, 0, now), now + HEARTBEAT);
        due.on_answered(false);
        due.on_sent(now);
        assert_eq!(due.at(&slots, 0, now), now + HEARTBEAT);
    }
}
