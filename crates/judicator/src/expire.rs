//! The leader's eye on the executors: a session that is silent for too long is ended, its tasks are released.
//!
//! Silence is measured on this process's own monotonic clock, as the time for which a session's `seq` has not
//! moved and no report of it was under way here. No clock of another machine is asked, and the store expires only the
//! very seq that was seen.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::{ExecutorName, SessionId, with_causes};
use store::SessionSeen;
use tokio::time::{Instant, MissedTickBehavior};

use crate::Judicator;
use crate::measure::EXPIRED;

impl Judicator {
    pub(crate) async fn expire(self: Arc<Self>) {
        let silence = self.options.lease + self.options.grace;
        let mut sweep = tokio::time::interval(silence / 10);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sightings = Sightings::new(silence, sweep.period());
        loop {
            sweep.tick().await;
            if !self.leads() {
                // What was seen in an earlier reign says nothing about now.
                sightings = Sightings::new(silence, sweep.period());
                self.heard.look();
                continue;
            }
            let live = match self.store.live_sessions().await {
                Ok(live) => live,
                Err(error) => {
                    tracing::warn!(
                        error = with_causes(&error),
                        "could not look at the executors' sessions"
                    );
                    continue;
                }
            };
            // Looked at last: a report that begins later is of an executor whose time was over before it.
            for seen in sightings.overdue(live, &self.heard.look(), Instant::now()) {
                self.end(seen).await;
            }
        }
    }

    async fn end(&self, seen: SessionSeen) {
        let SessionSeen {
            executor, session, ..
        } = seen.clone();
        match self.store.expire(seen).await {
            Ok(Some(released)) => {
                metrics::counter!(EXPIRED).increment(1);
                self.hints.forget(&executor);
                tracing::warn!(%executor, %session, released, "executor went silent: its session is over");
            }
            Ok(None) => tracing::debug!(%executor, %session, "executor came back in the last moment"),
            Err(error) => {
                tracing::warn!(%executor, error = with_causes(&error), "could not expire the session")
            }
        }
    }
}

struct Sightings {
    silence: Duration,
    period: Duration,
    seen: HashMap<ExecutorName, Sighting>,
    last_sweep: Option<Instant>,
    hold: Hold,
}

struct Sighting {
    last: SessionSeen,
    since: Instant,
}

/// Many going silent at once looks like us being cut off, not like them dying. It is believed at the second look.
#[derive(Clone, Copy, PartialEq)]
enum Hold {
    Off,
    Until(Instant),
}

impl Sightings {
    fn new(silence: Duration, period: Duration) -> Sightings {
        Sightings {
            silence,
            period,
            seen: HashMap::new(),
            last_sweep: None,
            hold: Hold::Off,
        }
    }

    /// Takes in what is live now; gives back what has been silent for too long.
    fn overdue(
        &mut self,
        live: Vec<SessionSeen>,
        heard: &HashSet<SessionId>,
        now: Instant,
    ) -> Vec<SessionSeen> {
        // If this very loop stood still, nobody's silence was listened to: start again.
        let stood_still = self
            .last_sweep
            .is_some_and(|last| now - last > self.silence / 2 + self.period);
        self.last_sweep = Some(now);
        if stood_still {
            self.seen.clear();
        }
        let mut before = std::mem::take(&mut self.seen);
        for session in live {
            let since = match before.remove(&session.executor) {
                Some(sighting) if sighting.last == session && !heard.contains(&session.session) => {
                    sighting.since
                }
                _ => now,
            };
            self.seen
                .insert(session.executor.clone(), Sighting { last: session, since });
        }
        let due: Vec<_> = self
            .seen
            .values()
            .filter(|sighting| now - sighting.since >= self.silence)
            .map(|sighting| sighting.last.clone())
            .collect();
        let wave = due.len() > 1 && due.len() * 2 > self.seen.len();
        match self.hold {
            _ if !wave => self.hold = Hold::Off,
            Hold::Off => {
                tracing::warn!(
                    sessions = due.len(),
                    "many executors are silent at once: looking again first"
                );
                self.hold = Hold::Until(now + self.silence / 2);
                return Vec::new();
            }
            Hold::Until(end) if now < end => return Vec::new(),
            Hold::Until(_) => {}
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use model::{Seq, SessionId};

    use super::*;

    const SILENCE: Duration = Duration::from_secs(10);
    const PERIOD: Duration = Duration::from_secs(1);

    fn session(name: &str) -> SessionSeen {
        SessionSeen {
            executor: ExecutorName::new(name).unwrap(),
            session: SessionId::generate(),
            seq: Seq(1),
        }
    }

    /// Sweeps once for each second of the range; gives the names that were due, with the second.
    fn sweep(
        sightings: &mut Sightings,
        start: Instant,
        seconds: std::ops::RangeInclusive<u64>,
        live: impl Fn(u64) -> Vec<SessionSeen>,
    ) -> Vec<(u64, String)> {
        let mut due = Vec::new();
        for second in seconds {
            let now = start + Duration::from_secs(second);
            for seen in sightings.overdue(live(second), &HashSet::new(), now) {
                due.push((second, seen.executor.to_string()));
            }
        }
        due.sort();
        due
    }

    #[test]
    fn only_silence_is_overdue() {
        let (quiet, busy, third) = (session("quiet"), session("busy"), session("third"));
        let mut sightings = Sightings::new(SILENCE, PERIOD);
        let live = |second| {
            let moving = |session: &SessionSeen| SessionSeen {
                seq: Seq(second),
                ..session.clone()
            };
            vec![quiet.clone(), moving(&busy), moving(&third)]
        };
        let due = sweep(&mut sightings, Instant::now(), 0..=10, live);
        assert_eq!(due, [(10, "quiet".to_string())]);
    }

    #[test]
    fn a_session_whose_report_is_under_way_is_not_silent() {
        let waits = session("waits");
        let mut sightings = Sightings::new(SILENCE, PERIOD);
        let start = Instant::now();
        let heard = HashSet::from([waits.session]);
        for second in 0..=100 {
            let now = start + Duration::from_secs(second);
            assert_eq!(sightings.overdue(vec![waits.clone()], &heard, now), []);
        }
        // Its silence begins when the report has ended.
        let due = sweep(&mut sightings, start, 101..=110, |_| vec![waits.clone()]);
        assert_eq!(due, [(110, "waits".to_string())]);
    }

    #[test]
    fn a_wave_is_believed_at_the_second_look() {
        let (one, two) = (session("one"), session("two"));
        let mut sightings = Sightings::new(SILENCE, PERIOD);
        let due = sweep(&mut sightings, Instant::now(), 0..=15, |_| {
            vec![one.clone(), two.clone()]
        });
        assert_eq!(due, [(15, "one".to_string()), (15, "two".to_string())]);
    }

    #[test]
    fn a_wave_that_passes_takes_nobody() {
        let (one, two) = (session("one"), session("two"));
        let mut sightings = Sightings::new(SILENCE, PERIOD);
        let due = sweep(&mut sightings, Instant::now(), 0..=20, |second| {
            let seq = Seq(if second < 12 { 1 } else { second });
            [&one, &two]
                .map(|session| SessionSeen {
                    seq,
                    ..session.clone()
                })
                .to_vec()
        });
        assert_eq!(due, []);
    }

    #[test]
    fn our_own_pause_counts_for_nobody() {
        let (one, other) = (session("one"), session("other"));
        let mut sightings = Sightings::new(SILENCE, PERIOD);
        let start = Instant::now();
        let live = |_| vec![one.clone(), other.clone()];
        assert_eq!(sweep(&mut sightings, start, 0..=2, live), []);
        // Nothing ran from second 2 to second 60.
        assert_eq!(sweep(&mut sightings, start, 60..=69, live), []);
        let alone = |_| vec![one.clone()];
        assert_eq!(
            sweep(&mut sightings, start, 70..=70, alone),
            [(70, "one".to_string())]
        );
    }
}
