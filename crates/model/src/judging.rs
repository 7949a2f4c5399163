//! Judging: the cases of a task, and how the output of each is checked.

mod program;
mod validate;

use std::collections::BTreeMap;
use std::fmt;

use crate::id::check_length;
use crate::{
    CompileStep, Content, ExecuteStep, LanguageName, Limits, NameError, Points, ProblemRef, RootName,
    TaskFile, TaskFiles,
};

/// How a task is judged: its execute step runs once for each case, and a check decides about each output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judging {
    /// In the order in which they run and are shown. Their names differ.
    pub cases: Vec<Case>,
    pub check: Check,
    pub stop: StopRule,
    /// How the points of a group of cases add up. A group that is not listed has the sum of its cases.
    pub groups: BTreeMap<CaseName, GroupScoring>,
    /// Where the cases come from, if the task does not bring them itself. Then its user may not see what they contain.
    pub problem: Option<ProblemRef>,
}

/// One test of a judged program: what it reads, and what it should write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub name: CaseName,
    /// Standard input of the execute step.
    pub input: Content,
    /// What the check compares the output with. It never enters the cell of the program that is judged.
    pub answer: Option<Content>,
    /// Appended to the arguments of the execute step.
    pub args: Vec<String>,
    /// Files in the workspace besides those that the compile step has left.
    pub files: TaskFiles,
    pub points: Points,
    pub group: Option<CaseName>,
    /// Limits for this case alone. What is not set here is as in the execute step.
    pub limits: Limits,
    /// A sample of a problem, whose contents everybody may see.
    pub is_sample: bool,
}

/// The name of a case or of a group of cases within a task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaseName(String);

/// Which of the cases run when one was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StopRule {
    /// All cases run.
    #[default]
    Never,
    /// The cases after the first one that was not accepted are skipped.
    FirstFailure,
}

/// How the points of the cases of a group add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum GroupScoring {
    #[default]
    Sum,
    /// The least points of any of its cases.
    Min,
    /// The sum of its cases if all are accepted, and nothing otherwise.
    PassAll,
}

/// How the output of a case is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every output is accepted.
    None,
    /// Byte by byte.
    Exact,
    /// Line by line, without blanks at the end of lines and without empty lines at the end.
    Lines,
    /// Word by word.
    Tokens(TokenCheck),
    /// A program that reads the output when the case has ended.
    Program(JudgeProgram),
    /// A program that talks with the judged program while it runs.
    Interactive(JudgeProgram),
}

/// What counts as equal when outputs are compared word by word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TokenCheck {
    pub case_sensitive: bool,
    /// Whether the blanks between words must be equal, too.
    pub space_sensitive: bool,
    /// If one of both is set, numbers are equal if either error is within its tolerance.
    pub absolute_tolerance: Option<Tolerance>,
    pub relative_tolerance: Option<Tolerance>,
}

/// By how much a number may differ from the expected one: finite and not negative.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance(f64);

/// A program that judges: a checker or an interactor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeProgram {
    pub protocol: JudgeProtocol,
    /// Fills in what the program leaves out, like the language of a task.
    pub language: Option<LanguageName>,
    /// The root file system of its cells; `None` is the executor's default.
    pub root: Option<RootName>,
    pub source: TaskFiles,
    pub compile: Option<CompileStep>,
    /// Its arguments follow those of the protocol.
    pub execute: ExecuteStep,
}

/// How a judge program gets its files and tells what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgeProtocol {
    /// That of ICPC problem packages: exit code 42 accepts, 43 rejects; messages and scores are files in a folder.
    Icpc,
    /// That of testlib: exit code 0 accepts, 1 and 2 reject, 7 gives points; the message is on stderr.
    Testlib,
}

const CASE_NAME_LIMIT: usize = 128;

impl CaseName {
    pub fn new(name: impl Into<String>) -> Result<CaseName, NameError> {
        let name = name.into();
        check_length(&name, CASE_NAME_LIMIT)?;
        match name.chars().any(char::is_control) {
            true => Err(NameError::Control),
            false => Ok(CaseName(name)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for CaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaseName({self})")
    }
}

impl StopRule {
    pub const ALL: [StopRule; 2] = [StopRule::Never, StopRule::FirstFailure];

    pub fn as_str(self) -> &'static str {
        match self {
            StopRule::Never => "never",
            StopRule::FirstFailure => "first_failure",
        }
    }
}

impl GroupScoring {
    pub const ALL: [GroupScoring; 3] = [GroupScoring::Sum, GroupScoring::Min, GroupScoring::PassAll];

    pub fn as_str(self) -> &'static str {
        match self {
            GroupScoring::Sum => "sum",
            GroupScoring::Min => "min",
            GroupScoring::PassAll => "pass_all",
        }
    }
}

impl JudgeProtocol {
    pub const ALL: [JudgeProtocol; 2] = [JudgeProtocol::Icpc, JudgeProtocol::Testlib];

    pub fn as_str(self) -> &'static str {
        match self {
            JudgeProtocol::Icpc => "icpc",
            JudgeProtocol::Testlib => "testlib",
        }
    }
}

impl Tolerance {
    /// `None` if the number is negative or not finite.
    pub fn new(tolerance: f64) -> Option<Tolerance> {
        // Adding zero turns -0 into 0, so that equal tolerances have equal bits.
        (tolerance.is_finite() && tolerance >= 0.0).then_some(Tolerance(tolerance + 0.0))
    }

    pub fn as_f64(self) -> f64 {
        self.0
    }
}

impl PartialEq for Tolerance {
    fn eq(&self, other: &Tolerance) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Tolerance {}

impl Check {
    /// Whether the check compares the output with an answer.
    pub fn needs_answer(&self) -> bool {
        match self {
            Check::Exact | Check::Lines | Check::Tokens(_) => true,
            Check::None | Check::Program(_) | Check::Interactive(_) => false,
        }
    }

    /// The program that judges, if there is one.
    pub fn program(&self) -> Option<&JudgeProgram> {
        match self {
            Check::Program(program) | Check::Interactive(program) => Some(program),
            Check::None | Check::Exact | Check::Lines | Check::Tokens(_) => None,
        }
    }

    pub fn program_mut(&mut self) -> Option<&mut JudgeProgram> {
        match self {
            Check::Program(program) | Check::Interactive(program) => Some(program),
            Check::None | Check::Exact | Check::Lines | Check::Tokens(_) => None,
        }
    }
}

impl Case {
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        let files = self.files.values().map(|file| &file.content);
        [&self.input].into_iter().chain(&self.answer).chain(files)
    }

    fn contents_mut(&mut self) -> impl Iterator<Item = &mut Content> {
        let files = self
            .files
            .values_mut()
            .map(|file: &mut TaskFile| &mut file.content);
        [&mut self.input].into_iter().chain(&mut self.answer).chain(files)
    }
}

impl Judging {
    /// More cases than these would make a task that no page and no table can show.
    pub const MAX_CASES: usize = 5_000;

    /// The contents of all cases are on the executor while it judges, however large its cache is.
    pub const MAX_BLOB_BYTES: u64 = 2 << 30;

    /// All contents of the cases and of the program that judges.
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        let program = self.check.program();
        let source = program.into_iter().flat_map(|program| program.source.values());
        let cases = self.cases.iter().flat_map(Case::contents);
        cases.chain(source.map(|file| &file.content))
    }

    pub fn contents_mut(&mut self) -> impl Iterator<Item = &mut Content> {
        let program = self.check.program_mut();
        let source = program
            .into_iter()
            .flat_map(|program| program.source.values_mut());
        let cases = self.cases.iter_mut().flat_map(Case::contents_mut);
        cases.chain(source.map(|file| &mut file.content))
    }
}

impl Limits {
    /// These limits, and those of `other` where there are none here.
    pub fn or(self, other: Limits) -> Limits {
        Limits {
            wall: self.wall.or(other.wall),
            cpu: self.cpu.or(other.cpu),
            memory: self.memory.or(other.memory),
            output: self.output.or(other.output),
            processes: self.processes.or(other.processes),
            file_size: self.file_size.or(other.file_size),
            open_files: self.open_files.or(other.open_files),
            stack: self.stack.or(other.stack),
            space: self.space.or(other.space),
        }
    }
}
