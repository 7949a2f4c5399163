//! Tells the calls that wait for a group that its counters have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::GroupKey;
use tokio::sync::watch;

/// The calls at this judicator that wait for a change of a group, by group. However many changes a call has not seen yet,
/// they are one.
#[derive(Default)]
pub(crate) struct GroupWatchers {
    groups: Mutex<HashMap<GroupKey, watch::Sender<()>>>,
}

/// The subscription of a call at a judicator to the changes of one group. Dropping it unsubscribes.
pub(crate) struct GroupWatcher {
    changes: Option<watch::Receiver<()>>,
    key: GroupKey,
    watchers: Arc<GroupWatchers>,
}

impl GroupWatchers {
    /// A caller must subscribe before it reads the group, so that it does not miss a change in between.
    pub(crate) fn watch(self: &Arc<Self>, key: GroupKey) -> GroupWatcher {
        let changes = self.lock().entry(key.clone()).or_default().subscribe();
        GroupWatcher {
            changes: Some(changes),
            key,
            watchers: self.clone(),
        }
    }

    pub(crate) fn on_changed(&self, key: &GroupKey) {
        if let Some(changes) = self.lock().get(key) {
            changes.send_replace(());
        }
    }

    pub(crate) fn on_events_lost(&self) {
        for changes in self.lock().values() {
            changes.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<GroupKey, watch::Sender<()>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
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
}

impl Drop for GroupWatcher {
    fn drop(&mut self) {
        let mut groups = self.watchers.lock();
        self.changes = None;
        if groups
            .get(&self.key)
            .is_some_and(|changes| changes.receiver_count() == 0)
        {
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
