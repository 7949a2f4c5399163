use model::{Page, TaskCounts, TaskQuery};
use rpc::CallError;

use crate::Judicator;
use crate::error::call_error;

impl Judicator {
    pub(super) async fn on_search(&self, query: TaskQuery) -> Result<Page, CallError> {
        query.check()?;
        let query = self.with_language_name(query);
        self.store.search(query).await.map_err(call_error)
    }

    pub(super) async fn on_count(&self, query: TaskQuery) -> Result<TaskCounts, CallError> {
        query.check()?;
        if !query.has_filter() {
            let totals = self.store.totals().await.map_err(call_error)?;
            return Ok(TaskCounts {
                counts: totals.counts,
                complete: true,
            });
        }
        let query = self.with_language_name(query);
        self.store.count(query).await.map_err(call_error)
    }

    /// A query may name a language by an alias, as a new task may. Tasks are stored with its name.
    pub(super) fn with_language_name(&self, query: TaskQuery) -> TaskQuery {
        let name = |alias| self.options.languages.get(alias).map(|row| row.name.clone());
        let language = query.language.as_ref().and_then(name);
        TaskQuery {
            language: language.or(query.language),
            ..query
        }
    }
}
