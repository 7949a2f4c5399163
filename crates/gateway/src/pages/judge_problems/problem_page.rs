//! The page of one problem: how it is judged, its cases, and what was submitted.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use model::{
    CaseName, JudgeProblem, Labels, Limits, OutcomeReason, Page, Points, TaskQuery, TaskStatus, TaskSummary,
    Verdict,
};

use super::check_words::{check_words, scoring_words, stop_words};
use super::link;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::pages::components::{self, UserText, task_link};
use crate::pages::layout::{HtmlPage, Section};
use crate::pages::{format, list};
use crate::params::{self, ProblemPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedProblem;

/// How many submissions are shown.
const SUBMISSIONS: usize = 50;
/// More cases than these are not listed.
const MAX_CASES: usize = 1_000;

pub(crate) async fn problem(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    ProblemPath(name): ProblemPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let LoadedProblem { problem, permit } = gateway.load_problem(&quota, &name).await?;
    let query = submissions_query(&problem, &caller)?;
    let submissions = gateway.calls.search(query.clone()).await?;
    let title = format!("Problem {name}");
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Problems)
        .caller(&caller);
    let shown = ProblemView {
        problem: &problem,
        sees_all: sees_all(&problem, &caller),
        submissions: &submissions,
        all_submissions: list::link(&query),
        sees_all_users: query.user.is_none(),
    };
    let response = page.respond(&shown.render());
    drop(permit);
    Ok(response)
}

/// Whether the caller may see what the cases of a problem contain.
pub(super) fn sees_all(problem: &JudgeProblem, caller: &Caller) -> bool {
    caller.may_see_cases_of(&problem.owner)
}

/// The tasks that were judged by the problem, as far as the caller may see them.
fn submissions_query(problem: &JudgeProblem, caller: &Caller) -> Result<TaskQuery, RequestError> {
    let label = (JudgeProblem::LABEL.to_string(), problem.name.to_string());
    Ok(TaskQuery {
        labels: Labels::new(BTreeMap::from([label]))?,
        user: caller.user_to_search(None)?,
        limit: SUBMISSIONS,
        ..TaskQuery::default()
    })
}

/// What the page of a problem shows.
struct ProblemView<'a> {
    problem: &'a JudgeProblem,
    /// Whether the reader may see what the cases contain.
    sees_all: bool,
    submissions: &'a Page,
    all_submissions: String,
    sees_all_users: bool,
}

impl ProblemView<'_> {
    fn render(&self) -> Markup {
        let JudgeProblem { name, title, .. } = self.problem;
        html! {
            div class="row" {
                h1 { @if title.is_empty() { "Problem " (name) } @else { (UserText(title)) } }
                a class="button primary" href={ "/run?problem=" (format::encode(name.as_str())) } { "Submit a program" }
            }
            (self.facts())
            h2 { "Cases" }
            (self.cases())
            h2 { "Submissions" }
            (self.submissions())
            p { a href={ "/api/v1" (link(name)) } { "View as JSON" } }
        }
    }

    fn facts(&self) -> Markup {
        let JudgeProblem {
            name,
            owner,
            limits,
            judging,
            update_time,
            ..
        } = self.problem;
        html! {
            dl {
                dt { "Name" } dd { code { (name) } }
                dt { "Owner" } dd { (UserText(owner.as_str())) @if self.sees_all { span class="dim" { " (you see all cases)" } } }
                dt { "Updated" } dd { (format::time(*update_time)) }
                dt { "Limits" } dd { (limit_list(limits)) }
                dt { "Check" } dd { (check_words(&judging.check)) }
                @if let Some(program) = judging.check.program().filter(|_| self.sees_all) {
                    dt { "Its files" } dd { @for path in program.source.keys() { code { (UserText(path.as_str())) } " " } }
                }
                dt { "Stop" } dd { (stop_words(judging.stop)) }
                dt { "Score" } dd { (judging.max_score()) " points at most" }
            }
            (groups(&judging.groups))
        }
    }

    fn cases(&self) -> Markup {
        let cases = &self.problem.judging.cases;
        let samples = cases.iter().filter(|case| case.is_sample).count();
        let hidden = cases.len().saturating_sub(MAX_CASES);
        html! {
            p class="dim" {
                (format::grouped(cases.len() as u64)) " " (format::plural(cases.len() as u64, "case")) ", "
                "of which " (samples) " " (format::plural(samples as u64, "sample")) "."
                @if !self.sees_all { " What the others contain is known to the owner only." }
            }
            table class="cards" {
                thead { tr {
                    th scope="col" { "Case" } th scope="col" { "Group" } th scope="col" class="number" { "Points" } th scope="col" { "Kind" }
                } }
                tbody {
                    @for (index, case) in cases.iter().enumerate().take(MAX_CASES) {
                        tr {
                            th scope="row" data-label="Case" {
                                @if self.sees_all || case.is_sample {
                                    a href={ (link(&self.problem.name)) "/cases/" (index) } { (UserText(case.name.as_str())) }
                                } @else { (UserText(case.name.as_str())) }
                            }
                            td data-label="Group" { @if let Some(group) = &case.group { (UserText(group.as_str())) } }
                            td class="number" data-label="Points" { @if case.points > Points::ZERO { (case.points) } }
                            td data-label="Kind" { @if case.is_sample { "sample" } @else { "secret" } }
                        }
                    }
                }
            }
            @if hidden > 0 { p class="dim" { (format::grouped(hidden as u64)) " more " (format::plural(hidden as u64, "case")) "." } }
        }
    }

    fn submissions(&self) -> Markup {
        let tasks = &self.submissions.tasks;
        html! {
            @if tasks.is_empty() {
                p class="dim" { @if self.sees_all_users { "Nothing was submitted." } @else { "You have submitted nothing." } }
            } @else {
                table class="cards" {
                    thead { tr {
                        th scope="col" { "Verdict" } th scope="col" { "Task" }
                        @if self.sees_all_users { th scope="col" { "User" } }
                        th scope="col" { "Language" } th scope="col" { "Added" } th scope="col" { "Took" }
                    } }
                    tbody { @for task in tasks { (self.submission(task)) } }
                }
                p { a href=(self.all_submissions) { "All submissions in the list of tasks" } }
            }
        }
    }

    fn submission(&self, task: &TaskSummary) -> Markup {
        let took = task.start_time.zip(task.finish_time);
        html! {
            tr {
                td class="tight" data-label="Verdict" {
                    @match verdict_of(task) {
                        Some(verdict) => (components::verdict(verdict)),
                        None => (components::status(task.status, task.reason)),
                    }
                }
                td data-label="Task" { (task_link(task.id)) }
                @if self.sees_all_users { td data-label="User" { (UserText(task.user.as_str())) } }
                td data-label="Language" { @if let Some(language) = &task.language { (language) } }
                td class="tight" data-label="Added" { (format::time(task.add_time)) }
                td class="tight" data-label="Took" { @if let Some((start, end)) = took { (format::duration(end.since(start))) } }
            }
        }
    }
}

/// The verdict on a submission, as far as a list of tasks says it.
fn verdict_of(task: &TaskSummary) -> Option<Verdict> {
    match (task.status, task.reason?) {
        (TaskStatus::CompileFailed, _) => Some(Verdict::CompileError),
        // A task with the full score is a success, although a case without points was not accepted.
        (_, OutcomeReason::WrongAnswer) => Some(Verdict::WrongAnswer),
        (_, OutcomeReason::TimeLimit | OutcomeReason::WallLimit) => Some(Verdict::TimeLimit),
        (_, OutcomeReason::MemoryLimit) => Some(Verdict::MemoryLimit),
        (_, OutcomeReason::OutputLimit) => Some(Verdict::OutputLimit),
        (_, OutcomeReason::Signalled) => Some(Verdict::RuntimeError),
        (_, OutcomeReason::JudgeError) => Some(Verdict::JudgeError),
        (TaskStatus::Success, _) => Some(Verdict::Accepted),
        _ => None,
    }
}

fn groups(groups: &BTreeMap<CaseName, model::GroupScoring>) -> Markup {
    html! {
        @if !groups.is_empty() {
            h2 { "Groups" }
            dl {
                @for (name, scoring) in groups { dt { (UserText(name.as_str())) } dd { (scoring_words(*scoring)) } }
            }
        }
    }
}

/// The limits that a problem sets. Those that it leaves out are the server's.
fn limit_list(limits: &Limits) -> Markup {
    let set = [
        ("CPU time", limits.cpu.map(format::duration)),
        ("wall time", limits.wall.map(format::duration)),
        ("memory", limits.memory.map(format::bytes)),
        ("output", limits.output.map(format::bytes)),
        ("processes", limits.processes.map(|count| count.to_string())),
        ("largest file", limits.file_size.map(format::bytes)),
        ("open files", limits.open_files.map(|count| count.to_string())),
        ("stack", limits.stack.map(format::bytes)),
        ("files together", limits.space.map(format::bytes)),
    ];
    let set: Vec<_> = set
        .into_iter()
        .filter_map(|(name, limit)| Some(format!("{name} {}", limit?)))
        .collect();
    html! { @if set.is_empty() { "those of the server" } @else { (set.join(", ")) } }
}

#[cfg(test)]
mod tests {
    use model::{GroupScoring, ProblemName, UnixTime, UserName};

    use super::*;
    use crate::pages::task::case_strip_fixtures::judging;

    fn problem() -> JudgeProblem {
        let mut judging = judging(&["sample <1>", "secret\u{202e}"]);
        judging.cases[0].is_sample = true;
        judging.cases[1].group = CaseName::new("large & slow").ok();
        judging.groups = [(CaseName::new("large & slow").unwrap(), GroupScoring::PassAll)].into();
        JudgeProblem {
            name: ProblemName::new("a.b").unwrap(),
            owner: UserName::new("ada").unwrap(),
            title: "<b>Sums</b>".into(),
            limits: Limits {
                cpu: Some(std::time::Duration::from_secs(2)),
                ..Limits::default()
            },
            judging,
            update_time: UnixTime(0),
        }
    }

    fn shown(sees_all: bool) -> String {
        ProblemView {
            problem: &problem(),
            sees_all,
            submissions: &Page::default(),
            all_submissions: "/".into(),
            sees_all_users: sees_all,
        }
        .render()
        .into_string()
    }

    #[test]
    fn the_owner_sees_every_case_and_others_the_samples() {
        let owner = shown(true);
        assert!(owner.contains("href=\"/problems/a%2Eb/cases/1\""), "{owner}");
        let other = shown(false);
        assert!(other.contains("href=\"/problems/a%2Eb/cases/0\""), "{other}");
        assert!(!other.contains("/cases/1"), "{other}");
        for part in [
            "CPU time 2 s",
            "2 points at most",
            "the sum of its cases if all are accepted",
            "You have submitted nothing",
        ] {
            assert!(other.contains(part), "{part}: {other}");
        }
    }

    #[test]
    fn names_and_titles_are_text() {
        let shown = shown(true);
        for expected in ["&lt;b&gt;Sums", "sample &lt;1&gt;", "U+202E", "large &amp; slow"] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
    }

    #[test]
    fn only_the_owner_and_operators_see_contents() {
        let user = |name: &str| UserName::new(name).unwrap();
        for (caller, expected) in [
            (Caller::Anyone, true),
            (Caller::User(user("ada")), true),
            (Caller::User(user("bob")), false),
            (Caller::Operator(user("root")), true),
        ] {
            assert_eq!(sees_all(&problem(), &caller), expected, "{caller:?}");
        }
    }

    #[test]
    fn a_wrong_answer_without_points_is_no_accepted_submission() {
        let check = |status, reason, expected| {
            let task = TaskSummary {
                id: model::TaskId(uuid::Uuid::nil()),
                user: UserName::new("ada").unwrap(),
                priority: 0,
                command: "./main".into(),
                status,
                reason,
                labels: Labels::default(),
                group: None,
                language: None,
                executor: None,
                attempt: model::AttemptNumber(1),
                add_time: UnixTime(0),
                start_time: None,
                finish_time: None,
            };
            assert_eq!(verdict_of(&task), expected, "{status} {reason:?}");
        };
        use OutcomeReason::{Exited, WallLimit, WrongAnswer};
        use TaskStatus::{CompileFailed, RunFailed, Running, Success};
        check(Success, Some(Exited), Some(Verdict::Accepted));
        // A sample without points: the score is full.
        check(Success, Some(WrongAnswer), Some(Verdict::WrongAnswer));
        check(RunFailed, Some(WallLimit), Some(Verdict::TimeLimit));
        check(CompileFailed, Some(Exited), Some(Verdict::CompileError));
        check(Running, None, None);
    }
}
