//! Flags that say how a program is judged.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use model::{JudgeProtocol, NameError, ProblemName, StopRule, Tolerance};

/// Flags of `judge`, `run` and `add` that say by which cases a program is judged, and how.
///
/// What requires `--cases` also conflicts with `--problem`: clap drops a requirement that something else rules out.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Judging")]
pub(crate) struct JudgingFlags {
    /// Problem that brings the cases, the check and limits, by its name
    #[arg(long, value_name = "NAME", value_parser = problem_name)]
    pub(crate) problem: Option<ProblemName>,
    /// Folder with cases: each NAME.in, with the expected output in NAME.ans or NAME.out
    #[arg(long, value_name = "DIR", conflicts_with = "problem")]
    pub(crate) cases: Option<PathBuf>,
    /// How outputs are compared with the expected ones; by default word by word, if there are any
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        requires = "cases",
        conflicts_with = "problem"
    )]
    pub(crate) check: Option<ComparisonKind>,
    /// Compare words that are numbers with this absolute or relative tolerance
    #[arg(long, value_name = "NUMBER", value_parser = tolerance, requires = "cases", conflicts_with_all = ["problem", "checker", "interactor"])]
    pub(crate) float_tolerance: Option<Tolerance>,
    /// Program that reads each output and judges it: a source file, or a folder with several
    #[arg(long, value_name = "PATH", requires = "cases", conflicts_with_all = ["problem", "check"])]
    pub(crate) checker: Option<PathBuf>,
    /// Program that talks with the judged program and judges it: a source file, or a folder with several
    #[arg(long, value_name = "PATH", requires = "cases", conflicts_with_all = ["problem", "check", "checker"])]
    pub(crate) interactor: Option<PathBuf>,
    /// How the program of --checker tells what it found: icpc or testlib
    #[arg(long, value_name = "NAME", value_parser = protocol, requires = "checker")]
    pub(crate) protocol: Option<JudgeProtocol>,
    /// Argument of the program of --checker or --interactor, after those of its protocol; repeatable
    #[arg(
        long = "judge-arg",
        value_name = "WORD",
        requires = "cases",
        allow_hyphen_values = true
    )]
    pub(crate) judge_args: Vec<String>,
    /// Which cases run after one that was not accepted: never (all run) or first_failure (none)
    #[arg(long, value_name = "RULE", value_parser = stop_rule, requires = "cases", conflicts_with = "problem")]
    pub(crate) stop: Option<StopRule>,
}

/// A comparison of an output with the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComparisonKind {
    /// Word by word
    Tokens,
    /// Line by line, without blanks at the end of lines
    Lines,
    /// Byte by byte
    Exact,
    /// Every output is accepted
    None,
}

pub(crate) fn problem_name(text: &str) -> Result<ProblemName, NameError> {
    ProblemName::new(text)
}

fn tolerance(text: &str) -> Result<Tolerance, String> {
    let number = text.parse().ok().and_then(Tolerance::new);
    number.ok_or_else(|| "write a number that is not negative, like 1e-6".to_string())
}

fn protocol(text: &str) -> Result<JudgeProtocol, String> {
    let found = JudgeProtocol::ALL
        .into_iter()
        .find(|protocol| protocol.as_str() == text);
    found.ok_or_else(|| "known are icpc and testlib".to_string())
}

fn stop_rule(text: &str) -> Result<StopRule, String> {
    let found = StopRule::ALL.into_iter().find(|rule| rule.as_str() == text);
    found.ok_or_else(|| "known are never and first_failure".to_string())
}
