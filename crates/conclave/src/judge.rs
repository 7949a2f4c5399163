//! Judged submissions for the command line: they run as one group of tasks, and become rows of a table.

mod cases;
mod html;
mod package;
mod row;
mod run;
mod table;

pub(crate) use cases::{case_report, print_cases};
pub(crate) use package::{PackageTasks, submission_label};
pub(crate) use row::{CaseRow, ExpectedOutcome, SubmissionRow};
pub(crate) use run::{GroupFailure, SubmissionGroup, SubmissionRun};
pub(crate) use table::{TableFlags, print_table};
