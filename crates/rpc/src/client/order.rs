//! In which order judicators are asked: a table over addresses and times, without connections.
//!
//! Each client has a judicator of its own, its home, chosen at random so that clients spread. When that one cannot do
//! a call, another is asked first; when its pause is over it is probed, and if it answers it is asked first again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::verdict::Cause;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Order {
    home: Option<String>,
    /// Who is asked first.
    preferred: Option<String>,
    /// Those that could not do a call, until one of their answers shows that they can.
    left: HashMap<String, Left>,
}

struct Left {
    /// `None` if a caller only stopped waiting.
    cause: Option<Cause>,
    pause: Duration,
    until: Instant,
    probe: Probe,
}

#[derive(Clone, Copy, PartialEq)]
enum Probe {
    NotYet,
    UnderWay,
    Answered,
}

/// What there is to say about a judicator that was left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// For the first time, or for another cause than before; it is asked last for this long.
    LeftFor(Duration),
    Nothing,
}

impl Order {
    pub(super) fn preferred(&self) -> Option<&String> {
        self.preferred.as_ref()
    }

    /// Every address once: the preferred first, those that were left last. `anywhere` chooses a home if there is none.
    pub(super) fn arrange(
        &mut self,
        mut addresses: Vec<String>,
        now: Instant,
        anywhere: impl FnOnce() -> usize,
    ) -> Vec<String> {
        self.left.retain(|address, _| addresses.contains(address));
        let known = |one: &Option<String>| one.as_ref().is_some_and(|one| addresses.contains(one));
        if addresses.is_empty() {
            // Nobody is left any more, so there is nobody to come back from.
            self.preferred.clone_from(&self.home);
            return addresses;
        }
        if !known(&self.home) {
            self.home = Some(addresses[anywhere() % addresses.len()].clone());
        }
        if !known(&self.preferred) {
            self.preferred.clone_from(&self.home);
        }
        let first = addresses
            .iter()
            .position(|address| Some(address) == self.preferred.as_ref());
        addresses.rotate_left(first.unwrap_or_default());
        // A stable sort: the others keep their places.
        addresses.sort_by_key(|address| self.is_left(address, now));
        addresses
    }

    pub(super) fn on_answered(&mut self, address: &str) {
        self.left.remove(address);
        if self.home.as_deref() == Some(address) {
            self.preferred.clone_from(&self.home);
        }
    }

    pub(super) fn on_failed(
        &mut self,
        address: &str,
        cause: Option<Cause>,
        known: &[String],
        now: Instant,
    ) -> News {
        let news = match self.left.get_mut(address) {
            Some(left) => {
                // Calls that fail at the same time count once.
                if left.until <= now {
                    left.pause = (left.pause * 2).min(LONGEST_PAUSE);
                    left.until = now + left.pause;
                }
                left.probe = Probe::NotYet;
                let before = left.cause;
                left.cause = cause.or(before);
                match left.cause != before {
                    true => News::LeftFor(left.until - now),
                    false => News::Nothing,
                }
            }
            None => {
                let left = Left {
                    cause,
                    pause: FIRST_PAUSE,
                    until: now + FIRST_PAUSE,
                    probe: Probe::NotYet,
                };
                self.left.insert(address.to_string(), left);
                match cause {
                    Some(_) => News::LeftFor(FIRST_PAUSE),
                    None => News::Nothing,
                }
            }
        };
        if self.preferred.as_deref() == Some(address) {
            self.prefer_next(address, known, now);
        }
        news
    }

    /// The one after it that was not left; the very next if all were.
    fn prefer_next(&mut self, address: &str, known: &[String], now: Instant) {
        let at = known.iter().position(|one| one == address).unwrap_or_default();
        let mut after = known.iter().cycle().skip(at + 1).take(known.len());
        let next = after.clone().find(|one| !self.is_left(one, now));
        self.preferred = next.or_else(|| after.next()).cloned();
    }

    /// The home, if another is preferred and its pause is over. Whoever gets it asks it, and tells how that went.
    pub(super) fn take_probe(&mut self, now: Instant) -> Option<String> {
        let home = self.home.clone()?;
        if self.preferred.as_ref() == Some(&home) {
            return None;
        }
        let left = self.left.get_mut(&home)?;
        if left.until > now || left.probe == Probe::UnderWay {
            return None;
        }
        left.probe = Probe::UnderWay;
        Some(home)
    }

    /// A probe was answered well: the judicator is asked first again. Its pause is remembered until a call was
    /// answered too. False if there is nothing new.
    pub(super) fn on_probe_answered(&mut self, address: &str, now: Instant) -> bool {
        if self.home.as_deref() != Some(address) {
            return false;
        }
        self.preferred.clone_from(&self.home);
        self.left.get_mut(address).is_some_and(|left| {
            left.until = now;
            left.probe = Probe::Answered;
            true
        })
    }

    fn is_left(&self, address: &str, now: Instant) -> bool {
        self.left.get(address).is_some_and(|left| left.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["a", "b", "c"];

    fn known() -> Vec<String> {
        KNOWN.map(str::to_string).to_vec()
    }

    fn at_home(home: usize) -> (Order, Instant) {
        let (mut order, now) = (Order::default(), Instant::now());
        order.arrange(known(), now, || home);
        (order, now)
    }

    fn check(order: &mut Order, now: Instant, expected: &str) {
        let found = order.arrange(known(), now, || 0).concat();
        assert_eq!(found, expected);
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_client_begins_at_its_home() {
        let (mut order, now) = at_home(1);
        check(&mut order, now, "bca");
        check(&mut order, now, "bca");
        // It is gone: another is chosen.
        assert_eq!(
            order.arrange(vec!["a".into(), "c".into()], now, || 1).concat(),
            "ca"
        );
        assert!(order.arrange(vec![], now, || 0).is_empty());
    }

    #[test]
    fn one_that_was_left_is_last_for_its_pause() {
        let (mut order, now) = at_home(0);
        let news = order.on_failed("a", Some(Cause::OtherSecret), &known(), now);
        assert_eq!(news, News::LeftFor(FIRST_PAUSE));
        check(&mut order, now, "bca");
        assert_eq!(order.preferred().map(String::as_str), Some("b"));
        // A second failure goes to the one that was not left.
        order.on_failed("b", Some(Cause::Full), &known(), now);
        check(&mut order, now, "cab");
        // All were left: they are asked all the same.
        order.on_failed("c", Some(Cause::Full), &known(), now);
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
        order.on_failed("a", Some(Cause::Full), &known(), now);
        assert_eq!(order.take_probe(now), None);
        let later = now + FIRST_PAUSE;
        assert_eq!(order.take_probe(later).as_deref(), Some("a"));
        assert_eq!(order.take_probe(later), None, "one at a time");
        order.on_failed("a", Some(Cause::Full), &known(), later);
        assert_eq!(order.take_probe(later + seconds(1)), None, "the pause has grown");
        let later = later + seconds(2);
        assert_eq!(order.take_probe(later).as_deref(), Some("a"));
        check(&mut order, later, "bca");
        assert!(order.on_probe_answered("a", later));
        check(&mut order, later, "abc");
        assert_eq!(order.take_probe(later), None);
    }

    #[test]
    fn pauses_grow_until_a_call_was_answered() {
        let (mut order, mut now) = at_home(0);
        let mut pauses = vec![];
        for _ in 0..7 {
            order.on_failed("a", Some(Cause::Internal), &known(), now);
            // Many that fail together count once.
            order.on_failed("a", Some(Cause::Internal), &known(), now);
            let pause = order.left["a"].until - now;
            pauses.push(pause.as_secs());
            now += pause;
            order.on_probe_answered("a", now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        order.on_answered("a");
        order.on_failed("a", Some(Cause::Internal), &known(), now);
        assert_eq!(order.left["a"].until - now, FIRST_PAUSE);
    }

    #[test]
    fn each_change_is_told_once() {
        let (mut order, now) = at_home(0);
        let mut check = |cause, told: bool| {
            let news = order.on_failed("a", cause, &known(), now);
            assert_eq!(news != News::Nothing, told, "{cause:?}");
        };
        check(None, false);
        check(Some(Cause::Unreachable), true);
        check(Some(Cause::Unreachable), false);
        check(None, false);
        check(Some(Cause::OtherSecret), true);
        check(Some(Cause::OtherSecret), false);
    }
}
