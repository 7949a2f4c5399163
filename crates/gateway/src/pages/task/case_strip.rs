//! How a task was judged: its verdict in words, its score, and a mark for each case.

use std::collections::BTreeMap;

use maud::{Markup, html};
use model::{CaseName, Judgement, Points, Task, TaskId, TaskStatus, Verdict};

use crate::pages::components::{self, UserText, attribute_text};
use crate::pages::format;

/// More marks than these are not shown on one page.
const MAX_MARKS: usize = 1_000;

/// The name of the live event with the marks.
pub(super) const CASES_EVENT: &str = "cases";

/// The cases of a task as a row of marks, each a link to the page of its case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CaseStrip {
    id: TaskId,
    /// How many cases the task has.
    len: usize,
    /// Of the first cases: those that are shown.
    names: Vec<CaseName>,
}

/// What is known about the cases of a task: their verdicts by their places, and how the task was judged.
#[derive(Clone, Copy)]
pub(super) struct KnownVerdicts<'m> {
    pub(super) marks: &'m BTreeMap<usize, Verdict>,
    pub(super) judgement: Option<&'m Judgement>,
    pub(super) status: TaskStatus,
}

/// The address of the page of a case.
pub(in crate::pages) fn case_link(id: TaskId, index: usize) -> String {
    format!("/tasks/{id}/cases/{index}")
}

/// The section of a task's page with its verdict and its cases. A script shows a chosen case below the marks.
pub(super) fn cases_section(task: &Task) -> Markup {
    let Some(strip) = CaseStrip::of(task) else {
        return html! {};
    };
    html! {
        section class="cases" {
            h2 { "Cases" }
            // With scripts the page stays, and the case appears in it. Of two that are asked for at once, the later one.
            div hx-boost="true" hx-target="#case" hx-select="#case" hx-swap="outerHTML" hx-push-url="false" hx-sync="this:replace" {
                div sse-swap=(CASES_EVENT) hx-swap="morph:innerHTML" { (strip.of_task(task)) }
                div id="case" class="case" { p class="dim" { "Choose a case to see what it read, what it wrote and what was expected." } }
            }
        }
    }
}

impl CaseStrip {
    /// `None` for a task that is not judged.
    pub(super) fn of(task: &Task) -> Option<CaseStrip> {
        let judging = task.spec.judging.as_ref()?;
        Some(CaseStrip {
            id: task.id,
            len: judging.cases.len(),
            names: judging
                .cases
                .iter()
                .take(MAX_MARKS)
                .map(|case| case.name.clone())
                .collect(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The marks of a task as its result has them.
    pub(super) fn of_task(&self, task: &Task) -> Markup {
        self.show(KnownVerdicts {
            marks: &BTreeMap::new(),
            judgement: task.result.as_ref().and_then(|result| result.judgement.as_ref()),
            status: task.status,
        })
    }

    pub(super) fn show(&self, known: KnownVerdicts<'_>) -> Markup {
        let verdict_of = |index: usize| known.verdict_of(index);
        let hidden = self.len - self.names.len();
        html! {
            (self.summary(known))
            ol class="marks" aria-label="Verdicts of the cases" {
                @for (index, name) in self.names.iter().enumerate() {
                    li { (mark(&case_link(self.id, index), name, index, verdict_of(index))) }
                }
            }
            @if hidden > 0 {
                p class="dim" {
                    (format::grouped(hidden as u64)) " more " (format::plural(hidden as u64, "case")) ": "
                    a href={ "/api/v1/tasks/" (self.id) } hx-boost="false" { "all results as JSON" }
                }
            }
        }
    }

    fn summary(&self, known: KnownVerdicts<'_>) -> Markup {
        let total = self.len;
        let Some(judgement) = known.judgement else {
            let judged = known.marks.len();
            return html! {
                p class="dim" {
                    @if known.status.is_done() { "The cases were not judged." }
                    @else { (judged) " of " (total) " " (format::plural(total as u64, "case")) " judged" }
                }
            };
        };
        let Judgement {
            verdict,
            score,
            max_score,
            marks,
            ..
        } = judgement;
        let (class, _) = components::verdict_sign(*verdict);
        let first = marks.iter().position(|mark| *mark == *verdict);
        let first = first.filter(|_| !matches!(verdict, Verdict::Accepted | Verdict::CompileError));
        html! {
            p class={ "verdict " (class) } {
                strong { (sentence(*verdict)) }
                @if let Some(index) = first {
                    " in case " a href=(case_link(self.id, index)) {
                        @match self.names.get(index) {
                            Some(name) => (UserText(name.as_str())),
                            None => { "number " (index + 1) }
                        }
                    }
                }
            }
            @if *verdict == Verdict::JudgeError { p { (JUDGE_ERROR_NOTE) } }
            ul class="numbers" {
                @if *max_score > Points::ZERO { li { b { (score) } " of " b { (max_score) } " points" } }
                @for (verdict, count) in counts(marks) { li { b { (count) } " " (format::words(verdict.as_str())) } }
            }
        }
    }
}

impl KnownVerdicts<'_> {
    fn verdict_of(&self, index: usize) -> Option<Verdict> {
        match self.judgement {
            Some(judgement) => judgement.marks.get(index).copied(),
            None => self.marks.get(&index).copied(),
        }
    }
}

fn counts(marks: &[Verdict]) -> BTreeMap<Verdict, usize> {
    let mut counts = BTreeMap::new();
    for mark in marks {
        *counts.entry(*mark).or_default() += 1;
    }
    counts
}

/// The mark of one case. A case without a verdict has not been judged yet.
pub(in crate::pages) fn mark(link: &str, name: &CaseName, index: usize, verdict: Option<Verdict>) -> Markup {
    let (class, sign) = verdict.map_or(("wait", "○"), components::verdict_sign);
    let words = verdict.map_or("not judged yet".to_string(), |verdict| {
        format::words(verdict.as_str())
    });
    let label = format!("{}: {words}", attribute_text(name.as_str()));
    let word = verdict.map(Verdict::as_str);
    html! {
        a class={ "mark " (class) } href=(link) title=(label) aria-label=(label) data-case=(index) data-verdict=[word] { (sign) }
    }
}

pub(super) const JUDGE_ERROR_NOTE: &str =
    "The program that judges failed itself. That is not held against the program that is judged.";

/// A verdict as the one who submitted the program reads it.
pub(super) fn sentence(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accepted => "Accepted",
        Verdict::WrongAnswer => "Wrong answer",
        Verdict::TimeLimit => "Out of time",
        Verdict::MemoryLimit => "Out of memory",
        Verdict::OutputLimit => "Too much output",
        Verdict::RuntimeError => "Runtime error",
        Verdict::CompileError => "It does not compile",
        Verdict::JudgeError => "Judge error",
        Verdict::Skipped => "Skipped",
    }
}

#[cfg(test)]
pub(in crate::pages) mod tests;
