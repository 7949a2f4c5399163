//! The order in which a client asks the judicators: pure state over addresses and times, without connections.
//!
//! Each client has a home judicator, chosen at random so that clients spread over the judicators. When the home fails a
//! call, it is suspended and another judicator is asked first. After the pause the home is probed, and if it answers it
//! is asked first again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::classify::FailureCause;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The order in which the RPC client asks the judicators: which one first, and which ones last after failures.
#[derive(Default)]
pub(super) struct FailoverOrder {
    home: Option<String>,
    /// The judicator that is asked first.
    preferred: Option<String>,
    /// The judicators that failed a call and have not answered one since.
    suspended: HashMap<String, SuspendedJudicator>,
}

/// A judicator that the RPC client asks last for a while, because it failed a call.
struct SuspendedJudicator {
    /// `None` if a caller only stopped waiting.
    cause: Option<FailureCause>,
    pause: Duration,
    until: Instant,
    probe: ProbeState,
}

/// Whether the RPC client is probing a judicator that failed a call and is asked last.
#[derive(Clone, Copy, PartialEq)]
enum ProbeState {
    NotYet,
    UnderWay,
    Answered,
}

/// What a failed call changed about how long the RPC client asks a judicator last, for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SuspensionChange {
    /// The judicator is newly suspended, or for another cause than before. It is asked last for this long.
    SuspendedFor(Duration),
    Unchanged,
}

impl FailoverOrder {
    pub(super) fn preferred(&self) -> Option<&String> {
        self.preferred.as_ref()
    }

    /// Returns every address once: the preferred first, the suspended last. `random_index` chooses a home if there is
    /// none.
    pub(super) fn arrange(
        &mut self,
        mut addresses: Vec<String>,
        now: Instant,
        random_index: impl FnOnce() -> usize,
    ) -> Vec<String> {
        self.suspended.retain(|address, _| addresses.contains(address));
        let known = |one: &Option<String>| one.as_ref().is_some_and(|one| addresses.contains(one));
        if addresses.is_empty() {
            // No judicator is known, so none is suspended and the home is preferred again.
            self.preferred.clone_from(&self.home);
            return addresses;
        }
        if !known(&self.home) {
            self.home = Some(addresses[random_index() % addresses.len()].clone());
        }
        if !known(&self.preferred) {
            self.preferred.clone_from(&self.home);
        }
        let first = addresses
            .iter()
            .position(|address| Some(address) == self.preferred.as_ref());
        addresses.rotate_left(first.unwrap_or_default());
        // The sort is stable, so the others keep their order.
        addresses.sort_by_key(|address| self.is_suspended(address, now));
        addresses
    }

    pub(super) fn on_answered(&mut self, address: &str) {
        self.suspended.remove(address);
        if self.home.as_deref() == Some(address) {
            self.preferred.clone_from(&self.home);
        }
    }

    pub(super) fn on_failed(
        &mut self,
        address: &str,
        cause: Option<FailureCause>,
        known: &[String],
        now: Instant,
    ) -> SuspensionChange {
        let change = match self.suspended.get_mut(address) {
            Some(suspended) => {
                // Several calls that fail at the same time count once.
                if suspended.until <= now {
                    suspended.pause = (suspended.pause * 2).min(MAX_PAUSE);
                    suspended.until = now + suspended.pause;
                }
                suspended.probe = ProbeState::NotYet;
                let before = suspended.cause;
                suspended.cause = cause.or(before);
                match suspended.cause != before {
                    true => SuspensionChange::SuspendedFor(suspended.until - now),
                    false => SuspensionChange::Unchanged,
                }
            }
            None => {
                let suspended = SuspendedJudicator {
                    cause,
                    pause: FIRST_PAUSE,
                    until: now + FIRST_PAUSE,
                    probe: ProbeState::NotYet,
                };
                self.suspended.insert(address.to_string(), suspended);
                match cause {
                    Some(_) => SuspensionChange::SuspendedFor(FIRST_PAUSE),
                    None => SuspensionChange::Unchanged,
                }
            }
        };
        if self.preferred.as_deref() == Some(address) {
            self.prefer_next(address, known, now);
        }
        change
    }

    /// Prefers the next judicator that is not suspended, or the very next if all are.
    fn prefer_next(&mut self, address: &str, known: &[String], now: Instant) {
        let at = known.iter().position(|one| one == address).unwrap_or_default();
        let mut after = known.iter().cycle().skip(at + 1).take(known.len());
        let next = after.clone().find(|one| !self.is_suspended(one, now));
        self.preferred = next.or_else(|| after.next()).cloned();
    }

    /// Returns the home if another judicator is preferred and the pause of the home is over. The caller must probe it and
    /// report the result.
    pub(super) fn take_probe(&mut self, now: Instant) -> Option<String> {
        let home = self.home.clone()?;
        if self.preferred.as_ref() == Some(&home) {
            return None;
        }
        let suspended = self.suspended.get_mut(&home)?;
        if suspended.until > now || suspended.probe == ProbeState::UnderWay {
            return None;
        }
        suspended.probe = ProbeState::UnderWay;
        Some(home)
    }

    /// The probe succeeded, so the home is asked first again. The length of its pause is kept until it also answers a
    /// call. Returns whether the home was suspended.
    pub(super) fn on_probe_answered(&mut self, address: &str, now: Instant) -> bool {
        if self.home.as_deref() != Some(address) {
            return false;
        }
        self.preferred.clone_from(&self.home);
        self.suspended.get_mut(address).is_some_and(|suspended| {
            suspended.until = now;
            suspended.probe = ProbeState::Answered;
            true
        })
    }

    fn is_suspended(&self, address: &str, now: Instant) -> bool {
        self.suspended
            .get(address)
            .is_some_and(|suspended| suspended.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["a", "b", "c"];

    fn known() -> Vec<String> {
        KNOWN.map(str::to_string).to_vec()
    }

    fn at_home(home: usize) -> (FailoverOrder, Instant) {
        let (mut order, now) = (FailoverOrder::default(), Instant::now());
        order.arrange(known(), now, || home);
        (order, now)
    }

    fn check(order: &mut FailoverOrder, now: Instant, expected: &str) {
        let found = order.arrange(known(), now, || 0).concat();
        assert_eq!(found, expected);
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_client_asks_its_home_first() {
        let (mut order, now) = at_home(1);
        check(&mut order, now, "bca");
        check(&mut order, now, "bca");
        // The home is gone, so another one is chosen.
        assert_eq!(
            order.arrange(vec!["a".into(), "c".into()], now, || 1).concat(),
            "ca"
        );
        assert!(order.arrange(vec![], now, || 0).is_empty());
    }

    #[test]
    fn a_suspended_judicator_is_last_during_its_pause() {
        let (mut order, now) = at_home(0);
        let change = order.on_failed("a", Some(FailureCause::SecretMismatch), &known(), now);
        assert_eq!(change, SuspensionChange::SuspendedFor(FIRST_PAUSE));
        check(&mut order, now, "bca");
        assert_eq!(order.preferred().map(String::as_str), Some("b"));
        // After a second failure, the judicator that is not suspended is preferred.
        order.on_failed("b", Some(FailureCause::Full), &known(), now);
        check(&mut order, now, "cab");
        // All are suspended: they are asked anyway.
        order.on_failed("c", Some(FailureCause::Full), &known(), now);
        check(&mut order, now, "abc");
        // After the pause each has its place again.
        let later = now + FIRST_PAUSE;
        check(&mut order, later, "abc");
        order.on_answered("b");
        check(&mut order, now, "bac");
    }

    #[test]
    fn the_home_is_probed_after_its_pause_and_asked_first_when_it_answers() {
        let (mut order, now) = at_home(0);
        order.on_failed("a", Some(FailureCause::Full), &known(), now);
        assert_eq!(order.take_probe(now), None);
        let later = now + FIRST_PAUSE;
        assert_eq!(order.take_probe(later).as_deref(), Some("a"));
        assert_eq!(order.take_probe(later), None, "one probe at a time");
        order.on_failed("a", Some(FailureCause::Full), &known(), later);
        assert_eq!(order.take_probe(later + seconds(1)), None, "the pause has grown");
        let later = later + seconds(2);
        assert_eq!(order.take_probe(later).as_deref(), Some("a"));
        check(&mut order, later, "bca");
        assert!(order.on_probe_answered("a", later));
        check(&mut order, later, "abc");
        assert_eq!(order.take_probe(later), None);
    }

    #[test]
    fn pauses_double_until_a_call_is_answered() {
        let (mut order, mut now) = at_home(0);
        let mut pauses = vec![];
        for _ in 0..7 {
            order.on_failed("a", Some(FailureCause::Internal), &known(), now);
            // Calls that fail together count once.
            order.on_failed("a", Some(FailureCause::Internal), &known(), now);
            let pause = order.suspended["a"].until - now;
            pauses.push(pause.as_secs());
            now += pause;
            order.on_probe_answered("a", now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        order.on_answered("a");
        order.on_failed("a", Some(FailureCause::Internal), &known(), now);
        assert_eq!(order.suspended["a"].until - now, FIRST_PAUSE);
    }

    #[test]
    fn each_new_cause_is_reported_once() {
        let (mut order, now) = at_home(0);
        let mut check = |cause, reported: bool| {
            let change = order.on_failed("a", cause, &known(), now);
            assert_eq!(change != SuspensionChange::Unchanged, reported, "{cause:?}");
        };
        check(None, false);
        check(Some(FailureCause::Unreachable), true);
        check(Some(FailureCause::Unreachable), false);
        check(None, false);
        check(Some(FailureCause::SecretMismatch), true);
        check(Some(FailureCause::SecretMismatch), false);
    }
}
