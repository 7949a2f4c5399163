//! The cases of one judged task, as `run`, `watch` and `get` print them.

use anyhow::Result;
use api::Task;
use model::Verdict;

use super::row::CaseRow;
use super::table::{memory_text, time_text};
use crate::print::{Stdout, TextTable, is_closed_pipe};

/// The verdict and score of a task and a line for each of its cases. `None` if the task is not judged, or not done.
pub(crate) fn case_report(task: &Task) -> Option<String> {
    let result = task.result.as_ref()?;
    let verdict = result.verdict?;
    let cases = result.cases.as_deref().unwrap_or_default();
    let mut text = match (result.score, result.max_score) {
        (Some(score), Some(max)) => format!("{verdict}, score {score} of {max}\n"),
        _ => format!("{verdict}\n"),
    };
    if !cases.is_empty() {
        let rows: Vec<CaseRow> = cases.iter().map(CaseRow::of).collect();
        text += &table(&rows).to_string();
    }
    Some(text)
}

fn table(rows: &[CaseRow]) -> TextTable {
    let headings = ["CASE", "VERDICT", "POINTS", "TIME", "MEMORY", "MESSAGE"];
    let mut table = TextTable::new(headings).right_align([2, 3, 4]);
    for row in rows {
        // Whoever may see what the judge says wants to see that.
        let messages = [row.judge_message.trim(), row.message.trim()];
        let message = messages.into_iter().find(|message| !message.is_empty());
        table.row([
            row.name.clone(),
            row.verdict.to_string(),
            match row.verdict {
                Verdict::Skipped => "-".to_string(),
                _ => row.points.to_string(),
            },
            time_text(row.time_seconds),
            memory_text(row.memory_bytes),
            message
                .unwrap_or_default()
                .chars()
                .take(MAX_MESSAGE_CHARACTERS)
                .collect(),
        ]);
    }
    table
}

/// More would not fit on a line of a terminal.
const MAX_MESSAGE_CHARACTERS: usize = 120;

/// Prints the report on stdout, if the task is judged. A reader that has closed the pipe does not change the exit code.
pub(crate) fn print_cases(task: &Task) -> Result<()> {
    let Some(report) = case_report(task) else {
        return Ok(());
    };
    match Stdout::open().text(report) {
        Err(error) if !is_closed_pipe(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_a_line_with_what_the_judge_says() {
        let row = |name: &str, verdict, message: &str| CaseRow {
            name: name.into(),
            verdict,
            points: 0.5,
            time_seconds: (verdict != Verdict::Skipped).then_some(0.1234),
            memory_bytes: (verdict != Verdict::Skipped).then_some(1 << 20),
            message: message.into(),
            judge_message: String::new(),
        };
        let rows = [
            row("1", Verdict::WrongAnswer, "line 1\ndiffers\n"),
            row("2", Verdict::Skipped, ""),
        ];
        assert_eq!(
            table(&rows).to_string(),
            "CASE  VERDICT       POINTS    TIME  MEMORY  MESSAGE\n\
             1     wrong_answer     0.5  0.123s  1.0MiB  line 1 differs\n\
             2     skipped            -       -       -\n"
        );
    }
}
