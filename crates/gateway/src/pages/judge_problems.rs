//! The list of the problems that tasks can be judged by, and the page of each.

mod case;
mod check_words;
mod problem_page;

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use model::{ProblemName, ProblemSummary};

pub(crate) use self::case::problem_case;
pub(super) use self::check_words::check_words;
pub(crate) use self::problem_page::problem;

use super::components::{UserText, empty_state};
use super::format;
use super::layout::{HtmlPage, Section};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;

/// More problems than these are not listed.
const MAX_ROWS: usize = 1_000;

/// The address of the page of a problem.
pub(super) fn link(name: &ProblemName) -> String {
    format!("/problems/{}", format::encode(name.as_str()))
}

pub(crate) async fn problems(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let problems = gateway.calls.problems().await?;
    let content = html! {
        h1 { "Problems" }
        @if problems.is_empty() { (nothing()) } @else { (table(&problems)) }
    };
    let page = HtmlPage::new(&gateway, "Problems")
        .section(Section::Problems)
        .caller(&caller);
    Ok(page.respond(&content))
}

fn nothing() -> Markup {
    empty_state(
        "No problems yet",
        &html! {
            p { "A problem is a set of cases and a check, kept under a name. Programs that are submitted to it are judged without "
                "their authors seeing the cases. Import a problem package of Kattis, ICPC or DOMjudge:" }
            pre { "conclave problem import DIR" }
            p { "To judge a program by cases of your own, add them on the page " a href="/run" { "Run" } "." }
        },
    )
}

fn table(problems: &[ProblemSummary]) -> Markup {
    html! {
        table class="cards" {
            thead { tr {
                th scope="col" { "Problem" } th scope="col" { "Title" } th scope="col" { "Owner" }
                th scope="col" class="number" { "Cases" } th scope="col" { "Updated" }
            } }
            tbody {
                @for problem in problems.iter().take(MAX_ROWS) {
                    tr {
                        th scope="row" data-label="Problem" { a href=(link(&problem.name)) { (problem.name) } }
                        td data-label="Title" { @if !problem.title.is_empty() { (UserText(&problem.title)) } }
                        td data-label="Owner" { (UserText(problem.owner.as_str())) }
                        td class="number" data-label="Cases" { (format::grouped(u64::from(problem.cases))) }
                        td class="tight" data-label="Updated" { (format::time(problem.update_time)) }
                    }
                }
            }
        }
        @if problems.len() > MAX_ROWS {
            p class="dim" {
                "Only the first " (format::grouped(MAX_ROWS as u64)) " are shown: " a href="/api/v1/problems" { "all as JSON" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{UnixTime, UserName};

    use super::*;

    #[test]
    fn problems_are_listed_with_links_and_hostile_titles_are_text() {
        let problem = ProblemSummary {
            name: ProblemName::new("a-plus.b").unwrap(),
            owner: UserName::new("ada <b>").unwrap(),
            title: "</td><script>alert(1)</script>\u{202e}".into(),
            cases: 1_234,
            update_time: UnixTime(0),
        };
        let shown = table(&[problem]).into_string();
        for expected in [
            "href=\"/problems/a%2Dplus%2Eb\"",
            "1,234",
            "&lt;script&gt;",
            "U+202E",
            "ada &lt;b&gt;",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert!(!shown.contains("<script"), "{shown}");
        assert!(nothing().into_string().contains("conclave problem import"));
    }
}
