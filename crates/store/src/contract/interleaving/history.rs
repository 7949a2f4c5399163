//! Runs a history on the store and on the reference implementation.

use std::sync::Arc;

use model::{
    GroupKey, GroupName, Report, ReportAnswer, ReportIntent, ReportSeq, StatusCounts, TaskId, TaskQuery,
    TaskSpec, TaskStatus,
};

use super::invariants::InvariantChecker;
use super::reference_store::{ExpectedAnswer, ReferenceStore, ReferenceTask};
use super::simulated_executor::SimulatedExecutor;
use super::{AttemptAction, Delivery, EXECUTORS, GROUPS, HistoryEvent, KEYS, REQUIREMENTS};
use crate::contract::MAX_ATTEMPTS;
use crate::contract::fixtures::{counted, get_task, new_task, requiring, task_spec, tools};
use crate::{ObservedSession, TaskStore, TaskTotals};

/// The runner of one random history in the store test: applies each event to the store and to the reference store. It
/// compares their answers and passes those of the store to the invariant checker.
pub(super) struct HistoryRunner {
    store: Arc<dyn TaskStore>,
    reference: ReferenceStore,
    invariants: InvariantChecker,
    executors: Vec<SimulatedExecutor>,
}

impl HistoryRunner {
    pub(super) fn new(store: Arc<dyn TaskStore>) -> HistoryRunner {
        HistoryRunner {
            store,
            reference: ReferenceStore::default(),
            invariants: InvariantChecker::default(),
            executors: (0..EXECUTORS).map(SimulatedExecutor::new).collect(),
        }
    }

    pub(super) async fn apply(&mut self, event: HistoryEvent) {
        match event {
            HistoryEvent::Add {
                count,
                priority,
                group,
                requires,
            } => {
                let mut spec = requires.map_or_else(task_spec, |number| requiring(REQUIREMENTS[number]));
                spec.priority = priority;
                spec.group = (group < GROUPS).then(|| group_name(group));
                self.add(count, spec).await;
            }
            HistoryEvent::ChangeTools { executor, keys } => {
                let keys: Vec<_> = keys.iter().map(|number| KEYS[*number]).collect();
                self.executors[executor].change_tools(tools(&keys));
            }
            HistoryEvent::Retry { task } => self.retry(task).await,
            HistoryEvent::Cancel { task } => self.cancel(task).await,
            HistoryEvent::CancelMany { first, count } => self.cancel_many(first, count).await,
            HistoryEvent::Report {
                executor,
                vacant,
                actions,
                delivery,
            } => {
                self.executors[executor].perform(&actions);
                let report = self.executors[executor].report(vacant, ReportIntent::Stay);
                self.send(executor, report, delivery).await;
            }
            HistoryEvent::LateReport { executor, back } => self.deliver_late(executor, back).await,
            HistoryEvent::Restart { executor, spool } => self.executors[executor].restart(spool),
            HistoryEvent::Leave { executor } => {
                let report = self.executors[executor].report(0, ReportIntent::Leave);
                self.send(executor, report, Delivery::Arrives).await;
            }
            HistoryEvent::Expire { executor, behind } => self.expire(executor, behind).await,
        }
        self.check().await;
    }

    /// Expires all sessions. Then one reliable executor must bring every task to a terminal status.
    pub(super) async fn drain(&mut self) {
        for observed in self.store.live_sessions().await.unwrap() {
            self.reference.expire(&observed);
            self.store
                .expire(observed)
                .await
                .unwrap()
                .expect("no executor reports meanwhile");
        }
        let mut reliable = SimulatedExecutor::new(EXECUTORS);
        reliable.change_tools(tools(&KEYS));
        self.executors.push(reliable);
        let rounds = self.reference.tasks.len() + MAX_ATTEMPTS as usize;
        for _ in 0..=rounds {
            let report = self.executors[EXECUTORS].report(5, ReportIntent::Stay);
            self.send(EXECUTORS, report, Delivery::Arrives).await;
            self.executors[EXECUTORS].perform(&[AttemptAction::Succeed]);
        }
        self.check().await;
        for task in &self.reference.tasks {
            let found = get_task(&*self.store, task.id).await;
            assert!(found.status.is_done(), "the task does not end: {found:?}");
        }
        assert_eq!(self.store.totals().await.unwrap().held, 0);
        self.invariants.check_commits();
    }

    async fn add(&mut self, count: usize, spec: TaskSpec) {
        let tasks: Vec<_> = (0..count).map(|_| new_task(spec.clone())).collect();
        let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
        self.store.add(tasks.clone()).await.unwrap();
        // The client repeats the call, as if it had lost the answer.
        assert!(
            self.store
                .add(tasks)
                .await
                .unwrap()
                .iter()
                .all(|added| added.existed)
        );
        ids.into_iter().for_each(|id| self.reference.add(id, &spec));
    }

    async fn retry(&mut self, task: usize) {
        let count = self.reference.tasks.len();
        if count > 0 {
            let repeated = &self.reference.tasks[task % count];
            let mut spec = task_spec();
            spec.group = repeated.group.clone();
            spec.retry_of = Some(repeated.id);
            self.add(1, spec).await;
        }
    }

    async fn cancel_many(&mut self, first: usize, count: usize) {
        let tasks = self.reference.tasks.iter().skip(first).take(count);
        let ids: Vec<_> = tasks.clone().map(|task| task.id).collect();
        let expected = tasks.filter(|task| !task.status.is_done()).count();
        for index in first..first + ids.len() {
            self.reference.cancel(index);
        }
        assert_eq!(self.store.cancel_many(ids).await.unwrap(), expected as u64);
    }

    async fn cancel(&mut self, task: usize) {
        let count = self.reference.tasks.len();
        if count > 0 {
            let index = task % count;
            self.reference.cancel(index);
            self.store
                .cancel(self.reference.tasks[index].id)
                .await
                .unwrap()
                .unwrap();
        }
    }

    async fn send(&mut self, executor: usize, report: Report, delivery: Delivery) {
        match delivery {
            Delivery::ReportLost => {}
            Delivery::AnswerLost => drop(self.deliver(&report).await),
            Delivery::Arrives => {
                let answer = self.deliver(&report).await;
                self.executors[executor].receive(&report, &answer);
            }
        }
    }

    async fn deliver_late(&mut self, executor: usize, back: usize) {
        let sent = &self.executors[executor].sent;
        if let Some(report) = sent.iter().rev().nth(back).cloned() {
            self.deliver(&report).await;
        }
    }

    async fn deliver(&mut self, report: &Report) -> ReportAnswer {
        let reported = self.store.report(report.clone()).await.unwrap();
        let expected = self.reference.report(report);
        assert_eq!(ExpectedAnswer::of(&reported.answer), expected, "{report:?}");
        if let ReportAnswer::Done(answer) = &reported.answer {
            for assignment in &answer.assign {
                let same = |task: &&ReferenceTask| task.id == assignment.attempt_id.task;
                let task = self.reference.tasks.iter().find(same).unwrap();
                assert_eq!(assignment.platform_losses, task.platform_losses, "{task:?}");
            }
        }
        self.invariants.check_report(report, &reported);
        reported.answer
    }

    async fn expire(&mut self, executor: usize, behind: u64) {
        let executor = &self.executors[executor];
        let observed = ObservedSession {
            executor: executor.name.clone(),
            session: executor.session,
            seq: ReportSeq(executor.seq.0.saturating_sub(behind)),
        };
        let expected = self.reference.expire(&observed);
        assert_eq!(self.store.expire(observed).await.unwrap(), expected);
    }

    /// Compares every task with the reference, and the totals with the tasks.
    async fn check(&mut self) {
        let mut counts: StatusCounts = TaskStatus::ALL.into_iter().map(|status| (status, 0)).collect();
        let mut held = 0;
        for expected in &self.reference.tasks {
            let found = get_task(&*self.store, expected.id).await;
            let holder = found.executor.clone().zip(found.session);
            assert_eq!(
                (found.status, &holder, found.attempt, &found.result),
                (
                    expected.status,
                    &expected.holder,
                    expected.attempt,
                    &expected.result
                ),
                "{found:?}"
            );
            *counts.get_mut(&found.status).unwrap() += 1;
            held += u64::from(holder.is_some());
            self.invariants.check_task(&found);
        }
        assert_eq!(self.store.totals().await.unwrap(), TaskTotals { counts, held });
        self.check_groups().await;
        let page = self
            .store
            .search(TaskQuery {
                limit: 1000,
                ..TaskQuery::default()
            })
            .await
            .unwrap();
        assert_eq!(page.tasks.len(), self.reference.tasks.len());
    }

    /// Compares the counters of each group with the tasks.
    async fn check_groups(&self) {
        for number in 0..GROUPS {
            let group = group_name(number);
            let user = task_spec().user;
            let key = GroupKey {
                user,
                group: group.clone(),
            };
            let found = self.store.group(key).await.unwrap();
            let found = found.map(|state| (counted(&state.counts), state.reasons));
            assert_eq!(
                found.unwrap_or_default(),
                self.reference.count_group(&group),
                "{group}"
            );
        }
    }
}

fn group_name(number: usize) -> GroupName {
    GroupName::new(format!("group {number}")).unwrap()
}
