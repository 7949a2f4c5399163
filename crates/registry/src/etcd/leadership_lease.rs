//! How long a judicator may act as leader.
//!
//! etcd extends the lease when a keep-alive arrives, so the lease lasts at least its full time from the moment at which
//! the keep-alive was *sent*. The judicator leads for two thirds of that time, by its monotonic clock, unless etcd
//! answers another keep-alive and the leader key is still its own. The remaining third covers work that began while it
//! led, and an etcd leader that still answers for a moment after it was deposed.
//!
//! A thread of its own ends the leadership. So it ends in time even if all threads of the runtime are busy or etcd does
//! not answer. When a process was stopped (SIGSTOP) for longer than that, all its threads continue at once, and this
//! one needs some microseconds to end the leadership; code that has just read "leading" may still act on it. No check
//! before an action can exclude this, which is why every write of a leader carries its own condition. The clock stands
//! still while a whole machine is suspended: judicators must not run on machines that are suspended.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use supervise::{Component, Supervisor};
use tokio::sync::watch;

/// When the leadership ends that a keep-alive sent at `sent` has confirmed.
pub(super) fn end_of_leadership(sent: Instant, lease: Duration) -> Instant {
    sent + lease * 2 / 3
}

/// The right of this judicator to act as leader until a deadline on its own clock. It publishes whether this judicator
/// leads, and ends when it is dropped.
pub(super) struct LeadershipLease {
    shared: Arc<LeadershipShared>,
}

/// The state of a judicator's leadership, shared with the thread that ends it at the deadline.
struct LeadershipShared {
    state: Mutex<LeadershipState>,
    changed: Condvar,
    leading: watch::Sender<bool>,
}

/// Whether this judicator leads, and until when by its own clock.
enum LeadershipState {
    Leading { until: Instant },
    NotLeading,
    Closed,
}

impl LeadershipLease {
    pub(super) fn new(supervisor: &Supervisor) -> io::Result<(LeadershipLease, watch::Receiver<bool>)> {
        let (leading, receiver) = watch::channel(false);
        let shared = Arc::new(LeadershipShared {
            state: Mutex::new(LeadershipState::NotLeading),
            changed: Condvar::new(),
            leading,
        });
        let timed = Arc::clone(&shared);
        let timer = Component::LeadershipTimer;
        supervisor.thread(timer, "leadership-timer".into(), move || timed.run_timer())?;
        Ok((LeadershipLease { shared }, receiver))
    }

    /// Leads until then. Ends the leadership if that moment has passed already.
    pub(super) fn extend(&self, until: Instant) {
        if Instant::now() < until {
            self.shared.set(LeadershipState::Leading { until });
        } else {
            self.end();
        }
    }

    /// When this returns, `leading` is false for every reader.
    pub(super) fn end(&self) {
        self.shared.set(LeadershipState::NotLeading);
    }
}

impl Drop for LeadershipLease {
    fn drop(&mut self) {
        self.shared.set(LeadershipState::Closed);
    }
}

impl LeadershipShared {
    fn lock(&self) -> MutexGuard<'_, LeadershipState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, next: LeadershipState) {
        let mut state = self.lock();
        *state = next;
        self.publish(&state);
        self.changed.notify_one();
    }

    /// The caller holds the lock, so that of two callers the one with the newer state publishes last.
    fn publish(&self, state: &MutexGuard<'_, LeadershipState>) {
        let leads = matches!(**state, LeadershipState::Leading { .. });
        let changed = self.leading.send_if_modified(|published| {
            let before = std::mem::replace(published, leads);
            before != leads
        });
        if changed {
            match leads {
                true => tracing::info!("this judicator is the leader"),
                false => tracing::info!("this judicator is no longer the leader"),
            }
        }
    }

    fn run_timer(&self) {
        let mut state = self.lock();
        loop {
            state = match *state {
                LeadershipState::Closed => return,
                LeadershipState::NotLeading => {
                    self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
                LeadershipState::Leading { until } => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        *state = LeadershipState::NotLeading;
                        self.publish(&state);
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
    fn leadership_ends_before_the_lease_expires() {
        let sent = Instant::now();
        let check = |lease: u64, millis: u64| {
            let end = end_of_leadership(sent, Duration::from_secs(lease));
            assert_eq!(end - sent, Duration::from_millis(millis), "{lease}");
        };
        check(3, 2000);
        check(6, 4000);
        check(60, 40_000);
    }

    #[tokio::test]
    async fn leadership_ends_at_its_deadline_without_a_call() {
        let (lease, mut leading) = LeadershipLease::new(&Supervisor::new()).unwrap();
        assert!(!*leading.borrow());
        lease.extend(Instant::now() + LONG);
        assert!(*leading.borrow_and_update());
        let until = Instant::now() + Duration::from_millis(50);
        lease.extend(until);
        leading.wait_for(|leads| !leads).await.unwrap();
        assert!(Instant::now() >= until);
    }

    #[test]
    fn leadership_ends_with_a_call_and_with_the_drop_of_the_lease() {
        let (lease, leading) = LeadershipLease::new(&Supervisor::new()).unwrap();
        lease.extend(Instant::now() + LONG);
        lease.end();
        assert!(!*leading.borrow());
        lease.extend(Instant::now() + LONG);
        drop(lease);
        assert!(!*leading.borrow());
    }

    #[test]
    fn a_keep_alive_answered_too_late_does_not_extend_leadership() {
        let (lease, leading) = LeadershipLease::new(&Supervisor::new()).unwrap();
        lease.extend(Instant::now() + LONG);
        lease.extend(Instant::now());
        assert!(!*leading.borrow());
    }
}
