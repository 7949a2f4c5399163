//! The program that judges a task: its compilation, its cells, and a run of it as a checker.
//!
//! It runs in cells of its own, in its own root, and only they contain the answers.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::{
    Case, CaseDecision, CheckResult, JudgeProgram, JudgeProtocol, Limits, Outcome, OutcomeReason,
    StepCommand, Verdict,
};
use sandbox::CommandInput;

use super::super::step::{StepRun, WorkspaceUse, run_step, without_needless_shell};
use super::super::{RunContext, RunFailure};
use super::case::CheckedCase;
use super::feedback::{Feedback, read_feedback, shortened};
use super::take_snapshot;
use crate::attempt_control::AttemptRevoked;
use crate::judge_programs::{CompiledProgram, JudgeProgramKey};
use crate::outcome::StepOutcome;
use crate::slot_pool::{AttemptWardens, CommandRoot, ReadyWarden};
use crate::workspace::{EntryContent, Snapshot, WorkspaceContents, WorkspaceEntry};

/// The folder with the files of a case in the workspace of a program that judges.
const CASE_FOLDER: &str = ".case";
const INPUT: &str = ".case/input";
const ANSWER: &str = ".case/answer";
const OUTPUT: &str = ".case/output";
pub(super) const FEEDBACK: &str = ".case/feedback";

/// Limits of a program that judges if it sets none: one that hangs or floods its output must not keep a slot busy.
const DEFAULT_WALL: Duration = Duration::from_secs(60);
const DEFAULT_OUTPUT: u64 = 8 << 20;
/// A workspace for a program that judges has room for this much besides what it begins with.
const FREE_SPACE: u64 = 64 << 20;
/// Up to this size, the files that a judge workspace begins with fit into the space that every workspace has.
const SMALL_WORKSPACE: u64 = 16 << 20;
/// How much of the output of a failed compile step a message quotes.
const QUOTED_BYTES: usize = 4 << 10;

/// The program that judges the cases of a task, ready to run.
pub(super) struct LoadedProgram<'a> {
    pub(super) program: &'a JudgeProgram,
    command: StepCommand,
    /// What its compile step left, if it has one.
    snapshot: Option<Arc<Snapshot>>,
}

/// Loads the program, compiled by this task or an earlier one. The inner error says why it does not compile.
pub(super) fn load<'a>(
    context: RunContext<'_>,
    wardens: &mut AttemptWardens<'_>,
    program: &'a JudgeProgram,
) -> Result<Result<LoadedProgram<'a>, String>, RunFailure> {
    let loaded = |snapshot: Option<Arc<Snapshot>>| {
        let contents = WorkspaceContents {
            entries: own_entries(program, snapshot.as_deref()),
            ..WorkspaceContents::default()
        };
        let command = without_needless_shell(context, &program.execute.command, &contents);
        LoadedProgram {
            program,
            command,
            snapshot,
        }
    };
    if program.compile.is_none() {
        return Ok(Ok(loaded(None)));
    }
    let key = JudgeProgramKey {
        digest: program.digest(),
        root: wardens.judge_root(),
    };
    let wait = || {
        let step = "wait for another slot to compile the program that judges";
        let waits = context.control().start_operation(step);
        waits.map_err(|AttemptRevoked| RunFailure::Revoked)
    };
    let compile = || {
        let mut cell = wardens.next(CommandRoot::OfJudge)?;
        context.record_attempt(&mut cell)?;
        let compiled = compile(context, &mut cell, program);
        context.clear(&mut cell);
        compiled
    };
    let compiled: CompiledProgram = context
        .slot_pool
        .judge_programs
        .get_or_compile(&key, &wait, compile)?;
    Ok(compiled.map(|snapshot| loaded(Some(snapshot))))
}

fn compile(
    context: RunContext<'_>,
    cell: &mut ReadyWarden<'_>,
    program: &JudgeProgram,
) -> Result<Result<Snapshot, String>, RunFailure> {
    let Some(compile) = &program.compile else {
        return Ok(Ok(Snapshot::default()));
    };
    let files = program.source.iter().map(|(path, file)| (path.to_string(), file));
    let contents = WorkspaceContents {
        entries: WorkspaceEntry::of_files(files),
        input: None,
        space: compile.limits.space,
    };
    if let Some(outcome) = context.lay_out(cell, &contents)? {
        return Ok(Err(compile_failure(&outcome)));
    }
    let step = StepRun {
        limits: with_defaults(compile.limits),
        ..StepRun::of_compile(compile)
    };
    let outcome = run_step(context, cell, step)?.outcome;
    if !outcome.succeeded() {
        return Ok(Err(compile_failure(&outcome)));
    }
    let snapshot = take_snapshot(context, cell, compile.limits.space)?;
    Ok(snapshot.map_err(|outcome| compile_failure(&outcome)))
}

/// What the program has in its workspace besides the files of a case.
fn own_entries<'a>(program: &'a JudgeProgram, snapshot: Option<&'a Snapshot>) -> Vec<WorkspaceEntry<'a>> {
    let source = program.source.iter();
    match snapshot {
        Some(snapshot) => snapshot.entries(),
        None => WorkspaceEntry::of_files(source.map(|(path, file)| (path.to_string(), file))),
    }
}

fn compile_failure(outcome: &Outcome) -> String {
    let how = how_it_ended(outcome);
    let written = [&outcome.stderr.head[..], &outcome.stdout.head[..]].concat();
    let written = shortened(&written, QUOTED_BYTES);
    format!("the program that judges does not compile: its compile step {how}\n{written}")
}

impl LoadedProgram<'_> {
    /// Its files and those of the case. Nothing of the judged program but its output is in there.
    pub(super) fn contents<'a>(
        &'a self,
        case: &'a Case,
        output: Option<EntryContent<'a>>,
    ) -> WorkspaceContents<'a> {
        const EMPTY: EntryContent<'_> = EntryContent::Bytes(&[]);
        let mut contents = WorkspaceContents {
            entries: own_entries(self.program, self.snapshot.as_deref()),
            input: None,
            space: None,
        };
        let answer = case.answer.as_ref().map_or(EMPTY, EntryContent::OfTask);
        let path = |path: &'static str| Cow::Borrowed(Path::new(path));
        let mut case_files = vec![
            WorkspaceEntry::folder(path(CASE_FOLDER)),
            WorkspaceEntry::readable(path(INPUT), EntryContent::OfTask(&case.input)),
            WorkspaceEntry::readable(path(ANSWER), answer),
            WorkspaceEntry::folder(path(FEEDBACK)),
        ];
        let is_file = self.program.protocol == JudgeProtocol::Testlib;
        if let Some(output) = output {
            match is_file {
                true => case_files.push(WorkspaceEntry::readable(path(OUTPUT), output)),
                false => contents.input = Some(output),
            }
        }
        contents.put_over(case_files);
        contents
    }

    /// The space for a workspace with these contents: what the program may use for itself, and the contents.
    fn space(
        &self,
        context: RunContext<'_>,
        contents: &WorkspaceContents<'_>,
    ) -> Result<Option<u64>, RunFailure> {
        let bytes = context.bytes(contents)?;
        let compile = self.program.compile.as_ref();
        let own = compile.and_then(|compile| compile.limits.space);
        let own = own.max(self.program.execute.limits.space);
        Ok(match own {
            None if bytes <= SMALL_WORKSPACE => None,
            own => Some(own.unwrap_or(0).max(bytes.saturating_add(FREE_SPACE))),
        })
    }

    /// Writes the files into the workspace. The inner error says why that is not possible.
    pub(super) fn lay_out(
        &self,
        context: RunContext<'_>,
        cell: &mut ReadyWarden<'_>,
        mut contents: WorkspaceContents<'_>,
    ) -> Result<Result<(), String>, RunFailure> {
        contents.space = self.space(context, &contents)?;
        Ok(match context.lay_out(cell, &contents)? {
            None => Ok(()),
            Some(outcome) => Err(shortened(&outcome.stderr.head, QUOTED_BYTES)),
        })
    }

    /// Its arguments: the files of the case, and those of the task.
    pub(super) fn args(&self, cell: &ReadyWarden<'_>) -> Vec<String> {
        let directory = cell.workspace.directory();
        // Absolute where possible, because a wrapper script may change its directory.
        let path = |path: &str| match directory.to_str() {
            Some(directory) => format!("{directory}/{path}"),
            None => path.to_string(),
        };
        let mut args = match self.program.protocol {
            JudgeProtocol::Icpc => vec![path(INPUT), path(ANSWER), format!("{}/", path(FEEDBACK))],
            JudgeProtocol::Testlib => vec![path(INPUT), path(OUTPUT), path(ANSWER)],
        };
        args.extend(self.program.execute.args.iter().cloned());
        args
    }

    /// The run of the program, without an input.
    pub(super) fn step<'a>(&'a self, args: &'a [String]) -> StepRun<'a> {
        let execute = &self.program.execute;
        StepRun {
            command: &self.command,
            args,
            env: &execute.env,
            input: CommandInput::Bytes(Vec::new()),
            network: execute.network.as_ref(),
            limits: with_defaults(execute.limits),
            afterwards: WorkspaceUse::Needed,
            live: None,
        }
    }

    /// Checks the output of a case when its program has ended.
    pub(super) fn check(
        &self,
        context: RunContext<'_>,
        wardens: &mut AttemptWardens<'_>,
        case: &Case,
        submission: &StepOutcome,
    ) -> Result<CheckedCase, RunFailure> {
        let output = match &submission.stdout {
            Some(file) => EntryContent::Part {
                file,
                offset: 0,
                bytes: submission.outcome.stdout.size,
            },
            None => EntryContent::Bytes(&submission.outcome.stdout.head),
        };
        let mut cell = wardens.next(CommandRoot::OfJudge)?;
        context.record_attempt(&mut cell)?;
        let checked = self.check_in(context, &mut cell, case, output);
        context.clear(&mut cell);
        checked
    }

    fn check_in(
        &self,
        context: RunContext<'_>,
        cell: &mut ReadyWarden<'_>,
        case: &Case,
        output: EntryContent<'_>,
    ) -> Result<CheckedCase, RunFailure> {
        let contents = self.contents(case, Some(output));
        let input = match contents.input {
            Some(_) => CommandInput::File(cell.workspace.input()),
            None => CommandInput::Bytes(Vec::new()),
        };
        if let Err(why) = self.lay_out(context, cell, contents)? {
            return Ok(CheckedCase::without_judge(why));
        }
        let args = self.args(cell);
        let step = StepRun {
            input,
            ..self.step(&args)
        };
        let outcome = run_step(context, cell, step)?.outcome;
        let feedback = read_feedback(context, cell)?;
        let (decision, check) = self.decide(context, case, &outcome, feedback);
        let judge_error = CaseDecision::without_points(Verdict::JudgeError);
        Ok(CheckedCase {
            decision: decision.unwrap_or(judge_error),
            check: Some(check),
        })
    }

    /// What the program has decided, if it ended as its protocol says, and its messages.
    pub(super) fn decide(
        &self,
        context: RunContext<'_>,
        case: &Case,
        outcome: &Outcome,
        feedback: Feedback,
    ) -> (Option<CaseDecision>, CheckResult) {
        let protocol = self.program.protocol;
        let stderr = shortened(&outcome.stderr.head, QUOTED_BYTES);
        let score = match protocol {
            JudgeProtocol::Icpc => feedback.score(case.points),
            JudgeProtocol::Testlib => super::feedback::testlib_points(&stderr),
        };
        let decision = match &score {
            Ok(score) => protocol.decide(outcome, *score, case.points),
            // A score of a rejected case does not matter.
            Err(_) => protocol
                .decide(outcome, None, case.points)
                .filter(|decision| decision.verdict != Verdict::Accepted),
        };
        let (message, judge_message) = match protocol {
            JudgeProtocol::Icpc => (feedback.team_message, feedback.judge_message),
            // The message of a checker quotes the answer, so it is only for those who may see that.
            JudgeProtocol::Testlib if context.has_foreign_cases() => (String::new(), stderr.clone()),
            JudgeProtocol::Testlib => (stderr.clone(), stderr.clone()),
        };
        let exit_code = outcome
            .exit_code
            .filter(|_| outcome.reason == OutcomeReason::Exited);
        let judge_message = match &decision {
            Some(_) => judge_message,
            None => {
                let why = why_undecided(protocol, outcome, score.err());
                let said = match protocol {
                    JudgeProtocol::Icpc => [judge_message, stderr].join("\n"),
                    JudgeProtocol::Testlib => judge_message,
                };
                format!("{why}\n{said}").trim_end().to_string()
            }
        };
        let check = CheckResult {
            exit_code,
            message,
            judge_message,
        };
        (decision, check)
    }
}

impl CheckedCase {
    /// The program that judges could not run.
    pub(super) fn without_judge(why: String) -> CheckedCase {
        CheckedCase {
            decision: CaseDecision::without_points(Verdict::JudgeError),
            check: Some(CheckResult {
                judge_message: why,
                ..CheckResult::default()
            }),
        }
    }
}

impl RunContext<'_> {
    /// Whether the cases belong to somebody else than the user of the task.
    fn has_foreign_cases(&self) -> bool {
        let judging = self.prepared.spec.judging.as_ref();
        let problem = judging.and_then(|judging| judging.problem.as_ref());
        problem.is_some_and(|problem| problem.owner != self.prepared.spec.user)
    }

    /// The size of all files.
    fn bytes(&self, contents: &WorkspaceContents<'_>) -> Result<u64, RunFailure> {
        contents
            .bytes(&self.slot_pool.cache)
            .map_err(|error| RunFailure::ExecutorFailure(error.to_string()))
    }
}

fn with_defaults(limits: Limits) -> Limits {
    Limits {
        wall: limits.wall.or(Some(DEFAULT_WALL)),
        output: limits.output.or(Some(DEFAULT_OUTPUT)),
        ..limits
    }
}

fn how_it_ended(outcome: &Outcome) -> String {
    match (outcome.reason, outcome.exit_code, outcome.signal) {
        (OutcomeReason::Exited, Some(code), _) => format!("ended with exit code {code}"),
        (OutcomeReason::Signalled, _, Some(signal)) => format!("was killed by signal {signal}"),
        (OutcomeReason::Cancelled, ..) => "was killed because the judged program had failed".into(),
        (reason, ..) => format!("was ended by its {reason}"),
    }
}

/// Why a run of a program that judges has no decision.
fn why_undecided(protocol: JudgeProtocol, outcome: &Outcome, score: Option<String>) -> String {
    if let Some(why) = score {
        return why;
    }
    let how = how_it_ended(outcome);
    let expected = match protocol {
        JudgeProtocol::Icpc => "42 to accept or 43 to reject",
        JudgeProtocol::Testlib => "0 to accept, 1 or 2 to reject, or 7 with a line 'points X' on stderr",
    };
    format!(
        "the program that judges {how}; its protocol ({}) has the exit codes {expected}",
        protocol.as_str()
    )
}
