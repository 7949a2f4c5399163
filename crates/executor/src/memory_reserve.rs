//! Keeps memory available for other processes on the machine. Control groups alone cannot, because they do not count some
//! memory that the kernel allocates for a command.
//!
//! When less than the reserve is available, the executor takes no tasks, gives back attempts that have not started, and kills
//! its newest attempts one by one until there is enough again. It reports them as platform failures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::AttemptId;

use crate::attempt_control::AttemptControl;
use crate::machine::AvailableMemoryProbe;
use crate::slot_pool::SlotPool;

/// How often the available memory is read; a program can allocate some hundred megabytes in this time.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const SAMPLE_INTERVAL_WHEN_LOW: Duration = Duration::from_millis(20);
/// How long to wait for the memory of a killed attempt before another one is killed.
const FREEING_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum of available memory beyond the reserve that is required to resume.
const MAX_MARGIN: u64 = 64 << 20;
/// An idle executor resumes when the reserve, without the margin, was available for this long: it has nothing left to kill,
/// and the available memory may never grow.
const IDLE_RECOVERY_TIME: Duration = Duration::from_secs(5);
const MEMORY_LOW_METRIC: &str = "conclave_memory_low";

/// The executor's guard of available memory: it kills the newest attempts while less than the reserve is available.
pub(crate) struct MemoryReserve {
    bytes: u64,
    is_low: AtomicBool,
    /// The attempts that slots run, the newest last.
    running: Mutex<Vec<(AttemptId, Arc<AttemptControl>)>>,
}

impl MemoryReserve {
    pub(crate) fn new(bytes: u64) -> MemoryReserve {
        MemoryReserve {
            bytes,
            is_low: AtomicBool::new(false),
            running: Mutex::default(),
        }
    }

    /// Whether the executor must not take or start attempts.
    pub(crate) fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    pub(crate) fn on_started(&self, attempt_id: AttemptId, control: &Arc<AttemptControl>) {
        self.running().push((attempt_id, control.clone()));
    }

    pub(crate) fn on_ended(&self, attempt_id: &AttemptId) {
        self.running().retain(|(running, _)| running != attempt_id);
    }

    /// Samples the available memory until the slot pool is closed. Runs in a thread.
    pub(crate) fn run(&self, slot_pool: &SlotPool) {
        let mut level = MemoryLevel::new(self.bytes);
        let memory = AvailableMemoryProbe::new();
        loop {
            let interval = match self.is_low() {
                true => SAMPLE_INTERVAL_WHEN_LOW,
                false => SAMPLE_INTERVAL,
            };
            if slot_pool.wait_for_close(interval) {
                return;
            }
            // Without a value from the kernel there is nothing to decide.
            let Some(available) = memory.available() else {
                continue;
            };
            let running: Vec<_> = self.running().iter().map(|(attempt_id, _)| *attempt_id).collect();
            match level.on_sample(available, &running, Instant::now()) {
                MemoryAction::None => {}
                MemoryAction::StopTaking => {
                    self.on_memory_low(slot_pool);
                    tracing::warn!(
                        available,
                        reserve = self.bytes,
                        "available memory is below executor.reserve; taking no tasks and killing the newest"
                    );
                }
                MemoryAction::Resume => {
                    self.on_memory_recovered(slot_pool);
                    tracing::info!(
                        available,
                        reserve = self.bytes,
                        "available memory is sufficient again; taking tasks"
                    );
                }
                MemoryAction::KillAttempt(attempt_id) => self.kill_attempt(&attempt_id, available),
            }
        }
    }

    pub(crate) fn on_memory_low(&self, slot_pool: &SlotPool) {
        self.is_low.store(true, Ordering::Relaxed);
        metrics::gauge!(MEMORY_LOW_METRIC).set(1.0);
        slot_pool.on_memory_reserve_changed();
    }

    pub(crate) fn on_memory_recovered(&self, slot_pool: &SlotPool) {
        self.is_low.store(false, Ordering::Relaxed);
        metrics::gauge!(MEMORY_LOW_METRIC).set(0.0);
        slot_pool.on_memory_reserve_changed();
    }

    fn kill_attempt(&self, attempt_id: &AttemptId, available: u64) {
        let mut running = self.running();
        let found = running.iter_mut().find(|(running, _)| running == attempt_id);
        if let Some((_, control)) = found {
            let why = format!(
                "the machine was short of memory: {} MiB were available, and {} MiB are kept in reserve (executor.reserve)",
                available >> 20,
                self.bytes >> 20
            );
            tracing::warn!(task = %attempt_id.task, "killing a task to free memory");
            if let Err(error) = control.fail_as_platform(why) {
                tracing::warn!(task = %attempt_id.task, %error, "could not send the kill request to the warden of a task");
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, Vec<(AttemptId, Arc<AttemptControl>)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state machine of a [`MemoryReserve`], which decides what to do about each sample of the available memory. It is
/// pure: callers pass the memory and the time in.
struct MemoryLevel {
    reserve: u64,
    is_low: bool,
    /// The attempt that was killed last, and when.
    last_killed: Option<(AttemptId, Instant)>,
    /// Since when no attempt runs and the reserve is available.
    idle_and_sufficient_since: Option<Instant>,
}

/// What a [`MemoryReserve`] does after a sample of the available memory.
#[derive(Debug, PartialEq)]
enum MemoryAction {
    None,
    StopTaking,
    Resume,
    KillAttempt(AttemptId),
}

impl MemoryLevel {
    fn new(reserve: u64) -> MemoryLevel {
        MemoryLevel {
            reserve,
            is_low: false,
            last_killed: None,
            idle_and_sufficient_since: None,
        }
    }

    /// `running` are the attempts that can be killed, the newest last.
    fn on_sample(&mut self, available: u64, running: &[AttemptId], now: Instant) -> MemoryAction {
        let is_short = available < self.reserve;
        if !self.is_low {
            self.is_low = is_short;
            return if is_short {
                MemoryAction::StopTaking
            } else {
                MemoryAction::None
            };
        }
        // The margin prevents flapping. It has a maximum, because a machine may never have much more than a large reserve.
        let margin = (self.reserve / 8).min(MAX_MARGIN);
        let since = match is_short || !running.is_empty() {
            true => None,
            false => Some(self.idle_and_sufficient_since.unwrap_or(now)),
        };
        self.idle_and_sufficient_since = since;
        let is_idle_recovery_over = since.is_some_and(|since| now >= since + IDLE_RECOVERY_TIME);
        if is_idle_recovery_over || available >= self.reserve.saturating_add(margin) {
            *self = MemoryLevel::new(self.reserve);
            return MemoryAction::Resume;
        }
        let is_still_freeing =
            |(killed, at): &(AttemptId, Instant)| running.contains(killed) && now < *at + FREEING_TIMEOUT;
        if !is_short || self.last_killed.as_ref().is_some_and(is_still_freeing) {
            return MemoryAction::None;
        }
        let last = self.last_killed.map(|(attempt_id, _)| attempt_id);
        let newest = running.iter().rev().find(|attempt_id| Some(**attempt_id) != last);
        match newest {
            Some(newest) => {
                self.last_killed = Some((*newest, now));
                MemoryAction::KillAttempt(*newest)
            }
            None => MemoryAction::None,
        }
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

    #[test]
    fn the_newest_attempts_are_killed_until_memory_is_sufficient() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let (old, middle, new) = (attempt_id(), attempt_id(), attempt_id());
        let all = [old, middle, new];
        let mut level = MemoryLevel::new(800);
        assert_eq!(level.on_sample(800, &all, at(0)), MemoryAction::None);
        assert_eq!(level.on_sample(799, &all, at(1)), MemoryAction::StopTaking);
        assert_eq!(level.on_sample(700, &all, at(2)), MemoryAction::KillAttempt(new));
        assert_eq!(
            level.on_sample(700, &all, at(3)),
            MemoryAction::None,
            "the killed attempt still exits"
        );
        assert_eq!(
            level.on_sample(700, &all[..2], at(4)),
            MemoryAction::KillAttempt(middle)
        );
        // An attempt that does not exit is skipped.
        assert_eq!(
            level.on_sample(700, &all[..2], at(2005)),
            MemoryAction::KillAttempt(old)
        );
        assert_eq!(level.on_sample(899, &all[..1], at(2006)), MemoryAction::None);
        assert_eq!(level.on_sample(900, &all[..1], at(2007)), MemoryAction::Resume);
        assert_eq!(level.on_sample(899, &all[..1], at(2008)), MemoryAction::None);
        assert_eq!(level.on_sample(1, &[], at(2009)), MemoryAction::StopTaking);
        assert_eq!(
            level.on_sample(1, &[], at(2010)),
            MemoryAction::None,
            "there is nothing to kill"
        );
    }

    #[test]
    fn the_margin_of_a_large_reserve_is_bounded() {
        let now = Instant::now();
        let reserve = 22 << 30;
        let mut level = MemoryLevel::new(reserve);
        assert_eq!(level.on_sample(reserve - 1, &[], now), MemoryAction::StopTaking);
        assert_eq!(
            level.on_sample(reserve + MAX_MARGIN - 1, &[], now),
            MemoryAction::None
        );
        assert_eq!(
            level.on_sample(reserve + MAX_MARGIN, &[], now),
            MemoryAction::Resume
        );
    }

    #[test]
    fn an_idle_executor_resumes_without_the_margin() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut level = MemoryLevel::new(800);
        let running = [attempt_id()];
        assert_eq!(level.on_sample(799, &running, at(0)), MemoryAction::StopTaking);
        // Running attempts may still use the available memory.
        assert_eq!(level.on_sample(800, &running, at(60)), MemoryAction::None);
        assert_eq!(level.on_sample(800, &[], at(61)), MemoryAction::None);
        assert_eq!(level.on_sample(799, &[], at(65)), MemoryAction::None);
        assert_eq!(
            level.on_sample(800, &[], at(66)),
            MemoryAction::None,
            "it must stay available for a while"
        );
        assert_eq!(level.on_sample(800, &[], at(70)), MemoryAction::None);
        assert_eq!(level.on_sample(800, &[], at(71)), MemoryAction::Resume);
    }
}
