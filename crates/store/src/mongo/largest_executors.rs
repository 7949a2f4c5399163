//! The largest live executors that are not drained: tasks that need more than an executor has are left to a larger one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use model::Capacity;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ReadConcern;

use super::context::{EXECUTORS, StoreContext};
use super::failure::MongoFailure;
use super::retry::COMMAND_TIMEOUT;
use super::session;
use crate::tools_cache::DecodedTools;

/// Saves most claims from reading all executors.
const CACHE_LIFETIME: Duration = Duration::from_secs(1);

/// The most memory that live executors of the MongoDB store have for a task.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LargestExecutors {
    memory: u64,
    /// The same among the executors with equal tools. There are far fewer of those than executors.
    memory_by_tools: Vec<(Arc<DecodedTools>, u64)>,
}

/// A cache of the [`LargestExecutors`], which spares MongoDB a read for each claim. It keeps the time when they were read.
#[derive(Debug, Default)]
pub(super) struct LargestExecutorsCache(Mutex<Option<(Instant, Arc<LargestExecutors>)>>);

impl LargestExecutors {
    /// Whether an executor that may run tasks with this requirement has more memory for a task than `own`, or does not
    /// report its capacity.
    pub(super) fn has_larger(&self, own: Capacity, key: Option<&str>) -> bool {
        let largest = match key {
            None => self.memory,
            Some(key) => {
                let able = self.memory_by_tools.iter();
                let able = able.filter(|(tools, _)| tools.queue_keys.contains(key));
                able.map(|(_, memory)| *memory).max().unwrap_or(0)
            }
        };
        largest > own.memory
    }

    pub(super) fn record(&mut self, memory: u64, tools: Arc<DecodedTools>) {
        self.memory = self.memory.max(memory);
        let mut known = self.memory_by_tools.iter_mut();
        match known.find(|(known, _)| *known == tools) {
            Some((_, largest)) => *largest = memory.max(*largest),
            None => self.memory_by_tools.push((tools, memory)),
        }
    }
}

pub(super) async fn read(context: &StoreContext) -> Result<Arc<LargestExecutors>, MongoFailure> {
    let cache = &context.largest_executors.0;
    let cached = cache.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match cached {
        Some((read, largest)) if read.elapsed() < CACHE_LIFETIME => Ok(largest),
        _ => {
            let read = Instant::now();
            let largest = Arc::new(find(context).await?);
            *cache.lock().unwrap_or_else(PoisonError::into_inner) = Some((read, largest.clone()));
            Ok(largest)
        }
    }
}

async fn find(context: &StoreContext) -> Result<LargestExecutors, MongoFailure> {
    let live: Vec<Document> = context
        .collection::<Document>(EXECUTORS)
        .find(doc! { "live": true, "drain": null })
        .projection(doc! { "capacity.memory": 1, "session": 1, "tools": 1 })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let memory = |executor: &Document| {
        let memory = executor.get_document("capacity").ok()?.get_i64("memory").ok()?;
        u64::try_from(memory).ok()
    };
    let tools = |executor: &Document| {
        let Some(Bson::Binary(session)) = executor.get("session") else {
            return None;
        };
        let (name, session) = (executor.get_str("_id").ok()?, session.to_uuid().ok()?);
        session::decode_tools(context, name, session, executor.get("tools")?)
    };
    let mut largest = LargestExecutors::default();
    for executor in &live {
        let tools = tools(executor).unwrap_or_default();
        largest.record(memory(executor).unwrap_or(u64::MAX), tools);
    }
    Ok(largest)
}

#[cfg(test)]
mod tests {
    use model::{ExecutorTools, LanguageName, OfferedLanguage};

    use super::*;

    #[test]
    fn only_executors_that_satisfy_a_requirement_count_for_it() {
        let mut largest = LargestExecutors::default();
        let tools = |languages: &[&str]| {
            let offered = |name: &&str| OfferedLanguage {
                root: None,
                name: LanguageName::new(*name).unwrap(),
                version: None,
            };
            let tools = ExecutorTools::new(languages.iter().map(offered).collect(), vec![]);
            Arc::new(DecodedTools::from(Arc::new(tools)))
        };
        for (memory, languages) in [(4, &["c", "go"][..]), (8, &["c"]), (16, &[]), (6, &["c"])] {
            largest.record(memory, tools(languages));
        }
        for (key, memory) in [
            (None, 16),
            (Some("/c"), 8),
            (Some("/go"), 4),
            (Some("+/c /go"), 4),
            (Some("/r"), 0),
        ] {
            let own = |memory| Capacity {
                memory,
                ..Capacity::UNKNOWN
            };
            assert!(!largest.has_larger(own(memory), key), "{key:?}");
            assert_eq!(
                memory > 0,
                memory > 0 && largest.has_larger(own(memory - 1), key),
                "{key:?}"
            );
        }
    }
}
