//! Sends hints to executors when there is work: to as many executors as needed, not to all.
//!
//! The broker knows an executor while that executor watches for hints. It estimates how many tasks each executor could
//! take. A wrong estimate costs an unnecessary report or a short wait for the next heartbeat, never a task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use model::{ExecutorName, SessionId};
use rpc::HintStream;
use tokio::sync::Notify;

/// Sends hints that there is work to the executors that watch for them at this judicator.
#[derive(Default)]
pub(crate) struct HintBroker {
    executors: Mutex<HashMap<ExecutorName, WatchingExecutor>>,
}

/// An executor that watches for hints at this judicator, and an estimate of how many tasks it could take.
#[derive(Default)]
struct WatchingExecutor {
    /// An estimate of how many more tasks it could take.
    vacant: usize,
    /// It got a hint since its last report, so a report is on its way.
    hinted: bool,
    /// Never empty. More than one for a moment when the executor reconnects, or when another executor uses the same
    /// name; the other must not take the hints away.
    subscriptions: Vec<HintSubscription>,
}

/// An open stream on which this judicator sends an executor hints that there is work.
#[derive(Clone)]
struct HintSubscription {
    session: SessionId,
    wake: Arc<Notify>,
}

impl HintBroker {
    /// Called before the report claims tasks, so that a task added meanwhile still produces a hint. An executor that does
    /// not watch yet gets a hint when it begins to.
    pub(crate) fn on_report(&self, executor: &ExecutorName, vacant: u32) {
        if let Some(watching) = self.lock().get_mut(executor) {
            watching.vacant = vacant as usize;
            watching.hinted = false;
        }
    }

    /// Called after the report was answered with this many tasks.
    pub(crate) fn on_assigned(&self, executor: &ExecutorName, tasks: usize) {
        if let Some(watching) = self.lock().get_mut(executor) {
            watching.vacant = watching.vacant.saturating_sub(tasks);
        }
    }

    /// This many tasks joined the queue.
    pub(crate) fn on_tasks_queued(&self, mut tasks: usize) {
        let mut executors = self.lock();
        let mut candidates: Vec<_> = executors
            .values_mut()
            .filter(|watching| watching.vacant > 0 && !watching.hinted)
            .collect();
        // Executors with the most free slots first: this spreads the work and needs few hints.
        candidates.sort_unstable_by_key(|watching| std::cmp::Reverse(watching.vacant));
        for watching in candidates {
            if tasks == 0 {
                break;
            }
            watching.wake();
            tasks = tasks.saturating_sub(watching.vacant);
        }
    }

    /// The executor has an attempt that it must stop.
    pub(crate) fn on_attempt_revoked(&self, executor: &ExecutorName) {
        if let Some(watching) = self.lock().get_mut(executor) {
            watching.wake();
        }
    }

    /// Events were lost, so every executor gets a hint: it may take tasks, or may have to stop some.
    pub(crate) fn on_events_lost(&self) {
        self.lock().values_mut().for_each(WatchingExecutor::wake);
    }

    /// The session has ended. The subscriptions stay, because one may belong to the next session of this executor.
    pub(crate) fn on_session_ended(&self, executor: &ExecutorName) {
        if let Some(watching) = self.lock().get_mut(executor) {
            watching.vacant = 0;
        }
    }

    /// Opens a stream of hints. It begins with a hint, because something may have happened before.
    pub(crate) fn watch(self: &Arc<Self>, executor: ExecutorName, session: SessionId) -> HintStream {
        let wake = Arc::new(Notify::new());
        wake.notify_one();
        let subscription = HintSubscription {
            session,
            wake: wake.clone(),
        };
        self.lock()
            .entry(executor.clone())
            .or_default()
            .subscriptions
            .push(subscription);
        let guard = SubscriptionGuard {
            hints: self.clone(),
            executor,
            wake: wake.clone(),
        };
        futures::stream::unfold((wake, guard), |(wake, guard)| async move {
            wake.notified().await;
            Some((Ok(()), (wake, guard)))
        })
        .boxed()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutorName, WatchingExecutor>> {
        self.executors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchingExecutor {
    fn wake(&mut self) {
        for subscription in &self.subscriptions {
            tracing::trace!(session = %subscription.session, "sending a hint");
            self.hinted = true;
            subscription.wake.notify_one();
        }
    }
}

/// A guard in an executor's stream of hints that removes its subscription when the stream is dropped. With the last
/// subscription it removes the executor.
struct SubscriptionGuard {
    hints: Arc<HintBroker>,
    executor: ExecutorName,
    wake: Arc<Notify>,
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        let mut executors = self.hints.lock();
        if let Some(watching) = executors.get_mut(&self.executor) {
            watching
                .subscriptions
                .retain(|subscription| !Arc::ptr_eq(&subscription.wake, &self.wake));
            if watching.subscriptions.is_empty() {
                executors.remove(&self.executor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn name(text: &str) -> ExecutorName {
        ExecutorName::new(text).unwrap()
    }

    fn has_hint(stream: &mut HintStream) -> bool {
        stream.next().now_or_never().is_some()
    }

    #[test]
    fn as_many_executors_get_a_hint_as_the_work_needs() {
        let hints = Arc::new(HintBroker::default());
        let mut streams: Vec<_> = [("a", 4), ("b", 2), ("c", 0)]
            .into_iter()
            .map(|(executor, vacant)| {
                let mut stream = hints.watch(name(executor), SessionId(uuid::Uuid::now_v7()));
                assert!(has_hint(&mut stream), "a new stream begins with a hint");
                hints.on_report(&name(executor), vacant);
                stream
            })
            .collect();
        let mut check = |expected: [bool; 3]| {
            let found: Vec<_> = streams.iter_mut().map(has_hint).collect();
            assert_eq!(found, expected);
        };
        hints.on_tasks_queued(3);
        check([true, false, false]);
        hints.on_tasks_queued(1); // `a` has a hint already
        check([false, true, false]);
        hints.on_report(&name("a"), 4);
        hints.on_assigned(&name("a"), 4);
        hints.on_report(&name("b"), 2);
        hints.on_tasks_queued(9);
        check([false, true, false]);
        hints.on_attempt_revoked(&name("c"));
        check([false, false, true]);
        hints.on_events_lost();
        check([true, true, true]);
    }

    #[test]
    fn dropping_an_old_stream_keeps_the_new_one() {
        let hints = Arc::new(HintBroker::default());
        let old = hints.watch(name("a"), SessionId(uuid::Uuid::now_v7()));
        hints.on_report(&name("a"), 1);
        let mut new = hints.watch(name("a"), SessionId(uuid::Uuid::now_v7()));
        drop(old);
        assert!(has_hint(&mut new));
        hints.on_tasks_queued(1);
        assert!(has_hint(&mut new));
    }

    #[test]
    fn a_second_executor_of_the_same_name_does_not_take_the_hints_away() {
        let hints = Arc::new(HintBroker::default());
        let mut first = hints.watch(name("a"), SessionId(uuid::Uuid::now_v7()));
        assert!(has_hint(&mut first));
        let second = hints.watch(name("a"), SessionId(uuid::Uuid::now_v7()));
        for _ in 0..2 {
            hints.on_report(&name("a"), 1);
            hints.on_tasks_queued(1);
            assert!(has_hint(&mut first));
        }
        drop(second);
        hints.on_session_ended(&name("a"));
        hints.on_report(&name("a"), 1);
        hints.on_tasks_queued(1);
        assert!(has_hint(&mut first));
    }

    #[test]
    fn an_executor_without_a_stream_is_forgotten() {
        let hints = Arc::new(HintBroker::default());
        let first = hints.watch(name("a"), SessionId(uuid::Uuid::now_v7()));
        let second = hints.watch(name("a"), SessionId(uuid::Uuid::now_v7()));
        drop(first);
        assert!(!hints.lock().is_empty());
        drop(second);
        assert!(hints.lock().is_empty());
        hints.on_report(&name("a"), 1);
        hints.on_events_lost();
        assert!(hints.lock().is_empty());
    }
}
