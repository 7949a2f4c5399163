//! Why a problem package cannot be read.

use std::io;
use std::path::{Path, PathBuf};

use model::{Judging, NameError, WorkspacePathError};
use thiserror::Error;

/// Why a problem package cannot be read. Every message names the file.
#[derive(Debug, Error)]
pub enum PackageError {
    #[error("{}: cannot be read", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: is no folder", path.display())]
    NoFolder { path: PathBuf },
    #[error("{}: is neither a file nor a folder", path.display())]
    SpecialFile { path: PathBuf },
    #[error("{}: the name is not UTF-8: rename the file", path.display())]
    NameNotUtf8 { path: PathBuf },
    #[error("{}: is not UTF-8", path.display())]
    TextNotUtf8 { path: PathBuf },
    #[error("{}: is a link to {}, which is outside the package", path.display(), target.display())]
    LeavesPackage { path: PathBuf, target: PathBuf },
    #[error("{}: has {actual} bytes, the limit is {limit}", path.display())]
    FileTooLarge { path: PathBuf, actual: u64, limit: u64 },
    #[error("{}: all files together have more than {limit} bytes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{}: has more than {limit} files", path.display())]
    TooManyFiles { path: PathBuf, limit: usize },
    #[error("{}: more than {limit} folders deep", path.display())]
    TooDeep { path: PathBuf, limit: usize },
    #[error("{}: more than {} cases", path.display(), Judging::MAX_CASES)]
    TooManyCases { path: PathBuf },
    #[error("{}: the path of the file {problem}", path.display())]
    FilePath {
        path: PathBuf,
        problem: WorkspacePathError,
    },
    #[error(
        "{}: is no problem package: neither problem.yaml nor domjudge-problem.ini is here",
        path.display()
    )]
    NoSettings { path: PathBuf },
    #[error(
        "{}: is a Polygon package, which is not supported. Export it in the ICPC format (problem.yaml, data/, \
         submissions/); the formats legacy, 2023-07-draft and 2025-09 are supported",
        path.display()
    )]
    Polygon { path: PathBuf },
    #[error("{}:{line}: broken YAML: {problem}", path.display())]
    Yaml {
        path: PathBuf,
        line: usize,
        problem: String,
    },
    #[error("{}:{line}: {key} {problem}", path.display())]
    Setting {
        path: PathBuf,
        line: usize,
        key: String,
        problem: String,
    },
    #[error("{}: {problem}", path.display())]
    TimeLimit { path: PathBuf, problem: String },
    #[error("{}: no cases: there is no *.in file with its {answers}", path.display())]
    NoCases { path: PathBuf, answers: &'static str },
    #[error("{}: has no {expected} beside it", path.display())]
    NoAnswer { path: PathBuf, expected: String },
    #[error("{}: has no {expected} beside it", path.display())]
    NoInput { path: PathBuf, expected: String },
    #[error("{}: there are two answers: {} and {}", path.display(), first.display(), second.display())]
    TwoAnswers {
        path: PathBuf,
        first: PathBuf,
        second: PathBuf,
    },
    #[error("{}: the name of the case {problem}", path.display())]
    CaseName { path: PathBuf, problem: NameError },
    #[error("{}: {problem}", path.display())]
    Validator { path: PathBuf, problem: String },
    #[error("{}: {problem}", path.display())]
    Scoring { path: PathBuf, problem: String },
    #[error("{}: {what}: not supported", path.display())]
    NotSupported { path: PathBuf, what: String },
}

impl PackageError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> PackageError {
        move |source| PackageError::Read {
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn not_supported(path: &Path, what: impl Into<String>) -> PackageError {
        PackageError::NotSupported {
            path: path.to_path_buf(),
            what: what.into(),
        }
    }

    pub(crate) fn scoring(path: &Path, problem: impl Into<String>) -> PackageError {
        PackageError::Scoring {
            path: path.to_path_buf(),
            problem: problem.into(),
        }
    }

    pub(crate) fn validator(path: &Path, problem: impl Into<String>) -> PackageError {
        PackageError::Validator {
            path: path.to_path_buf(),
            problem: problem.into(),
        }
    }
}
