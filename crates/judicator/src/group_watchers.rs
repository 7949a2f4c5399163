//! The groups that calls wait for: tells the calls that a group has changed, and shares its state among them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{GroupKey, GroupState};
use rpc::CallError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The shortest time between two reads of a group for the calls that wait for it. A group may change thousands of times in a
/// second.
const READ_PAUSE: Duration = Duration::from_millis(100);
/// A primary that was elected a moment ago may show an earlier state than the last event. So a group is read again after
/// this time without an event.
pub(crate) const REREAD_AFTER: Duration = Duration::from_secs(5);

/// The groups for whose change calls at this judicator wait.
#[derive(Default)]
pub(crate) struct GroupWatchers {
    groups: Mutex<HashMap<GroupKey, Arc<WatchedGroup>>>,
}

/// A group that calls wait for. However many changes a call has not seen yet, they are one.
#[derive(Default)]
struct WatchedGroup {
    /// Counts the changes.
    changes: watch::Sender<u64>,
    /// Locked while one call reads the group for all.
    last: tokio::sync::Mutex<Option<GroupRead>>,
}

/// The last read of a watched group.
#[derive(Clone)]
pub(crate) struct GroupRead {
    pub(crate) state: Result<GroupState, CallError>,
    /// When the read began.
    pub(crate) at: Instant,
    /// How many changes there had been by then.
    changes: u64,
}

/// The subscription of a call at a judicator to the changes of one group. Dropping it unsubscribes.
pub(crate) struct GroupWatcher {
    changes: Option<watch::Receiver<u64>>,
    group: Arc<WatchedGroup>,
    key: GroupKey,
    watchers: Arc<GroupWatchers>,
}

impl GroupWatchers {
    /// A caller must subscribe before it reads the group, so that it does not miss a change in between.
    pub(crate) fn watch(self: &Arc<Self>, key: GroupKey) -> GroupWatcher {
        let mut groups = self.lock();
        let group = groups.entry(key.clone()).or_default().clone();
        GroupWatcher {
            changes: Some(group.changes.subscribe()),
            group,
            key,
            watchers: self.clone(),
        }
    }

    pub(crate) fn on_changed(&self, key: &GroupKey) {
        if let Some(group) = self.lock().get(key) {
            group.on_changed();
        }
    }

    pub(crate) fn on_events_lost(&self) {
        self.lock().values().for_each(|group| group.on_changed());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<GroupKey, Arc<WatchedGroup>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedGroup {
    fn on_changed(&self) {
        self.changes
            .send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl GroupWatcher {
    /// Waits for a change since the last call.
    pub(crate) async fn changed(&mut self) {
        let changed = match &mut self.changes {
            Some(changes) => changes.changed().await.is_ok(),
            None => false,
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }

    /// The state of the group, as new as its last change. One call reads it for all that wait, after a pause since the read
    /// before.
    pub(crate) async fn read_shared(
        &self,
        read: impl AsyncFnOnce() -> Result<GroupState, CallError>,
    ) -> GroupRead {
        let mut last = self.group.last.lock().await;
        if let Some(last) = &*last {
            let is_current = last.changes == *self.group.changes.borrow();
            if is_current && last.at.elapsed() < REREAD_AFTER {
                return last.clone();
            }
            sleep_until(last.at + READ_PAUSE).await;
        }
        let (at, changes) = (Instant::now(), *self.group.changes.borrow());
        let state = read().await;
        last.insert(GroupRead { state, at, changes }).clone()
    }
}

impl Drop for GroupWatcher {
    fn drop(&mut self) {
        let mut groups = self.watchers.lock();
        self.changes = None;
        if self.group.changes.receiver_count() == 0 {
            groups.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use model::{GroupName, UserName};

    use super::*;

    #[test]
    fn changes_are_seen_once_and_a_group_without_calls_is_forgotten() {
        let watchers = Arc::new(GroupWatchers::default());
        let key = |group: &str| GroupKey {
            user: UserName::new("ada").unwrap(),
            group: GroupName::new(group).unwrap(),
        };
        let (mut one, mut other) = (watchers.watch(key("a")), watchers.watch(key("a")));
        watchers.on_changed(&key("b"));
        assert!(one.changed().now_or_never().is_none());
        for _ in 0..3 {
            watchers.on_changed(&key("a"));
        }
        for watcher in [&mut one, &mut other] {
            assert!(watcher.changed().now_or_never().is_some());
            assert!(watcher.changed().now_or_never().is_none());
        }
        watchers.on_events_lost();
        assert!(one.changed().now_or_never().is_some());
        drop(one);
        watchers.on_changed(&key("a"));
        assert!(other.changed().now_or_never().is_some());
        drop(other);
        assert!(watchers.lock().is_empty());
    }
}
