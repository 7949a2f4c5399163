//! The cases in the form of the page Run: what each reads and should write, and how the outputs are checked.

use maud::{Markup, html};

use super::super::form::{CASES, FormCase};
use super::{RunView, error_id, id_of};

/// How many empty rows the form has where no script adds more.
const EMPTY_ROWS: usize = 3;

/// The kinds of checks that need nothing but a choice.
const CHECKS: [(&str, &str); 4] = [
    (
        "tokens",
        "Words: blanks, line ends, upper and lower case do not count",
    ),
    ("lines", "Lines: blanks at their ends do not count"),
    ("exact", "Byte by byte"),
    ("none", "No check: every output is accepted"),
];

const STOPS: [(&str, &str); 2] = [
    ("never", "All cases run"),
    (
        "first_failure",
        "The first case that is not accepted ends the run",
    ),
];

impl RunView<'_> {
    pub(super) fn cases(&self) -> Markup {
        let form = self.form;
        let open = form.is_judged()
            || self.invalid(CASES).is_some()
            || self.any_filled(&["problem", "check.kind", "stop"]);
        let empty = FormCase::default();
        let blank = std::iter::repeat_n(&empty, EMPTY_ROWS);
        html! {
            details id="run-judging" open[open] {
                summary { "Cases with expected output" span class="dim" { " (each runs the program once)" } }
                fieldset id=(id_of(CASES)) class="run-cases" aria-describedby=(error_id(CASES)) tabindex="-1" {
                    legend { "Cases" }
                    (self.error(CASES))
                    p class="hint" { "Each case has its own input; the one above is not used. Rows that are empty are left out." }
                    (self.kept_cases())
                    div id="run-case-list" {
                        @for (index, case) in form.cases.iter().chain(blank).enumerate() { (case_row(index + 1, case)) }
                    }
                    div class="field" {
                        label for="cases_upload" { "Cases from files" }
                        input id="cases_upload" type="file" name="cases_upload" multiple;
                        span class="hint" {
                            "A zip, or files: each NAME.in with NAME.ans or NAME.out. "
                            span class="needs-script" { "Or drop a folder or a zip here." }
                        }
                    }
                    ul id="run-attached-cases" class="run-attached needs-script" aria-label="Attached files with cases" {}
                }
                div class="run-stack" {
                    div class="form-grid" {
                        (self.check())
                        (self.text("check.float_tolerance", "Tolerance of numbers", "none", Some("Like 1e-6, absolute or relative.")))
                        (self.choice("stop", "Stop", &STOPS))
                    }
                    (self.text("problem", "Or a problem of this server", "none", Some("Its name; it brings the cases and the check, so add none here.")))
                }
            }
        }
    }

    /// What the form carries of a task without showing it.
    fn kept_cases(&self) -> Markup {
        html! {
            @if let Some(kept) = &self.form.cases_kept {
                @let count = serde_json::from_str::<Vec<serde::de::IgnoredAny>>(kept).map(|cases| cases.len());
                label class="run-check" {
                    input type="checkbox" name="cases_kept" value=(kept) checked;
                    @match count {
                        Ok(count) => { "Keep the " (count) " cases of the task, which are too many to be shown here" },
                        Err(_) => { "Keep the cases in the zip" },
                    }
                }
            }
            @if let Some(kept) = &self.form.check_kept {
                label class="run-check" {
                    input type="checkbox" name="check_kept" value=(kept) checked;
                    "Keep the check and the groups of the task, for which this form has no controls"
                }
            }
        }
    }

    fn check(&self) -> Markup {
        self.choice("check.kind", "Check", &CHECKS)
    }

    fn choice(&self, name: &str, label: &str, options: &[(&str, &str)]) -> Markup {
        let current = self.form.get(name).trim();
        let is_known = current.is_empty() || options.iter().any(|(value, _)| *value == current);
        self.field(name, label, None, &|described| html! {
            select id=(id_of(name)) name=(name) aria-describedby=(described) aria-invalid=[self.invalid(name)] {
                option value="" { "default" }
                @if !is_known { option value=(current) selected { (current) } }
                @for (value, words) in options { option value=(value) selected[current == *value] { (words) } }
            }
        })
    }
}

fn case_row(number: usize, case: &FormCase) -> Markup {
    let text = |control: &str, label: &str, value: &str| {
        let id = format!("case-{control}-{number}");
        html! {
            div class="field" {
                label for=(id) { (label) " " span class="case-number" { (number) } }
                input id=(id) name={ "case." (control) } value=(value) autocomplete="off" spellcheck="false";
            }
        }
    };
    let area = |control: &str, label: &str, value: &str| {
        let id = format!("case-{control}-{number}");
        html! {
            div class="field" {
                label for=(id) { (label) " " span class="case-number" { (number) } }
                // HTML drops a line end at the start.
                textarea id=(id) name={ "case." (control) } rows="2" autocomplete="off" spellcheck="false" { "\n" (value) }
            }
        }
    };
    html! {
        div class="run-case" role="group" aria-label={ "Case " (number) } {
            div class="run-case-head" {
                (text("name", "Name of case", &case.name))
                (text("points", "Points of case", &case.points))
                (text("group", "Group of case", &case.group))
                span class="run-case-verdict" role="status" {}
            }
            div class="run-case-texts" {
                (area("input", "Input of case", &case.input))
                (area("answer", "Expected output of case", &case.answer))
            }
            @if !case.more.is_empty() {
                input type="hidden" name="case.more" value=(case.more);
                p class="hint" { "This case has more than is shown here, such as arguments, files, limits or contents that are no text. It is kept." }
            }
        }
    }
}
