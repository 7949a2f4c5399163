//! Sends hints to executors when there is work: to as many executors as needed, not to all.
//!
//! The broker knows an executor while that executor watches for hints. It estimates how many tasks each executor could
//! take. A wrong estimate costs an unnecessary report or a short wait for the next heartbeat, never a task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use model::{ExecutorDrain, ExecutorName, ExecutorState, ExecutorTools, Report, SessionId, ToolRequirement};
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
    /// According to the answer to its last report, it gets no tasks.
    drained: bool,
    /// The languages and roots that the executor has reported in a session. `None` while they are not known here.
    tools: Option<(SessionId, Arc<ExecutorTools>)>,
    /// Never empty. More than one for a moment when the executor reconnects, or when another executor uses the same
    /// name; the other must not take the hints away.
    subscriptions: Vec<HintSubscription>,
}

/// Whether an executor that watches for hints has the tools for a task, as far as this judicator knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolsMatch {
    Known,
    /// The executor has not reported its tools to this judicator since it began to watch.
    Unknown,
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
    pub(crate) fn on_report(&self, report: &Report) {
        if let Some(watching) = self.lock().get_mut(&report.executor) {
            watching.vacant = report.vacant as usize;
            watching.hinted = false;
            if report.executor_info.tools.is_some() {
                // Until the store has accepted them, the executor may have these or the earlier ones.
                watching.tools = None;
            }
        }
    }

    /// Called after the store has accepted a report with these tools.
    pub(crate) fn on_tools_reported(
        &self,
        executor: &ExecutorName,
        session: SessionId,
        tools: Arc<ExecutorTools>,
    ) {
        if let Some(watching) = self.lock().get_mut(executor) {
            watching.tools = Some((session, tools));
        }
    }

    /// Takes over what the store knows of executors that reported their tools to another judicator, or before they began to
    /// watch.
    pub(crate) fn on_executors_listed(&self, listed: &[ExecutorState]) {
        let mut executors = self.lock();
        for executor in listed {
            if let Some(watching) = executors.get_mut(&executor.name) {
                watching.tools = Some((executor.session, executor.tools.clone()));
            }
        }
    }

    /// Called after the report was answered with this many tasks, and the executor's drain.
    pub(crate) fn on_answered(&self, executor: &ExecutorName, tasks: usize, drain: Option<&ExecutorDrain>) {
        if let Some(watching) = self.lock().get_mut(executor) {
            watching.vacant = watching.vacant.saturating_sub(tasks);
            watching.drained = drain.is_some();
        }
    }

    /// The executor was drained, which it has to know, or resumed, so that it may take tasks at once.
    pub(crate) fn on_drain_changed(&self, executor: &ExecutorName) {
        if let Some(watching) = self.lock().get_mut(executor) {
            watching.drained = false;
            watching.wake();
        }
    }

    /// This many tasks with the requirement joined the queue.
    pub(crate) fn on_tasks_queued(&self, requires: &ToolRequirement, mut tasks: usize) {
        let mut executors = self.lock();
        let mut candidates: Vec<_> = executors
            .values_mut()
            .filter(|watching| watching.vacant > 0 && !watching.hinted && !watching.drained)
            .filter_map(|watching| Some((watching.tools_for(requires)?, watching)))
            .collect();
        // Executors with the most free slots first: this spreads the work and needs few hints.
        candidates.sort_unstable_by_key(|(_, watching)| std::cmp::Reverse(watching.vacant));
        for (tools, watching) in candidates {
            match tools {
                ToolsMatch::Known if tasks > 0 => {
                    watching.wake();
                    tasks = tasks.saturating_sub(watching.vacant);
                }
                ToolsMatch::Known => {}
                // It may lack the tools, so it gets a hint beside the executors that are known to have them.
                ToolsMatch::Unknown => watching.wake(),
            }
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
    /// `None` if the executor cannot take tasks with this requirement.
    fn tools_for(&self, requires: &ToolRequirement) -> Option<ToolsMatch> {
        if requires.is_none() {
            return Some(ToolsMatch::Known);
        }
        let is_current = |session: &SessionId| {
            let mut subscriptions = self.subscriptions.iter();
            subscriptions.any(|subscription| subscription.session == *session)
        };
        match &self.tools {
            Some((session, tools)) if is_current(session) => {
                tools.satisfy(requires).then_some(ToolsMatch::Known)
            }
            _ => Some(ToolsMatch::Unknown),
        }
    }

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
    use std::time::Duration;

    use futures::FutureExt;
    use model::{ExecutorInfo, LanguageName, OfferedLanguage, ReportIntent, ReportSeq, TaskForm};

    use super::*;

    fn name(text: &str) -> ExecutorName {
        ExecutorName::new(text).unwrap()
    }

    fn report(hints: &HintBroker, executor: &str, vacant: u32) {
        hints.on_report(&report_of(executor, vacant, None));
    }

    fn report_of(executor: &str, vacant: u32, tools: Option<Arc<ExecutorTools>>) -> Report {
        Report {
            executor: name(executor),
            session: SessionId(uuid::Uuid::from_u128(1)),
            seq: ReportSeq(1),
            acked: ReportSeq(0),
            succeeds: None,
            complete: vec![],
            executing: vec![],
            vacant,
            executor_info: ExecutorInfo {
                slots: 4,
                host: "h".into(),
                version: "1".into(),
                self_kill: Duration::from_secs(1),
                capacity: None,
                newest_form: TaskForm::NEWEST,
                tools,
                load: None,
            },
            intent: ReportIntent::Stay,
        }
    }

    fn queue(hints: &HintBroker, key: &str, tasks: usize) {
        hints.on_tasks_queued(&key.parse().unwrap(), tasks);
    }

    fn tools(languages: &[&str]) -> Arc<ExecutorTools> {
        let offered = |name: &&str| OfferedLanguage {
            root: None,
            name: LanguageName::new(*name).unwrap(),
            version: None,
        };
        let languages = languages.iter().map(offered).collect();
        Arc::new(ExecutorTools::new(languages, vec![]))
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
                report(&hints, executor, vacant);
                stream
            })
            .collect();
        let mut check = |expected: [bool; 3]| {
            let found: Vec<_> = streams.iter_mut().map(has_hint).collect();
            assert_eq!(found, expected);
        };
        queue(&hints, "/", 3);
        check([true, false, false]);
        queue(&hints, "/", 1); // `a` has a hint already
        check([false, true, false]);
        report(&hints, "a", 4);
        hints.on_answered(&name("a"), 4, None);
        report(&hints, "b", 2);
        queue(&hints, "/", 9);
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
        report(&hints, "a", 1);
        let mut new = hints.watch(name("a"), SessionId(uuid::Uuid::now_v7()));
        drop(old);
        assert!(has_hint(&mut new));
        queue(&hints, "/", 1);
        assert!(has_hint(&mut new));
    }

    #[test]
    fn a_second_executor_of_the_same_name_does_not_take_the_hints_away() {
        let hints = Arc::new(HintBroker::default());
        let mut first = hints.watch(name("a"), SessionId(uuid::Uuid::now_v7()));
        assert!(has_hint(&mut first));
        let second = hints.watch(name("a"), SessionId(uuid::Uuid::now_v7()));
        for _ in 0..2 {
            report(&hints, "a", 1);
            queue(&hints, "/", 1);
            assert!(has_hint(&mut first));
        }
        drop(second);
        hints.on_session_ended(&name("a"));
        report(&hints, "a", 1);
        queue(&hints, "/", 1);
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
        report(&hints, "a", 1);
        hints.on_events_lost();
        assert!(hints.lock().is_empty());
    }

    /// Of three executors, one has the language, one lacks it, and one has not reported its tools.
    #[test]
    fn a_hint_goes_to_executors_that_can_take_the_task() {
        let hints = Arc::new(HintBroker::default());
        let sessions = [1, 2, 3].map(|number| SessionId(uuid::Uuid::from_u128(number)));
        let mut streams: Vec<_> = ["lacks", "has", "new"]
            .into_iter()
            .zip(sessions)
            .map(|(executor, session)| hints.watch(name(executor), session))
            .collect();
        hints.on_tools_reported(&name("lacks"), sessions[0], tools(&["go"]));
        hints.on_tools_reported(&name("has"), sessions[1], tools(&["c", "go"]));
        let mut check = |key: &str, tasks: usize, expected: [bool; 3]| {
            streams.iter_mut().for_each(|stream| _ = has_hint(stream));
            for (executor, vacant) in [("lacks", 8), ("has", 1), ("new", 4)] {
                report(&hints, executor, vacant);
            }
            queue(&hints, key, tasks);
            let found: Vec<_> = streams.iter_mut().map(has_hint).collect();
            assert_eq!(found, expected, "{key}");
        };
        check("/c", 1, [false, true, true]);
        check("/r", 1, [false, false, true]);
        check("/", 1, [true, false, false]);
        // The store knows the tools of the third one, too.
        let mut listed = listed("new", sessions[2], tools(&["r"]));
        hints.on_executors_listed(std::slice::from_ref(&listed));
        check("/r", 1, [false, false, true]);
        check("/c", 1, [false, true, false]);
        // Tools of another session say nothing about this one.
        listed.session = sessions[0];
        hints.on_executors_listed(&[listed]);
        check("/c", 1, [false, true, true]);
        // A report with other tools is not answered yet.
        hints.on_report(&report_of("lacks", 8, Some(tools(&["c"]))));
        check("/c", 1, [true, true, true]);
        hints.on_tools_reported(&name("lacks"), sessions[0], tools(&["c"]));
        check("/c", 1, [true, false, true]);
        check("/c", 9, [true, true, true]);
    }

    /// A drained executor has free slots, but would get nothing.
    #[test]
    fn a_drained_executor_gets_no_hints_for_tasks() {
        let hints = Arc::new(HintBroker::default());
        let mut stream = hints.watch(name("e"), SessionId(uuid::Uuid::from_u128(1)));
        let drain = ExecutorDrain {
            reason: model::DrainReason::new("new disk").unwrap(),
            by: None,
            since: model::UnixTime(1),
        };
        let check = |stream: &mut HintStream, drain: Option<&ExecutorDrain>, expected: bool| {
            report(&hints, "e", 4);
            hints.on_answered(&name("e"), 0, drain);
            _ = has_hint(stream);
            queue(&hints, "/", 1);
            assert_eq!(has_hint(stream), expected);
            // While its next report is under way.
            report(&hints, "e", 4);
            queue(&hints, "/", 1);
            assert_eq!(has_hint(stream), expected);
        };
        check(&mut stream, None, true);
        check(&mut stream, Some(&drain), false);
        check(&mut stream, None, true);
        check(&mut stream, Some(&drain), false);
        hints.on_drain_changed(&name("e"));
        assert!(has_hint(&mut stream), "it was resumed");
    }

    fn listed(executor: &str, session: SessionId, tools: Arc<ExecutorTools>) -> ExecutorState {
        ExecutorState {
            name: name(executor),
            session,
            health: model::Health::Alive,
            slots: 1,
            tasks: 0,
            host: "h".into(),
            version: "1".into(),
            capacity: None,
            tools,
            drain: None,
            load: None,
            since: model::UnixTime(0),
            report_time: model::UnixTime(0),
        }
    }
}
