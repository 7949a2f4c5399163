//! `conclave sandbox`: runs one command in a cell, to try out limits or to debug a task that fails.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::{LimitPolicy, Limits, TaskStatus};
use sandbox::{CommandInput, CommandSpec, PreparedSandbox, ProtectionStatus, WORKSPACE, WardenLauncher};

use crate::args::{ExecutorFlags, LimitFlags, NodeFlags};
use crate::config::{Config, IsolationMode};
use crate::exit_code::{self, OutcomeSummary};
use crate::interrupt::{InterruptSignals, KillOnSignal};
use crate::node::{hold_default_root, options, root_store};
use crate::print::{OutputFormat, Stdout, TextTable, is_closed_pipe, print_message};

/// The arguments of `conclave sandbox`.
#[derive(clap::Args, Debug)]
#[command(after_help = exit_code::EXIT_CODES_HELP)]
pub(crate) struct SandboxArgs {
    /// Show what this machine enforces and by which means, and run nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// File to copy to the working directory of the command; repeatable
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Network that the command may use: loopback, or a name from the configuration
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    executor: ExecutorFlags,
    #[command(flatten)]
    node: NodeFlags,
    /// Program to run and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,
}

pub(crate) fn run(args: SandboxArgs) -> Result<ExitCode> {
    ensure!(
        args.check == args.words.is_empty(),
        "give a command after `--`, or --check, but not both"
    );
    let limits = requested_limits(&args.limits)?;
    let config = args.node.layers(args.executor.config_flags())?.config()?;
    ensure!(
        config.executor.isolation == IsolationMode::Cell,
        "executor.isolation is none, so there is no cell to run the command in; give --isolation cell"
    );
    let Some(mut sandbox) = options::cells(&config) else {
        bail!("no cells are configured");
    };
    let _held_root = hold_default_root(root_store(&config)?, &mut sandbox)?;
    let format = match args.json {
        true => OutputFormat::Json,
        false => OutputFormat::Text,
    };
    // From here on signals must not end the process before the control groups are removed.
    let interrupts = InterruptSignals::listen()?;
    let prepared_sandbox = sandbox.prepare_temporary()?;
    let protections = prepared_sandbox.protections.clone();
    let result = run_in_cell(&args, &limits, &config, &prepared_sandbox, interrupts);
    prepared_sandbox
        .remove()
        .context("could not remove the control groups")?;
    match result? {
        SandboxRunResult::Checked => {
            print_protections(&protections, format)?;
            Ok(ExitCode::SUCCESS)
        }
        SandboxRunResult::Interrupted(code) => Ok(code),
        SandboxRunResult::Finished(outcome, kill_on_signal) => {
            kill_on_signal.finish();
            print_outcome(*outcome, format)
        }
    }
}

/// How a run of `conclave sandbox` ended: only checked, interrupted by a signal, or with the outcome of the command.
enum SandboxRunResult {
    Checked,
    Interrupted(ExitCode),
    Finished(Box<FinishedCommand>, KillOnSignal),
}

/// How the command of `conclave sandbox` ended, and the streams that are too long for the outcome.
struct FinishedCommand {
    outcome: model::Outcome,
    stdout: Option<Arc<File>>,
    stderr: Option<Arc<File>>,
}

/// The limits of the flags, checked as those of a task are.
fn requested_limits(flags: &LimitFlags) -> Result<Limits> {
    let unbounded = LimitPolicy {
        default: Limits::default(),
        max: Limits::default(),
        divide_open_files: false,
    };
    Ok(unbounded.resolve(Limits::from(flags.limits()))?)
}

fn run_in_cell(
    args: &SandboxArgs,
    limits: &Limits,
    config: &Config,
    prepared_sandbox: &PreparedSandbox,
    interrupts: InterruptSignals,
) -> Result<SandboxRunResult> {
    let launcher = WardenLauncher::this_binary(prepared_sandbox.isolation.clone());
    let mut warden = launcher.start().map_err(sandbox::EnforcementError::from)?;
    if args.check {
        return Ok(SandboxRunResult::Checked);
    }
    if let Some(space) = limits.space {
        warden.set_task_space(space)?;
    }
    let folder = warden
        .task_folder()
        .context("the warden has no folder for the command")?;
    copy_files(
        &args.file,
        &folder.join("box"),
        prepared_sandbox.isolation.file_owner(),
    )?;
    let input = match io::stdin().is_terminal() {
        true => CommandInput::Bytes(Vec::new()),
        false => match copy_input(&folder, &interrupts)? {
            Some(input) => input,
            None => return Ok(SandboxRunResult::Interrupted(interrupts.exit_code())),
        },
    };
    let spec = CommandSpec {
        argv: args.words.iter().map(Into::into).collect(),
        env: executor::default_environment(Path::new(WORKSPACE), Path::new("/tmp")),
        directory: WORKSPACE.into(),
        input,
        limits: executor::limits_for_sandbox(limits),
        max_captured_bytes: limits.output.unwrap_or(config.executor.keep_output.0),
        network: args.network.clone(),
    };
    let run_handle = warden.new_run();
    let kill_on_signal = interrupts.kill(run_handle.clone());
    let outcome = warden
        .run(&run_handle, &spec)
        .context("could not run the command")?;
    let (stdout, stderr) = (outcome.stdout.file.clone(), outcome.stderr.file.clone());
    Ok(match executor::outcome_from_sandbox(outcome) {
        Some(outcome) => {
            let finished = FinishedCommand {
                outcome,
                stdout,
                stderr,
            };
            SandboxRunResult::Finished(Box::new(finished), kill_on_signal)
        }
        None => SandboxRunResult::Interrupted(kill_on_signal.exit_code()),
    })
}

fn print_protections(protections: &[ProtectionStatus], format: OutputFormat) -> Result<()> {
    match format {
        OutputFormat::Json => Stdout::open().json_lines(protections),
        OutputFormat::Text => {
            let mut table = TextTable::new(["PROTECTION", "ENFORCED BY"]);
            for ProtectionStatus {
                protection,
                enforced_by,
                ..
            } in protections
            {
                table.row([protection.to_string(), enforced_by.clone()]);
            }
            Stdout::open().text(table)
        }
    }
}

fn copy_files(files: &[PathBuf], folder: &Path, owner: Option<u32>) -> Result<()> {
    for file in files {
        let name = file
            .file_name()
            .with_context(|| format!("{} has no name", file.display()))?;
        // Signals are not handled during the copy, so it must not block, as it would for a pipe.
        ensure!(
            fs::metadata(file).is_ok_and(|metadata| metadata.is_file()),
            "{} does not exist, or is not a file",
            file.display()
        );
        let to = folder.join(name);
        ensure!(
            !to.exists(),
            "there are two files named {}, and all files are copied into one folder",
            name.display()
        );
        fs::copy(file, &to).with_context(|| format!("could not copy {} into the cell", file.display()))?;
        lchown(&to, owner, owner).context("could not change the owner of a file to the command's user")?;
    }
    Ok(())
}

/// Copies standard input to a file in the cell, which counts against `--space`. Returns `None` if a signal arrives.
fn copy_input(folder: &Path, interrupts: &InterruptSignals) -> Result<Option<CommandInput>> {
    const NAME: &str = "input";
    let mut to = File::create_new(folder.join(NAME)).context("could not create a file for standard input")?;
    let mut from = io::stdin().lock();
    let copied = interrupts
        .copy(&mut from, &mut to)
        .map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => anyhow!("standard input does not fit into --space"),
            _ => anyhow!(error).context("could not read standard input"),
        })?;
    Ok(copied.then(|| CommandInput::File(Path::new(WORKSPACE).join(NAME))))
}

/// Prints the outcome. The exit code is that of `conclave run`.
fn print_outcome(finished: FinishedCommand, format: OutputFormat) -> Result<ExitCode> {
    let outcome = &finished.outcome;
    let code = exit_code::exit_code_for(OutcomeSummary {
        status: match outcome.succeeded() {
            true => TaskStatus::Success,
            false => TaskStatus::RunFailed,
        },
        reason: Some(outcome.reason),
        exit_code: outcome.exit_code,
        signal: outcome.signal,
        truncated: outcome.stdout.truncated || outcome.stderr.truncated,
    });
    match print_outputs(finished, format) {
        // A closed pipe does not change the exit code.
        Err(error) if !is_closed_pipe(&error) => Err(error),
        _ => Ok(ExitCode::from(code)),
    }
}

fn print_outputs(finished: FinishedCommand, format: OutputFormat) -> Result<()> {
    let FinishedCommand {
        outcome,
        stdout,
        stderr,
    } = finished;
    match format {
        OutputFormat::Json => Stdout::open().json(&api::Outcome::from(outcome)),
        OutputFormat::Text => {
            copy_stream(&outcome.stdout.head, stdout.as_deref(), &mut io::stdout())?;
            copy_stream(&outcome.stderr.head, stderr.as_deref(), &mut io::stderr())?;
            for (name, output) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
                if output.truncated {
                    print_message(format_args!(
                        "{name} was cut off after {} bytes; --output SIZE keeps more",
                        output.size
                    ));
                }
            }
            let mut json = serde_json::to_value(api::Outcome::from(outcome))?;
            for field in ["stdout", "stderr"] {
                json.as_object_mut().map(|fields| fields.remove(field));
            }
            Ok(writeln!(io::stderr(), "{json}")?)
        }
    }
}

/// Writes a stream of the command, which is in the file if it is too long for its head.
fn copy_stream(head: &[u8], file: Option<&File>, to: &mut impl Write) -> Result<()> {
    match file {
        Some(mut file) => {
            io::copy(&mut file, to)?;
        }
        None => to.write_all(head)?,
    }
    Ok(to.flush()?)
}
