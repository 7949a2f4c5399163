//! A history in progress: the store, the reference beside it, and everyone who uses them.

use std::sync::Arc;

use model::{Counts, Intent, Query, Report, ReportAnswer, Seq, Status, TaskId};

use super::executor::Executor;
use super::reference::{Judged, RefTask, Reference};
use super::witness::Witness;
use super::{Act, EXECUTORS, Event, Fate};
use crate::contract::LOSSES;
use crate::contract::sample::{get, new, spec};
use crate::{SessionSeen, TaskStore, Totals};

pub(super) struct History {
    store: Arc<dyn TaskStore>,
    reference: Reference,
    witness: Witness,
    executors: Vec<Executor>,
}

impl History {
    pub(super) fn new(store: Arc<dyn TaskStore>) -> History {
        History {
            store,
            reference: Reference::default(),
            witness: Witness::default(),
            executors: (0..EXECUTORS).map(Executor::new).collect(),
        }
    }

    pub(super) async fn happen(&mut self, event: Event) {
        match event {
            Event::Add { count, priority } => self.add(count, priority).await,
            Event::Cancel { task } => self.cancel(task).await,
            Event::Report {
                executor,
                vacant,
                acts,
                fate,
            } => {
                self.executors[executor].act(&acts);
                let report = self.executors[executor].report(vacant, Intent::Stay);
                self.send(executor, report, fate).await;
            }
            Event::Late { executor, back } => self.arrive_late(executor, back).await,
            Event::Restart { executor, spool } => self.executors[executor].restart(spool),
            Event::Leave { executor } => {
                let report = self.executors[executor].report(0, Intent::Leave);
                self.send(executor, report, Fate::Arrives).await;
            }
            Event::Expire { executor, behind } => self.expire(executor, behind).await,
        }
        self.check().await;
    }

    /// Everybody comes to rest; then one executor that makes no mistakes must bring every task to its end.
    pub(super) async fn drain(&mut self) {
        for seen in self.store.live_sessions().await.unwrap() {
            self.reference.expire(&seen);
            self.store
                .expire(seen)
                .await
                .unwrap()
                .expect("nobody else moves it");
        }
        self.executors.push(Executor::new(EXECUTORS));
        let rounds = self.reference.tasks.len() + LOSSES as usize;
        for _ in 0..=rounds {
            let report = self.executors[EXECUTORS].report(5, Intent::Stay);
            self.send(EXECUTORS, report, Fate::Arrives).await;
            self.executors[EXECUTORS].act(&[Act::Succeed]);
        }
        self.check().await;
        for task in &self.reference.tasks {
            let found = get(&*self.store, task.id).await;
            assert!(found.status.done(), "it never ends: {found:?}");
        }
        assert_eq!(self.store.totals().await.unwrap().held, 0);
        self.witness.check_commits();
    }

    async fn add(&mut self, count: usize, priority: i32) {
        let mut spec = spec();
        spec.priority = priority;
        let tasks: Vec<_> = (0..count).map(|_| new(spec.clone())).collect();
        let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
        self.store.add(tasks.clone()).await.unwrap();
        // The answer was lost, so it is added again.
        assert!(
            self.store
                .add(tasks)
                .await
                .unwrap()
                .iter()
                .all(|added| added.existed)
        );
        ids.into_iter().for_each(|id| self.reference.add(id, priority));
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

    async fn send(&mut self, executor: usize, report: Report, fate: Fate) {
        match fate {
            Fate::Lost => {}
            Fate::AnswerLost => drop(self.deliver(&report).await),
            Fate::Arrives => {
                let answer = self.deliver(&report).await;
                self.executors[executor].hear(&report, &answer);
            }
        }
    }

    async fn arrive_late(&mut self, executor: usize, back: usize) {
        let sent = &self.executors[executor].sent;
        if let Some(report) = sent.iter().rev().nth(back).cloned() {
            self.deliver(&report).await;
        }
    }

    async fn deliver(&mut self, report: &Report) -> ReportAnswer {
        let reported = self.store.report(report.clone()).await.unwrap();
        let expected = self.reference.report(report);
        assert_eq!(Judged::of(&reported.answer), expected, "{report:?}");
        if let ReportAnswer::Done(answer) = &reported.answer {
            for assignment in &answer.assign {
                let same = |task: &&RefTask| task.id == assignment.handout.task;
                let task = self.reference.tasks.iter().find(same).unwrap();
                assert_eq!(assignment.platform_losses, task.platform_losses, "{task:?}");
            }
        }
        self.witness.saw_report(report, &reported);
        reported.answer
    }

    async fn expire(&mut self, executor: usize, behind: u64) {
        let executor = &self.executors[executor];
        let seen = SessionSeen {
            executor: executor.name.clone(),
            session: executor.session,
            seq: Seq(executor.seq.0.saturating_sub(behind)),
        };
        let expected = self.reference.expire(&seen);
        assert_eq!(self.store.expire(seen).await.unwrap(), expected);
    }

    /// Every task is as the reference has it, and the totals are what they sum up to.
    async fn check(&mut self) {
        let mut counts: Counts = Status::ALL.into_iter().map(|status| (status, 0)).collect();
        let mut held = 0;
        for expected in &self.reference.tasks {
            let found = get(&*self.store, expected.id).await;
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
            self.witness.saw_task(&found);
        }
        assert_eq!(self.store.totals().await.unwrap(), Totals { counts, held });
        let page = self
            .store
            .search(Query {
                limit: 1000,
                ..Query::default()
            })
            .await
            .unwrap();
        assert_eq!(page.tasks.len(), self.reference.tasks.len());
    }
}
