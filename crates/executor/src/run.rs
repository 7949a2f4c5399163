//! Runs one attempt: writes the files, compiles, executes, cleans up. A program's failure is an outcome; a failure of the
//! executor is a [`RunFailure`].

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use error_causes::with_causes;
use model::{
    AttemptId, CapturedOutput, Content, Limits, NetworkName, Outcome, OutcomeReason, StepCommand, StepName,
    TaskResult, TaskStatus,
};
use sandbox::{
    CommandInput, CommandSpec, KillOrphansError, PlatformError, ProcessSelector, Warden, WardenError,
    kill_orphans, kill_orphans_while,
};

use crate::attempt_control::{AttemptControl, AttemptRevoked};
use crate::collect::{CollectError, CollectedFiles, FileCollector};
use crate::outcome::{StepOutcome, keep_long_output, limits_for_sandbox};
use crate::outgoing::OutgoingFiles;
use crate::slot_pool::{PreparedAttempt, SlotEvent, SlotPool};
use crate::workspace::{TaskFileSource, Workspace, WorkspaceError};

/// Why a slot of the executor ran an attempt without getting a result.
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

/// The compile or execute step of a task, with all that a slot passes to the warden to run it.
struct StepRun<'a> {
    name: StepName,
    /// The shell for a command that is given as text.
    shell: &'static str,
    command: &'a StepCommand,
    args: &'a [String],
    env: &'a BTreeMap<String, String>,
    input: CommandInput,
    network: Option<&'a NetworkName>,
    limits: Limits,
    afterwards: WorkspaceUse,
}

/// Whether a slot needs the workspace after a step of a task, which it tells the warden.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkspaceUse {
    /// Another step follows, or files of the workspace are kept.
    Needed,
    NotNeeded,
}

/// The result of an attempt that a slot of the executor has run.
pub(crate) struct RunResult {
    pub(crate) result: TaskResult,
    /// The contents that the result names, on the way to the judicator.
    pub(crate) files: OutgoingFiles,
}

pub(crate) fn run(
    slot_pool: &SlotPool,
    warden: &mut Warden,
    workspace: &mut Workspace,
    shell: &'static str,
    prepared: &PreparedAttempt,
) -> Result<RunResult, RunFailure> {
    if prepared.control.is_revoked() {
        return Err(RunFailure::Revoked);
    }
    let progress = || prepared.control.on_operation("clear the workspace");
    // Before the event: if this process is killed after it, the next one reports the attempt as lost.
    if let Err(error) = workspace.record_attempt(&prepared.attempt_id, prepared.control.form, &progress) {
        return Err(RunFailure::ExecutorFailure(error.to_string()));
    }
    // Before the files are written: that can take long, and the slot is busy meanwhile.
    let first = prepared
        .spec
        .compile
        .as_ref()
        .map_or(TaskStatus::Running, |_| TaskStatus::Compiling);
    slot_pool.send_event(SlotEvent::AttemptStarted(prepared.attempt_id, first));
    prepared.control.on_operation("make room for the files");
    if let Some(space) = prepared.spec.space()
        && let Err(error) = warden.set_task_space(space)
    {
        return Err(on_warden_error(slot_pool, prepared, workspace, error));
    }
    let source = TaskFileSource {
        cache: &slot_pool.cache,
        progress: &|| prepared.control.start_operation("lay out the files"),
    };
    let laid_out = workspace.lay_out(warden, &prepared.spec, &source);
    let result = match laid_out {
        Ok(()) => run_steps(slot_pool, warden, workspace, shell, prepared),
        Err(WorkspaceError::Warden(error)) => Err(on_warden_error(slot_pool, prepared, workspace, error)),
        Err(WorkspaceError::Revoked(AttemptRevoked)) => Err(RunFailure::Revoked),
        Err(error @ WorkspaceError::Failed { .. }) => Err(RunFailure::ExecutorFailure(error.to_string())),
        Err(error @ (WorkspaceError::NoSpace { .. } | WorkspaceError::TooManyFiles { .. })) => {
            let outcome = outcome_of_unstarted_step(OutcomeReason::DiskLimit, &error);
            Ok(RunResult {
                result: result_of_first_step(prepared, outcome),
                files: OutgoingFiles::new(&slot_pool.outgoing),
            })
        }
    };
    progress();
    workspace.clear(&prepared.spec, &progress);
    result
}

fn run_steps(
    slot_pool: &SlotPool,
    warden: &mut Warden,
    workspace: &Workspace,
    shell: &'static str,
    prepared: &PreparedAttempt,
) -> Result<RunResult, RunFailure> {
    let mut result = TaskResult::default();
    let mut files = OutgoingFiles::new(&slot_pool.outgoing);
    if let Some(compile) = &prepared.spec.compile {
        let step = StepRun {
            name: StepName::Compile,
            shell,
            command: &compile.command,
            args: &[],
            env: &compile.env,
            input: CommandInput::Bytes(Vec::new()),
            network: compile.network.as_ref(),
            limits: compile.limits,
            afterwards: WorkspaceUse::Needed,
        };
        let outcome = run_step(slot_pool, warden, workspace, prepared, step)?;
        let outcome = keep_outcome(slot_pool, prepared, outcome, &mut files)?;
        let succeeded = outcome.succeeded();
        result.compile = Some(outcome);
        if !succeeded {
            return Ok(RunResult { result, files });
        }
        slot_pool.send_event(SlotEvent::AttemptStarted(
            prepared.attempt_id,
            TaskStatus::Running,
        ));
    }
    let execute = &prepared.spec.execute;
    let step = StepRun {
        name: StepName::Execute,
        shell,
        command: &execute.command,
        args: &execute.args,
        env: &execute.env,
        input: input(workspace, &execute.input),
        network: execute.network.as_ref(),
        limits: execute.limits,
        afterwards: match prepared.spec.keep.is_empty() {
            true => WorkspaceUse::NotNeeded,
            false => WorkspaceUse::Needed,
        },
    };
    let outcome = run_step(slot_pool, warden, workspace, prepared, step)?;
    result.execute = Some(keep_outcome(slot_pool, prepared, outcome, &mut files)?);
    if !prepared.spec.keep.is_empty() {
        let kept = keep_files(slot_pool, warden, workspace, prepared, &mut files)?;
        (result.files, result.files_left_out) = (kept.files, kept.left_out);
    }
    Ok(RunResult { result, files })
}

/// Keeps the output of a step: moves what is too long for a result into the outgoing folder.
fn keep_outcome(
    slot_pool: &SlotPool,
    prepared: &PreparedAttempt,
    outcome: StepOutcome,
    files: &mut OutgoingFiles,
) -> Result<Outcome, RunFailure> {
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
    slot_pool: &SlotPool,
    warden: &mut Warden,
    workspace: &Workspace,
    prepared: &PreparedAttempt,
    files: &mut OutgoingFiles,
) -> Result<CollectedFiles, RunFailure> {
    let collector = FileCollector {
        patterns: &prepared.spec.keep,
        limits: slot_pool.keep_limits,
        outgoing: &slot_pool.outgoing,
        progress: &|| prepared.control.start_operation("keep the files"),
    };
    let collected = collector.collect(workspace.open_directory(warden), files);
    collected.map_err(|error| match error {
        CollectError::Revoked(AttemptRevoked) => RunFailure::Revoked,
        CollectError::Warden(error) => on_warden_error(slot_pool, prepared, workspace, error),
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

fn run_step(
    slot_pool: &SlotPool,
    warden: &mut Warden,
    workspace: &Workspace,
    prepared: &PreparedAttempt,
    step: StepRun<'_>,
) -> Result<StepOutcome, RunFailure> {
    let spec = CommandSpec {
        argv: argv(step.shell, step.command, step.args),
        env: environment(slot_pool, prepared, workspace, step.env),
        directory: workspace.directory(),
        input: step.input,
        limits: limits_for_sandbox(&step.limits),
        max_captured_bytes: slot_pool.max_captured_bytes(step.limits.output),
        network: step.network.map(NetworkName::to_string),
    };
    let run_handle = warden.new_run();
    if !prepared.control.start_command(&run_handle) {
        return Err(RunFailure::Revoked);
    }
    prepared
        .control
        .on_limited_operation("end the command", step.limits.wall);
    let live_outputs = &slot_pool.live_outputs;
    let (attempt_id, run) = (&prepared.attempt_id, run_handle.number());
    live_outputs.on_step_begun(attempt_id, step.name, warden.live_output(), run);
    let ran = match step.afterwards {
        WorkspaceUse::Needed => warden.run(&run_handle, &spec),
        WorkspaceUse::NotNeeded => warden.run_last(&run_handle, &spec),
    };
    let outcome = match ran {
        // The executor killed the processes, and the outcome may look as if they had ended by themselves.
        Ok(_) if prepared.control.is_revoked() => return Err(RunFailure::Revoked),
        // The executor killed the command, or the warden did when its deadline passed: the attempt is no longer ours.
        Ok(outcome) => StepOutcome::from_sandbox(outcome).ok_or(RunFailure::Revoked)?,
        // Reported like a program that cannot be executed: the task asked for something that does not exist.
        Err(WardenError::Run(fault @ PlatformError::NoSuchNetwork { .. })) => {
            StepOutcome::without_long_output(Outcome {
                exit_code: Some(NOT_EXECUTED),
                ..outcome_of_unstarted_step(OutcomeReason::Exited, &fault)
            })
        }
        Err(error) => return Err(on_warden_error(slot_pool, prepared, workspace, error)),
    };
    live_outputs.on_step_ended(attempt_id, step.name, &outcome);
    Ok(outcome)
}

/// The exit code of a shell for a program that exists but cannot be executed.
const NOT_EXECUTED: i32 = 126;

/// The outcome of a step that cannot start because of the task itself, so that a second attempt would fail as well.
fn outcome_of_unstarted_step(reason: OutcomeReason, why: &dyn Error) -> Outcome {
    Outcome {
        reason,
        exit_code: None,
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: CapturedOutput::default(),
        stderr: CapturedOutput::small(format!("conclave: {why}\n")),
    }
}

fn on_warden_error(
    slot_pool: &SlotPool,
    prepared: &PreparedAttempt,
    workspace: &Workspace,
    error: WardenError,
) -> RunFailure {
    let why = with_causes(&error);
    if !error.is_warden_lost() {
        return RunFailure::ExecutorFailure(why);
    }
    prepared.control.on_operation("kill what a dead warden left");
    if let Err(error) = kill_attempt_processes(&prepared.attempt_id, Some(workspace.root().to_path_buf())) {
        let why = with_causes(&error);
        tracing::error!(task = %prepared.attempt_id.task, why, "could not kill the processes that a dead warden left behind");
    }
    tracing::warn!(task = %prepared.attempt_id.task, why, executor = ?slot_pool.process_marker.1, "a warden died while it ran a task");
    RunFailure::WardenLost(why)
}

/// Kills the processes of an attempt whose warden cannot do so. They are found by an environment variable with the attempt
/// number, because another warden may already run the next attempt of the same task.
pub(crate) fn kill_attempt_processes(
    attempt_id: &AttemptId,
    directory: Option<PathBuf>,
) -> Result<usize, KillOrphansError> {
    kill_orphans(&ProcessSelector {
        environment_variable: Some((ATTEMPT.into(), attempt_marker(attempt_id))),
        working_directory: directory,
    })
}

/// Kills the processes whose working directory is in a workspace, as long as no other attempt can use the workspace.
pub(crate) fn kill_processes_in_folder(
    directory: PathBuf,
    control: &AttemptControl,
) -> Result<usize, KillOrphansError> {
    let selector = ProcessSelector {
        environment_variable: None,
        working_directory: Some(directory),
    };
    kill_orphans_while(&selector, || control.is_slot_stuck())
}

fn attempt_marker(attempt_id: &AttemptId) -> OsString {
    format!("{}/{}", attempt_id.task, attempt_id.attempt).into()
}

fn input(workspace: &Workspace, content: &Content) -> CommandInput {
    match content {
        Content::Inline(bytes) => CommandInput::Bytes(bytes.to_vec()),
        Content::Blob(_) => CommandInput::File(workspace.input()),
    }
}

const TASK: &str = "CONCLAVE_TASK";
const ATTEMPT: &str = "CONCLAVE_ATTEMPT";

/// The environment variables that every command gets.
pub fn default_environment(directory: &Path, temporary: &Path) -> Vec<(OsString, OsString)> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    vec![
        ("PATH".into(), path.into()),
        ("LANG".into(), "C.UTF-8".into()),
        ("HOME".into(), directory.into()),
        ("TMPDIR".into(), temporary.into()),
    ]
}

/// The default variables, overridden by those of the step, then the markers, which the step cannot override.
fn environment(
    slot_pool: &SlotPool,
    prepared: &PreparedAttempt,
    workspace: &Workspace,
    own: &BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    let mut env = default_environment(&workspace.directory(), &workspace.temporary());
    let mut put = |name: OsString, value: OsString| match env.iter_mut().find(|(known, _)| *known == name) {
        Some(variable) => variable.1 = value,
        None => env.push((name, value)),
    };
    for (name, value) in own {
        put(name.into(), value.into());
    }
    put(TASK.into(), prepared.attempt_id.task.to_string().into());
    put(ATTEMPT.into(), attempt_marker(&prepared.attempt_id));
    put(
        slot_pool.process_marker.0.clone(),
        slot_pool.process_marker.1.clone(),
    );
    env
}

/// Text is passed to the shell, with the arguments appended to its last command; a list is executed as it is.
fn argv(shell: &str, command: &StepCommand, args: &[String]) -> Vec<OsString> {
    let mut argv: Vec<OsString> = match command {
        StepCommand::Argv(words) => words.iter().map(Into::into).collect(),
        StepCommand::Shell(text) if args.is_empty() => vec![shell.into(), "-c".into(), text.into()],
        StepCommand::Shell(text) => {
            let text = format!("{} \"$@\"", text.trim_end());
            vec![shell.into(), "-c".into(), text.into(), shell.into()]
        }
    };
    argv.extend(args.iter().map(OsString::from));
    argv
}

/// The shell for commands in this root file system, which may differ from the machine's.
pub(crate) fn shell_in_root(root: &Path) -> &'static str {
    // A symbolic link is not followed: it resolves only inside the root.
    let has_bash = ["bin/bash", "usr/bin/bash", "usr/local/bin/bash"]
        .iter()
        .any(|path| root.join(path).symlink_metadata().is_ok());
    if has_bash { "bash" } else { "sh" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_converted_to_argument_lists() {
        let shell = "ksh";
        let check = |command: StepCommand, args: &[&str], expected: &[&str]| {
            let args: Vec<_> = args.iter().map(|arg| arg.to_string()).collect();
            let found = argv(shell, &command, &args);
            assert_eq!(found, expected.iter().map(OsString::from).collect::<Vec<_>>());
        };
        check(StepCommand::Shell("a | b".into()), &[], &[shell, "-c", "a | b"]);
        check(
            StepCommand::Shell("./m\n".into()),
            &["x y"],
            &[shell, "-c", "./m \"$@\"", shell, "x y"],
        );
        check(
            StepCommand::Argv(vec!["m".into(), "1".into()]),
            &["2"],
            &["m", "1", "2"],
        );
    }

    #[test]
    #[expect(clippy::disallowed_types, reason = "stands for a process of a task")]
    fn processes_in_the_folder_of_a_slot_that_continued_are_not_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut sleep = std::process::Command::new("sleep");
        let mut next_attempt = sleep.arg("60").current_dir(folder.path()).spawn().unwrap();
        // The attempt that was stuck has ended.
        let control = AttemptControl::new(model::TaskForm::CURRENT, Duration::from_secs(30));
        assert!(!control.is_slot_stuck());
        let ended = kill_processes_in_folder(folder.path().to_path_buf(), &control);
        let ended_by_us = next_attempt.try_wait().unwrap();
        next_attempt.kill().unwrap();
        next_attempt.wait().unwrap();
        assert_eq!((ended.unwrap(), ended_by_us), (0, None));
    }

    #[test]
    fn bash_is_used_if_the_root_has_it_and_sh_otherwise() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(shell_in_root(root.path()), "sh");
        std::fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        std::os::unix::fs::symlink("/nowhere/bash", root.path().join("usr/bin/bash")).unwrap();
        assert_eq!(shell_in_root(root.path()), "bash");
    }
}
