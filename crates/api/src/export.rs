//! Tasks as rows of a file.

pub mod csv;
mod row;

use std::str::FromStr;

pub use row::ExportedTask;

/// The format of a file with tasks that a gateway sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TaskExportFormat {
    /// Each task as JSON on one line.
    #[default]
    Jsonl,
    Csv,
}

impl FromStr for TaskExportFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<TaskExportFormat, String> {
        match text {
            "jsonl" => Ok(TaskExportFormat::Jsonl),
            "csv" => Ok(TaskExportFormat::Csv),
            _ => Err(format!("'{text}' is not a format; use jsonl or csv")),
        }
    }
}
