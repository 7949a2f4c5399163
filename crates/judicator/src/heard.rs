//! Which sessions this judicator hears from, whether their reports come to an end or not.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::SessionId;

/// A session whose report is under way is not silent, however long the store takes: an executor in the same process
/// relies on it and lets its tasks go on.
#[derive(Default)]
pub(crate) struct Heard {
    /// How many of its reports are under way; none, if the last of them ended after the last look.
    sessions: Mutex<HashMap<SessionId, usize>>,
}

pub(crate) struct UnderWay<'a> {
    heard: &'a Heard,
    session: SessionId,
}

impl Heard {
    pub(crate) fn on_report(&self, session: SessionId) -> UnderWay<'_> {
        *self.lock().entry(session).or_default() += 1;
        UnderWay { heard: self, session }
    }

    /// Those with a report under way now, or at any time since the last look.
    pub(crate) fn look(&self) -> HashSet<SessionId> {
        let mut sessions = self.lock();
        let heard = sessions.keys().copied().collect();
        sessions.retain(|_, under_way| *under_way > 0);
        heard
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, usize>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(under_way) = self.heard.lock().get_mut(&self.session) {
            *under_way -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_heard_while_it_is_under_way_and_once_after() {
        let heard = Heard::default();
        let session = SessionId::generate();
        let under_way = heard.on_report(session);
        let second = heard.on_report(session);
        drop(second);
        assert_eq!(heard.look(), HashSet::from([session]));
        assert_eq!(heard.look(), HashSet::from([session]), "one is still under way");
        drop(under_way);
        assert_eq!(
            heard.look(),
            HashSet::from([session]),
            "it ended after the last look"
        );
        assert_eq!(heard.look(), HashSet::new());
    }
}
