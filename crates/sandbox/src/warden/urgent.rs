//! What the owner said out of turn: kills, and for how long it promised to be there.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::clock::boot_time;
use crate::outcome::Reason;
use crate::wire::{self, Urgent};

pub(super) struct Words {
    socket: OwnedFd,
    orders: Orders,
}

/// Apart from the socket, so that it can be tested without one.
#[derive(Debug, Default)]
struct Orders {
    /// Runs to be killed that have not ended yet, also those that have not started.
    killed: Vec<u64>,
    /// On the boot-time clock. No promise was ever made: no deadline.
    live_until: Option<Duration>,
}

impl Words {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            orders: Orders::default(),
        }
    }

    /// Takes in all that has been said. An error means that the owner is gone.
    pub(super) fn take_in(&mut self) -> io::Result<()> {
        while let Some(word) = wire::receive_urgent(self.socket.as_fd())? {
            self.orders.on_word(word);
        }
        Ok(())
    }

    /// Why this run must not go on.
    pub(super) fn stop(&mut self, number: u64) -> Option<Reason> {
        // Without a promise the clock need not be read.
        let now = match self.orders.live_until {
            Some(_) => boot_time(),
            None => Duration::ZERO,
        };
        match self.orders.stop(number, now) {
            // We may have stood still ourselves, with another promise waiting to be read. An owner that is gone has
            // made none.
            Some(Reason::Abandoned) if self.take_in().is_ok() => self.orders.stop(number, boot_time()),
            stop => stop,
        }
    }

    /// For how long the owner's promise still holds.
    pub(super) fn promised(&self) -> Option<Duration> {
        self.orders
            .live_until
            .map(|deadline| deadline.saturating_sub(boot_time()))
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.orders.killed.retain(|killed| *killed > number);
    }
}

impl AsFd for Words {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Orders {
    fn on_word(&mut self, word: Urgent) {
        match word {
            Urgent::Kill { number } => self.killed.push(number),
            Urgent::LiveUntil { millis } => self.live_until = Some(Duration::from_millis(millis)),
        }
    }

    fn stop(&self, number: u64, now: Duration) -> Option<Reason> {
        if self.killed.contains(&number) {
            return Some(Reason::Cancelled);
        }
        self.live_until
            .is_some_and(|deadline| now >= deadline)
            .then_some(Reason::Abandoned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stop_the_run_they_mean() {
        fn check(words: &[Urgent], number: u64, seconds: u64, expected: Option<Reason>) {
            let mut orders = Orders::default();
            for word in words {
                orders.on_word(*word);
            }
            assert_eq!(
                orders.stop(number, Duration::from_secs(seconds)),
                expected,
                "{words:?} {number} {seconds}"
            );
        }
        let live = |seconds: u64| Urgent::LiveUntil {
            millis: seconds * 1000,
        };
        check(&[], 1, u64::MAX, None);
        check(&[Urgent::Kill { number: 1 }], 1, 100, Some(Reason::Cancelled));
        check(&[Urgent::Kill { number: 1 }], 2, 100, None);
        check(
            &[Urgent::Kill { number: 3 }, Urgent::Kill { number: 2 }],
            3,
            100,
            Some(Reason::Cancelled),
        );
        check(&[live(105)], 1, 104, None);
        check(&[live(105)], 1, 105, Some(Reason::Abandoned));
        check(&[live(105), live(109)], 1, 105, None);
        check(&[live(109), live(105)], 1, 105, Some(Reason::Abandoned));
        check(
            &[live(105), Urgent::Kill { number: 1 }],
            1,
            105,
            Some(Reason::Cancelled),
        );
        check(
            &[Urgent::LiveUntil { millis: u64::MAX }],
            1,
            u64::MAX / 2000,
            None,
        );
    }

    #[test]
    fn a_promise_that_waits_to_be_read_counts() {
        let (ours, theirs) = wire::urgent_pair().unwrap();
        let promise = |until: Duration| Urgent::LiveUntil {
            millis: until.as_millis() as u64,
        };
        let mut words = Words::new(theirs);
        words.orders.on_word(promise(Duration::ZERO));
        assert_eq!(words.stop(1), Some(Reason::Abandoned));
        wire::send_urgent(ours.as_fd(), promise(boot_time() + Duration::from_secs(3600))).unwrap();
        assert_eq!(words.stop(1), None);
        words.orders.on_word(promise(Duration::ZERO));
        drop(ours);
        assert_eq!(words.stop(1), Some(Reason::Abandoned));
    }
}
