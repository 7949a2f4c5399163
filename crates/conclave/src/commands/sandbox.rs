//! `conclave sandbox`: one command in a cell, for trying out and for finding out why a task fails.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use sandbox::{Ground, Input, Launcher, Spec, Statement, WORKSPACE, Warden};

use crate::args::{ExecutorFlags, LimitFlags, NodeFlags};
use crate::config::{Config, Isolation};
use crate::node::options;
use crate::print::{Form, Out, Table};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Say what this machine enforces and by what means, and run nothing
    #[arg(long)]
    check: bool,
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
    // Two of these at a time must not end each other's commands.
    let ground = plan.prepare(&format!("conclave-sandbox-{}", std::process::id()))?;
    let ended = in_cell(&args, &config, &ground, form);
    ground.leave().context("could not remove the control groups")?;
    ended
}

fn in_cell(args: &Args, config: &Config, ground: &Ground, form: Form) -> Result<ExitCode> {
    let launcher = Launcher::this_binary(ground.isolation.clone());
    let mut warden = launcher.start().map_err(sandbox::WallError::from)?;
    if args.check {
        say(&ground.statements, form)?;
        return Ok(ExitCode::SUCCESS);
    }
    let limits = model::Limits::from(args.limits.limits());
    if let Some(space) = limits.space {
        warden.give_space(space)?;
    }
    copy_in(&args.file, &warden, ground.isolation.owner())?;
    let spec = spec(args, &limits, config)?;
    let ticket = warden.ticket();
    let ended = warden.run(&ticket, &spec).context("could not run the command")?;
    let Some(outcome) = executor::outcome_of(ended) else {
        bail!("the command was ended from outside");
    };
    tell(outcome, form)
}

fn say(statements: &[Statement], form: Form) -> Result<()> {
    match form {
        Form::Json => Out::open().json(&statements),
        Form::People => {
            let mut table = Table::new(["WALL", "BY"]);
            for Statement { wall, by } in statements {
                table.row([wall.to_string(), by.clone()]);
            }
            Out::open().text(table)
        }
    }
}

fn copy_in(files: &[PathBuf], warden: &Warden, owner: Option<u32>) -> Result<()> {
    let folder = warden
        .folder()
        .context("the warden has made no folder for the command")?;
    for file in files {
        let name = file
            .file_name()
            .with_context(|| format!("{} has no name", file.display()))?;
        let to = folder.join("box").join(name);
        fs::copy(file, &to).with_context(|| format!("could not copy {} into the cell", file.display()))?;
        lchown(&to, owner, owner).context("could not hand a file over to the command's user")?;
    }
    Ok(())
}

fn spec(args: &Args, limits: &model::Limits, config: &Config) -> Result<Spec> {
    let mut input = Vec::new();
    if !io::stdin().is_terminal() {
        io::stdin()
            .read_to_end(&mut input)
            .context("could not read standard input")?;
    }
    Ok(Spec {
        argv: args.words.iter().map(Into::into).collect(),
        env: executor::usual_environment(Path::new(WORKSPACE), Path::new("/tmp")),
        directory: WORKSPACE.into(),
        input: Input::Bytes(input),
        limits: executor::sandbox_limits(limits),
        keep: limits.output.unwrap_or(config.executor.keep_output.0),
        network: args.network.clone(),
    })
}

/// Exits as the command did, or with 1 where a limit ended it.
fn tell(outcome: model::Outcome, form: Form) -> Result<ExitCode> {
    let code = outcome
        .exit_code
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1);
    let outcome = api::Outcome::from(outcome);
    match form {
        Form::Json => Out::open().json(&outcome)?,
        Form::People => {
            Out::open().text(&outcome.stdout)?;
            let mut err = io::stderr().lock();
            err.write_all(outcome.stderr.as_bytes())?;
            let mut shown = serde_json::to_value(&outcome)?;
            for field in ["stdout", "stderr"] {
                shown.as_object_mut().map(|fields| fields.remove(field));
            }
            writeln!(err, "{shown}")?;
        }
    }
    Ok(ExitCode::from(code))
}
