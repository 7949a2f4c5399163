//! Whom to wake when there is work: as many executors as it takes, not all of them.
//!
//! An executor is known here for as long as it watches. What is kept is a guess at how many tasks it could take;
//! a wrong guess costs a report in vain or a short wait for the next heartbeat, never a task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use model::{ExecutorName, SessionId};
use rpc::HintStream;
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Hints {
    executors: Mutex<HashMap<ExecutorName, Hungry>>,
}

#[derive(Default)]
struct Hungry {
    vacant: usize,
    /// Woken since its last report: it is on its way.
    hinted: bool,
    /// Never none. More than one for a moment, when it has connected anew, or when another tries to take its name:
    /// that one must not take its hints away.
    watches: Vec<Watch>,
}

#[derive(Clone)]
struct Watch {
    session: SessionId,
    wake: Arc<Notify>,
}

impl Hints {
    /// Called before the report claims: work that is added while it does must find the executor hungry. One that
    /// does not watch yet is told to report again when it does.
    pub(crate) fn on_report(&self, executor: &ExecutorName, vacant: u32) {
        if let Some(hungry) = self.lock().get_mut(executor) {
            hungry.vacant = vacant as usize;
            hungry.hinted = false;
        }
    }

    /// Called after the report was answered with this many tasks.
    pub(crate) fn on_assigned(&self, executor: &ExecutorName, tasks: usize) {
        if let Some(hungry) = self.lock().get_mut(executor) {
            hungry.vacant = hungry.vacant.saturating_sub(tasks);
        }
    }

    /// This many tasks wait.
    pub(crate) fn on_work(&self, mut tasks: usize) {
        let mut executors = self.lock();
        let mut hungry: Vec<_> = executors
            .values_mut()
            .filter(|hungry| hungry.vacant > 0 && !hungry.hinted)
            .collect();
        // The emptiest first: work spreads, and few are woken.
        hungry.sort_unstable_by_key(|hungry| std::cmp::Reverse(hungry.vacant));
        for hungry in hungry {
            if tasks == 0 {
                break;
            }
            hungry.wake();
            tasks = tasks.saturating_sub(hungry.vacant);
        }
    }

    /// The executor has a task that it should stop.
    pub(crate) fn on_withdrawn(&self, executor: &ExecutorName) {
        if let Some(hungry) = self.lock().get_mut(executor) {
            hungry.wake();
        }
    }

    /// Changes were missed: whoever could take work, or might have to stop some, looks for itself.
    pub(crate) fn on_lost_history(&self) {
        self.lock().values_mut().for_each(Hungry::wake);
    }

    /// Its session is over. Who watches still may be its successor, who waited for that.
    pub(crate) fn forget(&self, executor: &ExecutorName) {
        if let Some(hungry) = self.lock().get_mut(executor) {
            hungry.vacant = 0;
        }
    }

    /// A stream of hints that begins with one: something may have happened before the executor watched.
    pub(crate) fn watch(self: &Arc<Self>, executor: ExecutorName, session: SessionId) -> HintStream {
        let wake = Arc::new(Notify::new());
        wake.notify_one();
        let watch = Watch {
            session,
            wake: wake.clone(),
        };
        self.lock()
            .entry(executor.clone())
            .or_default()
            .watches
            .push(watch);
        let guard = WatchGuard {
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

    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutorName, Hungry>> {
        self.executors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hungry {
    fn wake(&mut self) {
        for watch in &self.watches {
            tracing::trace!(session = %watch.session, "hint");
            self.hinted = true;
            watch.wake.notify_one();
        }
    }
}

/// Takes the watch off the list when its stream is dropped, and with the last one all that is known of the executor.
struct WatchGuard {
    hints: Arc<Hints>,
    executor: ExecutorName,
    wake: Arc<Notify>,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let mut executors = self.hints.lock();
        if let Some(hungry) = executors.get_mut(&self.executor) {
            hungry
                .watches
                .retain(|watch| !Arc::ptr_eq(&watch.wake, &self.wake));
            if hungry.watches.is_empty() {
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

    fn woken(stream: &mut HintStream) -> bool {
        stream.next().now_or_never().is_some()
    }

    #[test]
    fn as_many_are_woken_as_there_is_work_for() {
        let hints = Arc::new(Hints::default());
        let mut streams: Vec<_> = [("a", 4), ("b", 2), ("c", 0)]
            .into_iter()
            .map(|(executor, vacant)| {
                let mut stream = hints.watch(name(executor), SessionId::generate());
                assert!(woken(&mut stream), "a new watch begins with a hint");
                hints.on_report(&name(executor), vacant);
                stream
            })
            .collect();
        let mut check = |expected: [bool; 3]| {
            let found: Vec<_> = streams.iter_mut().map(woken).collect();
            assert_eq!(found, expected);
        };
        hints.on_work(3);
        check([true, false, false]);
        hints.on_work(1); // a is on its way already
        check([false, true, false]);
        hints.on_report(&name("a"), 4);
        hints.on_assigned(&name("a"), 4);
        hints.on_report(&name("b"), 2);
        hints.on_work(9);
        check([false, true, false]);
        hints.on_withdrawn(&name("c"));
        check([false, false, true]);
        hints.on_lost_history();
        check([true, true, true]);
    }

    #[test]
    fn a_dropped_watch_does_not_take_its_successor_along() {
        let hints = Arc::new(Hints::default());
        let old = hints.watch(name("a"), SessionId::generate());
        hints.on_report(&name("a"), 1);
        let mut new = hints.watch(name("a"), SessionId::generate());
        drop(old);
        assert!(woken(&mut new));
        hints.on_work(1);
        assert!(woken(&mut new));
    }

    #[test]
    fn one_who_wants_the_same_name_does_not_take_the_hints_away() {
        let hints = Arc::new(Hints::default());
        let mut first = hints.watch(name("a"), SessionId::generate());
        assert!(woken(&mut first));
        let second = hints.watch(name("a"), SessionId::generate());
        for _ in 0..2 {
            hints.on_report(&name("a"), 1);
            hints.on_work(1);
            assert!(woken(&mut first));
        }
        drop(second);
        hints.forget(&name("a"));
        hints.on_report(&name("a"), 1);
        hints.on_work(1);
        assert!(woken(&mut first));
    }

    #[test]
    fn nothing_is_kept_of_whoever_does_not_watch() {
        let hints = Arc::new(Hints::default());
        let first = hints.watch(name("a"), SessionId::generate());
        let second = hints.watch(name("a"), SessionId::generate());
        drop(first);
        assert!(!hints.lock().is_empty());
        drop(second);
        assert!(hints.lock().is_empty());
        hints.on_report(&name("a"), 1);
        hints.on_lost_history();
        assert!(hints.lock().is_empty());
    }
}
