//! Runs an interactive case: the judged program and the interactor at once, each in a cell of its own, with their streams
//! crossed.
//!
//! Two threads wait for the ends of the programs, and the slot's thread passes on what they write (`exchange`). Which
//! program ended first decides about the verdict, so neither learns of the end of the other before that is recorded.

mod exchange;

use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use model::{
    CapturedOutput, Case, CaseDecision, FirstToEnd, JudgeProtocol, Limits, Outcome, OutcomeReason,
    StepCommand, Verdict,
};
use sandbox::{
    CommandEndReason, CommandInput, CommandOutcome, CommandSpec, PassedStreams, RunHandle, Warden,
    WardenError, pipe_from_stdout, pipe_to_stdin,
};

use self::exchange::{Exchange, ExchangeSide, ExchangedOutput, Party};
use super::super::step::{StepRun, WorkspaceUse, command_spec, on_run_error};
use super::super::{RunContext, RunFailure};
use super::case::CheckedCase;
use super::feedback::{Feedback, read_feedback};
use super::program::LoadedProgram;
use crate::attempt_control::AttemptRevoked;
use crate::outcome::outcome_of_killed;
use crate::slot_pool::{AttemptWardens, ReadyWarden};
use crate::workspace::WorkspaceContents;

/// The interactor has at least this much more time than the program, so that a program that does nothing is the one that
/// runs out of time.
const INTERACTOR_MARGIN: Duration = Duration::from_secs(5);

/// Both commands of an interactive case, ready to start.
struct InteractionCommands {
    program: CommandSpec,
    interactor: CommandSpec,
    /// How many bytes each may write to the other.
    program_output: Option<u64>,
    interactor_output: Option<u64>,
}

/// How both commands of an interactive case ended.
struct InteractionOutcome {
    program: Result<CommandOutcome, WardenError>,
    interactor: Result<CommandOutcome, WardenError>,
    first: FirstToEnd,
    /// What the program wrote to the interactor.
    output: ExchangedOutput,
}

/// An interactive case and what it needs from its task.
pub(super) struct InteractiveCase<'a> {
    pub(super) context: RunContext<'a>,
    pub(super) command: &'a StepCommand,
    pub(super) interactor: &'a LoadedProgram<'a>,
    pub(super) case: &'a Case,
}

impl InteractiveCase<'_> {
    /// Runs the case. Returns how the judged program ended, and the decision.
    pub(super) fn interact(
        &self,
        wardens: &mut AttemptWardens<'_>,
        contents: WorkspaceContents<'_>,
    ) -> Result<(Outcome, CheckedCase), RunFailure> {
        let [mut program_cell, mut judge_cell] = wardens.next_pair()?;
        self.context.record_attempt(&mut program_cell)?;
        self.context.record_attempt(&mut judge_cell)?;
        let ended = self.run(&mut program_cell, &mut judge_cell, &contents);
        self.context.clear(&mut program_cell);
        self.context.clear(&mut judge_cell);
        ended
    }

    fn run(
        &self,
        program_cell: &mut ReadyWarden<'_>,
        judge_cell: &mut ReadyWarden<'_>,
        contents: &WorkspaceContents<'_>,
    ) -> Result<(Outcome, CheckedCase), RunFailure> {
        let context = self.context;
        if let Some(outcome) = context.lay_out(program_cell, contents)? {
            return Ok((outcome, CheckedCase::without_check(Verdict::RuntimeError)));
        }
        let judge_contents = self.interactor.contents(self.case, None);
        if let Err(why) = self.interactor.lay_out(context, judge_cell, judge_contents)? {
            return Ok((unstarted(), CheckedCase::without_judge(why)));
        }
        let commands = self.commands(program_cell, judge_cell);
        let ended = self.run_both(program_cell.warden, judge_cell.warden, commands)?;
        let InteractionOutcome {
            program,
            interactor,
            first,
            output,
        } = ended;
        let outcome_of = |ended: Result<CommandOutcome, WardenError>, cell: &ReadyWarden<'_>| match ended {
            Ok(_) if context.control().is_revoked() => Err(RunFailure::Revoked),
            Ok(outcome) => outcome_of_killed(outcome).ok_or(RunFailure::Revoked),
            Err(error) => on_run_error(context, cell.workspace, error),
        };
        let mut program = outcome_of(program, program_cell)?;
        program.stdout = output.written;
        if output.exceeds_limit && program.reason == OutcomeReason::Exited {
            program.reason = OutcomeReason::OutputLimit;
        }
        let interactor = outcome_of(interactor, judge_cell)?;
        let feedback = read_feedback(context, judge_cell)?;
        let checked = self.decide(&program, &interactor, first, feedback);
        Ok((program, checked))
    }

    fn decide(
        &self,
        program: &Outcome,
        interactor: &Outcome,
        first: FirstToEnd,
        feedback: Feedback,
    ) -> CheckedCase {
        let (decision, check) = self
            .interactor
            .decide(self.context, self.case, interactor, feedback);
        let judged = decision.map(|decision| decision.verdict);
        let decision = match Verdict::of_interaction(program, judged, first) {
            Verdict::Accepted => decision.unwrap_or(CaseDecision::accepted(self.case.points)),
            verdict => CaseDecision::without_points(verdict),
        };
        CheckedCase {
            decision,
            check: Some(check),
        }
    }

    fn commands(&self, program_cell: &ReadyWarden<'_>, judge_cell: &ReadyWarden<'_>) -> InteractionCommands {
        let execute = &self.context.prepared.spec.execute;
        let args: Vec<_> = execute.args.iter().chain(&self.case.args).cloned().collect();
        let limits = self.case.limits.or(execute.limits);
        let program = StepRun {
            command: self.command,
            args: &args,
            env: &execute.env,
            input: CommandInput::Bytes(Vec::new()),
            network: execute.network.as_ref(),
            limits,
            afterwards: WorkspaceUse::NotNeeded,
            live: None,
        };
        let judge_args = self.interactor.args(judge_cell);
        let judge = self.interactor.step(&judge_args);
        let judge_limits = interactor_limits(judge.limits, limits);
        InteractionCommands {
            program: command_spec(self.context, program_cell, program),
            interactor: command_spec(
                self.context,
                judge_cell,
                StepRun {
                    limits: judge_limits,
                    ..judge
                },
            ),
            program_output: limits.output,
            interactor_output: judge_limits.output,
        }
    }

    /// Runs both commands until both have ended.
    fn run_both(
        &self,
        program: &mut Warden,
        interactor: &mut Warden,
        commands: InteractionCommands,
    ) -> Result<InteractionOutcome, RunFailure> {
        let control = self.context.control();
        let pipe_error = |error: io::Error| {
            RunFailure::ExecutorFailure(format!("could not connect both programs of a case: {error}"))
        };
        let handles = [program.new_run(), interactor.new_run()];
        let (program_side, program_streams) =
            connect(&handles[0], commands.program_output).map_err(pipe_error)?;
        let (interactor_side, interactor_streams) =
            connect(&handles[1], commands.interactor_output).map_err(pipe_error)?;
        let (exchange, ends) = Exchange::new(program_side, interactor_side).map_err(pipe_error)?;
        control
            .start_commands(&handles)
            .map_err(|AttemptRevoked| RunFailure::Revoked)?;
        let walls = [commands.program.limits.wall, commands.interactor.limits.wall];
        let both = walls[0]
            .zip(walls[1])
            .map(|(program, interactor)| program.max(interactor));
        control.on_limited_operation("end both programs", both);
        let rejects = |ended: &Result<CommandOutcome, WardenError>| self.rejects(ended);
        let [program_handle, interactor_handle] = &handles;
        thread::scope(|scope| {
            let (ends, spec) = (&ends, &commands.program);
            let program = thread::Builder::new()
                .name("program".into())
                .spawn_scoped(scope, move || {
                    let mut end = ends.record_at_end(Party::Program);
                    let ended = program.run_last_with_streams(program_handle, spec, program_streams);
                    end.is_failure = !has_succeeded(&ended);
                    ended
                });
            let spec = &commands.interactor;
            let interactor =
                thread::Builder::new()
                    .name("interactor".into())
                    .spawn_scoped(scope, move || {
                        let mut end = ends.record_at_end(Party::Interactor);
                        let ended = interactor.run_with_streams(interactor_handle, spec, interactor_streams);
                        end.is_failure = rejects(&ended);
                        ended
                    });
            let exchanged = match (&program, &interactor) {
                (Ok(_), Ok(_)) => exchange.run(ends),
                _ => Err(io::ErrorKind::OutOfMemory.into()),
            };
            if exchanged.is_err() {
                // Without the exchange both could wait for each other.
                for handle in &handles {
                    let _ = handle.kill();
                }
            }
            let joined = |thread: io::Result<thread::ScopedJoinHandle<'_, _>>| {
                let thread = thread.map_err(pipe_error)?;
                let panicked = |_| RunFailure::WardenLost("the executor panicked; see its log".into());
                thread.join().map_err(panicked)
            };
            let (program, interactor) = (joined(program), joined(interactor));
            let output = exchanged.map_err(pipe_error)?;
            Ok(InteractionOutcome {
                program: program?,
                interactor: interactor?,
                first: ends.first(),
                output,
            })
        })
    }

    /// Whether nothing that the program does can change the verdict any more, because the interactor has ended without
    /// accepting. One that gives points accepts: how many they are is read later.
    fn rejects(&self, ended: &Result<CommandOutcome, WardenError>) -> bool {
        let exit_code = ended.as_ref().ok().and_then(|outcome| outcome.exit_code);
        let accepts = match self.interactor.program.protocol {
            JudgeProtocol::Icpc => matches!(exit_code, Some(42)),
            JudgeProtocol::Testlib => matches!(exit_code, Some(0 | 7)),
        };
        !accepts
    }
}

fn has_succeeded(ended: &Result<CommandOutcome, WardenError>) -> bool {
    ended
        .as_ref()
        .is_ok_and(|outcome| outcome.reason == CommandEndReason::Exited && outcome.exit_code == Some(0))
}

/// Creates the pipes of one command: the side of the exchange, and that of the command.
fn connect(handle: &RunHandle, output: Option<u64>) -> io::Result<(ExchangeSide, PassedStreams)> {
    let (to_stdin, stdin): (PipeWriter, OwnedFd) = pipe_to_stdin()?;
    let (from_stdout, stdout) = pipe_from_stdout()?;
    let side = ExchangeSide {
        handle: handle.clone(),
        to_stdin,
        from_stdout,
        max_output: output,
    };
    let streams = PassedStreams {
        stdin: Some(stdin),
        stdout: Some(stdout),
    };
    Ok((side, streams))
}

/// The interactor must not run out of time before the program does.
fn interactor_limits(own: Limits, program: Limits) -> Limits {
    let needed = program.wall.map(|wall| wall + INTERACTOR_MARGIN);
    Limits {
        // A program without a limit may take any time.
        wall: needed.and_then(|needed| own.wall.map(|own| own.max(needed))),
        cpu: own.cpu.and_then(|own| needed.map(|needed| own.max(needed))),
        ..own
    }
}

/// The outcome of a program that did not run because the interactor cannot.
fn unstarted() -> Outcome {
    Outcome {
        reason: OutcomeReason::Cancelled,
        exit_code: None,
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: CapturedOutput::default(),
        stderr: CapturedOutput::default(),
    }
}
