//! Sums that would otherwise have to be counted: tasks by status, and tasks held.
//!
//! One document with the sums would be written by every transaction, so that only one at a time could be under
//! way. They are spread instead: what a report changes is added up in its executor's document, which the report
//! writes anyway; what others change, in one of the stripes of `ledger`. The totals are the sums over all.

use std::collections::BTreeMap;

use model::Status;
use mongodb::bson::Document;

use super::row::Position;

const HELD: &str = "held";

/// By how much each sum changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally(BTreeMap<&'static str, i64>);

impl Tally {
    pub(super) fn add_pending(&mut self) {
        self.change(Status::Pending.as_str(), 1);
    }

    pub(super) fn remove(&mut self, status: Status) {
        self.change(status.as_str(), -1);
    }

    pub(super) fn moved(&mut self, from: &Position, to: &Position) {
        self.change(from.status.as_str(), -1);
        self.change(to.status.as_str(), 1);
        self.change(
            HELD,
            i64::from(to.executor.is_some()) - i64::from(from.executor.is_some()),
        );
    }

    /// Sums that were kept elsewhere.
    pub(super) fn take_over(&mut self, sums: &BTreeMap<String, i64>) {
        for (name, sum) in sums {
            if let Some(name) = names().find(|known| known == name) {
                self.change(name, *sum);
            }
        }
    }

    /// For `$inc`: nothing where nothing changes.
    pub(super) fn increments(&self) -> Document {
        let changed = self.0.iter().filter(|(_, change)| **change != 0);
        changed
            .map(|(name, change)| (format!("tally.{name}"), (*change).into()))
            .collect()
    }

    pub(super) fn count(&self, status: Status) -> u64 {
        self.positive(status.as_str())
    }

    pub(super) fn held(&self) -> u64 {
        self.positive(HELD)
    }

    fn positive(&self, name: &str) -> u64 {
        u64::try_from(self.0.get(name).copied().unwrap_or(0)).unwrap_or(0)
    }

    fn change(&mut self, name: &'static str, by: i64) {
        let sum = self.0.entry(name).or_default();
        *sum = sum.saturating_add(by);
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    Status::ALL.into_iter().map(Status::as_str).chain([HELD])
}
