//! The table of judged submissions, as text, CSV, JSON or a page of HTML.

use anyhow::Result;
use api::csv::{self, CsvCell};
use api::is_hidden_character;
use clap::Args;
use model::Verdict;

use super::html::page;
use super::row::{CaseRow, ExpectedOutcome, SubmissionRow, mark};
use crate::print::{OutputFormat, Stdout, TextTable, print_message};

/// Flags that choose the form of the table. `--json` is one of the flags of every client command.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct TableFlags {
    /// Print CSV: a row for each submission, and a column for each case
    #[arg(long, conflicts_with_all = ["html", "json"])]
    csv: bool,
    /// Print a page of HTML that needs no other file
    #[arg(long, conflicts_with = "json")]
    html: bool,
}

impl TableFlags {
    /// Whether the table is for people to read in a terminal, if it is not JSON.
    pub(crate) fn is_text(self) -> bool {
        !self.csv && !self.html
    }
}

/// Prints the table on stdout, and on stderr what the letters mean.
pub(crate) fn print_table(
    title: &str,
    rows: &[SubmissionRow],
    flags: TableFlags,
    format: OutputFormat,
) -> Result<()> {
    let mut out = Stdout::open();
    match (format, flags) {
        (OutputFormat::Json, _) => out.json_lines(rows),
        (_, TableFlags { csv: true, .. }) => out.text(csv_table(rows)),
        (_, TableFlags { html: true, .. }) => out.text(page(title, rows)),
        (OutputFormat::Text, _) => {
            out.text(text_table(rows))?;
            for line in text_notes(rows) {
                out.line(line)?;
            }
            if let Some(legend) = legend(rows) {
                print_message(legend);
            }
            Ok(())
        }
    }
}

fn text_table(rows: &[SubmissionRow]) -> TextTable {
    let is_verified = rows.iter().any(|row| row.expected.is_some());
    let mut headings = vec!["SUBMISSION"];
    if is_verified {
        headings.extend(["EXPECTED", "OK"]);
    }
    headings.extend(["VERDICT", "SCORE", "TIME"]);
    if is_verified {
        headings.push("OF LIMIT");
    }
    headings.extend(["MEMORY", "CASES"]);
    let first_number = headings
        .iter()
        .position(|heading| *heading == "SCORE")
        .unwrap_or(0);
    let numbers: Vec<usize> = (first_number..headings.len() - 1).collect();
    let mut table = TextTable::new(headings).right_align(numbers);
    for row in rows {
        let mut cells = vec![row.submission.clone()];
        let expected = row.expected.as_ref();
        if is_verified {
            cells.push(expected.map_or("-".into(), |expected| cut(&expected.expected)));
            cells.push(expected.map_or("-", ok_text).into());
        }
        cells.extend([row.verdict.clone(), score_text(row), time_text(row.time_seconds)]);
        if is_verified {
            cells.push(expected.map_or("-".into(), share_text));
        }
        cells.extend([
            memory_text(row.memory_bytes),
            row.cases.iter().map(CaseRow::mark).collect(),
        ]);
        table.row(cells);
    }
    table
}

/// Rules for single groups of cases can be long, and a table has one line for each submission.
fn cut(expected: &str) -> String {
    const MAX_EXPECTED: usize = 40;
    match expected.char_indices().nth(MAX_EXPECTED) {
        Some((end, _)) => format!("{}…", &expected[..end]),
        None => expected.to_string(),
    }
}

pub(super) fn ok_text(expected: &ExpectedOutcome) -> &'static str {
    match expected.as_expected {
        true => "yes",
        false => "NO",
    }
}

/// The time as a part of the limit. A run that was stopped may have needed any time beyond.
pub(super) fn share_text(expected: &ExpectedOutcome) -> String {
    expected
        .time_of_limit
        .map_or("-".into(), |share| format!("{:.0}%", share * 100.0))
}

pub(super) fn score_text(row: &SubmissionRow) -> String {
    match (row.score, row.max_score) {
        (Some(score), Some(max)) => format!("{score}/{max}"),
        _ => "-".into(),
    }
}

pub(super) fn time_text(seconds: Option<f64>) -> String {
    seconds.map_or("-".into(), |seconds| format!("{seconds:.3}s"))
}

pub(super) fn memory_text(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), |bytes| {
        format!("{:.1}MiB", bytes as f64 / f64::from(1 << 20))
    })
}

/// What did not come out as expected, and why submissions were not judged: a line for each.
fn text_notes(rows: &[SubmissionRow]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        let mismatches = row.expected.iter().flat_map(|expected| &expected.mismatches);
        for note in mismatches.chain(&row.notes) {
            let note = note.replace('\n', " ");
            let note: String = note.chars().map(without_control).collect();
            lines.push(format!("{}: {note}", row.submission));
        }
    }
    lines
}

/// Text of a compiler or a judge must not control the terminal or look like another text.
fn without_control(letter: char) -> char {
    match is_hidden_character(letter) {
        true => char::REPLACEMENT_CHARACTER,
        false => letter,
    }
}

/// What the marks in the table mean.
pub(super) fn legend(rows: &[SubmissionRow]) -> Option<String> {
    let is_used = |verdict: &Verdict| {
        rows.iter()
            .any(|row| row.cases.iter().any(|case| case.verdict == *verdict))
    };
    let words: Vec<_> = Verdict::ALL
        .into_iter()
        .filter(is_used)
        .map(|verdict| format!("{} {verdict}", mark(verdict)))
        .collect();
    (!words.is_empty()).then(|| format!("cases: {}", words.join(", ")))
}

fn csv_table(rows: &[SubmissionRow]) -> String {
    let is_verified = rows.iter().any(|row| row.expected.is_some());
    let names = case_names(rows);
    let mut headings: Vec<CsvCell> = ["submission", "language"].map(csv::exact).into();
    if is_verified {
        headings.extend(["expected", "as_expected", "mismatches", "time_of_limit"].map(csv::exact));
    }
    headings.extend(
        [
            "verdict",
            "score",
            "max_score",
            "time_seconds",
            "memory_bytes",
            "task",
        ]
        .map(csv::exact),
    );
    headings.extend(names.iter().map(|name| csv::user_text(name)));
    let mut text = csv::row(headings);
    for row in rows {
        let mut cells = vec![
            csv::user_text(&row.submission),
            csv::optional(row.language.as_ref()),
        ];
        if is_verified {
            let expected = row.expected.as_ref();
            cells.extend([
                csv::optional(expected.map(|expected| &expected.expected)),
                csv::optional(expected.map(|expected| expected.as_expected)),
                csv::user_text(
                    &expected
                        .map(|expected| expected.mismatches.join("; "))
                        .unwrap_or_default(),
                ),
                csv::optional(expected.and_then(|expected| expected.time_of_limit)),
            ]);
        }
        cells.extend([
            csv::exact(&row.verdict),
            csv::optional(row.score),
            csv::optional(row.max_score),
            csv::optional(row.time_seconds),
            csv::optional(row.memory_bytes),
            csv::optional(row.task.as_ref()),
        ]);
        let verdict_in = |name: &&str| {
            row.cases
                .iter()
                .find(|case| case.name == *name)
                .map(|case| case.verdict)
        };
        cells.extend(names.iter().map(|name| csv::optional(verdict_in(name))));
        text += &csv::row(cells);
    }
    text
}

/// The names of the cases of all rows, in the order of the first one that has them.
pub(super) fn case_names(rows: &[SubmissionRow]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    let cases = rows.iter().flat_map(|row| &row.cases);
    let names = cases.map(|case| case.name.as_str());
    names.filter(|name| seen.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::html;
    use super::*;

    fn case(name: &str, verdict: Verdict) -> CaseRow {
        CaseRow {
            name: name.into(),
            verdict,
            points: 1.0,
            time_seconds: Some(0.25),
            memory_bytes: Some(3 << 20),
            message: String::new(),
            judge_message: "<b>line 1 & 2</b>".into(),
        }
    }

    fn row(submission: &str, cases: Vec<CaseRow>) -> SubmissionRow {
        SubmissionRow {
            submission: submission.into(),
            language: Some("cpp".into()),
            task: Some("01890a5d".into()),
            verdict: "wrong_answer".into(),
            score: Some(1.0),
            max_score: Some(2.5),
            time_seconds: Some(0.25),
            memory_bytes: Some(3 << 20),
            cases,
            notes: vec!["first\nsecond \u{1b}[31m".into()],
            expected: None,
        }
    }

    fn rows() -> Vec<SubmissionRow> {
        let mut rows = vec![
            row(
                "a.cpp",
                vec![case("1", Verdict::Accepted), case("2", Verdict::WrongAnswer)],
            ),
            row("=b,<i>.cpp", vec![]),
        ];
        rows[1].verdict = "refused".into();
        rows
    }

    #[test]
    fn the_text_has_a_mark_for_each_case() {
        assert_eq!(
            text_table(&rows()).to_string(),
            "SUBMISSION  VERDICT       SCORE    TIME  MEMORY  CASES\n\
             a.cpp       wrong_answer  1/2.5  0.250s  3.0MiB  AW\n\
             =b,<i>.cpp  refused       1/2.5  0.250s  3.0MiB\n"
        );
        assert_eq!(text_notes(&rows())[0], "a.cpp: first second \u{fffd}[31m");
        assert_eq!(legend(&rows()).unwrap(), "cases: A accepted, W wrong_answer");
        assert_eq!(legend(&[]), None);
    }

    #[test]
    fn a_verified_package_has_more_columns() {
        let mut rows = rows();
        rows[0].expected = Some(ExpectedOutcome {
            expected: "accepted".into(),
            as_expected: false,
            mismatches: vec!["accepted: case 2 is wrong_answer".into()],
            time_limit_seconds: 1.0,
            time_of_limit: Some(0.25),
            repeated: vec![],
        });
        let text = text_table(&rows).to_string();
        let first: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = [
            "a.cpp",
            "accepted",
            "NO",
            "wrong_answer",
            "1/2.5",
            "0.250s",
            "25%",
            "3.0MiB",
            "AW",
        ];
        assert_eq!(first, expected);
        assert!(csv_table(&rows).lines().nth(1).unwrap().starts_with(
            "a.cpp,cpp,accepted,false,accepted: case 2 is wrong_answer,0.25,wrong_answer,1,2.5,"
        ));
    }

    #[test]
    fn long_expectations_are_cut() {
        assert_eq!(cut("accepted"), "accepted");
        assert_eq!(cut(&"ä".repeat(41)).chars().count(), 41);
    }

    #[test]
    fn csv_has_a_column_for_each_case() {
        let text = csv_table(&rows());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "submission,language,verdict,score,max_score,time_seconds,memory_bytes,task,1,2"
        );
        assert_eq!(
            lines[1],
            "a.cpp,cpp,wrong_answer,1,2.5,0.25,3145728,01890a5d,accepted,wrong_answer"
        );
        assert!(lines[2].starts_with("\"'=b,<i>.cpp\","), "{}", lines[2]);
    }

    #[test]
    fn text_of_users_cannot_leave_its_place_in_html() {
        let page = html::page("<script>alert(1)</script>", &rows());
        assert!(page.starts_with("<!DOCTYPE html>"));
        assert!(
            !page.contains("<script") && !page.contains("<i>") && !page.contains("<b>"),
            "{page}"
        );
        assert!(
            page.contains("=b,&lt;i&gt;.cpp") && page.contains("line 1 &amp; 2"),
            "{page}"
        );
        assert!(!page.contains("http"), "the page loads something");
    }
}
