//! The attempts that this executor holds (waiting, running or being killed), and how many more it can take.
//!
//! A pure state machine: callers pass the time in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::{AttemptId, ExecutingAttempt, TaskStatus};

/// The executor prefetches as many short tasks as its slots run within this time. Without that, a slot would be idle for a
/// whole round trip to the judicator after each task.
const PREFETCH_WINDOW: Duration = Duration::from_millis(40);
/// With a slow judicator the window is this many round trips instead. Its maximum is below
/// [`crate::queue::MAX_WAIT_WITHOUT_SLOT`], or prefetched attempts would be given back.
const PREFETCH_ROUND_TRIPS: u32 = 3;
const MAX_PREFETCH_WINDOW: Duration = Duration::from_millis(200);
const MAX_PREFETCHED: usize = 256;

/// The report loop's table of all attempts that this executor holds, from which it tells how many more it can take.
#[derive(Debug)]
pub(crate) struct AttemptTable {
    total_slots: usize,
    /// How many of the slots are out of service.
    out_of_service: usize,
    entries: BTreeMap<AttemptId, AttemptEntry>,
    /// The moving average of how long attempts take.
    average_duration: Option<Duration>,
    /// The moving average of how long the judicator takes to answer a report.
    average_round_trip: Duration,
}

/// One attempt in the report loop's [`AttemptTable`]: its phase, and whether a report has carried it.
#[derive(Debug)]
struct AttemptEntry {
    phase: EntryPhase,
    since: Instant,
    /// Whether an answered report has carried this phase.
    reported: bool,
}

/// What an attempt in the report loop's [`AttemptTable`] is doing: it waits, runs, or is being killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum EntryPhase {
    Waiting,
    Running(TaskStatus),
    /// The judicator has taken the attempt away; its processes are being killed.
    Revoked,
}

impl AttemptTable {
    pub(crate) fn new(total: u32) -> AttemptTable {
        AttemptTable {
            total_slots: total as usize,
            out_of_service: 0,
            entries: BTreeMap::new(),
            average_duration: None,
            average_round_trip: Duration::ZERO,
        }
    }

    /// Updates the average round trip.
    pub(crate) fn on_report_answered(&mut self, took: Duration) {
        self.average_round_trip = (self.average_round_trip * 7 + took) / 8;
    }

    pub(crate) fn average_round_trip(&self) -> Duration {
        self.average_round_trip
    }

    /// Adds an attempt. Returns false if the table already has it: a judicator may repeat an assignment.
    pub(crate) fn on_assigned(&mut self, attempt_id: AttemptId, now: Instant) -> bool {
        let new = !self.entries.contains_key(&attempt_id);
        if new {
            self.entries.insert(
                attempt_id,
                AttemptEntry {
                    phase: EntryPhase::Waiting,
                    since: now,
                    reported: true,
                },
            );
        }
        new
    }

    pub(crate) fn on_started(&mut self, attempt_id: &AttemptId, status: TaskStatus, now: Instant) {
        if let Some(entry) = self.entries.get_mut(attempt_id)
            && entry.phase != EntryPhase::Revoked
        {
            // The duration is that of the whole attempt, so a second step does not reset it.
            if entry.phase == EntryPhase::Waiting {
                entry.since = now;
            }
            entry.phase = EntryPhase::Running(status);
            entry.reported = false;
        }
    }

    pub(crate) fn on_ended(&mut self, attempt_id: &AttemptId, now: Instant) {
        if let Some(AttemptEntry {
            phase: EntryPhase::Running(_),
            since,
            ..
        }) = self.entries.remove(attempt_id)
        {
            let took = now - since;
            self.average_duration = Some(
                self.average_duration
                    .map_or(took, |average_duration| (average_duration * 4 + took) / 5),
            );
        }
    }

    /// Marks an attempt as taken away by the judicator. Returns false if it is unknown or was marked before.
    pub(crate) fn on_revoked(&mut self, attempt_id: &AttemptId) -> bool {
        match self.entries.get_mut(attempt_id) {
            Some(entry) if entry.phase != EntryPhase::Revoked => {
                entry.phase = EntryPhase::Revoked;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn on_reported(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.reported = true);
    }

    /// The attempts that a report names.
    pub(crate) fn executing(&self) -> impl Iterator<Item = ExecutingAttempt> {
        self.entries.iter().filter_map(|(attempt_id, entry)| {
            let status = match entry.phase {
                EntryPhase::Waiting => None,
                EntryPhase::Running(status) => Some(status),
                EntryPhase::Revoked => return None,
            };
            Some(ExecutingAttempt {
                attempt_id: *attempt_id,
                status,
            })
        })
    }

    pub(crate) fn attempt_ids(&self) -> Vec<AttemptId> {
        self.entries.keys().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn total_slots(&self) -> usize {
        self.total_slots
    }

    pub(crate) fn on_slot_out_of_service(&mut self) {
        self.out_of_service += 1;
    }

    pub(crate) fn on_slot_back_in_service(&mut self) {
        self.out_of_service = self.out_of_service.saturating_sub(1);
    }

    pub(crate) fn out_of_service(&self) -> usize {
        self.out_of_service
    }

    fn usable_slots(&self) -> usize {
        self.total_slots.saturating_sub(self.out_of_service)
    }

    /// How many more tasks the executor asks for.
    pub(crate) fn vacant(&self, now: Instant) -> u32 {
        let vacant = (self.usable_slots() + self.prefetch_count(now)).saturating_sub(self.entries.len());
        u32::try_from(vacant).unwrap_or(u32::MAX)
    }

    /// How many attempts to take beyond the free table.
    fn prefetch_count(&self, now: Instant) -> usize {
        let Some(average_duration) = self.average_duration else {
            return 0;
        };
        let window =
            (self.average_round_trip * PREFETCH_ROUND_TRIPS).clamp(PREFETCH_WINDOW, MAX_PREFETCH_WINDOW);
        let long = self.running().filter(|entry| now - entry.since > window).count();
        let quick = self.usable_slots().saturating_sub(long);
        let rounds = window.as_micros() / average_duration.as_micros().max(1);
        quick
            .saturating_mul(usize::try_from(rounds).unwrap_or(MAX_PREFETCHED))
            .min(MAX_PREFETCHED)
    }

    /// Since when the oldest running attempt has not been reported as such.
    pub(crate) fn unreported_since(&self) -> Option<Instant> {
        self.entries
            .values()
            .filter(|entry| !entry.reported && entry.phase != EntryPhase::Revoked)
            .map(|entry| entry.since)
            .min()
    }

    /// The attempts that have not started.
    pub(crate) fn waiting(&self) -> Vec<AttemptId> {
        let waiting = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.phase == EntryPhase::Waiting);
        waiting.map(|(attempt_id, _)| *attempt_id).collect()
    }

    fn running(&self) -> impl Iterator<Item = &AttemptEntry> {
        self.entries
            .values()
            .filter(|entry| entry.phase != EntryPhase::Waiting)
    }
}

#[cfg(test)]
mod tests {
    use model::SessionId;

    use super::*;
    use crate::fixtures;

    fn attempt_id() -> AttemptId {
        fixtures::attempt_id(SessionId(uuid::Uuid::now_v7()))
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_slot_out_of_service_is_not_vacant() {
        let now = Instant::now();
        let mut table = AttemptTable::new(2);
        let entry = attempt_id();
        table.on_assigned(entry, now);
        table.on_started(&entry, TaskStatus::Running, now);
        assert_eq!(table.vacant(now), 1);
        // The attempt was reported as lost, and its slot still hangs.
        table.on_ended(&entry, now + 1000 * MS);
        table.on_slot_out_of_service();
        assert_eq!(table.vacant(now), 1);
        table.on_slot_out_of_service();
        assert_eq!(table.vacant(now), 0);
        table.on_slot_back_in_service();
        table.on_slot_back_in_service();
        assert_eq!(table.vacant(now), 2);
    }

    #[test]
    fn an_attempt_is_reported_until_it_ends_or_is_revoked() {
        let now = Instant::now();
        let mut table = AttemptTable::new(2);
        let (one, two) = (attempt_id(), attempt_id());
        assert!(table.on_assigned(one, now));
        assert!(!table.on_assigned(one, now), "assigned again");
        assert!(table.on_assigned(two, now));
        table.on_started(&one, TaskStatus::Running, now);
        assert_eq!(table.unreported_since(), Some(now));
        table.on_reported();
        assert_eq!(table.unreported_since(), None);
        let named = |table: &AttemptTable| {
            let mut named: Vec<_> = table.executing().map(|e| (e.attempt_id, e.status)).collect();
            named.sort_by_key(|(attempt_id, _)| *attempt_id != one);
            named
        };
        assert_eq!(named(&table), [(one, Some(TaskStatus::Running)), (two, None)]);
        assert!(table.on_revoked(&one));
        assert!(!table.on_revoked(&one), "only once");
        table.on_started(&one, TaskStatus::Running, now);
        assert_eq!(named(&table), [(two, None)]);
        assert_eq!(
            table.vacant(now),
            0,
            "an attempt that is being killed still occupies its slot"
        );
        table.on_ended(&one, now);
        assert_eq!(table.vacant(now), 1);
    }

    #[test]
    fn short_tasks_are_prefetched_and_long_ones_are_not() {
        let start = Instant::now();
        let mut table = AttemptTable::new(2);
        assert_eq!(table.vacant(start), 2, "no duration is known yet");
        let run = |table: &mut AttemptTable, took: Duration| {
            let attempt_id = attempt_id();
            table.on_assigned(attempt_id, start);
            table.on_started(&attempt_id, TaskStatus::Running, start);
            table.on_ended(&attempt_id, start + took);
        };
        run(&mut table, MS);
        assert_eq!(table.vacant(start), 2 + 2 * 40);
        // With a slow judicator the executor prefetches more.
        for _ in 0..50 {
            table.on_report_answered(30 * MS);
        }
        assert!((2 + 2 * 80..=2 + 2 * 90).contains(&table.vacant(start)));
        for _ in 0..50 {
            table.on_report_answered(MS);
        }
        // A slot with a long task does not count for prefetching, even before the task ends.
        let long = attempt_id();
        table.on_assigned(long, start);
        table.on_started(&long, TaskStatus::Running, start);
        assert_eq!(table.vacant(start + 50 * MS), 2 + 40 - 1);
        for _ in 0..50 {
            run(&mut table, 500 * MS);
        }
        assert_eq!(table.vacant(start), 1);
    }
}
