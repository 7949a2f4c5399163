//! A judicator on a SQLite store, and an executor that reports to it what the test tells it to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use judicator::{Judicator, JudicatorOptions};
use model::{
    AddTask, AttemptEnd, AttemptId, CapturedOutput, CompletedAttempt, ExecutingAttempt, ExecutorInfo,
    ExecutorName, ExecutorTools, GroupKey, GroupName, OfferedRoot, Outcome, OutcomeReason, Report,
    ReportAnswer, ReportInstructions, ReportIntent, ReportSeq, RootName, SessionId, StepCommand, TaskForm,
    TaskId, TaskResult, TaskSpec, TaskStatus, UserName,
};
use rpc::Calls;
use store::sqlite::{SqliteStore, SqliteStoreOptions};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::harness::{options, with_deadline};

/// A judicator on a SQLite store in a folder that the test owns.
pub(crate) struct SqliteJudicator {
    pub(crate) judicator: Arc<Judicator>,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl SqliteJudicator {
    pub(crate) fn start(folder: &Path) -> SqliteJudicator {
        SqliteJudicator::start_with(folder, options())
    }

    pub(crate) fn start_with(folder: &Path, options: JudicatorOptions) -> SqliteJudicator {
        let store = SqliteStore::open(folder, SqliteStoreOptions::default()).unwrap();
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let leading = watch::channel(true).1;
        let judicator = Judicator::start(options, Arc::new(store), leading, &tracker, &stop);
        SqliteJudicator {
            judicator,
            tracker,
            stop,
        }
    }

    /// Stops it and closes its store.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tracker.close();
        with_deadline(self.tracker.wait()).await;
        let judicator = Arc::downgrade(&self.judicator);
        drop(self.judicator);
        with_deadline(async {
            while judicator.strong_count() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

pub(crate) fn spec() -> TaskSpec {
    TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into()))
}

pub(crate) fn group_key(group: &str) -> GroupKey {
    GroupKey {
        user: spec().user,
        group: GroupName::new(group).unwrap(),
    }
}

/// Tools that consist of these roots.
pub(crate) fn roots(names: &[&str]) -> Arc<ExecutorTools> {
    let offered = |name: &&str| OfferedRoot {
        name: RootName::new(*name).unwrap(),
        sha256: None,
    };
    Arc::new(ExecutorTools::new(vec![], names.iter().map(offered).collect()))
}

pub(crate) fn new_id() -> TaskId {
    TaskId(uuid::Uuid::now_v7())
}

/// Adds this many tasks to the group.
pub(crate) async fn add_group(judicator: &Judicator, group: &str, count: usize) -> Vec<TaskId> {
    let task = || {
        let group = Some(GroupName::new(group).unwrap());
        AddTask::new(new_id(), TaskSpec { group, ..spec() })
    };
    let tasks: Vec<_> = std::iter::repeat_with(task).take(count).collect();
    let ids = tasks.iter().map(|task| task.id).collect();
    for batch in tasks.chunks(1000) {
        judicator.add(batch.to_vec()).await.unwrap();
    }
    ids
}

/// An executor's session that reports to a judicator exactly what the test tells it to.
pub(crate) struct ScriptedExecutor {
    judicator: Arc<Judicator>,
    pub(crate) name: ExecutorName,
    pub(crate) session: SessionId,
    seq: ReportSeq,
    held: Vec<ExecutingAttempt>,
    /// Reported by the next report, and not again.
    pub(crate) tools: Option<Arc<ExecutorTools>>,
    pub(crate) newest_form: TaskForm,
}

impl ScriptedExecutor {
    pub(crate) fn new(judicator: &Arc<Judicator>, name: &str) -> ScriptedExecutor {
        ScriptedExecutor {
            judicator: judicator.clone(),
            name: ExecutorName::new(name).unwrap(),
            session: SessionId(uuid::Uuid::now_v7()),
            seq: ReportSeq(0),
            held: vec![],
            tools: None,
            newest_form: TaskForm::NEWEST,
        }
    }

    async fn report(&mut self, complete: Vec<CompletedAttempt>, vacant: u32) -> ReportInstructions {
        let acked = self.seq;
        self.seq = self.seq.next();
        let report = Report {
            executor: self.name.clone(),
            session: self.session,
            seq: self.seq,
            acked,
            succeeds: None,
            complete,
            executing: self.held.clone(),
            vacant,
            executor_info: ExecutorInfo {
                slots: 4,
                host: "here".into(),
                version: "1".into(),
                self_kill: Duration::from_secs(1),
                capacity: None,
                newest_form: self.newest_form,
                tools: self.tools.take(),
                load: None,
            },
            intent: ReportIntent::Stay,
        };
        match self.judicator.report(report).await.unwrap() {
            ReportAnswer::Done(instructions) => instructions,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn claim(&mut self, vacant: u32) -> Vec<AttemptId> {
        let instructions = self.report(vec![], vacant).await;
        let assigned = instructions.assign.iter().map(|one| one.attempt_id);
        let assigned: Vec<_> = assigned.collect();
        self.held
            .extend(assigned.iter().map(|attempt_id| ExecutingAttempt {
                attempt_id: *attempt_id,
                status: None,
            }));
        assigned
    }

    pub(crate) async fn claim_one(&mut self) -> AttemptId {
        let assigned = self.claim(1).await;
        assert_eq!(assigned.len(), 1, "one task was waiting");
        assigned[0]
    }

    pub(crate) async fn report_status(&mut self, status: TaskStatus) {
        for held in &mut self.held {
            held.status = Some(status);
        }
        self.report(vec![], 0).await;
    }

    /// Returns all tasks to the queue, as an executor that stops in order does.
    pub(crate) async fn give_back(&mut self) {
        self.held.clear();
        self.report(vec![], 0).await;
    }

    /// Ends the attempts; their programs exit with this code.
    pub(crate) async fn finish(&mut self, attempts: &[AttemptId], exit_code: i32) {
        self.held.retain(|held| !attempts.contains(&held.attempt_id));
        let complete = |attempt_id: &AttemptId| CompletedAttempt {
            attempt_id: *attempt_id,
            form: TaskForm::CURRENT,
            end: AttemptEnd::Result(result(exit_code)),
        };
        self.report(attempts.iter().map(complete).collect(), 0).await;
    }
}

fn result(exit_code: i32) -> TaskResult {
    TaskResult {
        execute: Some(Outcome {
            reason: OutcomeReason::Exited,
            exit_code: Some(exit_code),
            signal: None,
            wall: Duration::from_millis(1),
            cpu: Duration::from_millis(1),
            memory: 1,
            stdout: CapturedOutput::default(),
            stderr: CapturedOutput::default(),
        }),
        ..TaskResult::default()
    }
}
