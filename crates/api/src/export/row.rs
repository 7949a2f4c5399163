//! One row of an export: a task and how its last step ended.

use std::collections::BTreeMap;

use serde::Serialize;

use super::csv::{CsvCell, exact, optional, row, user_text};
use crate::{FilesLeftOut, KeptFile, Task, TaskSummary, format_time};

/// A task as a row of an export: a CSV file has the fields of `CSV_COLUMNS`, the JSON Lines of `conclave export` have all.
#[derive(Debug, Serialize)]
pub struct ExportedTask {
    id: String,
    status: String,
    reason: Option<String>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    add_time: String,
    start_time: Option<String>,
    finish_time: Option<String>,
    /// This and the next two are those of the last step that ran.
    wall_seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    memory_bytes: Option<u64>,
    /// Where the last attempt ran.
    executor: Option<String>,
    attempt: u32,
    user: String,
    group: Option<String>,
    labels: BTreeMap<String, String>,
    command: String,
    language: Option<String>,
    /// The outputs of the last step that ran, at most their first 64 KiB.
    stdout: Option<String>,
    stdout_bytes: Option<u64>,
    stdout_truncated: Option<bool>,
    stderr: Option<String>,
    stderr_bytes: Option<u64>,
    stderr_truncated: Option<bool>,
    files: Vec<KeptFile>,
    files_left_out: Option<FilesLeftOut>,
    trouble: Option<String>,
}

impl ExportedTask {
    const CSV_COLUMNS: [&str; 18] = [
        "id",
        "status",
        "reason",
        "exit_code",
        "signal",
        "add_time",
        "start_time",
        "finish_time",
        "wall_seconds",
        "cpu_seconds",
        "memory_bytes",
        "executor",
        "attempt",
        "user",
        "group",
        "labels",
        "command",
        "language",
    ];

    /// The first row of a CSV file, with its line end.
    pub fn csv_heading() -> String {
        row(ExportedTask::CSV_COLUMNS.map(exact))
    }

    /// The task as a row of a CSV file, with its line end. It is safe to open in a spreadsheet.
    pub fn to_csv_row(&self) -> String {
        row(self.csv_cells())
    }

    /// In the order of `CSV_COLUMNS`.
    fn csv_cells(&self) -> [CsvCell; ExportedTask::CSV_COLUMNS.len()] {
        let labels = match self.labels.is_empty() {
            true => String::new(),
            false => serde_json::to_string(&self.labels).unwrap_or_default(),
        };
        [
            exact(&self.id),
            exact(&self.status),
            optional(self.reason.as_ref()),
            optional(self.exit_code),
            optional(self.signal),
            exact(&self.add_time),
            optional(self.start_time.as_ref()),
            optional(self.finish_time.as_ref()),
            optional(self.wall_seconds),
            optional(self.cpu_seconds),
            optional(self.memory_bytes),
            user_text(self.executor.as_deref().unwrap_or_default()),
            exact(self.attempt),
            user_text(&self.user),
            user_text(self.group.as_deref().unwrap_or_default()),
            user_text(&labels),
            user_text(&self.command),
            user_text(self.language.as_deref().unwrap_or_default()),
        ]
    }
}

impl From<Task> for ExportedTask {
    fn from(task: Task) -> ExportedTask {
        let command = task.execute.command.display();
        let ran_on = task.ran_on.last().map(|record| record.executor.to_string());
        let (files, files_left_out, outcome) = match task.result {
            Some(result) => (
                result.files,
                Some(result.files_left_out),
                result.execute.or(result.compile),
            ),
            None => (Vec::new(), None, None),
        };
        let of = outcome.as_ref();
        ExportedTask {
            id: task.id.to_string(),
            status: task.status.to_string(),
            reason: of.map(|outcome| outcome.reason.to_string()),
            exit_code: of.and_then(|outcome| outcome.exit_code),
            signal: of.and_then(|outcome| outcome.signal),
            add_time: format_time(task.add_time),
            start_time: task.start_time.map(format_time),
            finish_time: task.finish_time.map(format_time),
            wall_seconds: of.map(|outcome| outcome.wall_seconds),
            cpu_seconds: of.map(|outcome| outcome.cpu_seconds),
            memory_bytes: of.map(|outcome| outcome.memory_bytes),
            executor: ran_on,
            attempt: task.attempt,
            user: task.user.to_string(),
            group: task.group.map(|group| group.to_string()),
            labels: task.labels.into_map(),
            command,
            language: task.language.map(|language| language.to_string()),
            stdout_bytes: of.map(|outcome| outcome.stdout_bytes),
            stdout_truncated: of.map(|outcome| outcome.stdout_truncated),
            stderr_bytes: of.map(|outcome| outcome.stderr_bytes),
            stderr_truncated: of.map(|outcome| outcome.stderr_truncated),
            stdout: of.map(|outcome| outcome.stdout.clone()),
            stderr: of.map(|outcome| outcome.stderr.clone()),
            files,
            files_left_out,
            trouble: task.trouble,
        }
    }
}

/// What a list knows of a task that is gone.
impl From<TaskSummary> for ExportedTask {
    fn from(task: TaskSummary) -> ExportedTask {
        ExportedTask {
            id: task.id.to_string(),
            status: task.status.to_string(),
            reason: task.reason.map(|reason| reason.to_string()),
            exit_code: None,
            signal: None,
            add_time: format_time(task.add_time),
            start_time: task.start_time.map(format_time),
            finish_time: task.finish_time.map(format_time),
            wall_seconds: None,
            cpu_seconds: None,
            memory_bytes: None,
            executor: task.executor.map(|executor| executor.to_string()),
            attempt: task.attempt,
            user: task.user.to_string(),
            group: task.group.map(|group| group.to_string()),
            labels: task.labels.into_map(),
            command: task.command,
            language: task.language.map(|language| language.to_string()),
            stdout: None,
            stdout_bytes: None,
            stdout_truncated: None,
            stderr: None,
            stderr_bytes: None,
            stderr_truncated: None,
            files: Vec::new(),
            files_left_out: None,
            trouble: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> TaskSummary {
        let json = r#"{"id": "01890a5d-ac96-774b-bcce-b302099a8057", "user": "-ada", "priority": 0,
            "command": "echo \"a, b\"", "status": "run_failed", "done": true, "reason": "time_limit",
            "labels": {"hw": "3"}, "group": null, "language": "go", "executor": null, "attempt": 1,
            "add_time": "2026-01-01T00:00:00.000000Z", "start_time": null, "finish_time": null}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_row_has_the_columns_of_the_heading() {
        let row = ExportedTask::from(summary());
        assert_eq!(
            row.to_csv_row(),
            "01890a5d-ac96-774b-bcce-b302099a8057,run_failed,time_limit,,,2026-01-01T00:00:00.000000Z,,,,,,,1,'-ada,,\
             \"{\"\"hw\"\":\"\"3\"\"}\",\"echo \"\"a, b\"\"\",go\r\n"
        );
        // The JSON has the same fields, in the same order, and then more.
        let json = serde_json::to_string(&row).unwrap();
        let mut rest = json.as_str();
        for column in ExportedTask::CSV_COLUMNS {
            let name = format!("\"{column}\":");
            rest = &rest[rest.find(&name).unwrap_or_else(|| panic!("{column} in {json}")) + name.len()..];
        }
    }
}
