//! For how long one leads.
//!
//! The lease at etcd is renewed when a keep-alive arrives there, so it lasts at least for its time from the moment
//! the keep-alive was *sent*. From that moment one leads for two thirds of it, by this process's monotonic clock, and
//! no further unless another keep-alive was answered and the key was seen to be held still. The third that is left
//! covers what was begun while leading, and a leader of etcd that answers for a moment after it was deposed.
//!
//! The end is the business of a thread of its own: it comes in time when every thread of the runtime is busy, and
//! when etcd does not answer. A process that was stopped (SIGSTOP) for longer finds all its threads running again at
//! once, and this one needs some microseconds to say that the reign is over; whoever looked a moment before may
//! still act on what it saw. Nobody can do better by looking at a value before acting, which is why every write of a
//! leader carries its own condition. The clock stands still while a whole machine sleeps: machines that sleep are
//! not for judicators.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use supervise::{Component, Supervisor};
use tokio::sync::watch;

/// When a reign ends that was confirmed by a keep-alive sent at this moment.
pub(super) fn ends(sent: Instant, lease: Duration) -> Instant {
    sent + lease * 2 / 3
}

/// Tells whether this judicator leads. Not for a moment longer than it lives itself.
pub(super) struct Reign {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    leading: watch::Sender<bool>,
}

enum State {
    Leading { until: Instant },
    NotLeading,
    Closed,
}

impl Reign {
    pub(super) fn new(supervisor: &Supervisor) -> io::Result<(Reign, watch::Receiver<bool>)> {
        let (leading, receiver) = watch::channel(false);
        let shared = Arc::new(Shared {
            state: Mutex::new(State::NotLeading),
            changed: Condvar::new(),
            leading,
        });
        let watched = Arc::clone(&shared);
        let timer = Component::LeadershipTimer;
        supervisor.thread(timer, "leadership-timer".into(), move || watched.end_in_time())?;
        Ok((Reign { shared }, receiver))
    }

    /// It is ours until then, unless that has passed already.
    pub(super) fn extend(&self, until: Instant) {
        if Instant::now() < until {
            self.shared.turn(State::Leading { until });
        } else {
            self.end();
        }
    }

    /// When this returns nobody sees that we lead.
    pub(super) fn end(&self) {
        self.shared.turn(State::NotLeading);
    }
}

impl Drop for Reign {
    fn drop(&mut self) {
        self.shared.turn(State::Closed);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, next: State) {
        let mut state = self.state();
        *state = next;
        self.tell(&state);
        self.changed.notify_one();
    }

    /// The state is held meanwhile, so that two who tell at once cannot leave the older word standing.
    fn tell(&self, state: &MutexGuard<'_, State>) {
        let leads = matches!(**state, State::Leading { .. });
        let changed = self.leading.send_if_modified(|told| {
            let before = std::mem::replace(told, leads);
            before != leads
        });
        if changed {
            match leads {
                true => tracing::info!("this judicator leads"),
                false => tracing::info!("this judicator leads no longer"),
            }
        }
    }

    fn end_in_time(&self) {
        let mut state = self.state();
        loop {
            state = match *state {
                State::Closed => return,
                State::NotLeading => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                State::Leading { until } => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        *state = State::NotLeading;
                        self.tell(&state);
                        state
                    } else {
                        let woken = self.changed.wait_timeout(state, left);
                        woken.unwrap_or_else(PoisonError::into_inner).0
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_reign_ends_well_before_the_lease() {
        let sent = Instant::now();
        let check = |lease: u64, millis: u64| {
            let end = ends(sent, Duration::from_secs(lease));
            assert_eq!(end - sent, Duration::from_millis(millis), "{lease}");
        };
        check(3, 2000);
        check(6, 4000);
        check(60, 40_000);
    }

    #[tokio::test]
    async fn it_ends_by_itself() {
        let (reign, mut leading) = Reign::new(&Supervisor::new()).unwrap();
        assert!(!*leading.borrow());
        reign.extend(Instant::now() + LONG);
        assert!(*leading.borrow_and_update());
        let until = Instant::now() + Duration::from_millis(50);
        reign.extend(until);
        leading.wait_for(|leads| !leads).await.unwrap();
        assert!(Instant::now() >= until);
    }

    #[test]
    fn it_ends_when_told_to_and_with_its_owner() {
        let (reign, leading) = Reign::new(&Supervisor::new()).unwrap();
        reign.extend(Instant::now() + LONG);
        reign.end();
        assert!(!*leading.borrow());
        reign.extend(Instant::now() + LONG);
        drop(reign);
        assert!(!*leading.borrow());
    }

    #[test]
    fn a_late_answer_extends_nothing() {
        let (reign, leading) = Reign::new(&Supervisor::new()).unwrap();
        reign.extend(Instant::now() + LONG);
        reign.extend(Instant::now());
        assert!(!*leading.borrow());
    }
}
