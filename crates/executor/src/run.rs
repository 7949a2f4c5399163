//! One attempt: lay out, compile, execute, clean up. A program's failure is its outcome; ours is `Broken`.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{
    Captured, Command, Content, Handout, Limits, NetworkName, Outcome, Reason, Status, TaskResult,
    with_causes,
};
use sandbox::{Fault, Input, Marker, Spec, StraysError, Warden, WardenError, kill_strays, kill_strays_while};

use crate::control::{Control, Withdrawn};
use crate::work::{Bench, Event, Job};
use crate::workspace::{Supply, Workspace, WorkspaceError};

/// Of each output, whatever limit the operator allows: a result is two steps with two outputs each, and must fit
/// into one report, or no report would ever be taken again.
const MOST_KEPT: u64 = 16 << 20;

/// Why an attempt has no result.
pub(crate) enum Failure {
    /// We could not run it; another executor may.
    Broken(String),
    /// The same, and the warden cannot be used again.
    WardenLost(String),
    /// It was taken away; it has no result.
    Withdrawn,
}

struct Step<'a> {
    command: &'a Command,
    args: &'a [String],
    env: &'a BTreeMap<String, String>,
    input: Input,
    network: Option<&'a NetworkName>,
    limits: Limits,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Last,
}

pub(crate) fn run(
    bench: &Bench,
    warden: &mut Warden,
    workspace: &mut Workspace,
    job: &Job,
) -> Result<TaskResult, Failure> {
    if job.control.is_withdrawn() {
        return Err(Failure::Withdrawn);
    }
    // Before the files are laid out: that can take long, and a slot that is busy with it is not free.
    let first = job
        .spec
        .compile
        .as_ref()
        .map_or(Status::Running, |_| Status::Compiling);
    bench.tell(Event::Began(job.handout, first));
    job.control.on_progress("make room for the files");
    if let Some(space) = job.spec.space()
        && let Err(error) = warden.give_space(space)
    {
        return Err(on_warden_error(bench, job, workspace, error));
    }
    let supply = Supply {
        cache: &bench.cache,
        progress: &|| job.control.go_on("lay out the files"),
    };
    let laid_out = workspace.lay_out(warden, &job.handout, &job.spec, &supply);
    let result = match laid_out {
        Ok(()) => run_steps(bench, warden, workspace, job),
        Err(WorkspaceError::Warden(error)) => Err(on_warden_error(bench, job, workspace, error)),
        Err(WorkspaceError::Withdrawn(Withdrawn)) => Err(Failure::Withdrawn),
        Err(error @ WorkspaceError::Failed { .. }) => Err(Failure::Broken(error.to_string())),
        Err(error @ (WorkspaceError::NoSpace { .. } | WorkspaceError::TooManyFiles { .. })) => {
            Ok(result_of_first_step(job, unable(Reason::DiskLimit, &error)))
        }
    };
    let progress = || job.control.on_progress("clear the workspace");
    progress();
    workspace.clear(&job.spec, &progress);
    result
}

fn run_steps(
    bench: &Bench,
    warden: &mut Warden,
    workspace: &Workspace,
    job: &Job,
) -> Result<TaskResult, Failure> {
    let mut result = TaskResult::default();
    if let Some(compile) = &job.spec.compile {
        let step = Step {
            command: &compile.command,
            args: &[],
            env: &compile.env,
            input: Input::Bytes(Vec::new()),
            network: compile.network.as_ref(),
            limits: compile.limits,
            place: Place::First,
        };
        let outcome = run_step(bench, warden, workspace, job, step)?;
        let succeeded = outcome.succeeded();
        result.compile = Some(outcome);
        if !succeeded {
            return Ok(result);
        }
        bench.tell(Event::Began(job.handout, Status::Running));
    }
    let execute = &job.spec.execute;
    let step = Step {
        command: &execute.command,
        args: &execute.args,
        env: &execute.env,
        input: input(workspace, &execute.input),
        network: execute.network.as_ref(),
        limits: execute.limits,
        place: Place::Last,
    };
    result.execute = Some(run_step(bench, warden, workspace, job, step)?);
    Ok(result)
}

/// There is no other step then: the first did not succeed.
fn result_of_first_step(job: &Job, outcome: Outcome) -> TaskResult {
    let (compile, execute) = match job.spec.compile {
        Some(_) => (Some(outcome), None),
        None => (None, Some(outcome)),
    };
    TaskResult { compile, execute }
}

fn run_step(
    bench: &Bench,
    warden: &mut Warden,
    workspace: &Workspace,
    job: &Job,
    step: Step<'_>,
) -> Result<Outcome, Failure> {
    let spec = Spec {
        argv: argv(bench.shell, step.command, step.args),
        env: environment(bench, job, workspace, step.env),
        directory: workspace.directory(),
        input: step.input,
        limits: sandbox_limits(&step.limits),
        keep: step.limits.output.unwrap_or(bench.keep_output).min(MOST_KEPT),
        network: step.network.map(NetworkName::to_string),
    };
    let ticket = warden.ticket();
    if !job.control.begin(&ticket) {
        return Err(Failure::Withdrawn);
    }
    job.control.on_begun("end the command", step.limits.wall);
    let ran = match step.place {
        Place::First => warden.run(&ticket, &spec),
        Place::Last => warden.run_last(&ticket, &spec),
    };
    match ran {
        // We killed it, or the warden did because we were out of touch: the attempt is not ours any more.
        Ok(outcome) => outcome_of(outcome).ok_or(Failure::Withdrawn),
        // Told as a program that cannot be executed is: it is what the task asked for that is not there.
        Err(WardenError::Run(fault @ Fault::Network { .. })) => Ok(Outcome {
            exit_code: Some(NOT_EXECUTED),
            ..unable(Reason::Exited, &fault)
        }),
        Err(error) => Err(on_warden_error(bench, job, workspace, error)),
    }
}

/// The exit code by which a shell says that a program is there and cannot be executed.
const NOT_EXECUTED: i32 = 126;

/// The outcome of a step that could not begin because of what the task is, and would not on a second attempt.
fn unable(reason: Reason, why: &dyn Error) -> Outcome {
    Outcome {
        reason,
        exit_code: None,
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: Captured::default(),
        stderr: Captured {
            bytes: format!("conclave: {why}\n").into(),
            truncated: false,
        },
    }
}

/// In the sandbox's own form.
pub fn sandbox_limits(limits: &Limits) -> sandbox::Limits {
    sandbox::Limits {
        wall: limits.wall,
        cpu: limits.cpu,
        memory: limits.memory,
        output: limits.output,
        processes: limits.processes,
        file_size: limits.file_size,
        open_files: limits.open_files.map(u64::from),
        stack: limits.stack,
    }
}

/// None if it did not end of itself nor by its limits.
pub fn outcome_of(outcome: sandbox::Outcome) -> Option<Outcome> {
    let reason = match outcome.reason {
        sandbox::Reason::Exited => Reason::Exited,
        sandbox::Reason::Signalled => Reason::Signalled,
        sandbox::Reason::TimeLimit => Reason::TimeLimit,
        sandbox::Reason::WallLimit => Reason::WallLimit,
        sandbox::Reason::MemoryLimit => Reason::MemoryLimit,
        sandbox::Reason::OutputLimit => Reason::OutputLimit,
        sandbox::Reason::ProcessLimit => Reason::ProcessLimit,
        sandbox::Reason::DiskLimit => Reason::DiskLimit,
        sandbox::Reason::Cancelled | sandbox::Reason::Abandoned => return None,
    };
    let captured = |captured: sandbox::Captured| Captured {
        bytes: captured.bytes.into(),
        truncated: captured.truncated,
    };
    Some(Outcome {
        reason,
        exit_code: outcome.exit_code,
        signal: outcome.signal,
        wall: outcome.wall,
        cpu: outcome.cpu,
        memory: outcome.memory,
        stdout: captured(outcome.stdout),
        stderr: captured(outcome.stderr),
    })
}

fn on_warden_error(bench: &Bench, job: &Job, workspace: &Workspace, error: WardenError) -> Failure {
    let why = with_causes(&error);
    if !error.is_final() {
        return Failure::Broken(why);
    }
    job.control.on_progress("end what a dead warden left");
    if let Err(error) = end_strays(&job.handout, Some(workspace.root().to_path_buf())) {
        let why = with_causes(&error);
        tracing::error!(task = %job.handout.task, why, "could not end what a dead warden left behind");
    }
    tracing::warn!(task = %job.handout.task, why, executor = ?bench.mark.1, "a warden died under its task");
    Failure::WardenLost(why)
}

/// Ends the processes of an attempt whose warden cannot. They are known by its mark: other wardens are at work, and one
/// of them may have the next attempt at the same task.
pub(crate) fn end_strays(handout: &Handout, directory: Option<PathBuf>) -> Result<usize, StraysError> {
    kill_strays(&Marker {
        variable: Some((ATTEMPT.into(), mark(handout))),
        directory,
    })
}

/// Ends the processes at work in a slot's folder, for as long as no other attempt can be there.
pub(crate) fn end_strays_in(directory: PathBuf, control: &Control) -> Result<usize, StraysError> {
    let marker = Marker {
        variable: None,
        directory: Some(directory),
    };
    kill_strays_while(&marker, || control.hangs())
}

fn mark(handout: &Handout) -> OsString {
    format!("{}/{}", handout.task, handout.attempt).into()
}

fn input(workspace: &Workspace, content: &Content) -> Input {
    match content {
        Content::Inline(bytes) => Input::Bytes(bytes.to_vec()),
        Content::Blob(_) => Input::File(workspace.input()),
    }
}

const TASK: &str = "CONCLAVE_TASK";
const ATTEMPT: &str = "CONCLAVE_ATTEMPT";

/// What every command finds that works in these folders.
pub fn usual_environment(directory: &Path, temporary: &Path) -> Vec<(OsString, OsString)> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    vec![
        ("PATH".into(), path.into()),
        ("LANG".into(), "C.UTF-8".into()),
        ("HOME".into(), directory.into()),
        ("TMPDIR".into(), temporary.into()),
    ]
}

/// What every command finds, then what its step says, which wins; then our marks, which always stand.
fn environment(
    bench: &Bench,
    job: &Job,
    workspace: &Workspace,
    own: &BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    let mut env = usual_environment(&workspace.directory(), &workspace.temporary());
    let mut put = |name: OsString, value: OsString| match env.iter_mut().find(|(known, _)| *known == name) {
        Some(variable) => variable.1 = value,
        None => env.push((name, value)),
    };
    for (name, value) in own {
        put(name.into(), value.into());
    }
    put(TASK.into(), job.handout.task.to_string().into());
    put(ATTEMPT.into(), mark(&job.handout));
    put(bench.mark.0.clone(), bench.mark.1.clone());
    env
}

/// Text goes to the shell, with the arguments as further words of its last command; a list is run as it is.
fn argv(shell: &str, command: &Command, args: &[String]) -> Vec<OsString> {
    let mut argv: Vec<OsString> = match command {
        Command::Argv(words) => words.iter().map(Into::into).collect(),
        Command::Shell(text) if args.is_empty() => vec![shell.into(), "-c".into(), text.into()],
        Command::Shell(text) => {
            let text = format!("{} \"$@\"", text.trim_end());
            vec![shell.into(), "-c".into(), text.into(), shell.into()]
        }
    };
    argv.extend(args.iter().map(OsString::from));
    argv
}

/// The shell of those who run commands beneath this root, which need not be the machine's own.
pub(crate) fn shell_beneath(root: &Path) -> &'static str {
    // A link in there may only lead anywhere from within.
    let has_bash = ["bin/bash", "usr/bin/bash", "usr/local/bin/bash"]
        .iter()
        .any(|path| root.join(path).symlink_metadata().is_ok());
    if has_bash { "bash" } else { "sh" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_become_words() {
        let shell = "ksh";
        let check = |command: Command, args: &[&str], expected: &[&str]| {
            let args: Vec<_> = args.iter().map(|arg| arg.to_string()).collect();
            let found = argv(shell, &command, &args);
            assert_eq!(found, expected.iter().map(OsString::from).collect::<Vec<_>>());
        };
        check(Command::Shell("a | b".into()), &[], &[shell, "-c", "a | b"]);
        check(
            Command::Shell("./m\n".into()),
            &["x y"],
            &[shell, "-c", "./m \"$@\"", shell, "x y"],
        );
        check(
            Command::Argv(vec!["m".into(), "1".into()]),
            &["2"],
            &["m", "1", "2"],
        );
    }

    #[test]
    fn a_slot_that_has_gone_on_keeps_what_is_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut sleep = std::process::Command::new("sleep");
        let mut next_attempt = sleep.arg("60").current_dir(folder.path()).spawn().unwrap();
        // The attempt that hung is over.
        let control = Control::new(Duration::from_secs(30));
        assert!(!control.hangs());
        let ended = end_strays_in(folder.path().to_path_buf(), &control);
        let ended_by_us = next_attempt.try_wait().unwrap();
        next_attempt.kill().unwrap();
        next_attempt.wait().unwrap();
        assert_eq!((ended.unwrap(), ended_by_us), (0, None));
    }

    #[test]
    fn the_shell_is_one_that_is_there() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(shell_beneath(root.path()), "sh");
        std::fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        std::os::unix::fs::symlink("/nowhere/bash", root.path().join("usr/bin/bash")).unwrap();
        assert_eq!(shell_beneath(root.path()), "bash");
    }
}
