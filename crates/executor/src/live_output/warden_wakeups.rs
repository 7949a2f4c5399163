//! Waits for wardens that have captured more output.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox::LiveOutput;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The wardens whose output somebody waits for, by their descriptors. All other wardens wake nobody.
#[derive(Default)]
pub(super) struct WardenWakeups {
    followed: Mutex<HashMap<RawFd, FollowedWarden>>,
}

/// One warden in [`WardenWakeups`].
struct FollowedWarden {
    wakeup: Arc<WardenWakeup>,
    readers: usize,
}

/// The descriptor with which a warden wakes the readers of its output. It can be registered only once, so all readers of a
/// warden share it.
struct WardenWakeup {
    descriptor: AsyncFd<LiveOutput>,
    woken: Notify,
}

/// A reader that the warden wakes when it has captured more output.
pub(super) struct WardenReader<'a> {
    // Dropped before the claim: when the last claim ends, only the table has the descriptor.
    wakeup: Arc<WardenWakeup>,
    _claim: WardenClaim<'a>,
}

/// Counts as a reader in [`WardenWakeups`] until it is dropped. Without readers the warden wakes nobody.
struct WardenClaim<'a> {
    wakeups: &'a WardenWakeups,
    key: RawFd,
}

impl WardenWakeups {
    /// Lets the warden wake this reader. What was captured before wakes nobody, so the caller looks for it afterwards.
    pub(super) fn follow(&self, live: &LiveOutput) -> io::Result<WardenReader<'_>> {
        let key = live.as_raw_fd();
        let mut followed = self.lock();
        let warden = match followed.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                #[expect(
                    deprecated,
                    reason = "its successor is unsafe, because the descriptor must not change; this one never does"
                )]
                let descriptor = AsyncFd::with_interest(live.clone(), Interest::READABLE)?;
                let wakeup = Arc::new(WardenWakeup {
                    descriptor,
                    woken: Notify::new(),
                });
                live.follow(true);
                entry.insert(FollowedWarden { wakeup, readers: 0 })
            }
        };
        warden.readers += 1;
        Ok(WardenReader {
            wakeup: warden.wakeup.clone(),
            _claim: WardenClaim { wakeups: self, key },
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RawFd, FollowedWarden>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WardenReader<'_> {
    pub(super) fn is_for(&self, live: &LiveOutput) -> bool {
        self.wakeup.descriptor.as_raw_fd() == live.as_raw_fd()
    }

    /// To miss nothing, a reader enables this before it looks for output, and then passes it to `wait`.
    pub(super) fn woken(&self) -> Notified<'_> {
        self.wakeup.woken.notified()
    }

    /// Waits for the next wakeup of the warden.
    pub(super) async fn wait(&self, woken: Pin<&mut Notified<'_>>) {
        let WardenWakeup {
            descriptor,
            woken: readers,
        } = &*self.wakeup;
        tokio::select! {
            () = woken => {}
            ready = descriptor.readable() => match ready {
                Ok(mut ready) => {
                    descriptor.get_ref().clear_wakeups();
                    ready.clear_ready();
                    // After the wakeup was cleared: what is captured from now on causes another one.
                    readers.notify_waiters();
                }
                // The runtime is shutting down.
                Err(_) => std::future::pending().await,
            }
        }
    }
}

impl Drop for WardenClaim<'_> {
    fn drop(&mut self) {
        // The descriptor is dropped under the lock, so that the next reader can register it again.
        if let Entry::Occupied(mut entry) = self.wakeups.lock().entry(self.key) {
            entry.get_mut().readers -= 1;
            if entry.get().readers == 0 {
                entry.get().wakeup.descriptor.get_ref().follow(false);
                drop(entry.remove());
            }
        }
    }
}
