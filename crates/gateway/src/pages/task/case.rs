//! The page of one case of a judged task: what its program read and wrote, what was expected, and what the check says.

mod contents;
mod difference;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use model::{
    CapturedOutput, Case, CaseResult, Check, CheckResult, Judging, Limits, Outcome, Points, Task, TaskId,
    Verdict,
};

pub(in crate::pages) use self::contents::{CaseContents, ContentHead, StoredCase};

use self::difference::LineDifference;
use super::case_strip::{JUDGE_ERROR_NOTE, case_link, sentence};
use super::verdict::{resources, verdict};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::pages::components::{self, UserText};
use crate::pages::layout::{HtmlPage, Section};
use crate::pages::output_view::{short_or_long_text, size};
use crate::params::{self, CasePath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_json::EncodedCaseResults;
use crate::task_loading::LoadedTask;

pub(crate) async fn case(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    CasePath { id, index }: CasePath,
    uri: Uri,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
    let LoadedTask { task, permit } = caller.check_owner(loaded)?;
    let opened = OpenedCase::of(&task, index, &caller);
    let mut opened = opened.ok_or_else(|| RequestError::RouteNotFound(uri.path().to_string()))?;
    opened.read_result(&gateway, &task).await?;
    // What follows is small.
    drop((task, permit));
    let contents = opened.read_contents(&gateway).await?;
    let content = html! {
        h1 { "Task " a class="id" href={ "/tasks/" (id) } { (id) } }
        (opened.show(&contents))
    };
    // Without the name: a title shows hidden characters as they are.
    let title = format!("Case {} of task {id}", index + 1);
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Tasks)
        .caller(&caller);
    Ok(page.respond(&content))
}

/// What the page of a case needs of its task.
struct OpenedCase {
    id: TaskId,
    index: usize,
    /// How many cases the task has.
    count: usize,
    name: String,
    group: Option<String>,
    worth: Points,
    limits: Limits,
    /// Without the program that judges.
    check: Check,
    /// The owner of the cases, if the reader may not see what this one contains.
    hidden_by: Option<String>,
    /// Whether the reader may see what the checker says about the case to its owner.
    sees_judge_message: bool,
    stored: StoredCase,
    result: Option<CaseResult>,
}

impl OpenedCase {
    /// `None` if the task has no such case.
    fn of(task: &Task, index: usize, caller: &Caller) -> Option<OpenedCase> {
        let judging = task.spec.judging.as_ref()?;
        let case = judging.cases.get(index)?;
        Some(OpenedCase {
            id: task.id,
            index,
            count: judging.cases.len(),
            name: case.name.to_string(),
            group: case.group.as_ref().map(ToString::to_string),
            worth: case.points,
            limits: case.limits.or(task.spec.execute.limits),
            check: without_program(&judging.check),
            hidden_by: hidden_by(judging, case, caller),
            sees_judge_message: sees_contents(judging, caller),
            stored: StoredCase::of(case),
            result: None,
        })
    }

    async fn read_result(&mut self, gateway: &Gateway, task: &Task) -> Result<(), RequestError> {
        let results = EncodedCaseResults::load(gateway, task).await?.decode()?;
        self.result = results.unwrap_or_default().into_iter().nth(self.index);
        // How much a program writes could tell what it reads.
        if self.hidden_by.is_some()
            && let Some(outcome) = self.result.as_mut().and_then(|result| result.execute.as_mut())
        {
            outcome.stdout = CapturedOutput::default();
            outcome.stderr = CapturedOutput::default();
        }
        Ok(())
    }

    async fn read_contents(&self, gateway: &Gateway) -> Result<CaseContents, RequestError> {
        match self.hidden_by {
            Some(_) => Ok(CaseContents::default()),
            None => self.stored.read(gateway).await,
        }
    }

    fn show(&self, contents: &CaseContents) -> Markup {
        html! {
            section id="case" class="case" aria-labelledby="case-title" data-index=(self.index) {
                h2 id="case-title" { "Case " (UserText(&self.name)) }
                (self.navigation())
                (self.verdict())
                @if let Some(check) = self.result.as_ref().and_then(|result| result.check.as_ref()) { (self.messages(check)) }
                @match &self.hidden_by {
                    Some(owner) => (hidden_notice(owner)),
                    None => (self.texts(contents)),
                }
                @if let Some(outcome) = self.outcome() { (resources(&self.limits, None, Some(outcome))) }
                @else { (resources(&self.limits, None, None)) }
            }
        }
    }

    /// Links to the cases beside it.
    fn navigation(&self) -> Markup {
        let before = self.index.checked_sub(1);
        let after = Some(self.index + 1).filter(|index| *index < self.count);
        html! {
            p class="case-navigation" {
                @if let Some(index) = before { a id="case-previous" href=(case_link(self.id, index)) rel="prev" { "← Previous case" } }
                span class="dim" { (self.index + 1) " of " (self.count) }
                @if let Some(index) = after { a id="case-next" href=(case_link(self.id, index)) rel="next" { "Next case →" } }
            }
        }
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.result.as_ref()?.execute.as_ref()
    }

    fn verdict(&self) -> Markup {
        let Some(result) = &self.result else {
            return html! { p class="dim" { "This case has no result." } };
        };
        let (class, _) = components::verdict_sign(result.verdict);
        // What the program did is of interest where it was not judged by its output.
        let ended = match result.verdict {
            Verdict::Accepted | Verdict::WrongAnswer | Verdict::Skipped => None,
            _ => result.execute.as_ref(),
        };
        html! {
            p class={ "verdict " (class) } {
                strong { (sentence(result.verdict)) }
                @if let Some(outcome) = ended.filter(|outcome| !outcome.succeeded()) { ": " (verdict(outcome, &self.limits)) }
            }
            @match result.verdict {
                Verdict::JudgeError => p { (JUDGE_ERROR_NOTE) },
                Verdict::Skipped => p class="dim" { "An earlier case was not accepted, so this one does not count." },
                _ => {},
            }
            ul class="numbers" {
                @if self.worth > Points::ZERO { li { b { (result.points) } " of " b { (self.worth) } " points" } }
                @if let Some(group) = &self.group { li { "group " (UserText(group)) } }
            }
        }
    }

    fn messages(&self, check: &CheckResult) -> Markup {
        let judge_message =
            Some(&check.judge_message).filter(|text| !text.is_empty() && self.sees_judge_message);
        html! {
            @if !check.message.is_empty() {
                h3 { "Message of the check" }
                (short_or_long_text("case-message", "Message of the check", check.message.as_bytes()))
            }
            @if let Some(text) = judge_message {
                h3 { "Message to the judges" }
                (short_or_long_text("case-judge-message", "Message to the judges", text.as_bytes()))
            }
            @if let Some(code) = check.exit_code.filter(|_| self.result.as_ref().is_some_and(|result| result.verdict == Verdict::JudgeError)) {
                p class="dim" { "The program that judges exited with " (code) "." }
            }
        }
    }

    fn texts(&self, contents: &CaseContents) -> Markup {
        let stdout = self.outcome().map(|outcome| &outcome.stdout);
        let stderr = self.outcome().map(|outcome| &outcome.stderr);
        html! {
            @if let (Some(expected), Some(got)) = (&contents.answer, stdout) { (self.difference(expected, got)) }
            div class="case-texts" {
                @if let Some(input) = &contents.input { (input.section("case-input", "Input")) }
                @if let Some(answer) = &contents.answer { (answer.section("case-answer", "Expected output")) }
                @if let Some(stdout) = stdout { (output("case-stdout", "Output", stdout)) }
                @if let Some(stderr) = stderr.filter(|stderr| stderr.size > 0) { (output("case-stderr", "Error output", stderr)) }
            }
            (self.stored.arguments_and_files())
        }
    }

    /// Shown where the output was judged: an interactive program talks with the interactor, and its output is compared with
    /// nothing.
    fn difference(&self, expected: &ContentHead, got: &CapturedOutput) -> Markup {
        let is_judged = self
            .result
            .as_ref()
            .is_some_and(|result| result.verdict == Verdict::WrongAnswer);
        if !is_judged || matches!(self.check, Check::Interactive(_)) {
            return html! {};
        }
        let (expected_text, got_text) = (
            String::from_utf8_lossy(&expected.bytes),
            String::from_utf8_lossy(&got.head),
        );
        let is_part = expected.is_part() || got.truncated || got.blob.is_some();
        html! {
            h3 { "Difference" }
            (LineDifference::new(&expected_text, &got_text, &self.check).show())
            @if is_part { p class="dim" { "Only the beginnings that are shown here were compared." } }
            @if matches!(self.check, Check::Program(_)) { p class="dim" { "The checker decides, not this comparison: it may accept other outputs, too." } }
        }
    }
}

/// The check for the comparison of texts, which needs none of the program's files.
fn without_program(check: &Check) -> Check {
    let mut check = check.clone();
    if let Some(program) = check.program_mut() {
        program.source.clear();
    }
    check
}

/// The owner of the problem if the reader may not see what this case contains.
fn hidden_by(judging: &Judging, case: &Case, caller: &Caller) -> Option<String> {
    let problem = judging.problem.as_ref()?;
    let is_hidden = !case.is_sample && !sees_contents(judging, caller);
    is_hidden.then(|| problem.owner.to_string())
}

/// Whether the caller, who may see the task, may also see by what it is judged.
fn sees_contents(judging: &Judging, caller: &Caller) -> bool {
    match &judging.problem {
        Some(problem) => caller.may_see_cases_of(&problem.owner),
        None => true,
    }
}

pub(in crate::pages) fn hidden_notice(owner: &str) -> Markup {
    html! { p class="notice" { "What this case reads and expects is known only to " (UserText(owner)) ", the owner of the problem." } }
}

fn output(id: &str, label: &str, captured: &CapturedOutput) -> Markup {
    html! {
        div class="output" {
            h3 { (label) " " span class="dim" { (size(captured)) } }
            (short_or_long_text(id, label, &captured.head))
        }
    }
}

#[cfg(test)]
mod tests;
