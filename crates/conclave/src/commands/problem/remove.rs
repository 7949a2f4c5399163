//! `conclave problem remove`: removes a problem from a server.

use std::process::ExitCode;

use anyhow::Result;
use model::ProblemName;

use crate::args::{ClientFlags, problem_name};
use crate::print::{OutputFormat, Stdout, confirm, print_message};

/// The arguments of `conclave problem remove`.
#[derive(clap::Args, Debug)]
pub(super) struct RemoveProblemArgs {
    /// Name of the problem
    #[arg(value_parser = problem_name)]
    name: ProblemName,
    /// Remove it without asking
    #[arg(long, short = 'y')]
    yes: bool,
    #[command(flatten)]
    pub(super) client: ClientFlags,
}

pub(super) async fn run(args: RemoveProblemArgs) -> Result<ExitCode> {
    let (client, name) = (args.client.connect()?, &args.name);
    let question = format!("Remove the problem {name}? Tasks that were judged by it keep their verdicts.");
    let refusal = format!("the problem {name} would be removed; add --yes to remove it without a question");
    if !args.yes && !confirm(&question, &refusal)? {
        print_message("nothing was removed");
        return Ok(ExitCode::FAILURE);
    }
    client.remove_problem(name).await?;
    match args.client.output_format() {
        OutputFormat::Text => Stdout::open().line(format_args!("{name} removed"))?,
        OutputFormat::Json => Stdout::open().json(&serde_json::json!({"name": name.as_str()}))?,
    }
    Ok(ExitCode::SUCCESS)
}
