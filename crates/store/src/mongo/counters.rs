//! Counters of tasks: one for each status, and one for the tasks that executors hold.
//!
//! If one document held all counters, every transaction would write it and transactions could not run concurrently. So
//! the counters are spread over many documents: a report adds its changes to the document of its executor, which it
//! writes anyway; other operations add theirs to one of the stripes of the collection `ledger`. A total is the sum over
//! all of these documents.

use std::collections::BTreeMap;

use model::{TaskState, TaskStatus};
use mongodb::bson::Document;

const HELD: &str = "held";

/// Changes to the task counters of the MongoDB store, which a transaction adds to them, by the counter's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CounterDeltas(BTreeMap<&'static str, i64>);

impl CounterDeltas {
    pub(super) fn add_pending(&mut self) {
        self.add(TaskStatus::Pending.as_str(), 1);
    }

    pub(super) fn remove(&mut self, status: TaskStatus) {
        self.add(status.as_str(), -1);
    }

    pub(super) fn transition(&mut self, from: &TaskState, to: &TaskState) {
        self.add(from.status.as_str(), -1);
        self.add(to.status.as_str(), 1);
        self.add(
            HELD,
            i64::from(to.executor.is_some()) - i64::from(from.executor.is_some()),
        );
    }

    /// Adds the counters that a document holds. Names that are no counter are left out.
    pub(super) fn add_stored(&mut self, counters: &BTreeMap<String, i64>) {
        for (name, value) in counters {
            if let Some(name) = names().find(|known| known == name) {
                self.add(name, *value);
            }
        }
    }

    /// The operand of `$inc`: the changes other than 0.
    pub(super) fn increments(&self) -> Document {
        let changed = self.0.iter().filter(|(_, add)| **add != 0);
        changed
            .map(|(name, add)| (format!("tally.{name}"), (*add).into()))
            .collect()
    }

    pub(super) fn count(&self, status: TaskStatus) -> u64 {
        self.positive(status.as_str())
    }

    pub(super) fn held(&self) -> u64 {
        self.positive(HELD)
    }

    fn positive(&self, name: &str) -> u64 {
        u64::try_from(self.0.get(name).copied().unwrap_or(0)).unwrap_or(0)
    }

    fn add(&mut self, name: &'static str, by: i64) {
        let value = self.0.entry(name).or_default();
        *value = value.saturating_add(by);
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    TaskStatus::ALL.into_iter().map(TaskStatus::as_str).chain([HELD])
}
