use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::{
    AttemptEnd, AttemptId, AttemptNumber, CompletedAttempt, ExecutorName, InvalidField, OutcomeReason,
    Report, ReportAnswer, ReportInstructions, ReportIntent, TaskId,
};
use rpc::CallError;
use store::FinishedAttempt;

use crate::error::call_error;
use crate::history::FinishedRun;
use crate::metric_names::{CLAIMS, QUEUE_SECONDS, REPORT_SECONDS, RUN_SECONDS, UPLOADS_REPEATED};
use crate::{Judicator, now};

impl Judicator {
    /// The store does the five steps of a report in one transition: it commits results and hands out tasks. This
    /// function adds hints, metrics and log lines.
    pub(super) async fn on_report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let begun = Instant::now();
        let _report_guard = self.report_tracker.begin(report.session);
        self.check_self_kill(report.executor_info.self_kill)?;
        let executor = report.executor.clone();
        let leaves = report.intent == ReportIntent::Leave;
        self.hints.on_report(&report);
        let (session, tools) = (report.session, report.executor_info.tools.clone());
        let runs = completed_runs(&report);
        let reported = self.store.report(report).await.map_err(call_error)?;
        match &reported.answer {
            ReportAnswer::Done(_) if leaves => self.hints.on_session_ended(&executor),
            ReportAnswer::Done(answer) => {
                if let Some(tools) = tools {
                    self.hints.on_tools_reported(&executor, session, tools);
                }
                self.hints
                    .on_answered(&executor, answer.assign.len(), answer.drain.as_ref());
                let assigned = answer.assign.iter().map(|assignment| assignment.attempt_id);
                self.watchers.on_assigned(assigned);
                log_assignments(&executor, answer);
            }
            ReportAnswer::Stale | ReportAnswer::Ended => {}
            ReportAnswer::Occupied { host, .. } => {
                tracing::warn!(%executor, other_host = host, "refused an executor: another live executor uses its name");
            }
        }
        if let ReportAnswer::Done(answer) = &reported.answer {
            note_missing_blobs(&executor, &answer.upload_again);
        }
        metrics::counter!(CLAIMS).increment(reported.claimed_add_times.len() as u64);
        for add_time in &reported.claimed_add_times {
            metrics::histogram!(QUEUE_SECONDS).record(now().since(*add_time));
        }
        for finished in &reported.finished {
            let ran = finished.finish_time.since(finished.start_time);
            metrics::histogram!(RUN_SECONDS).record(ran);
            log_end(&executor, finished, runs.get(&(finished.task, finished.attempt)));
        }
        let counted = reported.finished.iter().map(|finished| {
            let run = runs.get(&(finished.task, finished.attempt));
            FinishedRun {
                status: finished.status,
                reason: run.map(|run| run.reason),
                run_time: run.map_or(Duration::ZERO, |run| {
                    let since_start = || finished.finish_time.since(finished.start_time);
                    run.run_time.unwrap_or_else(since_start)
                }),
            }
        });
        self.history.on_finished(now(), counted);
        metrics::histogram!(REPORT_SECONDS).record(begun.elapsed());
        Ok(reported.answer)
    }

    /// The executor and the judicator are configured on different machines, so only the judicator can compare the two.
    fn check_self_kill(&self, self_kill: Duration) -> Result<(), InvalidField> {
        let lease = self.options.lease;
        if self_kill < lease {
            return Ok(());
        }
        let problem =
            "must be below the judicator's lease, or a task could still run when another executor begins it";
        let show = |span: Duration| format!("{}s", span.as_secs_f64());
        Err(InvalidField::over_limit(
            "executor.self_kill",
            problem,
            show(lease),
            show(self_kill),
        ))
    }
}

/// What the result of a completed attempt says in short, for the judicator's log lines and history.
struct CompletedRun {
    /// Why it ended, as lists show it.
    reason: OutcomeReason,
    /// How long the steps took together. `None` for a task with cases, whose outcomes may be in a blob.
    run_time: Option<Duration>,
}

/// The completed attempts of a report that have results.
fn completed_runs(report: &Report) -> HashMap<(TaskId, AttemptNumber), CompletedRun> {
    let run = |CompletedAttempt { attempt_id, end, .. }: &CompletedAttempt| match end {
        AttemptEnd::Result(result) => {
            let steps = result.compile.iter().chain(&result.execute);
            let run = CompletedRun {
                reason: result.reason()?,
                run_time: match result.judgement {
                    Some(_) => None,
                    None => Some(steps.map(|outcome| outcome.wall).sum()),
                },
            };
            Some(((attempt_id.task, attempt_id.attempt), run))
        }
        AttemptEnd::Broken(why) | AttemptEnd::PlatformFailure(why) => {
            let (executor, AttemptNumber(attempt)) = (&report.executor, attempt_id.attempt);
            tracing::debug!(task = %attempt_id.task, %executor, attempt, reason = why, "attempt ended without a result");
            None
        }
    };
    report.complete.iter().filter_map(run).collect()
}

/// An executor uploads the blobs of a result before it reports the result, so this needs attention.
fn note_missing_blobs(executor: &ExecutorName, upload_again: &[AttemptId]) {
    metrics::counter!(UPLOADS_REPEATED).increment(upload_again.len() as u64);
    for AttemptId { task, attempt, .. } in upload_again {
        tracing::warn!(%task, %executor, attempt = attempt.0, "the store lacks blobs of a result; the executor uploads them again");
    }
}

fn log_assignments(executor: &ExecutorName, answer: &ReportInstructions) {
    for assignment in &answer.assign {
        let (task, AttemptNumber(attempt)) = (assignment.attempt_id.task, assignment.attempt_id.attempt);
        tracing::debug!(%task, %executor, attempt, "task handed to an executor");
    }
}

fn log_end(executor: &ExecutorName, finished: &FinishedAttempt, run: Option<&CompletedRun>) {
    let FinishedAttempt {
        task,
        attempt: AttemptNumber(attempt),
        status,
        ..
    } = finished;
    let reason = run.map(|run| run.reason.as_str());
    tracing::debug!(%task, %executor, attempt, %status, reason, "task ended");
}
