//! The encoded forms of a task's cases and check, and of what a problem decides.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{
    Case, CaseName, Check, CompileStep, ExecuteStep, GroupScoring, JudgeProgram, JudgeProtocol, Judging,
    LanguageName, Limits, NetworkName, Points, ProblemName, ProblemRef, RootName, StopRule, TokenCheck,
    Tolerance, UserName,
};
use serde::{Deserialize, Serialize};

use super::spec::{
    CommandDocument, ContentDocument, FileDocument, files, into_files, into_variables, variables,
};

/// Version 1 of the encoded form in which both stores write what a problem decides about the tasks that name it.
#[derive(Serialize, Deserialize)]
pub(super) struct ProblemContentDocument<'a> {
    limits: CaseLimitsDocument,
    #[serde(borrow)]
    judging: JudgingDocument<'a>,
}

/// The encoded form of how a task is judged (`Judging`), in a stored task spec and in a stored problem. Names stand for the
/// variants of the model's enums, because a number would depend on their order.
#[derive(Serialize, Deserialize)]
pub(super) struct JudgingDocument<'a> {
    #[serde(borrow)]
    cases: Vec<CaseDocument<'a>>,
    check: CheckDocument<'a>,
    stop: &'a str,
    /// Pairs of a group's name and its scoring.
    groups: Vec<(&'a str, &'a str)>,
    /// The name of the problem and its owner.
    problem: Option<(&'a str, &'a str)>,
}

/// The encoded form of a case in a stored task spec or problem.
#[derive(Serialize, Deserialize)]
struct CaseDocument<'a> {
    name: &'a str,
    #[serde(borrow)]
    input: ContentDocument<'a>,
    answer: Option<ContentDocument<'a>>,
    args: Vec<&'a str>,
    files: Vec<FileDocument<'a>>,
    /// Millionths of a point.
    points: u64,
    group: Option<&'a str>,
    limits: CaseLimitsDocument,
    is_sample: bool,
}

/// The encoded form of a check in a stored task spec or problem. Variants are only appended.
#[derive(Serialize, Deserialize)]
enum CheckDocument<'a> {
    None,
    Exact,
    Lines,
    Tokens {
        case_sensitive: bool,
        space_sensitive: bool,
        absolute_tolerance: Option<f64>,
        relative_tolerance: Option<f64>,
    },
    Program(#[serde(borrow)] JudgeProgramDocument<'a>),
    Interactive(#[serde(borrow)] JudgeProgramDocument<'a>),
}

/// The encoded form of a program that judges, in a stored task spec or problem.
#[derive(Serialize, Deserialize)]
struct JudgeProgramDocument<'a> {
    protocol: &'a str,
    language: Option<&'a str>,
    root: Option<&'a str>,
    #[serde(borrow)]
    source: Vec<FileDocument<'a>>,
    compile: Option<JudgeStepDocument<'a>>,
    execute: JudgeStepDocument<'a>,
    args: Vec<&'a str>,
    input: ContentDocument<'a>,
}

/// The encoded form of a step of a program that judges.
#[derive(Serialize, Deserialize)]
struct JudgeStepDocument<'a> {
    #[serde(borrow)]
    command: CommandDocument<'a>,
    env: Vec<(&'a str, &'a str)>,
    network: Option<&'a str>,
    limits: CaseLimitsDocument,
}

/// The encoded form of all limits of a case, a problem or a program that judges.
#[derive(Serialize, Deserialize)]
struct CaseLimitsDocument {
    wall: Option<Duration>,
    cpu: Option<Duration>,
    memory: Option<u64>,
    output: Option<u64>,
    processes: Option<u32>,
    file_size: Option<u64>,
    open_files: Option<u32>,
    stack: Option<u64>,
    space: Option<u64>,
}

impl<'a> ProblemContentDocument<'a> {
    pub(super) fn new(limits: &Limits, judging: &'a Judging) -> ProblemContentDocument<'a> {
        ProblemContentDocument {
            limits: limits.into(),
            judging: judging.into(),
        }
    }
}

impl TryFrom<ProblemContentDocument<'_>> for (Limits, Judging) {
    type Error = postcard::Error;

    fn try_from(document: ProblemContentDocument<'_>) -> Result<(Limits, Judging), postcard::Error> {
        Ok((document.limits.into(), document.judging.try_into()?))
    }
}

impl<'a> From<&'a Judging> for JudgingDocument<'a> {
    fn from(judging: &'a Judging) -> JudgingDocument<'a> {
        let Judging {
            cases,
            check,
            stop,
            groups,
            problem,
        } = judging;
        let group = |(name, scoring): (&'a CaseName, &GroupScoring)| (name.as_str(), scoring.as_str());
        JudgingDocument {
            cases: cases.iter().map(Into::into).collect(),
            check: check.into(),
            stop: stop.as_str(),
            groups: groups.iter().map(group).collect(),
            problem: problem
                .as_ref()
                .map(|problem| (problem.name.as_str(), problem.owner.as_str())),
        }
    }
}

impl TryFrom<JudgingDocument<'_>> for Judging {
    type Error = postcard::Error;

    fn try_from(document: JudgingDocument<'_>) -> Result<Judging, postcard::Error> {
        let JudgingDocument {
            cases,
            check,
            stop,
            groups,
            problem,
        } = document;
        let group = |(name, scoring): (&str, &str)| {
            let scoring = named(scoring, &GroupScoring::ALL, GroupScoring::as_str)?;
            Ok((case_name(name)?, scoring))
        };
        let groups: Result<BTreeMap<_, _>, postcard::Error> = groups.into_iter().map(group).collect();
        let problem = problem.map(|(name, owner)| {
            Ok::<_, postcard::Error>(ProblemRef {
                name: ProblemName::new(name).map_err(|_| postcard::Error::SerdeDeCustom)?,
                owner: UserName::new(owner).map_err(|_| postcard::Error::SerdeDeCustom)?,
            })
        });
        Ok(Judging {
            cases: cases.into_iter().map(Case::try_from).collect::<Result<_, _>>()?,
            check: check.try_into()?,
            stop: named(stop, &StopRule::ALL, StopRule::as_str)?,
            groups: groups?,
            problem: problem.transpose()?,
        })
    }
}

fn case_name(name: &str) -> Result<CaseName, postcard::Error> {
    CaseName::new(name).map_err(|_| postcard::Error::SerdeDeCustom)
}

/// The variant with this name.
fn named<T: Copy>(name: &str, all: &[T], as_str: fn(T) -> &'static str) -> Result<T, postcard::Error> {
    let mut variants = all.iter().copied();
    variants
        .find(|variant| as_str(*variant) == name)
        .ok_or(postcard::Error::SerdeDeCustom)
}

impl<'a> From<&'a Case> for CaseDocument<'a> {
    fn from(case: &'a Case) -> CaseDocument<'a> {
        let Case {
            name,
            input,
            answer,
            args,
            files: case_files,
            points,
            group,
            limits,
            is_sample,
        } = case;
        CaseDocument {
            name: name.as_str(),
            input: input.into(),
            answer: answer.as_ref().map(Into::into),
            args: args.iter().map(String::as_str).collect(),
            files: files(case_files),
            points: points.millionths(),
            group: group.as_ref().map(CaseName::as_str),
            limits: limits.into(),
            is_sample: *is_sample,
        }
    }
}

impl TryFrom<CaseDocument<'_>> for Case {
    type Error = postcard::Error;

    fn try_from(document: CaseDocument<'_>) -> Result<Case, postcard::Error> {
        Ok(Case {
            name: case_name(document.name)?,
            input: document.input.into(),
            answer: document.answer.map(Into::into),
            args: document.args.into_iter().map(String::from).collect(),
            files: into_files(document.files)?,
            points: Points::from_millionths(document.points),
            group: document.group.map(case_name).transpose()?,
            limits: document.limits.into(),
            is_sample: document.is_sample,
        })
    }
}

impl<'a> From<&'a Check> for CheckDocument<'a> {
    fn from(check: &'a Check) -> CheckDocument<'a> {
        match check {
            Check::None => CheckDocument::None,
            Check::Exact => CheckDocument::Exact,
            Check::Lines => CheckDocument::Lines,
            Check::Tokens(tokens) => CheckDocument::Tokens {
                case_sensitive: tokens.case_sensitive,
                space_sensitive: tokens.space_sensitive,
                absolute_tolerance: tokens.absolute_tolerance.map(Tolerance::as_f64),
                relative_tolerance: tokens.relative_tolerance.map(Tolerance::as_f64),
            },
            Check::Program(program) => CheckDocument::Program(program.into()),
            Check::Interactive(program) => CheckDocument::Interactive(program.into()),
        }
    }
}

impl TryFrom<CheckDocument<'_>> for Check {
    type Error = postcard::Error;

    fn try_from(document: CheckDocument<'_>) -> Result<Check, postcard::Error> {
        let tolerance = |number: Option<f64>| {
            number
                .map(|number| Tolerance::new(number).ok_or(postcard::Error::SerdeDeCustom))
                .transpose()
        };
        Ok(match document {
            CheckDocument::None => Check::None,
            CheckDocument::Exact => Check::Exact,
            CheckDocument::Lines => Check::Lines,
            CheckDocument::Tokens {
                case_sensitive,
                space_sensitive,
                absolute_tolerance,
                relative_tolerance,
            } => Check::Tokens(TokenCheck {
                case_sensitive,
                space_sensitive,
                absolute_tolerance: tolerance(absolute_tolerance)?,
                relative_tolerance: tolerance(relative_tolerance)?,
            }),
            CheckDocument::Program(program) => Check::Program(program.try_into()?),
            CheckDocument::Interactive(program) => Check::Interactive(program.try_into()?),
        })
    }
}

impl<'a> From<&'a JudgeProgram> for JudgeProgramDocument<'a> {
    fn from(program: &'a JudgeProgram) -> JudgeProgramDocument<'a> {
        let JudgeProgram {
            protocol,
            language,
            root,
            source,
            compile,
            execute,
        } = program;
        let ExecuteStep {
            command,
            args,
            env,
            input,
            network,
            limits,
        } = execute;
        JudgeProgramDocument {
            protocol: protocol.as_str(),
            language: language.as_ref().map(LanguageName::as_str),
            root: root.as_ref().map(RootName::as_str),
            source: files(source),
            compile: compile.as_ref().map(|step| JudgeStepDocument {
                command: (&step.command).into(),
                env: variables(&step.env).collect(),
                network: step.network.as_ref().map(NetworkName::as_str),
                limits: (&step.limits).into(),
            }),
            execute: JudgeStepDocument {
                command: command.into(),
                env: variables(env).collect(),
                network: network.as_ref().map(NetworkName::as_str),
                limits: limits.into(),
            },
            args: args.iter().map(String::as_str).collect(),
            input: input.into(),
        }
    }
}

impl TryFrom<JudgeProgramDocument<'_>> for JudgeProgram {
    type Error = postcard::Error;

    fn try_from(document: JudgeProgramDocument<'_>) -> Result<JudgeProgram, postcard::Error> {
        let network = |name: Option<&str>| {
            let name = name.map(NetworkName::new).transpose();
            name.map_err(|_| postcard::Error::SerdeDeCustom)
        };
        let language = document.language.map(LanguageName::new).transpose();
        let root = document.root.map(RootName::new).transpose();
        let compile = document.compile.map(|step| {
            Ok::<_, postcard::Error>(CompileStep {
                command: step.command.into(),
                env: into_variables(step.env),
                network: network(step.network)?,
                limits: step.limits.into(),
            })
        });
        Ok(JudgeProgram {
            protocol: named(document.protocol, &JudgeProtocol::ALL, JudgeProtocol::as_str)?,
            language: language.map_err(|_| postcard::Error::SerdeDeCustom)?,
            root: root.map_err(|_| postcard::Error::SerdeDeCustom)?,
            source: into_files(document.source)?,
            compile: compile.transpose()?,
            execute: ExecuteStep {
                command: document.execute.command.into(),
                args: document.args.into_iter().map(String::from).collect(),
                env: into_variables(document.execute.env),
                input: document.input.into(),
                network: network(document.execute.network)?,
                limits: document.execute.limits.into(),
            },
        })
    }
}

impl From<&Limits> for CaseLimitsDocument {
    fn from(limits: &Limits) -> CaseLimitsDocument {
        let Limits {
            wall,
            cpu,
            memory,
            output,
            processes,
            file_size,
            open_files,
            stack,
            space,
        } = *limits;
        CaseLimitsDocument {
            wall,
            cpu,
            memory,
            output,
            processes,
            file_size,
            open_files,
            stack,
            space,
        }
    }
}

impl From<CaseLimitsDocument> for Limits {
    fn from(document: CaseLimitsDocument) -> Limits {
        Limits {
            wall: document.wall,
            cpu: document.cpu,
            memory: document.memory,
            output: document.output,
            processes: document.processes,
            file_size: document.file_size,
            open_files: document.open_files,
            stack: document.stack,
            space: document.space,
        }
    }
}
