//! The page of one case of a problem, for those who may see what it contains.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::html;
use model::{JudgeProblem, Points};

use super::link;
use super::problem_page::sees_all;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::pages::components::UserText;
use crate::pages::layout::{HtmlPage, Section};
use crate::pages::task::{CaseContents, StoredCase, hidden_notice};
use crate::params::{self, ProblemCasePath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedProblem;

pub(crate) async fn problem_case(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    ProblemCasePath { name, index }: ProblemCasePath,
    uri: Uri,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let LoadedProblem { problem, permit } = gateway.load_problem(&quota, &name).await?;
    let is_owner_or_operator = sees_all(&problem, &caller);
    let JudgeProblem { owner, judging, .. } = problem;
    let case = judging.cases.into_iter().nth(index);
    let case = case.ok_or_else(|| RequestError::RouteNotFound(uri.path().to_string()))?;
    // What follows is small.
    drop(permit);
    let is_hidden = !case.is_sample && !is_owner_or_operator;
    let stored = StoredCase::of(&case);
    let contents = match is_hidden {
        true => CaseContents::default(),
        false => stored.read(&gateway).await?,
    };
    let content = html! {
        h1 { "Case " (UserText(case.name.as_str())) }
        p { a href=(link(&name)) { "Back to the problem" } }
        ul class="numbers" {
            li { @if case.is_sample { "sample" } @else { "secret" } }
            @if case.points > Points::ZERO { li { b { (case.points) } " points" } }
            @if let Some(group) = &case.group { li { "group " (UserText(group.as_str())) } }
        }
        @if is_hidden {
            (hidden_notice(owner.as_str()))
        } @else {
            h2 { "Contents" }
            div class="case-texts" {
                @if let Some(input) = &contents.input { (input.section("case-input", "Input")) }
                @if let Some(answer) = &contents.answer { (answer.section("case-answer", "Expected output")) }
            }
            (stored.arguments_and_files())
        }
    };
    // Without the name: a title shows hidden characters as they are.
    let title = format!("Case {} of problem {name}", index + 1);
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Problems)
        .caller(&caller);
    Ok(page.respond(&content))
}
