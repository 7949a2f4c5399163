//! Reads problem packages: a folder in the format of Kattis and ICPC becomes cases, a check, limits, and submissions with
//! the verdicts that are expected of them. The formats are `legacy`, `2023-07-draft` and `2025-09`, with the additions of
//! DOMjudge (`.timelimit`, `domjudge-problem.ini`, `@EXPECTED_RESULTS@`).
//!
//! Only files are read here: nothing runs, nothing is sent, and nothing outside the package is opened. What a package asks
//! for and Conclave does not do is an error or one of [`ProblemPackage::warnings`]. Statements, input validators,
//! generators, visualizers and attachments are not for judging, and are not read.

mod case_folder;
mod constants;
mod data;
mod error;
mod expected;
mod folder;
mod languages;
mod limits;
mod package;
mod read;
mod scoring;
mod settings;
mod submissions;
mod validator;
mod yaml;

pub use case_folder::cases_from_folder;
pub use error::PackageError;
pub use expected::{
    CasePattern, ExpectedScore, ExpectedVerdicts, JudgedCase, JudgedSubmission, TimeBound, VerdictRule,
};
pub use limits::{PackageLimits, TimeLimitRule};
pub use package::{
    PackageCase, PackageCheck, PackageContent, PackageFile, PackageFormat, PackageProgram, PackageSubmission,
    ProblemPackage,
};
pub use read::read_package;
