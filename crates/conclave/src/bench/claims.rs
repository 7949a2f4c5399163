//! How long a claim takes, as an executor elsewhere sees it: a report by RPC that asks for work.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use model::{
    Answer, Assignment, Captured, Complete, End, ExecutorName, Intent, Outcome, Presence, Reason, Report,
    ReportAnswer, Seq, SessionId, TaskResult,
};
use rpc::Calls;
use serde::Serialize;

use super::spread::percentile;

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Claims {
    pub(crate) backlog: usize,
    pub(crate) one_p50_seconds: f64,
    pub(crate) sixteen_p50_seconds: f64,
    #[serde(skip)]
    pub(super) claimed: usize,
}

/// Few enough that even the smallest backlog is not used up.
const ROUNDS: usize = 40;
const MANY: u32 = 16;

pub(super) async fn measure(rpc: &str, backlog: usize) -> Result<Claims> {
    let mut executor = Executor::new(rpc)?;
    // The first report opens the session and the connection.
    executor.report(Vec::new(), 0, Intent::Stay).await?;
    let one_p50 = executor.claim(1).await?;
    let sixteen_p50 = executor.claim(MANY).await?;
    executor.report(Vec::new(), 0, Intent::Leave).await?;
    Ok(Claims {
        backlog,
        one_p50_seconds: one_p50.as_secs_f64(),
        sixteen_p50_seconds: sixteen_p50.as_secs_f64(),
        claimed: ROUNDS * (1 + MANY as usize),
    })
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

    /// The median time of a report that is given this many tasks.
    async fn claim(&mut self, vacant: u32) -> Result<Duration> {
        let mut spans = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let answer = self.report(Vec::new(), vacant, Intent::Stay).await?;
            spans.push(began.elapsed());
            ensure!(
                answer.assign.len() == vacant as usize,
                "a report that asked for {vacant} tasks was given {}",
                answer.assign.len()
            );
            // Finished in a report of their own, so that only the claim is timed.
            self.report(answer.assign.iter().map(finished).collect(), 0, Intent::Stay)
                .await?;
        }
        Ok(percentile(&mut spans, 50))
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
