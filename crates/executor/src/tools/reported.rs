//! Which tools the next report has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{ExecutorTools, SessionId};
use tokio::sync::watch;

/// Unchanged tools are reported again after this time: a judicator of an earlier version may have ignored them.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// The tools of the executor as far as its judicator knows them. A report has them only if that may not be so.
#[derive(Default)]
pub(crate) struct ReportedTools {
    /// `None` before the search has begun.
    found: Option<watch::Receiver<Option<Arc<ExecutorTools>>>>,
    /// What the report in flight has.
    sent: Option<Arc<ExecutorTools>>,
    answered: Option<AnsweredTools>,
}

/// The tools that a judicator has received in a report of this session, and when.
struct AnsweredTools {
    session: SessionId,
    tools: Arc<ExecutorTools>,
    at: Instant,
}

impl ReportedTools {
    pub(crate) fn new(found: watch::Receiver<Option<Arc<ExecutorTools>>>) -> ReportedTools {
        ReportedTools {
            found: Some(found),
            ..ReportedTools::default()
        }
    }

    /// The tools for the next report; `None` if the judicator has them.
    pub(crate) fn for_next_report(&mut self, session: SessionId, now: Instant) -> Option<Arc<ExecutorTools>> {
        let current = self.found.as_ref()?.borrow().clone()?;
        let is_known = |known: &AnsweredTools| {
            known.session == session && known.tools == current && now < known.at + REPEAT_AFTER
        };
        self.sent = match self.answered.as_ref().is_some_and(is_known) {
            true => None,
            false => Some(current),
        };
        self.sent.clone()
    }

    /// The last report was answered.
    pub(crate) fn on_answered(&mut self, session: SessionId, now: Instant) {
        if let Some(tools) = self.sent.take() {
            self.answered = Some(AnsweredTools {
                session,
                tools,
                at: now,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{LanguageName, OfferedLanguage};

    use super::*;

    fn tools(language: &str) -> Arc<ExecutorTools> {
        let offer = OfferedLanguage {
            root: None,
            name: LanguageName::new(language).unwrap(),
            version: None,
        };
        Arc::new(ExecutorTools::new(vec![offer], vec![]))
    }

    #[test]
    fn tools_are_reported_until_a_report_with_them_is_answered() {
        let (sender, found) = watch::channel(None);
        let mut reported = ReportedTools::new(found);
        let (first, second) = (
            SessionId(uuid::Uuid::from_u128(1)),
            SessionId(uuid::Uuid::from_u128(2)),
        );
        let start = Instant::now();
        assert_eq!(reported.for_next_report(first, start), None);
        reported.on_answered(first, start);
        sender.send_replace(Some(tools("c")));
        assert_eq!(reported.for_next_report(first, start), Some(tools("c")));
        assert_eq!(
            reported.for_next_report(first, start),
            Some(tools("c")),
            "without an answer"
        );
        reported.on_answered(first, start);
        assert_eq!(reported.for_next_report(first, start), None);
        sender.send_replace(Some(tools("r")));
        assert_eq!(reported.for_next_report(first, start), Some(tools("r")));
        reported.on_answered(first, start);
        assert_eq!(
            reported.for_next_report(second, start),
            Some(tools("r")),
            "a new session"
        );
        reported.on_answered(second, start);
        assert_eq!(reported.for_next_report(second, start + REPEAT_AFTER / 2), None);
        let late = start + REPEAT_AFTER;
        assert_eq!(reported.for_next_report(second, late), Some(tools("r")));
    }
}
