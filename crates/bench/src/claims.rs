//! How long a claim takes, as a remote executor sees it: a report over RPC that asks for tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use model::{
    Assignment, AttemptEnd, CapturedOutput, CompletedAttempt, ExecutorInfo, ExecutorName, ExecutorTools,
    LanguageName, OfferedLanguage, Outcome, OutcomeReason, Report, ReportAnswer, ReportInstructions,
    ReportIntent, ReportSeq, SessionId, TaskForm, TaskResult,
};
use rpc::Calls;
use serde::Serialize;
use tokio::sync::watch;

use crate::backlog::Backlog;
use crate::percentile::percentile;

/// A figure of the benchmark: median durations of an executor's claims of 1 and of 16 tasks from a backlog of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ClaimLatency {
    pub(crate) backlog: usize,
    /// How many more tasks wait for a root that no executor has.
    pub(crate) unclaimable: usize,
    pub(crate) one_p50_seconds: f64,
    pub(crate) sixteen_p50_seconds: f64,
}

/// Few enough that the smallest backlog does not run empty.
const ROUNDS: usize = 50;
const LARGE_CLAIM: u32 = 16;
const LANGUAGES: u32 = 40;

/// How many tasks a measurement claims from each backlog.
pub(crate) const CLAIMED_TASKS: usize = ROUNDS * (1 + LARGE_CLAIM as usize);

/// Claims from all backlogs in turn, so that other load on the machine slows all of them equally and only the size of the
/// backlog makes a difference.
pub(crate) async fn measure(backlogs: &[Backlog]) -> Result<Vec<ClaimLatency>> {
    let mut executors = Vec::new();
    for backlog in backlogs {
        let mut executor = ClaimingExecutor::new(&backlog.server.rpc_address)?;
        // The first report opens the session and the connection.
        executor.report(Vec::new(), 0, ReportIntent::Stay).await?;
        executors.push(executor);
    }
    let (mut one, mut sixteen) = (vec![Vec::new(); backlogs.len()], vec![Vec::new(); backlogs.len()]);
    for _ in 0..ROUNDS {
        for (index, executor) in executors.iter_mut().enumerate() {
            one[index].push(executor.claim(1).await?);
            sixteen[index].push(executor.claim(LARGE_CLAIM).await?);
        }
    }
    for executor in &mut executors {
        executor.report(Vec::new(), 0, ReportIntent::Leave).await?;
    }
    let claims = backlogs.iter().zip(one.iter_mut().zip(&mut sixteen));
    let claims = claims.map(|(backlog, (one, sixteen))| ClaimLatency {
        backlog: backlog.tasks,
        unclaimable: backlog.unclaimable,
        one_p50_seconds: percentile(one, 50).as_secs_f64(),
        sixteen_p50_seconds: percentile(sixteen, 50).as_secs_f64(),
    });
    Ok(claims.collect())
}

/// An RPC client of the benchmark that claims tasks as an executor does, and reports each as done without running it.
struct ClaimingExecutor {
    calls: rpc::RpcClient,
    name: ExecutorName,
    session: SessionId,
    seq: ReportSeq,
    /// Reported once, with the first report.
    tools: Option<Arc<ExecutorTools>>,
}

impl ClaimingExecutor {
    fn new(rpc: &str) -> Result<ClaimingExecutor> {
        // The receiver keeps its value after the sender is dropped.
        let judicators = watch::channel(vec![rpc.to_string()]).1;
        Ok(ClaimingExecutor {
            calls: rpc::RpcClient::new(judicators, None),
            name: ExecutorName::new("bench")?,
            session: SessionId(uuid::Uuid::now_v7()),
            seq: ReportSeq(0),
            tools: Some(Arc::new(usual_tools()?)),
        })
    }

    /// How long a report takes that claims this many tasks.
    async fn claim(&mut self, vacant: u32) -> Result<Duration> {
        let began = Instant::now();
        let answer = self.report(Vec::new(), vacant, ReportIntent::Stay).await?;
        let took = began.elapsed();
        ensure!(
            answer.assign.len() == vacant as usize,
            "a report that asked for {vacant} tasks was assigned {}",
            answer.assign.len()
        );
        // Completed by a separate report, so that the measured time covers the claim only.
        self.report(
            answer.assign.iter().map(completed).collect(),
            0,
            ReportIntent::Stay,
        )
        .await?;
        Ok(took)
    }

    async fn report(
        &mut self,
        complete: Vec<CompletedAttempt>,
        vacant: u32,
        intent: ReportIntent,
    ) -> Result<ReportInstructions> {
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
            executor_info: ExecutorInfo {
                slots: LARGE_CLAIM,
                host: "bench".to_string(),
                version: env!("CARGO_PKG_VERSION").to_string(),
                self_kill: Duration::from_secs(7),
                capacity: None,
                newest_form: TaskForm::NEWEST,
                tools: self.tools.take(),
                load: None,
            },
            intent,
        };
        match self.calls.report(report).await? {
            ReportAnswer::Done(answer) => Ok(answer),
            refused => bail!("the judicator refused the report of the benchmark's executor: {refused:?}"),
        }
    }
}

/// As many languages as an executor with the usual compilers has.
fn usual_tools() -> Result<ExecutorTools> {
    let language = |number: u32| {
        Ok(OfferedLanguage {
            root: None,
            name: LanguageName::new(format!("language-{number}"))?,
            version: Some("1.2.3".to_string()),
        })
    };
    let languages = (0..LANGUAGES).map(language).collect::<Result<_>>()?;
    Ok(ExecutorTools::new(languages, Vec::new()))
}

fn completed(assignment: &Assignment) -> CompletedAttempt {
    let outcome = Outcome {
        reason: OutcomeReason::Exited,
        exit_code: Some(0),
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: CapturedOutput::default(),
        stderr: CapturedOutput::default(),
    };
    CompletedAttempt {
        attempt_id: assignment.attempt_id,
        form: TaskForm::CURRENT,
        end: AttemptEnd::Result(TaskResult {
            compile: None,
            execute: Some(outcome),
            ..TaskResult::default()
        }),
    }
}
