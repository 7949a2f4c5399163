//! `conclave problem show`: shows the limits, cases and check of a problem.

use std::process::ExitCode;

use anyhow::Result;
use api::{Check, JudgeProblem, format_time};
use model::ProblemName;

use crate::args::{ClientFlags, problem_name};
use crate::print::{KeyValueList, OutputFormat, Stdout, TextTable};

/// The arguments of `conclave problem show`.
#[derive(clap::Args, Debug)]
pub(super) struct ShowProblemArgs {
    /// Name of the problem
    #[arg(value_parser = problem_name)]
    name: ProblemName,
    #[command(flatten)]
    pub(super) client: ClientFlags,
}

pub(super) async fn run(args: ShowProblemArgs) -> Result<ExitCode> {
    let problem = args.client.connect()?.problem(&args.name).await?;
    let mut out = Stdout::open();
    match args.client.output_format() {
        OutputFormat::Json => out.json(&problem)?,
        OutputFormat::Text => {
            out.text(summary(&problem))?;
            out.line("")?;
            out.text(case_table(&problem))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn summary(problem: &JudgeProblem) -> KeyValueList {
    let mut list = KeyValueList::default();
    list.add("name", &problem.name);
    list.add("title", &problem.title);
    list.add("owner", &problem.owner);
    list.add("updated", format_time(problem.update_time));
    list.add("check", check_text(problem));
    list.add("stop", problem.stop.as_str());
    let limits = &problem.limits;
    list.add_if_some("CPU time limit", limits.cpu);
    list.add_if_some("wall time limit", limits.wall);
    list.add_if_some("memory limit", limits.memory);
    list.add_if_some("output limit", limits.output);
    for (name, scoring) in &problem.groups {
        list.add(format!("group {name}"), scoring.as_str());
    }
    list
}

fn check_text(problem: &JudgeProblem) -> String {
    if let Some(program) = &problem.interact {
        return format!("interactive, protocol {}", program.protocol.as_str());
    }
    match &problem.check {
        None | Some(Check::None) => "none".into(),
        Some(Check::Exact) => "exact".into(),
        Some(Check::Lines) => "lines".into(),
        Some(Check::Tokens(_)) => "tokens".into(),
        Some(Check::Program(program)) => format!("program, protocol {}", program.protocol.as_str()),
    }
}

fn case_table(problem: &JudgeProblem) -> TextTable {
    let mut table = TextTable::new(["CASE", "POINTS", "GROUP", "SAMPLE"]).right_align([1]);
    for case in &problem.cases {
        table.row([
            case.name.to_string(),
            case.points.to_string(),
            case.group.as_ref().map_or("-".to_string(), ToString::to_string),
            match case.sample {
                true => "yes".to_string(),
                false => "-".to_string(),
            },
        ]);
    }
    table
}
