//! Which sessions have a report under way at this judicator.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::SessionId;

/// Counts the reports that are under way at this judicator, for each session of an executor. A session with a report
/// under way is not silent, however long the store takes: an executor in the same process relies on this and lets its
/// tasks continue.
#[derive(Default)]
pub(crate) struct ReportTracker {
    /// The number of reports under way. It is 0 if the last report ended after the last call of
    /// [`ReportTracker::take_reporting_sessions`].
    sessions: Mutex<HashMap<SessionId, usize>>,
}

/// A guard that marks a report of an executor as under way at this judicator until it is dropped.
pub(crate) struct ReportGuard<'a> {
    tracker: &'a ReportTracker,
    session: SessionId,
}

impl ReportTracker {
    pub(crate) fn begin(&self, session: SessionId) -> ReportGuard<'_> {
        *self.lock().entry(session).or_default() += 1;
        ReportGuard {
            tracker: self,
            session,
        }
    }

    /// The sessions that have a report under way now, or had one at any time since the last call.
    pub(crate) fn take_reporting_sessions(&self) -> HashSet<SessionId> {
        let mut sessions = self.lock();
        let reporting = sessions.keys().copied().collect();
        sessions.retain(|_, under_way| *under_way > 0);
        reporting
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, usize>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReportGuard<'_> {
    fn drop(&mut self) {
        if let Some(under_way) = self.tracker.lock().get_mut(&self.session) {
            *under_way -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_reporting_during_its_report_and_once_after() {
        let tracker = ReportTracker::default();
        let session = SessionId(uuid::Uuid::now_v7());
        let check = |expected: &[SessionId], why: &str| {
            let expected: HashSet<_> = expected.iter().copied().collect();
            assert_eq!(tracker.take_reporting_sessions(), expected, "{why}");
        };
        let first = tracker.begin(session);
        let second = tracker.begin(session);
        drop(second);
        check(&[session], "the first report is under way");
        check(&[session], "the first report is still under way");
        drop(first);
        check(&[session], "the report ended after the last call");
        check(&[], "no report since the last call");
    }
}
