//! An executor to test with: it keeps the protocol, and says exactly what the test makes it say.

use std::sync::Arc;

use model::{
    Answer, Assignment, Capacity, Complete, End, Executing, ExecutorName, Handout, Intent, Presence, Report,
    ReportAnswer, Seq, SessionId, Status, TaskId, TaskResult,
};

use crate::{Reported, SessionSeen, TaskStore};

pub const CAPACITY: Capacity = Capacity {
    memory: 3 << 30,
    processes: 700,
    open_files: u64::MAX >> 1,
};

pub struct Worker {
    store: Arc<dyn TaskStore>,
    pub name: ExecutorName,
    pub session: SessionId,
    pub seq: Seq,
    pub acked: Seq,
    pub running: Vec<Executing>,
    pub capacity: Option<Capacity>,
}

impl Worker {
    pub fn new(store: &Arc<dyn TaskStore>, name: &str) -> Worker {
        Worker {
            store: store.clone(),
            name: ExecutorName::new(name).unwrap(),
            session: SessionId::generate(),
            seq: Seq(0),
            acked: Seq(0),
            running: vec![],
            capacity: Some(CAPACITY),
        }
    }

    /// The next report, which says nothing new.
    pub fn next_report(&mut self) -> Report {
        self.seq = self.seq.next();
        Report {
            executor: self.name.clone(),
            session: self.session,
            seq: self.seq,
            acked: self.acked,
            succeeds: None,
            complete: vec![],
            executing: self.running.clone(),
            vacant: 0,
            presence: Presence {
                slots: 4,
                host: format!("host-of-{}", self.name),
                version: "1".into(),
                self_kill: std::time::Duration::from_secs(7),
                capacity: self.capacity,
            },
            intent: Intent::Stay,
        }
    }

    /// Sends a report and takes its answer to heart.
    pub async fn deliver(&mut self, report: Report) -> Reported {
        let seq = report.seq;
        let reported = self.store.report(report).await.unwrap();
        let ReportAnswer::Done(answer) = &reported.answer else {
            panic!("the report was refused: {:?}", reported.answer);
        };
        self.acked = seq;
        self.running
            .retain(|running| !answer.delete.contains(&running.handout));
        self.running
            .extend(answer.assign.iter().map(|assignment| Executing {
                handout: assignment.handout,
                status: None,
            }));
        reported
    }

    /// Asks for up to `vacant` tasks.
    pub async fn claim(&mut self, vacant: u32) -> Vec<Assignment> {
        let report = Report {
            vacant,
            ..self.next_report()
        };
        done(self.deliver(report).await).assign
    }

    /// Asks for the one task that there is.
    pub async fn claim_one(&mut self) -> Handout {
        let assigned = self.claim(1).await;
        assert_eq!(assigned.len(), 1, "one task was waiting");
        assigned[0].handout
    }

    pub async fn end(&mut self, handout: Handout, end: End) -> Reported {
        self.running.retain(|running| running.handout != handout);
        let report = Report {
            complete: vec![Complete { handout, end }],
            ..self.next_report()
        };
        self.deliver(report).await
    }

    pub async fn finish(&mut self, handout: Handout, result: TaskResult) -> Reported {
        self.end(handout, End::Result(result)).await
    }

    /// Reports that the task has come to this status.
    pub async fn progress(&mut self, task: TaskId, status: Status) -> Answer {
        for running in &mut self.running {
            if running.handout.task == task {
                running.status = Some(status);
            }
        }
        let report = self.next_report();
        done(self.deliver(report).await)
    }

    /// As the leader sees this session.
    pub fn seen(&self) -> SessionSeen {
        SessionSeen {
            executor: self.name.clone(),
            session: self.session,
            seq: self.seq,
        }
    }

    /// The session is not heard of any more; the same name begins a new one.
    pub async fn die(&mut self) {
        let expired = self.store.expire(self.seen()).await.unwrap();
        assert!(expired.is_some(), "the session was live");
        *self = Worker::new(&self.store, self.name.as_str());
    }
}

pub fn done(reported: Reported) -> Answer {
    match reported.answer {
        ReportAnswer::Done(answer) => answer,
        other => panic!("the report was refused: {other:?}"),
    }
}
