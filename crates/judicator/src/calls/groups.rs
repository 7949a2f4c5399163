use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use model::{GroupKey, GroupPage, GroupQuery, GroupState};
use rpc::{CallError, GroupStateStream};
use store::TaskStore;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::Judicator;
use crate::error::call_error;
use crate::group_watchers::{GroupWatcher, REREAD_AFTER};

/// The shortest time between two states of a group in a stream.
const EVENTS_PAUSE: Duration = Duration::from_millis(250);

impl Judicator {
    pub(super) async fn on_group(
        &self,
        key: GroupKey,
        wait: Option<Duration>,
    ) -> Result<GroupState, CallError> {
        let mut follower = self.follow_group(key);
        let deadline = Instant::now() + wait.unwrap_or_default();
        let mut state = follower.read().await?;
        while !state.is_done() && Instant::now() < deadline {
            let next = async {
                follower.changed().await;
                follower.read_shared().await
            };
            state = match timeout_at(deadline, next).await {
                Ok(state) => state?,
                // The wait is over.
                Err(_) => follower.read().await?,
            };
        }
        Ok(state)
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
                follower.changed().await;
                sleep_until(follower.read_at + EVENTS_PAUSE).await;
                match follower.read_shared().await {
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
    /// Reads for this call alone, at once. It sees everything that was committed before.
    async fn read(&mut self) -> Result<GroupState, CallError> {
        self.read_at = Instant::now();
        read_group(&*self.store, &self.key).await
    }

    /// The state after a change, which one call reads for all that wait for the group.
    async fn read_shared(&mut self) -> Result<GroupState, CallError> {
        let (store, key) = (&*self.store, &self.key);
        let read = self
            .watcher
            .read_shared(async || read_group(store, key).await)
            .await;
        self.read_at = read.at;
        read.state
    }

    /// Waits until the group should be read again.
    async fn changed(&mut self) {
        // Without an event in time it is read, too.
        let _ = timeout_at(self.read_at + REREAD_AFTER, self.watcher.changed()).await;
    }
}

async fn read_group(store: &dyn TaskStore, key: &GroupKey) -> Result<GroupState, CallError> {
    let state = store.group(key.clone()).await.map_err(call_error)?;
    state.ok_or_else(|| CallError::NoGroup(key.clone()))
}
