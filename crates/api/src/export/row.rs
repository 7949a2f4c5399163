//! One row of an export: a task and how its last step ended.

use std::collections::BTreeMap;

use model::{OutcomeReason, Verdict};
use serde::Serialize;

use super::csv::{CsvCell, exact, optional, row, user_text};
use crate::{FilesLeftOut, KeptFile, Outcome, Task, TaskResult, TaskSummary, format_time};

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
    /// This and the next two are those of the last step that ran; of a judged task, the most of any case.
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
    /// This and the next two are those of a judged task.
    verdict: Option<String>,
    score: Option<f64>,
    max_score: Option<f64>,
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
    const CSV_COLUMNS: [&str; 21] = [
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
        "verdict",
        "score",
        "max_score",
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
            optional(self.verdict.as_ref()),
            optional(self.score),
            optional(self.max_score),
        ]
    }
}

/// What the last step of a task has used, or the cases of a judged task.
#[derive(Clone, Copy, Debug, PartialEq)]
struct UsedResources {
    wall_seconds: f64,
    cpu_seconds: f64,
    memory_bytes: u64,
}

impl UsedResources {
    fn of(result: &TaskResult) -> Option<UsedResources> {
        let cases = result.cases.iter().flatten();
        let of_cases = cases.filter_map(|case| case.execute.as_ref());
        let of_cases = of_cases.map(UsedResources::of_outcome).reduce(UsedResources::max);
        let of_step = || result.execute.as_ref().or(result.compile.as_ref());
        of_cases.or_else(|| of_step().map(UsedResources::of_outcome))
    }

    fn of_outcome(outcome: &Outcome) -> UsedResources {
        UsedResources {
            wall_seconds: outcome.wall_seconds,
            cpu_seconds: outcome.cpu_seconds,
            memory_bytes: outcome.memory_bytes,
        }
    }

    fn max(self, other: UsedResources) -> UsedResources {
        UsedResources {
            wall_seconds: self.wall_seconds.max(other.wall_seconds),
            cpu_seconds: self.cpu_seconds.max(other.cpu_seconds),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }
}

/// As a list shows it. The reason of a judged task follows from its verdict.
fn reason(result: &TaskResult) -> Option<OutcomeReason> {
    match result.verdict {
        Some(Verdict::CompileError) | None => {
            let step = result.execute.as_ref().or(result.compile.as_ref());
            step.map(|outcome| outcome.reason)
        }
        Some(verdict) => Some(verdict.reason()),
    }
}

impl From<Task> for ExportedTask {
    fn from(task: Task) -> ExportedTask {
        let command = task.execute.command.display();
        let ran_on = task.ran_on.last().map(|record| record.executor.to_string());
        let used = task.result.as_ref().and_then(UsedResources::of);
        let reason = task.result.as_ref().and_then(reason);
        let verdict = task.result.as_ref().and_then(|result| result.verdict);
        let scores = task
            .result
            .as_ref()
            .map(|result| (result.score, result.max_score));
        let (score, max_score) = scores.unwrap_or_default();
        let (files, files_left_out, outcome) = match task.result {
            Some(result) => {
                let step = match (verdict, result.execute) {
                    // The compile step is not the last thing that has run.
                    (Some(verdict), None) if verdict != Verdict::CompileError => None,
                    (_, execute) => execute.or(result.compile),
                };
                (result.files, Some(result.files_left_out), step)
            }
            None => (Vec::new(), None, None),
        };
        let of = outcome.as_ref();
        ExportedTask {
            id: task.id.to_string(),
            status: task.status.to_string(),
            reason: reason.map(|reason| reason.to_string()),
            exit_code: of.and_then(|outcome| outcome.exit_code),
            signal: of.and_then(|outcome| outcome.signal),
            add_time: format_time(task.add_time),
            start_time: task.start_time.map(format_time),
            finish_time: task.finish_time.map(format_time),
            wall_seconds: used.map(|used| used.wall_seconds),
            cpu_seconds: used.map(|used| used.cpu_seconds),
            memory_bytes: used.map(|used| used.memory_bytes),
            executor: ran_on,
            attempt: task.attempt,
            user: task.user.to_string(),
            group: task.group.map(|group| group.to_string()),
            labels: task.labels.into_map(),
            command,
            language: task.language.map(|language| language.to_string()),
            verdict: verdict.map(|verdict| verdict.to_string()),
            score,
            max_score,
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
            verdict: None,
            score: None,
            max_score: None,
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
    use model::CaseName;

    use super::*;
    use crate::CaseResult;

    fn summary() -> TaskSummary {
        let json = r#"{"id": "01890a5d-ac96-774b-bcce-b302099a8057", "user": "-ada", "priority": 0,
            "command": "echo \"a, b\"", "status": "run_failed", "done": true, "reason": "time_limit",
            "labels": {"hw": "3"}, "group": null, "language": "go", "executor": null, "attempt": 1,
            "add_time": "2026-01-01T00:00:00.000000Z", "start_time": null, "finish_time": null}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_judged_task_has_its_verdict_and_what_its_largest_case_used() {
        let outcome = |cpu: f64, memory: u64| Outcome {
            reason: OutcomeReason::Exited,
            exit_code: Some(0),
            signal: None,
            wall_seconds: 1.0,
            cpu_seconds: cpu,
            memory_bytes: memory,
            stdout: String::new(),
            stderr: String::new(),
            stdout_bytes: 0,
            stderr_bytes: 0,
            stdout_truncated: false,
            stderr_truncated: false,
        };
        let case = |execute: Option<Outcome>| CaseResult {
            name: CaseName::new("1").unwrap(),
            verdict: Verdict::Accepted,
            points: 1.0,
            execute,
            check: None,
        };
        let check = |verdict: Option<Verdict>, cases: &[Option<Outcome>], expected: (&str, f64, u64)| {
            let result = TaskResult {
                compile: Some(Outcome {
                    reason: OutcomeReason::OutputLimit,
                    ..outcome(7.0, 70)
                }),
                execute: None,
                verdict,
                score: None,
                max_score: None,
                cases: verdict.map(|_| cases.iter().cloned().map(case).collect()),
                files: Vec::new(),
                files_left_out: FilesLeftOut::default(),
            };
            let used = UsedResources::of(&result).unwrap();
            let found = (
                reason(&result).unwrap().as_str(),
                used.cpu_seconds,
                used.memory_bytes,
            );
            assert_eq!(found, expected, "{verdict:?}");
        };
        let ran = [Some(outcome(0.5, 10)), None, Some(outcome(0.25, 20))];
        check(Some(Verdict::WrongAnswer), &ran, ("wrong_answer", 0.5, 20));
        check(Some(Verdict::Accepted), &ran, ("exited", 0.5, 20));
        check(Some(Verdict::CompileError), &[None], ("output_limit", 7.0, 70));
        check(None, &[], ("output_limit", 7.0, 70));
    }

    #[test]
    fn a_row_has_the_columns_of_the_heading() {
        let row = ExportedTask::from(summary());
        assert_eq!(
            row.to_csv_row(),
            "01890a5d-ac96-774b-bcce-b302099a8057,run_failed,time_limit,,,2026-01-01T00:00:00.000000Z,,,,,,,1,'-ada,,\
             \"{\"\"hw\"\":\"\"3\"\"}\",\"echo \"\"a, b\"\"\",go,,,\r\n"
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
