use std::time::{Duration, Instant};

use model::{
    Answer, Attempt, Complete, End, ExecutorName, Intent, Invalid, Reason, Report, ReportAnswer, TaskId,
};
use rpc::CallError;
use store::Finished;
use tracing::Level;

use crate::error::refusal;
use crate::measure::{CLAIMS, QUEUE_SECONDS, REPORT_SECONDS, RUN_SECONDS};
use crate::{Judicator, now};

impl Judicator {
    /// The five steps are one transition of the store; what is left here is who is hungry, and counting.
    pub(super) async fn on_report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let begun = Instant::now();
        let _under_way = self.heard.on_report(report.session);
        self.check_self_kill(report.presence.self_kill)?;
        let executor = report.executor.clone();
        let leaves = report.intent == Intent::Leave;
        self.hints.on_report(&executor, report.vacant);
        let reasons = reasons(&report);
        let reported = self.store.report(report).await.map_err(refusal)?;
        match &reported.answer {
            ReportAnswer::Done(_) if leaves => self.hints.forget(&executor),
            ReportAnswer::Done(answer) => {
                self.hints.on_assigned(&executor, answer.assign.len());
                log_handouts(&executor, answer);
            }
            ReportAnswer::Stale | ReportAnswer::Ended => {}
            ReportAnswer::Occupied { host, .. } => {
                tracing::warn!(%executor, other_host = host, "a second executor under a name that is taken was refused");
            }
        }
        metrics::counter!(CLAIMS).increment(reported.claimed.len() as u64);
        for add_time in &reported.claimed {
            metrics::histogram!(QUEUE_SECONDS).record(now().since(*add_time));
        }
        for finished in &reported.finished {
            let ran = finished.finish_time.since(finished.start_time);
            metrics::histogram!(RUN_SECONDS).record(ran);
            log_end(&executor, finished, &reasons);
        }
        metrics::histogram!(REPORT_SECONDS).record(begun.elapsed());
        Ok(reported.answer)
    }

    /// The two are set on different machines; only here can they be compared.
    fn check_self_kill(&self, self_kill: Duration) -> Result<(), Invalid> {
        let lease = self.options.lease;
        if self_kill < lease {
            return Ok(());
        }
        let problem =
            "must be below the judicator's lease, or a task could still run when another executor begins it";
        let show = |span: Duration| format!("{}s", span.as_secs_f64());
        Err(Invalid::beyond(
            "executor.self_kill",
            problem,
            show(lease),
            show(self_kill),
        ))
    }
}

/// Why the step that ended each task ended. Looked up only where it is logged.
fn reasons(report: &Report) -> Vec<(TaskId, Attempt, Reason)> {
    if !tracing::enabled!(Level::DEBUG) {
        return Vec::new();
    }
    let reason = |Complete { handout, end }: &Complete| match end {
        End::Result(result) => {
            let last = result.execute.as_ref().or(result.compile.as_ref())?;
            Some((handout.task, handout.attempt, last.reason))
        }
        End::Broken(why) | End::PlatformFailure(why) => {
            let (executor, Attempt(attempt)) = (&report.executor, handout.attempt);
            tracing::debug!(task = %handout.task, %executor, attempt, reason = why, "attempt could not be run");
            None
        }
    };
    report.complete.iter().filter_map(reason).collect()
}

fn log_handouts(executor: &ExecutorName, answer: &Answer) {
    for assignment in &answer.assign {
        let (task, Attempt(attempt)) = (assignment.handout.task, assignment.handout.attempt);
        tracing::debug!(%task, %executor, attempt, "task handed out");
    }
}

fn log_end(executor: &ExecutorName, finished: &Finished, reasons: &[(TaskId, Attempt, Reason)]) {
    let Finished {
        task,
        attempt: Attempt(attempt),
        status,
        ..
    } = finished;
    let same = |(id, number, _): &&(TaskId, Attempt, Reason)| id == task && number.0 == *attempt;
    let reason = reasons.iter().find(same).map(|(_, _, reason)| reason.as_str());
    tracing::debug!(%task, %executor, attempt, %status, reason, "task ended");
}
