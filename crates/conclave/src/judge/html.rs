//! The table of judged submissions as a page of HTML that needs no other file and no script.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::Verdict;

use super::row::{CaseRow, SubmissionRow};
use super::table::{case_names, legend, memory_text, ok_text, score_text, share_text, time_text};

/// Every cell has its letter, so that nothing depends on seeing colours.
const STYLE: &str = "\
:root { color-scheme: light dark; font-family: system-ui, sans-serif; }
body { margin: 1.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border: 1px solid #8886; padding: 0.3rem 0.6rem; text-align: left; white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
td.mark { text-align: center; }
.accepted { background: #1a7f3733; }
.wrong_answer, .compile_error, .unexpected { background: #cf222e44; }
.time_limit, .memory_limit, .output_limit { background: #9a670044; }
.runtime_error { background: #8250df44; }
.judge_error, .refused, .system_error, .cancelled { background: #0969da44; }
.skipped { opacity: 0.6; }
";

/// A page with the table. All text of users is escaped.
pub(super) fn page(title: &str, rows: &[SubmissionRow]) -> String {
    let is_verified = rows.iter().any(|row| row.expected.is_some());
    let names = case_names(rows);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                div.scroll tabindex="0" role="region" aria-label="Submissions" {
                    table {
                        thead { tr {
                            th scope="col" { "Submission" }
                            th scope="col" { "Language" }
                            @if is_verified {
                                th scope="col" { "Expected" }
                                th scope="col" { "As expected" }
                                th scope="col" { "Of time limit" }
                            }
                            th scope="col" { "Verdict" }
                            th scope="col" { "Score" }
                            th scope="col" { "Time" }
                            th scope="col" { "Memory" }
                            @for name in &names { th scope="col" { (name) } }
                        } }
                        tbody { @for row in rows { (table_row(row, &names, is_verified)) } }
                    }
                }
                @if let Some(legend) = legend(rows) { p { (legend) } }
                (notes(rows))
            }
        }
    };
    page.into_string()
}

fn table_row(row: &SubmissionRow, names: &[&str], is_verified: bool) -> Markup {
    let expected = row.expected.as_ref();
    html! {
        tr {
            th scope="row" { (row.submission) }
            td { (row.language.as_deref().unwrap_or("-")) }
            @if is_verified {
                td { (expected.map_or("-", |expected| expected.expected.as_str())) }
                td class=(expected.map_or("", |expected| if expected.as_expected { "" } else { "unexpected" })) {
                    (expected.map_or("-", ok_text))
                }
                td.number { (expected.map_or("-".to_string(), share_text)) }
            }
            td class=(row.verdict) { (row.verdict) }
            td.number { (score_text(row)) }
            td.number { (time_text(row.time_seconds)) }
            td.number { (memory_text(row.memory_bytes)) }
            @for name in names { (case_cell(row.cases.iter().find(|case| case.name == *name))) }
        }
    }
}

fn case_cell(case: Option<&CaseRow>) -> Markup {
    let Some(case) = case else {
        return html! { td.mark {} };
    };
    let mut details = format!("{} {}", case.name, case.verdict);
    if case.verdict != Verdict::Skipped {
        details += &format!(
            ", points {}, {}, {}",
            case.points,
            time_text(case.time_seconds),
            memory_text(case.memory_bytes)
        );
    }
    for message in [&case.message, &case.judge_message] {
        if !message.is_empty() {
            details += &format!("\n{message}");
        }
    }
    html! { td class={ "mark " (case.verdict) } title=(details) { (case.mark()) } }
}

fn notes(rows: &[SubmissionRow]) -> Markup {
    let has_notes = |row: &&SubmissionRow| {
        !row.notes.is_empty()
            || row
                .expected
                .as_ref()
                .is_some_and(|expected| !expected.mismatches.is_empty())
    };
    let rows: Vec<_> = rows.iter().filter(has_notes).collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Notes" }
            dl {
                @for row in rows {
                    dt { (row.submission) }
                    @for note in row.expected.iter().flat_map(|expected| &expected.mismatches).chain(&row.notes) {
                        dd { (note) }
                    }
                }
            }
        }
    }
}
