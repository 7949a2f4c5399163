//! Runs one attempt: writes the files, compiles, executes, cleans up. A program's failure is an outcome; a failure of the
//! executor is a [`RunFailure`].

mod judge;
mod orphans;
mod step;

use model::{Outcome, OutcomeReason, StepName, TaskResult, TaskStatus};
use sandbox::CommandInput;

pub(crate) use self::orphans::{kill_attempt_processes, kill_processes_in_folder};
pub use self::step::default_environment;
pub(crate) use self::step::shell_in_root;
use self::step::{StepRun, WorkspaceUse, input, on_warden_error, outcome_of_unstarted_step, run_step};
use crate::attempt_control::AttemptRevoked;
use crate::collect::{CollectError, CollectedFiles, FileCollector};
use crate::outcome::{StepOutcome, keep_long_output};
use crate::outgoing::OutgoingFiles;
use crate::slot_pool::{AttemptWardens, CommandRoot, PreparedAttempt, ReadyWarden, SlotEvent, SlotPool};
use crate::workspace::{TaskFileSource, WorkspaceContents, WorkspaceError};

/// Why a slot of the executor ran an attempt without getting a result.
#[derive(Debug)]
pub(crate) enum RunFailure {
    /// This executor could not run the attempt; another executor may.
    ExecutorFailure(String),
    /// Like `ExecutorFailure`, and the warden cannot be used again.
    WardenLost(String),
    /// No warden can start in the root that the task names; tasks in other roots can run.
    UnusableRoot(String),
    /// The attempt was revoked.
    Revoked,
}

/// The result of an attempt that a slot of the executor has run.
pub(crate) struct RunResult {
    pub(crate) result: TaskResult,
    /// The contents that the result names, on the way to the judicator.
    pub(crate) files: OutgoingFiles,
}

/// The attempt that a slot of the executor runs.
#[derive(Clone, Copy)]
struct RunContext<'a> {
    slot_pool: &'a SlotPool,
    prepared: &'a PreparedAttempt,
}

pub(crate) fn run(
    slot_pool: &SlotPool,
    wardens: &mut AttemptWardens<'_>,
    prepared: &PreparedAttempt,
) -> Result<RunResult, RunFailure> {
    let context = RunContext { slot_pool, prepared };
    if prepared.control.is_revoked() {
        return Err(RunFailure::Revoked);
    }
    match &prepared.spec.judging {
        Some(judging) => judge::judge(context, wardens, judging),
        None => run_in_one_cell(context, &mut wardens.next(CommandRoot::OfTask)?),
    }
}

/// Runs a task that is not judged.
fn run_in_one_cell(context: RunContext<'_>, cell: &mut ReadyWarden<'_>) -> Result<RunResult, RunFailure> {
    let spec = &context.prepared.spec;
    context.record_attempt(cell)?;
    context.send_started();
    let result = match context.lay_out(cell, &WorkspaceContents::of_task(spec)) {
        Ok(None) => run_steps(context, cell),
        Ok(Some(outcome)) => Ok(RunResult {
            result: result_of_first_step(context.prepared, outcome),
            files: OutgoingFiles::new(&context.slot_pool.outgoing),
        }),
        Err(failure) => Err(failure),
    };
    context.clear(cell);
    result
}

fn run_steps(context: RunContext<'_>, cell: &mut ReadyWarden<'_>) -> Result<RunResult, RunFailure> {
    let spec = &context.prepared.spec;
    let mut result = TaskResult::default();
    let mut files = OutgoingFiles::new(&context.slot_pool.outgoing);
    if spec.compile.is_some() {
        let outcome = compile(context, cell)?;
        let outcome = keep_outcome(context, outcome, &mut files)?;
        let succeeded = outcome.succeeded();
        result.compile = Some(outcome);
        if !succeeded {
            return Ok(RunResult { result, files });
        }
        context.send_status(TaskStatus::Running);
    }
    let execute = &spec.execute;
    let step = StepRun {
        command: &execute.command,
        args: &execute.args,
        env: &execute.env,
        input: input(cell.workspace, &execute.input),
        network: execute.network.as_ref(),
        limits: execute.limits,
        afterwards: match spec.keep.is_empty() {
            true => WorkspaceUse::NotNeeded,
            false => WorkspaceUse::Needed,
        },
        live: Some(StepName::Execute),
    };
    let outcome = run_step(context, cell, step)?;
    result.execute = Some(keep_outcome(context, outcome, &mut files)?);
    if !spec.keep.is_empty() {
        let kept = keep_files(context, cell, &mut files)?;
        (result.files, result.files_left_out) = (kept.files, kept.left_out);
    }
    Ok(RunResult { result, files })
}

/// Runs the compile step of the task, if it has one, in a cell with its files.
fn compile(context: RunContext<'_>, cell: &mut ReadyWarden<'_>) -> Result<StepOutcome, RunFailure> {
    let Some(compile) = &context.prepared.spec.compile else {
        return Err(RunFailure::ExecutorFailure("the task has no compile step".into()));
    };
    let step = StepRun {
        input: CommandInput::Bytes(Vec::new()),
        live: Some(StepName::Compile),
        ..StepRun::of_compile(compile)
    };
    run_step(context, cell, step)
}

impl RunContext<'_> {
    fn control(&self) -> &crate::attempt_control::AttemptControl {
        &self.prepared.control
    }

    /// If this process is killed afterwards, the next one reports the attempt as lost.
    fn record_attempt(&self, cell: &mut ReadyWarden<'_>) -> Result<(), RunFailure> {
        let progress = || self.control().on_operation("clear the workspace");
        let (attempt_id, form) = (&self.prepared.attempt_id, self.control().form);
        let recorded = cell.workspace.record_attempt(attempt_id, form, &progress);
        recorded.map_err(|error| RunFailure::ExecutorFailure(error.to_string()))
    }

    /// Reports the first step, after the attempt was recorded, and before its files are written: that can take long, and the
    /// slot is busy meanwhile.
    fn send_started(&self) {
        self.send_status(match self.prepared.spec.compile {
            Some(_) => TaskStatus::Compiling,
            None => TaskStatus::Running,
        });
    }

    fn send_status(&self, status: TaskStatus) {
        let event = SlotEvent::AttemptStarted(self.prepared.attempt_id, status);
        self.slot_pool.send_event(event);
    }

    /// Writes files into the workspace. `Some` is the outcome of the command if they do not fit.
    fn lay_out(
        &self,
        cell: &mut ReadyWarden<'_>,
        contents: &WorkspaceContents<'_>,
    ) -> Result<Option<Outcome>, RunFailure> {
        self.control().on_operation("make room for the files");
        if let Some(space) = contents.space
            && let Err(error) = cell.warden.set_task_space(space)
        {
            return Err(on_warden_error(*self, cell.workspace, error));
        }
        let source = TaskFileSource {
            cache: &self.slot_pool.cache,
            progress: &|| self.control().start_operation("lay out the files"),
        };
        match cell.workspace.lay_out(cell.warden, contents, &source) {
            Ok(()) => Ok(None),
            Err(WorkspaceError::Warden(error)) => Err(on_warden_error(*self, cell.workspace, error)),
            Err(WorkspaceError::Revoked(AttemptRevoked)) => Err(RunFailure::Revoked),
            Err(error @ (WorkspaceError::Failed { .. } | WorkspaceError::CachedSize { .. })) => {
                Err(RunFailure::ExecutorFailure(error.to_string()))
            }
            Err(
                error @ (WorkspaceError::InvalidPath { .. }
                | WorkspaceError::NoSpace { .. }
                | WorkspaceError::TooManyFiles { .. }),
            ) => Ok(Some(outcome_of_unstarted_step(OutcomeReason::DiskLimit, &error))),
        }
    }

    /// Removes all files of the cell's workspace.
    fn clear(&self, cell: &mut ReadyWarden<'_>) {
        let progress = || self.control().on_operation("clear the workspace");
        progress();
        cell.workspace.clear(&progress);
    }
}

/// Keeps the output of a step: moves what is too long for a result into the outgoing folder.
fn keep_outcome(
    context: RunContext<'_>,
    outcome: StepOutcome,
    files: &mut OutgoingFiles,
) -> Result<Outcome, RunFailure> {
    let RunContext { slot_pool, prepared } = context;
    let StepOutcome {
        mut outcome,
        stdout,
        stderr,
    } = outcome;
    let progress = || prepared.control.start_operation("keep the output");
    for (captured, file) in [(&mut outcome.stdout, stdout), (&mut outcome.stderr, stderr)] {
        if let Some(file) = file {
            keep_long_output(&slot_pool.outgoing, captured, &file, files, &progress)
                .map_err(|AttemptRevoked| RunFailure::Revoked)?;
        }
    }
    Ok(outcome)
}

/// Keeps the files of the workspace that match the task's patterns. Its processes have all exited: the warden answers only
/// then.
fn keep_files(
    context: RunContext<'_>,
    cell: &mut ReadyWarden<'_>,
    files: &mut OutgoingFiles,
) -> Result<CollectedFiles, RunFailure> {
    let RunContext { slot_pool, prepared } = context;
    let collector = FileCollector {
        patterns: &prepared.spec.keep,
        limits: slot_pool.keep_limits,
        outgoing: &slot_pool.outgoing,
        progress: &|| prepared.control.start_operation("keep the files"),
    };
    let collected = collector.collect(cell.workspace.open_directory(cell.warden), files);
    collected.map_err(|error| match error {
        CollectError::Revoked(AttemptRevoked) => RunFailure::Revoked,
        CollectError::Warden(error) => on_warden_error(context, cell.workspace, error),
    })
}

/// The result of a task whose first step failed, so that no other step runs.
fn result_of_first_step(prepared: &PreparedAttempt, outcome: Outcome) -> TaskResult {
    let (compile, execute) = match prepared.spec.compile {
        Some(_) => (Some(outcome), None),
        None => (None, Some(outcome)),
    };
    TaskResult {
        compile,
        execute,
        ..TaskResult::default()
    }
}
