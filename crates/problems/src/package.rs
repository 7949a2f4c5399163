//! What a problem package means.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fmt, fs, io};

use model::{
    CaseName, Check, CompileStep, Content, ExecuteStep, GroupScoring, JudgeProgram, JudgeProtocol,
    LanguageName, Points, StepCommand, StopRule, TaskFiles, TokenCheck, WorkspacePath,
};

use crate::expected::ExpectedVerdicts;
use crate::languages::with_main_file;
use crate::limits::PackageLimits;

/// A problem package that was read.
#[derive(Clone, Debug)]
pub struct ProblemPackage {
    /// The name of its folder.
    pub name: String,
    /// For people; the name if the package has none.
    pub title: String,
    pub format: PackageFormat,
    pub limits: PackageLimits,
    /// Samples first, then in the order of their names.
    pub cases: Vec<PackageCase>,
    pub groups: BTreeMap<CaseName, GroupScoring>,
    pub check: PackageCheck,
    /// How contestants are judged. To see all verdicts that a submission gets, run it with [`StopRule::Never`].
    pub stop: StopRule,
    pub submissions: Vec<PackageSubmission>,
    /// Files that are added to every submission of a language.
    pub includes: BTreeMap<LanguageName, Vec<PackageFile>>,
    /// Files that are added to submissions of languages without files of their own.
    pub default_include: Vec<PackageFile>,
    /// What the package asks for and is not done, and what looks like a mistake. One sentence each, with the file.
    pub warnings: Vec<String>,
}

/// The version of the format of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageFormat {
    Legacy,
    Draft2023,
    V2025,
}

/// A case of a package, or of a folder with cases.
#[derive(Clone, Debug, PartialEq)]
pub struct PackageCase {
    /// The path of the input without its extension: `secret/02-large`.
    pub name: CaseName,
    pub input: PathBuf,
    pub answer: Option<PathBuf>,
    pub is_sample: bool,
    pub points: Points,
    pub group: Option<CaseName>,
    /// Further arguments of the program that is judged.
    pub args: Vec<String>,
    /// Files in the workspace of the program that is judged.
    pub files: Vec<PackageFile>,
}

/// A file of a program: its path in the workspace, and where its content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    pub path: WorkspacePath,
    pub content: PackageContent,
    pub executable: bool,
}

/// The content of a file of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageContent {
    Path(PathBuf),
    /// A file in which constants of the package were replaced.
    Bytes(Vec<u8>),
}

/// How the outputs of a package are judged.
#[derive(Clone, Debug, PartialEq)]
pub enum PackageCheck {
    Tokens(TokenCheck),
    Program(PackageProgram),
    Interactive(PackageProgram),
}

/// An output validator that the package brings.
#[derive(Clone, Debug, PartialEq)]
pub struct PackageProgram {
    /// `None` if the package says itself how the program is built and run.
    pub language: Option<LanguageName>,
    pub files: Vec<PackageFile>,
    /// They follow the arguments of the protocol.
    pub args: Vec<String>,
    pub build: Option<StepCommand>,
    /// [`StepCommand::of_language`] if the language decides.
    pub run: StepCommand,
}

/// A submission of a package: a program, and what is expected of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PackageSubmission {
    /// Its path in `submissions/`: `wrong_answer/greedy.py`.
    pub name: String,
    /// Without the files that the package includes: see [`ProblemPackage::source_of`].
    pub files: Vec<PackageFile>,
    pub language: LanguageName,
    /// How it is run, if the language does not decide.
    pub run: Option<StepCommand>,
    pub expected: ExpectedVerdicts,
}

impl PackageFormat {
    pub const ALL: [PackageFormat; 3] = [
        PackageFormat::Legacy,
        PackageFormat::Draft2023,
        PackageFormat::V2025,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            PackageFormat::Legacy => "legacy",
            PackageFormat::Draft2023 => "2023-07-draft",
            PackageFormat::V2025 => "2025-09",
        }
    }
}

impl fmt::Display for PackageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PackageContent {
    pub fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            PackageContent::Path(path) => fs::read(path),
            PackageContent::Bytes(bytes) => Ok(bytes.clone()),
        }
    }
}

impl PackageCheck {
    /// The program that judges, if the package brings one.
    pub fn program(&self) -> Option<&PackageProgram> {
        match self {
            PackageCheck::Tokens(_) => None,
            PackageCheck::Program(program) | PackageCheck::Interactive(program) => Some(program),
        }
    }

    /// The check of a judged task. `source` has the files of the program under their paths, as contents of the task.
    pub fn with_source(&self, source: TaskFiles, limits: &PackageLimits) -> Check {
        match self {
            PackageCheck::Tokens(tokens) => Check::Tokens(*tokens),
            PackageCheck::Program(program) => Check::Program(program.judge_program(source, limits)),
            PackageCheck::Interactive(program) => Check::Interactive(program.judge_program(source, limits)),
        }
    }
}

impl PackageProgram {
    fn judge_program(&self, source: TaskFiles, limits: &PackageLimits) -> JudgeProgram {
        let compile = self.build.clone().map(|command| CompileStep {
            command,
            env: BTreeMap::new(),
            network: None,
            limits: limits.compile(),
        });
        JudgeProgram {
            protocol: JudgeProtocol::Icpc,
            language: self.language.clone(),
            root: None,
            source,
            compile,
            execute: ExecuteStep {
                command: self.run.clone(),
                args: self.args.clone(),
                env: BTreeMap::new(),
                input: Content::empty(),
                network: None,
                limits: limits.validation(),
            },
        }
    }
}

impl ProblemPackage {
    /// All files of a submission: its own, and those that the package includes, which win.
    pub fn source_of(&self, submission: &PackageSubmission) -> Vec<PackageFile> {
        let included = self.includes.get(&submission.language);
        let included = included.unwrap_or(&self.default_include);
        let own = submission
            .files
            .iter()
            .filter(|file| included.iter().all(|other| other.path != file.path));
        with_main_file(&submission.language, own.chain(included).cloned().collect())
    }

    pub fn has_includes(&self) -> bool {
        !self.includes.is_empty() || !self.default_include.is_empty()
    }
}
