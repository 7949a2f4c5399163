//! Session expiry: the leader ends sessions that are silent for too long, and releases their tasks.
//!
//! Silence is measured on the monotonic clock of this process: the time for which a session's `seq` has not changed and
//! no report of it was under way here. No clock of another machine matters. The store expires a session only if its
//! `seq` is still the observed one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use error_causes::with_causes;
use model::{ExecutorName, SessionId};
use store::ObservedSession;
use tokio::time::{Instant, MissedTickBehavior};

use crate::Judicator;
use crate::metric_names::EXPIRED;

impl Judicator {
    pub(crate) async fn expire_sessions(self: Arc<Self>) {
        let silence = self.options.lease + self.options.grace;
        let mut sweep = tokio::time::interval(silence / 10);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tracker = SilenceTracker::new(silence, sweep.period());
        loop {
            sweep.tick().await;
            if !self.leads() {
                // Observations from an earlier term as leader are outdated.
                tracker = SilenceTracker::new(silence, sweep.period());
                self.report_tracker.take_reporting_sessions();
                continue;
            }
            let live = match self.store.live_sessions().await {
                Ok(live) => live,
                Err(error) => {
                    tracing::warn!(error = with_causes(&error), "could not read the live sessions");
                    continue;
                }
            };
            // Read last: a report that begins later comes from an executor that was overdue before it.
            for session in tracker.overdue_sessions(
                live,
                &self.report_tracker.take_reporting_sessions(),
                Instant::now(),
            ) {
                self.expire_session(session).await;
            }
        }
    }

    async fn expire_session(&self, observed: ObservedSession) {
        let ObservedSession {
            executor, session, ..
        } = observed.clone();
        match self.store.expire(observed).await {
            Ok(Some(released)) => {
                metrics::counter!(EXPIRED).increment(1);
                self.hints.on_session_ended(&executor);
                tracing::warn!(%executor, %session, released, "session expired: the executor was silent for too long");
            }
            Ok(None) => {
                tracing::debug!(%executor, %session, "session not expired: the executor reported again")
            }
            Err(error) => {
                tracing::warn!(%executor, error = with_causes(&error), "could not expire a session")
            }
        }
    }
}

/// Measures for how long each executor's session has been silent, so that the leading judicator expires it.
struct SilenceTracker {
    /// A session that is silent for this long is overdue.
    limit: Duration,
    /// The time between two sweeps.
    period: Duration,
    sessions: HashMap<ExecutorName, SessionSilence>,
    last_sweep: Option<Instant>,
    hold: ExpiryHold,
}

/// An executor's session as the leading judicator last observed it, and since when it has been silent.
struct SessionSilence {
    last: ObservedSession,
    since: Instant,
}

/// Whether the leading judicator holds back the expiry of many executors' sessions at once. If many executors are
/// silent at once, this judicator is more likely cut off than all of them dead, so the tracker checks again later
/// before it expires them.
#[derive(Clone, Copy, PartialEq)]
enum ExpiryHold {
    Off,
    Until(Instant),
}

impl SilenceTracker {
    fn new(limit: Duration, period: Duration) -> SilenceTracker {
        SilenceTracker {
            limit,
            period,
            sessions: HashMap::new(),
            last_sweep: None,
            hold: ExpiryHold::Off,
        }
    }

    /// Records the live sessions, and returns those that have been silent for too long.
    fn overdue_sessions(
        &mut self,
        live: Vec<ObservedSession>,
        reporting: &HashSet<SessionId>,
        now: Instant,
    ) -> Vec<ObservedSession> {
        // If this process was paused, no silence was measured, so the tracker starts again.
        let was_paused = self
            .last_sweep
            .is_some_and(|last| now - last > self.limit / 2 + self.period);
        self.last_sweep = Some(now);
        if was_paused {
            self.sessions.clear();
        }
        let mut before = std::mem::take(&mut self.sessions);
        for session in live {
            let since = match before.remove(&session.executor) {
                Some(entry) if entry.last == session && !reporting.contains(&session.session) => entry.since,
                _ => now,
            };
            self.sessions
                .insert(session.executor.clone(), SessionSilence { last: session, since });
        }
        let due: Vec<_> = self
            .sessions
            .values()
            .filter(|entry| now - entry.since >= self.limit)
            .map(|entry| entry.last.clone())
            .collect();
        let is_mass_expiry = due.len() > 1 && due.len() * 2 > self.sessions.len();
        match self.hold {
            _ if !is_mass_expiry => self.hold = ExpiryHold::Off,
            ExpiryHold::Off => {
                tracing::warn!(
                    sessions = due.len(),
                    "many executors are silent at once; checking again before expiring them"
                );
                self.hold = ExpiryHold::Until(now + self.limit / 2);
                return Vec::new();
            }
            ExpiryHold::Until(end) if now < end => return Vec::new(),
            ExpiryHold::Until(_) => {}
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use model::{ReportSeq, SessionId};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const PERIOD: Duration = Duration::from_secs(1);

    fn session(name: &str) -> ObservedSession {
        ObservedSession {
            executor: ExecutorName::new(name).unwrap(),
            session: SessionId(uuid::Uuid::now_v7()),
            seq: ReportSeq(1),
        }
    }

    /// Sweeps once for each second of the range. Returns the second and the name of each overdue session.
    fn sweep(
        tracker: &mut SilenceTracker,
        start: Instant,
        seconds: std::ops::RangeInclusive<u64>,
        live: impl Fn(u64) -> Vec<ObservedSession>,
    ) -> Vec<(u64, String)> {
        let mut due = Vec::new();
        for second in seconds {
            let now = start + Duration::from_secs(second);
            for session in tracker.overdue_sessions(live(second), &HashSet::new(), now) {
                due.push((second, session.executor.to_string()));
            }
        }
        due.sort();
        due
    }

    #[test]
    fn only_silent_sessions_are_overdue() {
        let (quiet, busy, third) = (session("quiet"), session("busy"), session("third"));
        let mut tracker = SilenceTracker::new(LIMIT, PERIOD);
        let live = |second| {
            let moving = |session: &ObservedSession| ObservedSession {
                seq: ReportSeq(second),
                ..session.clone()
            };
            vec![quiet.clone(), moving(&busy), moving(&third)]
        };
        let due = sweep(&mut tracker, Instant::now(), 0..=10, live);
        assert_eq!(due, [(10, "quiet".to_string())]);
    }

    #[test]
    fn a_session_whose_report_is_under_way_is_not_silent() {
        let waits = session("waits");
        let mut tracker = SilenceTracker::new(LIMIT, PERIOD);
        let start = Instant::now();
        let reporting = HashSet::from([waits.session]);
        for second in 0..=100 {
            let now = start + Duration::from_secs(second);
            assert_eq!(tracker.overdue_sessions(vec![waits.clone()], &reporting, now), []);
        }
        // Its silence begins when the report ends.
        let due = sweep(&mut tracker, start, 101..=110, |_| vec![waits.clone()]);
        assert_eq!(due, [(110, "waits".to_string())]);
    }

    #[test]
    fn sessions_that_are_silent_together_expire_after_a_second_check() {
        let (one, two) = (session("one"), session("two"));
        let mut tracker = SilenceTracker::new(LIMIT, PERIOD);
        let due = sweep(&mut tracker, Instant::now(), 0..=15, |_| {
            vec![one.clone(), two.clone()]
        });
        assert_eq!(due, [(15, "one".to_string()), (15, "two".to_string())]);
    }

    #[test]
    fn sessions_that_report_during_the_hold_do_not_expire() {
        let (one, two) = (session("one"), session("two"));
        let mut tracker = SilenceTracker::new(LIMIT, PERIOD);
        let due = sweep(&mut tracker, Instant::now(), 0..=20, |second| {
            let seq = ReportSeq(if second < 12 { 1 } else { second });
            [&one, &two]
                .map(|session| ObservedSession {
                    seq,
                    ..session.clone()
                })
                .to_vec()
        });
        assert_eq!(due, []);
    }

    #[test]
    fn a_pause_of_the_judicator_counts_as_no_silence() {
        let (one, other) = (session("one"), session("other"));
        let mut tracker = SilenceTracker::new(LIMIT, PERIOD);
        let start = Instant::now();
        let live = |_| vec![one.clone(), other.clone()];
        assert_eq!(sweep(&mut tracker, start, 0..=2, live), []);
        // The process was paused from second 2 to second 60.
        assert_eq!(sweep(&mut tracker, start, 60..=69, live), []);
        let alone = |_| vec![one.clone()];
        assert_eq!(
            sweep(&mut tracker, start, 70..=70, alone),
            [(70, "one".to_string())]
        );
    }
}
