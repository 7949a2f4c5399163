//! Runs one case of a judged task.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use model::{Case, CaseDecision, CaseResult, Check, CheckResult, Judging, Outcome, OutcomeReason, Verdict};

use super::super::step::{StepRun, WorkspaceUse, input, run_step, without_needless_shell};
use super::super::{RunContext, RunFailure};
use super::check::compare_output;
use super::interact::InteractiveCase;
use super::program::{LoadedProgram, load};
use super::without_judge;
use crate::compare::Comparison;
use crate::outcome::StepOutcome;
use crate::slot_pool::{AttemptWardens, CommandRoot};
use crate::workspace::{EntryContent, WorkspaceContents, WorkspaceEntry};

/// Unreachable: no case runs before the program that judges was loaded.
const NOT_LOADED: &str = "the program that judges was not loaded";

/// Runs the cases of one task, one after another.
pub(super) struct CaseRunner<'a, 'w> {
    pub(super) context: RunContext<'a>,
    pub(super) wardens: &'a mut AttemptWardens<'w>,
    pub(super) judging: &'a Judging,
    /// What the workspace of each case begins with.
    pub(super) entries: Vec<WorkspaceEntry<'a>>,
    /// The program that judges, once it was needed, or why it cannot be used.
    program: Option<Result<LoadedProgram<'a>, String>>,
}

/// What a check has found out about the output of a case.
pub(super) struct CheckedCase {
    pub(super) decision: CaseDecision,
    pub(super) check: Option<CheckResult>,
}

impl<'a, 'w> CaseRunner<'a, 'w> {
    pub(super) fn new(
        context: RunContext<'a>,
        wardens: &'a mut AttemptWardens<'w>,
        judging: &'a Judging,
        entries: Vec<WorkspaceEntry<'a>>,
    ) -> CaseRunner<'a, 'w> {
        CaseRunner {
            context,
            wardens,
            judging,
            entries,
            program: None,
        }
    }

    pub(super) fn run(&mut self, case: &'a Case) -> Result<CaseResult, RunFailure> {
        if let Some(why) = self.load_program()? {
            return Ok(without_judge(case, why));
        }
        let (outcome, checked) = match &self.judging.check {
            Check::Interactive(_) => self.run_interactive(case)?,
            _ => {
                let outcome = self.run_program(case)?;
                let checked = match Verdict::of_outcome(&outcome.outcome) {
                    Some(verdict) => CheckedCase::without_check(verdict),
                    None => self.check(case, &outcome)?,
                };
                (outcome.outcome, checked)
            }
        };
        Ok(CaseResult {
            name: case.name.clone(),
            verdict: checked.decision.verdict,
            points: checked.decision.points,
            execute: Some(outcome),
            check: checked.check,
        })
    }

    /// Loads the program that judges, if there is one, before the first case runs. Returns why it cannot be used, if so.
    fn load_program(&mut self) -> Result<Option<String>, RunFailure> {
        if let (None, Some(program)) = (&self.program, self.judging.check.program()) {
            self.program = Some(load(self.context, self.wardens, program)?);
        }
        let failure = self.program.as_ref().and_then(|program| program.as_ref().err());
        Ok(failure.cloned())
    }

    fn run_interactive(&mut self, case: &'a Case) -> Result<(Outcome, CheckedCase), RunFailure> {
        let contents = self.contents(case);
        let execute = &self.context.prepared.spec.execute;
        match &self.program {
            Some(Ok(program)) => {
                let interactive = InteractiveCase {
                    context: self.context,
                    command: &without_needless_shell(self.context, &execute.command, &contents),
                    interactor: program,
                    case,
                };
                interactive.interact(self.wardens, contents)
            }
            Some(Err(_)) | None => Err(RunFailure::ExecutorFailure(NOT_LOADED.into())),
        }
    }

    /// Runs the judged program in a cell of its own.
    fn run_program(&mut self, case: &'a Case) -> Result<StepOutcome, RunFailure> {
        let (context, execute) = (self.context, &self.context.prepared.spec.execute);
        let limits = case.limits.or(execute.limits);
        let mut contents = self.contents(case);
        contents.input = Some(&case.input)
            .filter(|input| input.blob().is_some())
            .map(EntryContent::OfTask);
        // For each case, because its files may replace the program.
        let command = without_needless_shell(context, &execute.command, &contents);
        let mut cell = self.wardens.next(CommandRoot::OfTask)?;
        context.record_attempt(&mut cell)?;
        let ran = match context.lay_out(&mut cell, &contents) {
            Ok(None) => {
                let args: Vec<_> = execute.args.iter().chain(&case.args).cloned().collect();
                let step = StepRun {
                    command: &command,
                    args: &args,
                    env: &execute.env,
                    input: input(cell.workspace, &case.input),
                    network: execute.network.as_ref(),
                    limits,
                    afterwards: WorkspaceUse::NotNeeded,
                    live: None,
                };
                run_step(context, &mut cell, step)
            }
            Ok(Some(outcome)) => Ok(StepOutcome::without_long_output(outcome)),
            Err(failure) => Err(failure),
        };
        context.clear(&mut cell);
        let mut outcome = ran?;
        limit_cut_off_output(&mut outcome);
        Ok(outcome)
    }

    /// The files with which the case begins, without its input.
    pub(super) fn contents(&self, case: &'a Case) -> WorkspaceContents<'a> {
        let mut contents = WorkspaceContents {
            entries: self.entries.clone(),
            input: None,
            space: case.limits.space.or(self.context.prepared.spec.space()),
        };
        let files = case.files.iter().map(|(path, file)| (path.to_string(), file));
        contents.put_over(WorkspaceEntry::of_files(files));
        contents
    }

    /// Decides about the output of a program that has exited without a failure.
    fn check(&mut self, case: &Case, outcome: &StepOutcome) -> Result<CheckedCase, RunFailure> {
        let compare = |comparison| compare_output(self.context, comparison, case, outcome);
        match &self.judging.check {
            Check::None => Ok(CheckedCase {
                decision: CaseDecision::accepted(case.points),
                check: None,
            }),
            Check::Exact => compare(Comparison::Exact),
            Check::Lines => compare(Comparison::Lines),
            Check::Tokens(check) => compare(Comparison::Tokens(*check)),
            Check::Program(_) | Check::Interactive(_) => match &self.program {
                Some(Ok(program)) => program.check(self.context, self.wardens, case, outcome),
                Some(Err(_)) | None => Err(RunFailure::ExecutorFailure(NOT_LOADED.into())),
            },
        }
    }
}

impl CheckedCase {
    /// The outcome of the program decides, and nothing was checked.
    pub(super) fn without_check(verdict: Verdict) -> CheckedCase {
        CheckedCase {
            decision: CaseDecision::without_points(verdict),
            check: None,
        }
    }
}

/// A program whose output could not be kept as a whole has written too much, also if it has no limit of its own.
fn limit_cut_off_output(outcome: &mut StepOutcome) {
    let outcome = &mut outcome.outcome;
    if Verdict::of_outcome(outcome).is_none() && outcome.stdout.truncated {
        outcome.reason = OutcomeReason::OutputLimit;
    }
}

/// Reads everything that is kept of the stdout of a command.
pub(super) fn read_stdout(outcome: &StepOutcome) -> Box<dyn Read + '_> {
    match &outcome.stdout {
        Some(file) => Box::new(FileReader {
            file: file.clone(),
            offset: 0,
        }),
        None => Box::new(&outcome.outcome.stdout.head[..]),
    }
}

/// Reads a file without its position, which others share.
struct FileReader {
    file: Arc<File>,
    offset: u64,
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use model::CapturedOutput;

    use super::*;
    use crate::fixtures;

    #[test]
    fn a_program_whose_output_was_cut_off_has_written_too_much() {
        let check = |exit_code: i32, truncated: bool, expected: Option<Verdict>| {
            let mut outcome = fixtures::outcome();
            outcome.exit_code = Some(exit_code);
            outcome.stdout = CapturedOutput {
                truncated,
                ..CapturedOutput::small("x")
            };
            let mut outcome = StepOutcome::without_long_output(outcome);
            limit_cut_off_output(&mut outcome);
            assert_eq!(Verdict::of_outcome(&outcome.outcome), expected);
        };
        check(0, false, None);
        check(0, true, Some(Verdict::OutputLimit));
        check(1, true, Some(Verdict::RuntimeError));
    }
}
