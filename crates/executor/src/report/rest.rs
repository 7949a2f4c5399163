//! Rest after trouble of our own: a machine that can run nothing must not use up the attempts of the whole queue.
//!
//! Pure: times come in as values.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// After an attempt that broke, nothing is taken for a pause, then one task to see whether it goes better. The
/// pauses grow until one does.
#[derive(Default)]
pub(super) struct Rest {
    pause: Option<Duration>,
    until: Option<Instant>,
}

impl Rest {
    pub(super) fn on_broken(&mut self, now: Instant) {
        // What was begun before the rest tells nothing new.
        if self.until.is_none() {
            let pause = self.pause.map_or(FIRST, |pause| (pause * 2).min(LONGEST));
            self.pause = Some(pause);
            self.until = Some(now + pause);
        }
    }

    pub(super) fn on_success(&mut self) {
        *self = Rest::default();
    }

    /// When to ask for a task again.
    pub(super) fn ends(&self) -> Option<Instant> {
        self.until
    }

    /// Whether the pause has just ended: then a report is due.
    pub(super) fn end_if_over(&mut self, now: Instant) -> bool {
        let over = self.until.is_some_and(|until| until <= now);
        if over {
            self.until = None;
        }
        over
    }

    /// How many of the free places to offer.
    pub(super) fn offer(&self, vacant: u32) -> u32 {
        match (self.until, self.pause) {
            (Some(_), _) => 0,
            (None, Some(_)) => vacant.min(1),
            (None, None) => vacant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_something_goes_well() {
        let now = Instant::now();
        let mut rest = Rest::default();
        assert_eq!((rest.offer(8), rest.ends()), (8, None));
        rest.on_broken(now);
        rest.on_broken(now);
        assert_eq!((rest.offer(8), rest.ends()), (0, Some(now + FIRST)));
        assert!(!rest.end_if_over(now));
        assert!(rest.end_if_over(now + FIRST));
        assert_eq!((rest.offer(8), rest.ends()), (1, None), "one, to see");
        rest.on_broken(now);
        assert_eq!(rest.ends(), Some(now + FIRST * 2));
        for _ in 0..20 {
            assert!(rest.end_if_over(now + LONGEST));
            rest.on_broken(now);
        }
        assert_eq!(rest.ends(), Some(now + LONGEST));
        rest.on_success();
        assert_eq!((rest.offer(8), rest.ends()), (8, None));
    }
}
