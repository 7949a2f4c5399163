//! Judges a task: compiles it once, runs its execute step once for each case, and checks each output.
//!
//! Each case runs in a cell of its own, which begins with what the compile step left. Answers and the program that judges
//! never enter a cell of the judged program.

mod case;
mod check;
mod feedback;
mod interact;
mod program;
mod results;

use model::{
    CaseMark, CaseResult, CheckResult, Judgement, Judging, Outcome, Points, StopRule, TaskResult, TaskStatus,
    Verdict,
};

use self::case::CaseRunner;
use self::results::{OutputBudget, keep_results, skipped};
use super::step::{on_warden_error, outcome_of_unstarted_step};
use super::{RunContext, RunFailure, RunResult, compile, keep_outcome};
use crate::attempt_control::AttemptRevoked;
use crate::outcome::StepOutcome;
use crate::outgoing::OutgoingFiles;
use crate::slot_pool::{AttemptWardens, CommandRoot, ReadyWarden};
use crate::workspace::{Snapshot, SnapshotError, SnapshotSetup, WorkspaceContents, WorkspaceEntry};

/// How many bytes the files of a workspace may have for a [`Snapshot`] if the task has no limit on them.
const DEFAULT_SPACE: u64 = 1 << 30;

/// What the cases of a task begin with.
enum CaseBasis {
    /// What the compile step left.
    Compiled(Snapshot),
    /// The files of the task, which has no compile step.
    Source,
}

/// How the compile step of a judged task ended, for its cases.
struct CompiledTask {
    outcome: Option<StepOutcome>,
    /// `None` if no case can run.
    basis: Option<CaseBasis>,
}

pub(super) fn judge(
    context: RunContext<'_>,
    wardens: &mut AttemptWardens<'_>,
    judging: &Judging,
) -> Result<RunResult, RunFailure> {
    let spec = &context.prepared.spec;
    let mut files = OutgoingFiles::new(&context.slot_pool.outgoing);
    let CompiledTask { outcome, basis } = compile_task(context, wardens)?;
    let compile = outcome.map(|outcome| keep_outcome(context, outcome, &mut files));
    let compile = compile.transpose()?;
    let (verdict, results) = match &basis {
        None => {
            let results = judging.cases.iter().map(skipped).collect();
            (Verdict::CompileError, results)
        }
        Some(basis) => {
            let entries = match basis {
                CaseBasis::Compiled(snapshot) => snapshot.entries(),
                CaseBasis::Source => WorkspaceEntry::of_files(spec.layout()),
            };
            if spec.compile.is_some() {
                context.send_status(TaskStatus::Running);
            }
            let results = run_cases(CaseRunner::new(context, wardens, judging, entries))?;
            (judging.verdict(&results), results)
        }
    };
    let encoded = keep_results(context, &results, &mut files)?;
    let judgement = Judgement {
        verdict,
        ..judging.judgement(&results, encoded)
    };
    let result = TaskResult {
        compile,
        judgement: Some(judgement),
        ..TaskResult::default()
    };
    Ok(RunResult { result, files })
}

/// Runs the compile step, if the task has one, and takes the snapshot with which its cases begin.
fn compile_task(
    context: RunContext<'_>,
    wardens: &mut AttemptWardens<'_>,
) -> Result<CompiledTask, RunFailure> {
    let spec = &context.prepared.spec;
    let mut cell = wardens.next(CommandRoot::OfTask)?;
    context.record_attempt(&mut cell)?;
    context.send_started();
    if spec.compile.is_none() {
        // The first case takes the cell.
        wardens.take_back_unused();
        return Ok(CompiledTask {
            outcome: None,
            basis: Some(CaseBasis::Source),
        });
    }
    let compiled = compile_in(context, &mut cell);
    context.clear(&mut cell);
    compiled
}

fn compile_in(context: RunContext<'_>, cell: &mut ReadyWarden<'_>) -> Result<CompiledTask, RunFailure> {
    let spec = &context.prepared.spec;
    let failed = |outcome| CompiledTask {
        outcome: Some(outcome),
        basis: None,
    };
    if let Some(outcome) = context.lay_out(cell, &WorkspaceContents::of_task(spec))? {
        return Ok(failed(StepOutcome::without_long_output(outcome)));
    }
    let outcome = compile(context, cell)?;
    if !outcome.outcome.succeeded() {
        return Ok(failed(outcome));
    }
    Ok(match take_snapshot(context, cell, spec.space())? {
        Ok(snapshot) => CompiledTask {
            outcome: Some(outcome),
            basis: Some(CaseBasis::Compiled(snapshot)),
        },
        Err(unusable) => failed(StepOutcome {
            outcome: Outcome {
                reason: unusable.reason,
                exit_code: None,
                stderr: unusable.stderr,
                ..outcome.outcome
            },
            stderr: None,
            ..outcome
        }),
    })
}

/// Takes a snapshot of what a compile step left. The inner error is the outcome of a step that left too much.
fn take_snapshot(
    context: RunContext<'_>,
    cell: &mut ReadyWarden<'_>,
    space: Option<u64>,
) -> Result<Result<Snapshot, Outcome>, RunFailure> {
    let setup = SnapshotSetup {
        store: &context.slot_pool.work,
        space: space.unwrap_or(DEFAULT_SPACE),
        progress: &|| {
            context
                .control()
                .start_operation("copy what the compile step left")
        },
    };
    let folder = cell.workspace.open_directory(cell.warden);
    match Snapshot::take(folder, &setup) {
        Ok(snapshot) => Ok(Ok(snapshot)),
        Err(SnapshotError::Revoked(AttemptRevoked)) => Err(RunFailure::Revoked),
        Err(SnapshotError::Warden(error)) => Err(on_warden_error(context, cell.workspace, error)),
        Err(error @ SnapshotError::Failed { .. }) => Err(RunFailure::ExecutorFailure(error.to_string())),
        Err(
            error @ (SnapshotError::TooLarge { .. }
            | SnapshotError::TooManyFiles
            | SnapshotError::PathTooLong
            | SnapshotError::NoWorkspace),
        ) => {
            let reason = model::OutcomeReason::DiskLimit;
            Ok(Err(outcome_of_unstarted_step(reason, &error)))
        }
    }
}

/// Runs the cases in their order, as far as the task wants them to run.
fn run_cases(mut runner: CaseRunner<'_, '_>) -> Result<Vec<CaseResult>, RunFailure> {
    let (context, judging) = (runner.context, runner.judging);
    let live_outputs = &context.slot_pool.live_outputs;
    let attempt_id = &context.prepared.attempt_id;
    live_outputs.on_cases_begun(attempt_id);
    let mut budget = OutputBudget::for_cases(judging.cases.len());
    let mut results: Vec<CaseResult> = Vec::with_capacity(judging.cases.len());
    let mut is_stopped = false;
    for (index, case) in judging.cases.iter().enumerate() {
        let mut result = match is_stopped {
            true => skipped(case),
            false => runner.run(case)?,
        };
        budget.trim(&mut result);
        is_stopped |= stops(judging.stop, result.verdict) || is_without_judge(&result);
        let mark = CaseMark {
            index,
            name: case.name.clone(),
            verdict: result.verdict,
        };
        live_outputs.on_case_ended(attempt_id, &mark);
        results.push(result);
    }
    Ok(results)
}

/// Whether the cases after one with this verdict are skipped.
fn stops(rule: StopRule, verdict: Verdict) -> bool {
    match rule {
        StopRule::Never => false,
        StopRule::FirstFailure => verdict != Verdict::Accepted,
    }
}

/// Whether the case did not run because the program that judges cannot be used: then no other case can run.
fn is_without_judge(result: &CaseResult) -> bool {
    result.verdict == Verdict::JudgeError && result.execute.is_none()
}

/// The result of a case for which the program that judges cannot be used.
fn without_judge(case: &model::Case, why: String) -> CaseResult {
    let check = CheckResult {
        judge_message: why,
        ..CheckResult::default()
    };
    CaseResult {
        name: case.name.clone(),
        verdict: Verdict::JudgeError,
        points: Points::ZERO,
        execute: None,
        check: Some(check),
    }
}
