//! An executor as it is meant to be: it spools its results, and forgets nothing before it is told to.

use model::{
    Attempt, Complete, End, Executing, ExecutorName, Handout, Intent, Presence, Report, ReportAnswer, Seq,
    SessionId, Status,
};

use super::{Act, Spool};
use crate::contract::sample::{marked, run_failure};

pub(super) struct Executor {
    pub(super) name: ExecutorName,
    pub(super) session: SessionId,
    succeeds: Option<SessionId>,
    pub(super) seq: Seq,
    acked: Seq,
    running: Vec<Executing>,
    spool: Vec<Complete>,
    /// Every report it ever sent, also those that have not arrived yet.
    pub(super) sent: Vec<Report>,
}

impl Executor {
    pub(super) fn new(index: usize) -> Executor {
        Executor {
            name: ExecutorName::new(format!("e{index}")).unwrap(),
            session: SessionId::generate(),
            succeeds: None,
            seq: Seq(0),
            acked: Seq(0),
            running: vec![],
            spool: vec![],
            sent: vec![],
        }
    }

    pub(super) fn act(&mut self, acts: &[Act]) {
        let mut left = vec![];
        for (index, mut running) in std::mem::take(&mut self.running).into_iter().enumerate() {
            match acts[index % acts.len()] {
                Act::Nothing => left.push(running),
                Act::Compile => {
                    running.status.get_or_insert(Status::Compiling);
                    left.push(running);
                }
                Act::Run => {
                    running.status = Some(Status::Running);
                    left.push(running);
                }
                Act::Succeed => self.complete(
                    running.handout,
                    End::Result(marked_by(&self.name, running.handout)),
                ),
                Act::Fail => self.complete(running.handout, End::Result(run_failure())),
                Act::Break => self.complete(running.handout, End::Broken("broken".into())),
                Act::PlatformFailure => {
                    self.complete(running.handout, End::PlatformFailure("no warden".into()));
                }
                Act::Forget => {}
            }
        }
        self.running = left;
    }

    pub(super) fn report(&mut self, vacant: u32, intent: Intent) -> Report {
        self.seq = self.seq.next();
        let report = Report {
            executor: self.name.clone(),
            session: self.session,
            seq: self.seq,
            acked: self.acked,
            succeeds: self.succeeds,
            complete: self.spool.clone(),
            executing: self.running.clone(),
            vacant,
            presence: Presence {
                slots: 4,
                host: "h".into(),
                version: "1".into(),
                self_kill: std::time::Duration::from_secs(7),
                capacity: None,
            },
            intent,
        };
        self.sent.push(report.clone());
        report
    }

    pub(super) fn hear(&mut self, report: &Report, answer: &ReportAnswer) {
        match answer {
            ReportAnswer::Done(answer) => {
                self.acked = report.seq;
                self.running
                    .retain(|running| !answer.delete.contains(&running.handout));
                self.spool
                    .retain(|complete| !answer.delete.contains(&complete.handout));
                let new = answer.assign.iter().map(|assignment| assignment.handout);
                self.running.extend(new.map(|handout| Executing {
                    handout,
                    status: None,
                }));
                if report.intent == Intent::Leave {
                    self.restart(Spool::Found);
                }
            }
            ReportAnswer::Ended => self.restart(Spool::Found),
            // Only a first report is told so; it is sent again, as a first one.
            ReportAnswer::Occupied { .. } => self.seq = Seq(0),
            ReportAnswer::Stale => {}
        }
    }

    pub(super) fn restart(&mut self, spool: Spool) {
        let former = self.session;
        self.session = SessionId::generate();
        self.seq = Seq(0);
        self.acked = Seq(0);
        self.running.clear();
        match spool {
            Spool::Found => self.succeeds = Some(former),
            Spool::Gone => {
                self.succeeds = None;
                self.spool.clear();
            }
        }
    }

    fn complete(&mut self, handout: Handout, end: End) {
        self.spool.push(Complete { handout, end });
    }
}

fn marked_by(name: &ExecutorName, handout: Handout) -> model::TaskResult {
    let Handout {
        session,
        attempt: Attempt(attempt),
        ..
    } = handout;
    marked(Attempt(attempt), &format!("{name} {session}"))
}
