//! How long a claim takes, as an executor elsewhere sees it: a report by RPC that asks for work.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use model::{
    Answer, Assignment, Captured, Complete, End, ExecutorName, Intent, Outcome, Presence, Reason, Report,
    ReportAnswer, Seq, SessionId, TaskResult,
};
use rpc::Calls;
use serde::Serialize;

use super::backlog::Backlog;
use super::spread::percentile;

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Claims {
    pub(crate) backlog: usize,
    pub(crate) one_p50_seconds: f64,
    pub(crate) sixteen_p50_seconds: f64,
}

/// Few enough that even the smallest backlog is not used up.
const ROUNDS: usize = 50;
const MANY: u32 = 16;

/// How many tasks a measurement takes from each backlog.
pub(super) const TAKEN: usize = ROUNDS * (1 + MANY as usize);

/// Takes from every backlog in turn, so that whatever else the machine does meets them all alike and only the
/// backlog makes a difference.
pub(super) async fn measure(backlogs: &[Backlog]) -> Result<Vec<Claims>> {
    let mut executors = Vec::new();
    for backlog in backlogs {
        let mut executor = Executor::new(&backlog.server.rpc)?;
        // The first report opens the session and the connection.
        executor.report(Vec::new(), 0, Intent::Stay).await?;
        executors.push(executor);
    }
    let (mut one, mut sixteen) = (vec![Vec::new(); backlogs.len()], vec![Vec::new(); backlogs.len()]);
    for _ in 0..ROUNDS {
        for (index, executor) in executors.iter_mut().enumerate() {
            one[index].push(executor.claim(1).await?);
            sixteen[index].push(executor.claim(MANY).await?);
        }
    }
    for executor in &mut executors {
        executor.report(Vec::new(), 0, Intent::Leave).await?;
    }
    let claims = backlogs.iter().zip(one.iter_mut().zip(&mut sixteen));
    let claims = claims.map(|(backlog, (one, sixteen))| Claims {
        backlog: backlog.tasks,
        one_p50_seconds: percentile(one, 50).as_secs_f64(),
        sixteen_p50_seconds: percentile(sixteen, 50).as_secs_f64(),
    });
    Ok(claims.collect())
}

/// An executor that finishes whatever it is given without running it.
struct Executor {
    calls: rpc::Client,
    name: ExecutorName,
    session: SessionId,
    seq: Seq,
}

impl Executor {
    fn new(rpc: &str) -> Result<Executor> {
        let judicators = registry::local::given(vec![rpc.to_string()]).judicators;
        Ok(Executor {
            calls: rpc::Client::new(judicators, None),
            name: ExecutorName::new("bench")?,
            session: SessionId::generate(),
            seq: Seq(0),
        })
    }

    /// The time of a report that is given this many tasks.
    async fn claim(&mut self, vacant: u32) -> Result<Duration> {
        let began = Instant::now();
        let answer = self.report(Vec::new(), vacant, Intent::Stay).await?;
        let took = began.elapsed();
        ensure!(
            answer.assign.len() == vacant as usize,
            "a report that asked for {vacant} tasks was given {}",
            answer.assign.len()
        );
        // Finished in a report of their own, so that only the claim is timed.
        self.report(answer.assign.iter().map(finished).collect(), 0, Intent::Stay)
            .await?;
        Ok(took)
    }

    async fn report(&mut self, complete: Vec<Complete>, vacant: u32, intent: Intent) -> Result<Answer> {
        let acked = self.seq;
        self.seq = self.seq.next();
        let report = Report {
            executor: self.name.clone(),
            session: self.session,
            seq: self.seq,
            acked,
            succeeds: None,
            complete,
            executing: Vec::new(),
            vacant,
            presence: Presence {
                slots: MANY,
                host: "bench".to_string(),
                version: env!("CARGO_PKG_VERSION").to_string(),
                self_kill: std::time::Duration::from_secs(7),
                capacity: None,
            },
            intent,
        };
        match self.calls.report(report).await? {
            ReportAnswer::Done(answer) => Ok(answer),
            refused => bail!("the report of the bench's executor was refused: {refused:?}"),
        }
    }
}

fn finished(assignment: &Assignment) -> Complete {
    let outcome = Outcome {
        reason: Reason::Exited,
        exit_code: Some(0),
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: Captured::default(),
        stderr: Captured::default(),
    };
    Complete {
        handout: assignment.handout,
        end: End::Result(TaskResult {
            compile: None,
            execute: Some(outcome),
        }),
    }
}
