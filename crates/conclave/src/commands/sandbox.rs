//! `conclave sandbox`: one command in a cell, for trying out and for finding out why a task fails.

pub(super) mod interrupts;

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::{LimitPolicy, Limits, Status};
use sandbox::{Ground, Input, Launcher, Spec, Statement, WORKSPACE};

use self::interrupts::{Interrupts, Killing};
use crate::args::{ExecutorFlags, LimitFlags, NodeFlags};
use crate::config::{Config, Isolation};
use crate::exit;
use crate::node::options;
use crate::print::{Form, Out, Table, complain, is_closed_pipe};

#[derive(clap::Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct Args {
    /// Say what this machine enforces and by what means, and run nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// File to copy to where the command runs; repeatable
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Network that the command may use: loopback, or one that the configuration names
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

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    ensure!(
        args.check == args.words.is_empty(),
        "name a command after `--`, or give --check, but not both"
    );
    let limits = asked(&args.limits)?;
    let config = args.node.layers(args.executor.flags())?.config()?;
    ensure!(
        config.executor.isolation == Isolation::Cell,
        "executor.isolation is none: there is no cell to run this in; give --isolation cell"
    );
    let Some(plan) = options::cells(&config) else {
        bail!("no cells are configured");
    };
    let form = match args.json {
        true => Form::Json,
        false => Form::People,
    };
    // From here on there is something to be cleaned up.
    let interrupts = Interrupts::listen()?;
    let ground = plan.prepare_once()?;
    let statements = ground.statements.clone();
    let ended = in_cell(&args, &limits, &config, &ground, interrupts);
    ground.leave().context("could not remove the control groups")?;
    match ended? {
        Ended::Checked => {
            say(&statements, form)?;
            Ok(ExitCode::SUCCESS)
        }
        Ended::Interrupted(code) => Ok(code),
        Ended::With(outcome, killing) => {
            killing.is_over();
            tell(outcome, form)
        }
    }
}

enum Ended {
    Checked,
    Interrupted(ExitCode),
    With(model::Outcome, Killing),
}

/// What is refused to tasks is refused here.
fn asked(flags: &LimitFlags) -> Result<Limits> {
    let anything = LimitPolicy {
        default: Limits::default(),
        max: Limits::default(),
        divide_open_files: false,
    };
    Ok(anything.resolve(Limits::from(flags.limits()))?)
}

fn in_cell(
    args: &Args,
    limits: &Limits,
    config: &Config,
    ground: &Ground,
    interrupts: Interrupts,
) -> Result<Ended> {
    let launcher = Launcher::this_binary(ground.isolation.clone());
    let mut warden = launcher.start().map_err(sandbox::WallError::from)?;
    if args.check {
        return Ok(Ended::Checked);
    }
    if let Some(space) = limits.space {
        warden.give_space(space)?;
    }
    let folder = warden
        .folder()
        .context("the warden has made no folder for the command")?;
    copy_files(&args.file, &folder.join("box"), ground.isolation.owner())?;
    let input = match io::stdin().is_terminal() {
        true => Input::Bytes(Vec::new()),
        false => match copy_input(&folder, &interrupts)? {
            Some(input) => input,
            None => return Ok(Ended::Interrupted(interrupts.code())),
        },
    };
    let spec = Spec {
        argv: args.words.iter().map(Into::into).collect(),
        env: executor::usual_environment(Path::new(WORKSPACE), Path::new("/tmp")),
        directory: WORKSPACE.into(),
        input,
        limits: executor::sandbox_limits(limits),
        keep: limits.output.unwrap_or(config.executor.keep_output.0),
        network: args.network.clone(),
    };
    let ticket = warden.ticket();
    let killing = interrupts.kill(ticket.clone());
    let ended = warden.run(&ticket, &spec).context("could not run the command")?;
    Ok(match executor::outcome_of(ended) {
        Some(outcome) => Ended::With(outcome, killing),
        None => Ended::Interrupted(killing.code()),
    })
}

fn say(statements: &[Statement], form: Form) -> Result<()> {
    match form {
        Form::Json => Out::open().json_lines(statements),
        Form::People => {
            let mut table = Table::new(["WALL", "BY"]);
            for Statement { wall, by, .. } in statements {
                table.row([wall.to_string(), by.clone()]);
            }
            Out::open().text(table)
        }
    }
}

fn copy_files(files: &[PathBuf], folder: &Path, owner: Option<u32>) -> Result<()> {
    for file in files {
        let name = file
            .file_name()
            .with_context(|| format!("{} has no name", file.display()))?;
        // Nobody is heard while it is copied, so it must not be something that is waited for.
        ensure!(
            fs::metadata(file).is_ok_and(|it| it.is_file()),
            "{} is not there, or is no file",
            file.display()
        );
        let to = folder.join(name);
        ensure!(
            !to.exists(),
            "there are two files of the name {}: all go into one folder",
            name.display()
        );
        fs::copy(file, &to).with_context(|| format!("could not copy {} into the cell", file.display()))?;
        lchown(&to, owner, owner).context("could not hand a file over to the command's user")?;
    }
    Ok(())
}

/// Beside the command's files, and held against the same `space`. None if it was interrupted.
fn copy_input(folder: &Path, interrupts: &Interrupts) -> Result<Option<Input>> {
    const NAME: &str = "input";
    let mut to = File::create_new(folder.join(NAME)).context("could not make a file for standard input")?;
    let mut from = io::stdin().lock();
    let copied = interrupts
        .copy(&mut from, &mut to)
        .map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => anyhow!("standard input does not fit into --space"),
            _ => anyhow!(error).context("could not take in standard input"),
        })?;
    Ok(copied.then(|| Input::File(Path::new(WORKSPACE).join(NAME))))
}

/// Exits as `conclave run` does.
fn tell(outcome: model::Outcome, form: Form) -> Result<ExitCode> {
    let code = exit::code(exit::Ending {
        status: match outcome.succeeded() {
            true => Status::Success,
            false => Status::RunFailed,
        },
        reason: Some(outcome.reason),
        exit_code: outcome.exit_code,
        signal: outcome.signal,
        cut_off: outcome.stdout.truncated || outcome.stderr.truncated,
    });
    match show(outcome, form) {
        // That nobody reads the output does not change how the command ended.
        Err(error) if !is_closed_pipe(&error) => Err(error),
        _ => Ok(ExitCode::from(code)),
    }
}

fn show(outcome: model::Outcome, form: Form) -> Result<()> {
    match form {
        Form::Json => Out::open().json(&api::Outcome::from(outcome)),
        Form::People => {
            Out::open().bytes(&outcome.stdout.bytes)?;
            io::stderr().write_all(&outcome.stderr.bytes)?;
            for (name, output) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
                if output.truncated {
                    complain(format_args!(
                        "{name} was cut off: {} bytes were kept; --output SIZE keeps more",
                        output.bytes.len()
                    ));
                }
            }
            let mut shown = serde_json::to_value(api::Outcome::from(outcome))?;
            for field in ["stdout", "stderr"] {
                shown.as_object_mut().map(|fields| fields.remove(field));
            }
            Ok(writeln!(io::stderr(), "{shown}")?)
        }
    }
}
