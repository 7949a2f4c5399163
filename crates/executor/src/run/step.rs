//! Runs one command of an attempt in a cell.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use error_causes::with_causes;
use model::{
    CapturedOutput, CompileStep, Content, Limits, NetworkName, Outcome, OutcomeReason, StepCommand, StepName,
};
use nix::errno::Errno;
use sandbox::{CellSetupStep, CommandInput, CommandSpec, PassedStreams, PlatformError, WardenError};

use super::orphans::{ATTEMPT_VARIABLE, attempt_marker, kill_attempt_processes};
use super::{RunContext, RunFailure};
use crate::attempt_control::AttemptRevoked;
use crate::outcome::{StepOutcome, limits_for_sandbox};
use crate::slot_pool::ReadyWarden;
use crate::workspace::{Workspace, WorkspaceContents};

/// One command of an attempt, with all that a slot passes to the warden to run it.
pub(super) struct StepRun<'a> {
    pub(super) command: &'a StepCommand,
    pub(super) args: &'a [String],
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) input: CommandInput,
    pub(super) network: Option<&'a NetworkName>,
    pub(super) limits: Limits,
    pub(super) afterwards: WorkspaceUse,
    /// The step as which its output can be followed while it runs.
    pub(super) live: Option<StepName>,
}

/// Whether a slot needs the workspace after a command, which it tells the warden.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkspaceUse {
    /// Another command follows, or files of the workspace are read.
    Needed,
    NotNeeded,
}

impl<'a> StepRun<'a> {
    /// A compile step, whose workspace is needed afterwards, and whose output nobody follows.
    pub(super) fn of_compile(compile: &'a CompileStep) -> StepRun<'a> {
        StepRun {
            command: &compile.command,
            args: &[],
            env: &compile.env,
            input: CommandInput::Bytes(Vec::new()),
            network: compile.network.as_ref(),
            limits: compile.limits,
            afterwards: WorkspaceUse::Needed,
            live: None,
        }
    }
}

pub(super) fn run_step(
    context: RunContext<'_>,
    cell: &mut ReadyWarden<'_>,
    step: StepRun<'_>,
) -> Result<StepOutcome, RunFailure> {
    run_step_with_streams(context, cell, step, PassedStreams::default())
}

pub(super) fn run_step_with_streams(
    context: RunContext<'_>,
    cell: &mut ReadyWarden<'_>,
    step: StepRun<'_>,
    streams: PassedStreams,
) -> Result<StepOutcome, RunFailure> {
    let control = context.control();
    let (limits, live, afterwards) = (step.limits, step.live, step.afterwards);
    let spec = command_spec(context, cell, step);
    let run_handle = cell.warden.new_run();
    control
        .start_commands(std::slice::from_ref(&run_handle))
        .map_err(|AttemptRevoked| RunFailure::Revoked)?;
    control.on_limited_operation("end the command", limits.wall);
    let live_outputs = &context.slot_pool.live_outputs;
    let attempt_id = &context.prepared.attempt_id;
    if let Some(step) = live {
        live_outputs.on_step_begun(attempt_id, step, cell.warden.live_output(), run_handle.number());
    }
    let ran = match afterwards {
        WorkspaceUse::Needed => cell.warden.run_with_streams(&run_handle, &spec, streams),
        WorkspaceUse::NotNeeded => cell.warden.run_last_with_streams(&run_handle, &spec, streams),
    };
    let outcome = match ran {
        // The executor killed the processes, and the outcome may look as if they had ended by themselves.
        Ok(_) if control.is_revoked() => return Err(RunFailure::Revoked),
        // The executor killed the command, or the warden did when its deadline passed: the attempt is no longer ours.
        Ok(outcome) => StepOutcome::from_sandbox(outcome).ok_or(RunFailure::Revoked)?,
        Err(error) => StepOutcome::without_long_output(on_run_error(context, cell.workspace, error)?),
    };
    if let Some(step) = live {
        live_outputs.on_step_ended(attempt_id, step, &outcome);
    }
    Ok(outcome)
}

/// The command of a step as the warden gets it.
pub(super) fn command_spec(
    context: RunContext<'_>,
    cell: &ReadyWarden<'_>,
    step: StepRun<'_>,
) -> CommandSpec {
    CommandSpec {
        argv: argv(cell.shell, step.command, step.args),
        env: environment(context, cell.workspace, step.env),
        directory: cell.workspace.directory(),
        input: step.input,
        limits: limits_for_sandbox(&step.limits),
        max_captured_bytes: context.slot_pool.max_captured_bytes(step.limits.output),
        network: step.network.map(NetworkName::to_string),
    }
}

/// The exit code of a shell for a program that exists but cannot be executed.
const NOT_EXECUTED: i32 = 126;

/// The outcome of a step that cannot start because of the task itself, so that a second attempt would fail as well.
pub(super) fn outcome_of_unstarted_step(reason: OutcomeReason, why: &dyn Error) -> Outcome {
    Outcome {
        reason,
        exit_code: None,
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: CapturedOutput::default(),
        stderr: CapturedOutput::small(format!("conclave: {}\n", with_causes(why))),
    }
}

/// The outcome of a command that cannot start because of the task itself, reported like a program that cannot be executed:
/// the task asked for something that does not exist, or an earlier step has closed or removed the working directory.
pub(super) fn on_run_error(
    context: RunContext<'_>,
    workspace: &Workspace,
    error: WardenError,
) -> Result<Outcome, RunFailure> {
    let is_fault_of_task = |fault: &PlatformError| match fault {
        PlatformError::NoSuchNetwork { .. } => true,
        PlatformError::ChangeDirectory { errno, .. } => is_about_path(*errno),
        PlatformError::Cell(failed) => {
            failed.step == CellSetupStep::ChangeDirectory && is_about_path(failed.errno)
        }
        _ => false,
    };
    match error {
        WardenError::Run(fault) if is_fault_of_task(&fault) => Ok(Outcome {
            exit_code: Some(NOT_EXECUTED),
            ..outcome_of_unstarted_step(OutcomeReason::Exited, &fault)
        }),
        error => Err(on_warden_error(context, workspace, error)),
    }
}

fn is_about_path(errno: sandbox::Errno) -> bool {
    let errno = Errno::from_raw(errno.0);
    matches!(
        errno,
        Errno::EACCES | Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP
    )
}

pub(super) fn on_warden_error(
    RunContext { slot_pool, prepared }: RunContext<'_>,
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

pub(super) fn input(workspace: &Workspace, content: &Content) -> CommandInput {
    match content {
        Content::Inline(bytes) => CommandInput::Bytes(bytes.to_vec()),
        Content::Blob(_) => CommandInput::File(workspace.input()),
    }
}

const TASK: &str = "CONCLAVE_TASK";

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
    RunContext { slot_pool, prepared }: RunContext<'_>,
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
    put(ATTEMPT_VARIABLE.into(), attempt_marker(&prepared.attempt_id));
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

/// The command without the shell if that would only start one program of the workspace, for programs whose time is measured:
/// a start of the shell takes longer than that of a small program. `contents` are those of the workspace.
///
/// The shell stays if the kernel does not execute the file itself: then it interprets the file as a script.
pub(super) fn without_needless_shell(
    context: RunContext<'_>,
    command: &StepCommand,
    contents: &WorkspaceContents<'_>,
) -> StepCommand {
    let is_executable = |program: &String| {
        let path = Path::new(program);
        // A path outside of the workspace has no entry there.
        let path = path.strip_prefix(".").unwrap_or(path);
        let head = contents.head_of(path, &context.slot_pool.cache);
        head.is_some_and(|head| is_executed_by_kernel(&head))
    };
    match plain_words(command) {
        Some(words) if words.first().is_some_and(is_executable) => StepCommand::Argv(words),
        _ => command.clone(),
    }
}

/// Whether a file that begins with this is a compiled program, or a script that names its interpreter.
fn is_executed_by_kernel(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next();
    let interpreter = line
        .and_then(|line| line.strip_prefix(b"#!"))
        .map(<[u8]>::trim_ascii_start);
    head.starts_with(b"\x7fELF") || interpreter.is_some_and(|path| path.starts_with(b"/"))
}

/// The words of a command for the shell that only starts one program by its path.
fn plain_words(command: &StepCommand) -> Option<Vec<String>> {
    let StepCommand::Shell(text) = command else {
        return None;
    };
    // A first word with a slash is neither a keyword nor a part of the shell; no word has a character that the shell replaces.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c);
    let words = || text.split_ascii_whitespace();
    let is_path = words().next().is_some_and(|first| first.contains('/'));
    let is_one_line = !text.trim().contains('\n');
    let is_plain = is_path && is_one_line && words().all(|word| word.chars().all(is_plain));
    is_plain.then(|| words().map(Into::into).collect())
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
    fn a_single_program_needs_no_shell() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let expected = expected.map(|words| words.iter().map(|word| word.to_string()).collect());
            assert_eq!(plain_words(&StepCommand::Shell(text.into())), expected, "{text}");
        };
        check("./main", Some(&["./main"]));
        check(" ./main  -x a.txt\n", Some(&["./main", "-x", "a.txt"]));
        check("/usr/bin/python3 main.py", Some(&["/usr/bin/python3", "main.py"]));
        for text in [
            "",
            "main",
            "echo ./main",
            "X=1 ./main",
            "./main < in",
            "./main $X",
            "./main *.txt",
            "./main 'a b'",
            "./a\n./b",
            "./a; ./b",
            "./main ~/x",
            "./main {a,b}",
            "./main #x",
            "~/main",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn the_shell_interprets_what_the_kernel_does_not_execute() {
        let check =
            |head: &[u8], expected: bool| assert_eq!(is_executed_by_kernel(head), expected, "{head:?}");
        check(b"\x7fELF\x02\x01\x01", true);
        check(b"#!/bin/sh\necho 1\n", true);
        check(b"#! /usr/bin/env python3\n", true);
        check(b"", false);
        check(b"\x7fEL", false);
        check(b"echo 1\n", false);
        check(b"# !/bin/sh\n", false);
        // The kernel refuses a script without an interpreter, and the shell takes that line for a comment.
        check(b"#!\necho 1\n", false);
        check(b"#!\n/bin/true\n", false);
        check(b"#!sh\n", false);
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
