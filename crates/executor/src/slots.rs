//! The table of what is here: which attempts wait, run or are being stopped, and how many more could be taken.
//!
//! Pure: times come in as values, and nothing happens but the table changing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::{Executing, Handout, Status};

/// Short tasks are taken ahead of a free slot, as many as run within this time at least. Without it, a slot would
/// stand idle for a whole exchange with the judicator after each of them.
const AHEAD: Duration = Duration::from_millis(40);
/// With a judicator that takes longer to answer, as many as run within so many exchanges: one is on its way while
/// another is made ready. Less than [`crate::queue::PATIENCE`], or they would be given back again.
const EXCHANGES_AHEAD: u32 = 3;
const LONGEST_AHEAD: Duration = Duration::from_millis(200);
const MOST_AHEAD: usize = 256;

#[derive(Debug)]
pub(crate) struct Slots {
    total: usize,
    /// Those of them that can run nothing.
    out: usize,
    held: BTreeMap<Handout, Held>,
    /// How long a task takes, as a moving average.
    usual: Option<Duration>,
    /// How long the judicator takes to answer, as a moving average.
    exchange: Duration,
}

#[derive(Debug)]
struct Held {
    phase: Phase,
    since: Instant,
    /// The judicator knows this phase.
    reported: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Waits,
    Runs(Status),
    /// Taken away; its processes are being killed.
    Doomed,
}

impl Slots {
    pub(crate) fn new(total: u32) -> Slots {
        Slots {
            total: total as usize,
            out: 0,
            held: BTreeMap::new(),
            usual: None,
            exchange: Duration::ZERO,
        }
    }

    /// A report was answered after so long.
    pub(crate) fn on_exchange(&mut self, took: Duration) {
        self.exchange = (self.exchange * 7 + took) / 8;
    }

    pub(crate) fn exchange(&self) -> Duration {
        self.exchange
    }

    /// Whether it is new: an answer may hand out again what came with an earlier one.
    pub(crate) fn on_assigned(&mut self, handout: Handout, now: Instant) -> bool {
        let new = !self.held.contains_key(&handout);
        if new {
            self.held.insert(
                handout,
                Held {
                    phase: Phase::Waits,
                    since: now,
                    reported: true,
                },
            );
        }
        new
    }

    pub(crate) fn on_began(&mut self, handout: &Handout, status: Status, now: Instant) {
        if let Some(held) = self.held.get_mut(handout)
            && held.phase != Phase::Doomed
        {
            // The time is that of the whole attempt: a second step does not set it back.
            if held.phase == Phase::Waits {
                held.since = now;
            }
            held.phase = Phase::Runs(status);
            held.reported = false;
        }
    }

    pub(crate) fn on_ended(&mut self, handout: &Handout, now: Instant) {
        if let Some(Held {
            phase: Phase::Runs(_),
            since,
            ..
        }) = self.held.remove(handout)
        {
            let took = now - since;
            self.usual = Some(self.usual.map_or(took, |usual| (usual * 4 + took) / 5));
        }
    }

    /// The attempt is over by the judicator's word. Whether it was here at all, and alive.
    pub(crate) fn on_doomed(&mut self, handout: &Handout) -> bool {
        match self.held.get_mut(handout) {
            Some(held) if held.phase != Phase::Doomed => {
                held.phase = Phase::Doomed;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn on_reported(&mut self) {
        self.held.values_mut().for_each(|held| held.reported = true);
    }

    /// Everything that the judicator should know is here.
    pub(crate) fn executing(&self) -> impl Iterator<Item = Executing> {
        self.held.iter().filter_map(|(handout, held)| {
            let status = match held.phase {
                Phase::Waits => None,
                Phase::Runs(status) => Some(status),
                Phase::Doomed => return None,
            };
            Some(Executing {
                handout: *handout,
                status,
            })
        })
    }

    pub(crate) fn all(&self) -> Vec<Handout> {
        self.held.keys().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// A slot is out of service.
    pub(crate) fn on_out(&mut self) {
        self.out += 1;
    }

    pub(crate) fn on_back(&mut self) {
        self.out = self.out.saturating_sub(1);
    }

    pub(crate) fn out(&self) -> usize {
        self.out
    }

    fn usable(&self) -> usize {
        self.total.saturating_sub(self.out)
    }

    /// How many more tasks to ask for.
    pub(crate) fn vacant(&self, now: Instant) -> u32 {
        let room = (self.usable() + self.ahead(now)).saturating_sub(self.held.len());
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    fn ahead(&self, now: Instant) -> usize {
        let Some(usual) = self.usual else { return 0 };
        let ahead = (self.exchange * EXCHANGES_AHEAD).clamp(AHEAD, LONGEST_AHEAD);
        let long = self.running().filter(|held| now - held.since > ahead).count();
        let quick = self.usable().saturating_sub(long);
        let rounds = ahead.as_micros() / usual.as_micros().max(1);
        quick
            .saturating_mul(usize::try_from(rounds).unwrap_or(MOST_AHEAD))
            .min(MOST_AHEAD)
    }

    /// When the oldest change that the judicator has not heard of began.
    pub(crate) fn unreported_since(&self) -> Option<Instant> {
        self.held
            .values()
            .filter(|held| !held.reported && held.phase != Phase::Doomed)
            .map(|held| held.since)
            .min()
    }

    /// What has not begun.
    pub(crate) fn waiting(&self) -> Vec<Handout> {
        let waits = self.held.iter().filter(|(_, held)| held.phase == Phase::Waits);
        waits.map(|(handout, _)| *handout).collect()
    }

    fn running(&self) -> impl Iterator<Item = &Held> {
        self.held.values().filter(|held| held.phase != Phase::Waits)
    }
}

#[cfg(test)]
mod tests {
    use model::SessionId;

    use super::*;
    use crate::fixtures;

    fn handout() -> Handout {
        fixtures::handout(SessionId::generate())
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_slot_out_of_service_takes_nothing() {
        let now = Instant::now();
        let mut slots = Slots::new(2);
        let held = handout();
        slots.on_assigned(held, now);
        slots.on_began(&held, Status::Running, now);
        assert_eq!(slots.vacant(now), 1);
        // The attempt is told as lost, and its slot still hangs.
        slots.on_ended(&held, now + 1000 * MS);
        slots.on_out();
        assert_eq!(slots.vacant(now), 1);
        slots.on_out();
        assert_eq!(slots.vacant(now), 0);
        slots.on_back();
        slots.on_back();
        assert_eq!(slots.vacant(now), 2);
    }

    #[test]
    fn an_attempt_is_named_until_it_ends_or_is_doomed() {
        let now = Instant::now();
        let mut slots = Slots::new(2);
        let (one, two) = (handout(), handout());
        assert!(slots.on_assigned(one, now));
        assert!(!slots.on_assigned(one, now), "handed out again");
        assert!(slots.on_assigned(two, now));
        slots.on_began(&one, Status::Running, now);
        assert_eq!(slots.unreported_since(), Some(now));
        slots.on_reported();
        assert_eq!(slots.unreported_since(), None);
        let named = |slots: &Slots| {
            let mut named: Vec<_> = slots.executing().map(|e| (e.handout, e.status)).collect();
            named.sort_by_key(|(handout, _)| *handout != one);
            named
        };
        assert_eq!(named(&slots), [(one, Some(Status::Running)), (two, None)]);
        assert!(slots.on_doomed(&one));
        assert!(!slots.on_doomed(&one), "only once");
        slots.on_began(&one, Status::Running, now);
        assert_eq!(named(&slots), [(two, None)]);
        assert_eq!(slots.vacant(now), 0, "what is being killed still has its slot");
        slots.on_ended(&one, now);
        assert_eq!(slots.vacant(now), 1);
    }

    #[test]
    fn short_tasks_are_taken_ahead_and_long_ones_are_not() {
        let start = Instant::now();
        let mut slots = Slots::new(2);
        assert_eq!(slots.vacant(start), 2, "nothing is known yet");
        let run = |slots: &mut Slots, took: Duration| {
            let handout = handout();
            slots.on_assigned(handout, start);
            slots.on_began(&handout, Status::Running, start);
            slots.on_ended(&handout, start + took);
        };
        run(&mut slots, MS);
        assert_eq!(slots.vacant(start), 2 + 2 * 40);
        // A judicator that answers late is asked for more.
        for _ in 0..50 {
            slots.on_exchange(30 * MS);
        }
        assert!((2 + 2 * 80..=2 + 2 * 90).contains(&slots.vacant(start)));
        for _ in 0..50 {
            slots.on_exchange(MS);
        }
        // One long task takes its slot out of the count before it has ended.
        let long = handout();
        slots.on_assigned(long, start);
        slots.on_began(&long, Status::Running, start);
        assert_eq!(slots.vacant(start + 50 * MS), 2 + 40 - 1);
        for _ in 0..50 {
            run(&mut slots, 500 * MS);
        }
        assert_eq!(slots.vacant(start), 1);
    }
}
