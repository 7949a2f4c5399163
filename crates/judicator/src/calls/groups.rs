use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use model::{GroupKey, GroupPage, GroupQuery, GroupState};
use rpc::{CallError, GroupStateStream};
use store::TaskStore;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::Judicator;
use crate::error::call_error;
use crate::group_watchers::GroupWatcher;

/// The shortest time between two reads of a group by one waiting call. A group may change thousands of times in a second.
const WAIT_PAUSE: Duration = Duration::from_millis(100);
/// The same for a call that streams the states.
const EVENTS_PAUSE: Duration = Duration::from_millis(250);
/// A primary that was elected a moment ago may show an earlier state than the last event. So a group is read again after
/// this time without an event.
const REREAD_AFTER: Duration = Duration::from_secs(5);

impl Judicator {
    pub(super) async fn on_group(
        &self,
        key: GroupKey,
        wait: Option<Duration>,
    ) -> Result<GroupState, CallError> {
        let mut follower = self.follow_group(key);
        let deadline = Instant::now() + wait.unwrap_or_default();
        loop {
            let state = follower.read().await?;
            if state.is_done() || Instant::now() >= deadline {
                return Ok(state);
            }
            // Afterwards the state is read once more, also when the wait is over.
            let _ = timeout_at(deadline, follower.changed(WAIT_PAUSE)).await;
        }
    }

    pub(super) async fn on_groups(&self, query: GroupQuery) -> Result<GroupPage, CallError> {
        let limit = query.limit.clamp(1, GroupQuery::MAX_PAGE);
        let query = GroupQuery { limit, ..query };
        self.store.groups(query).await.map_err(call_error)
    }

    pub(super) async fn on_group_events(&self, key: GroupKey) -> Result<GroupStateStream, CallError> {
        let mut follower = self.follow_group(key);
        let first = follower.read().await?;
        let last = (!first.is_done()).then(|| (follower, first.clone()));
        let rest = futures::stream::unfold(last, |last| async move {
            let (mut follower, last) = last?;
            loop {
                follower.changed(EVENTS_PAUSE).await;
                match follower.read().await {
                    Ok(state) if state == last => {}
                    Ok(state) => {
                        let next = (!state.is_done()).then(|| (follower, state.clone()));
                        return Some((Ok(state), next));
                    }
                    Err(error) => return Some((Err(error), None)),
                }
            }
        });
        Ok(futures::stream::iter([Ok(first)]).chain(rest).boxed())
    }

    fn follow_group(&self, key: GroupKey) -> GroupFollower {
        GroupFollower {
            watcher: self.group_watchers.watch(key.clone()),
            store: self.store.clone(),
            read_at: Instant::now(),
            key,
        }
    }
}

/// Reads the state of one group again and again for a call that waits for it, but not too often.
struct GroupFollower {
    store: Arc<dyn TaskStore>,
    watcher: GroupWatcher,
    read_at: Instant,
    key: GroupKey,
}

impl GroupFollower {
    async fn read(&mut self) -> Result<GroupState, CallError> {
        self.read_at = Instant::now();
        let state = self.store.group(self.key.clone()).await.map_err(call_error)?;
        state.ok_or_else(|| CallError::NoGroup(self.key.clone()))
    }

    /// Waits until the group should be read again.
    async fn changed(&mut self, pause: Duration) {
        // Without an event in time it is read, too.
        let _ = timeout_at(self.read_at + REREAD_AFTER, self.watcher.changed()).await;
        sleep_until(self.read_at + pause).await;
    }
}
