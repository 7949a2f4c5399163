//! Keeps memory free for everyone else on the machine, whatever the control groups count: some of what a command makes
//! the kernel allocate is counted by none of them.
//!
//! When less than the reserve is available, the executor takes nothing new, gives back what waits, and ends its newest
//! tasks, one after another, until there is enough again. They are reported as platform failures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::Handout;

use crate::control::Control;
use crate::machine::MemoryLook;
use crate::work::Bench;

/// Between two looks: a program takes some hundred megabytes in this time.
const INTERVAL: Duration = Duration::from_millis(100);
const INTERVAL_WHEN_LOW: Duration = Duration::from_millis(20);
/// How long the memory of a task that was ended may take to come back, before another one is ended.
const FREEING: Duration = Duration::from_secs(2);
const MOST_MARGIN: u64 = 64 << 20;
/// An executor without tasks goes on when there was enough, though not the margin, for so long: there is nothing left to
/// end, and what is available may stay there for good.
const STEADY: Duration = Duration::from_secs(5);
const LOW: &str = "conclave_memory_low";

pub(crate) struct Reserve {
    bytes: u64,
    is_low: AtomicBool,
    /// Attempts that slots are at work on, the newest last.
    running: Mutex<Vec<(Handout, Arc<Control>)>>,
}

impl Reserve {
    pub(crate) fn new(bytes: u64) -> Reserve {
        Reserve {
            bytes,
            is_low: AtomicBool::new(false),
            running: Mutex::default(),
        }
    }

    /// While it is, nothing new is taken.
    pub(crate) fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    pub(crate) fn on_begun(&self, handout: Handout, control: &Arc<Control>) {
        self.running().push((handout, control.clone()));
    }

    pub(crate) fn on_ended(&self, handout: &Handout) {
        self.running().retain(|(running, _)| running != handout);
    }

    /// Looks until the executor ends.
    pub(crate) fn keep(&self, bench: &Bench) {
        let mut level = Level::new(self.bytes);
        let memory = MemoryLook::new();
        loop {
            let interval = match self.is_low() {
                true => INTERVAL_WHEN_LOW,
                false => INTERVAL,
            };
            if bench.closes_within(interval) {
                return;
            }
            // A kernel that does not tell cannot be helped.
            let Some(available) = memory.available() else {
                continue;
            };
            let running: Vec<_> = self.running().iter().map(|(handout, _)| *handout).collect();
            match level.on_look(available, &running, Instant::now()) {
                Change::None => {}
                Change::Fell => {
                    self.on_fell(bench);
                    tracing::warn!(
                        available,
                        reserve = self.bytes,
                        "the machine is short of memory: taking no tasks, ending the newest"
                    );
                }
                Change::Rose => {
                    self.on_rose(bench);
                    tracing::info!(available, reserve = self.bytes, "the machine has memory again");
                }
                Change::End(handout) => self.end(&handout, available),
            }
        }
    }

    pub(crate) fn on_fell(&self, bench: &Bench) {
        self.is_low.store(true, Ordering::Relaxed);
        metrics::gauge!(LOW).set(1.0);
        bench.on_memory_changed();
    }

    pub(crate) fn on_rose(&self, bench: &Bench) {
        self.is_low.store(false, Ordering::Relaxed);
        metrics::gauge!(LOW).set(0.0);
        bench.on_memory_changed();
    }

    fn end(&self, handout: &Handout, available: u64) {
        let mut running = self.running();
        let found = running.iter_mut().find(|(running, _)| running == handout);
        if let Some((_, control)) = found {
            let why = format!(
                "the machine was short of memory: {} MiB were available, and {} MiB are kept in reserve (executor.reserve)",
                available >> 20,
                self.bytes >> 20
            );
            tracing::warn!(task = %handout.task, "ending a task to free memory");
            if let Err(error) = control.lose(why) {
                tracing::warn!(task = %handout.task, %error, "could not reach the warden to end a task");
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, Vec<(Handout, Arc<Control>)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pure: what is available and the time come in as values.
struct Level {
    reserve: u64,
    is_low: bool,
    /// The last that was ended, and when.
    ended: Option<(Handout, Instant)>,
    /// Since when nothing runs and the reserve is there.
    idle_with_enough: Option<Instant>,
}

#[derive(Debug, PartialEq)]
enum Change {
    None,
    Fell,
    Rose,
    End(Handout),
}

impl Level {
    fn new(reserve: u64) -> Level {
        Level {
            reserve,
            is_low: false,
            ended: None,
            idle_with_enough: None,
        }
    }

    /// `running` are the attempts that could be ended, the newest last.
    fn on_look(&mut self, available: u64, running: &[Handout], now: Instant) -> Change {
        let is_short = available < self.reserve;
        if !self.is_low {
            self.is_low = is_short;
            return if is_short { Change::Fell } else { Change::None };
        }
        // A little more than the reserve, or it would fall and rise with every page. No share of a large reserve: the
        // machine might never have that much.
        let margin = (self.reserve / 8).min(MOST_MARGIN);
        let since = match is_short || !running.is_empty() {
            true => None,
            false => Some(self.idle_with_enough.unwrap_or(now)),
        };
        self.idle_with_enough = since;
        let is_steady = since.is_some_and(|since| now >= since + STEADY);
        if is_steady || available >= self.reserve.saturating_add(margin) {
            *self = Level::new(self.reserve);
            return Change::Rose;
        }
        let still_frees = |(ended, at): &(Handout, Instant)| running.contains(ended) && now < *at + FREEING;
        if !is_short || self.ended.as_ref().is_some_and(still_frees) {
            return Change::None;
        }
        let last = self.ended.map(|(handout, _)| handout);
        let newest = running.iter().rev().find(|handout| Some(**handout) != last);
        match newest {
            Some(newest) => {
                self.ended = Some((*newest, now));
                Change::End(*newest)
            }
            None => Change::None,
        }
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

    #[test]
    fn the_newest_is_ended_until_there_is_enough_again() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let (old, middle, new) = (handout(), handout(), handout());
        let all = [old, middle, new];
        let mut level = Level::new(800);
        assert_eq!(level.on_look(800, &all, at(0)), Change::None);
        assert_eq!(level.on_look(799, &all, at(1)), Change::Fell);
        assert_eq!(level.on_look(700, &all, at(2)), Change::End(new));
        assert_eq!(level.on_look(700, &all, at(3)), Change::None, "it still dies");
        assert_eq!(level.on_look(700, &all[..2], at(4)), Change::End(middle));
        // One that does not die is passed over.
        assert_eq!(level.on_look(700, &all[..2], at(2005)), Change::End(old));
        assert_eq!(level.on_look(899, &all[..1], at(2006)), Change::None);
        assert_eq!(level.on_look(900, &all[..1], at(2007)), Change::Rose);
        assert_eq!(level.on_look(899, &all[..1], at(2008)), Change::None);
        assert_eq!(level.on_look(1, &[], at(2009)), Change::Fell);
        assert_eq!(
            level.on_look(1, &[], at(2010)),
            Change::None,
            "there is nothing to end"
        );
    }

    /// Most of the machine may be in reserve.
    #[test]
    fn a_large_reserve_can_be_had_again() {
        let now = Instant::now();
        let reserve = 22 << 30;
        let mut level = Level::new(reserve);
        assert_eq!(level.on_look(reserve - 1, &[], now), Change::Fell);
        assert_eq!(level.on_look(reserve + MOST_MARGIN - 1, &[], now), Change::None);
        assert_eq!(level.on_look(reserve + MOST_MARGIN, &[], now), Change::Rose);
    }

    #[test]
    fn an_idle_executor_needs_no_more_than_the_reserve() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut level = Level::new(800);
        let running = [handout()];
        assert_eq!(level.on_look(799, &running, at(0)), Change::Fell);
        // What runs may yet take what is there.
        assert_eq!(level.on_look(800, &running, at(60)), Change::None);
        assert_eq!(level.on_look(800, &[], at(61)), Change::None);
        assert_eq!(level.on_look(799, &[], at(65)), Change::None);
        assert_eq!(
            level.on_look(800, &[], at(66)),
            Change::None,
            "it must stay there"
        );
        assert_eq!(level.on_look(800, &[], at(70)), Change::None);
        assert_eq!(level.on_look(800, &[], at(71)), Change::Rose);
    }
}
