use std::collections::BTreeMap;

use model::{History, HistorySpan};
use rpc::CallError;

use crate::error::call_error;
use crate::{Judicator, now};

impl Judicator {
    /// The figures of all judicators as they have saved them, and those of this one as they are now.
    pub(super) async fn on_history(&self, span: HistorySpan) -> Result<History, CallError> {
        let time = now();
        self.history.on_ends(time, self.store.ends_without_result());
        // Read before the store, because a minute is forgotten when it is saved.
        let own = self.history.in_memory();
        let saved = self.store.figures(span.minutes(time)).await.map_err(call_error)?;
        let mut written = BTreeMap::new();
        for figures in saved.into_iter().chain(own) {
            written.insert((figures.minute, figures.writer), figures.figures);
        }
        let minutes = written.iter().map(|((minute, _), figures)| (*minute, figures));
        Ok(History::merge(span, time, minutes))
    }
}
