//! The list of languages and roots.

use std::sync::Arc;

use api::{ExecutorState, Language, LanguagesResponse, Root, RootsResponse};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::layout::{HtmlPage, Section};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::request_error::RequestError;

pub(crate) async fn languages(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
) -> Result<Response, RequestError> {
    let table = gateway.calls.languages().await?;
    let executors = gateway.calls.executors().await?;
    let LanguagesResponse { languages } = LanguagesResponse::new(table, &executors);
    let RootsResponse { roots } = RootsResponse::new(&executors);
    let executors: Vec<ExecutorState> = executors.into_iter().map(Into::into).collect();
    let (offered, others): (Vec<_>, Vec<_>) =
        languages.into_iter().partition(|language| language.executors > 0);
    let content = html! {
        h1 { "Languages" }
        @if offered.is_empty() {
            p class="dim" { "No executor has a language of the table." }
        } @else { (language_table(&offered, &executors)) }
        @if !others.is_empty() {
            p class="dim" { "No executor has " @for (index, language) in others.iter().enumerate() { @if index > 0 { ", " } (language.title) } "." }
        }
        h2 { "Roots" }
        @if roots.is_empty() { p class="dim" { "No executor has a named root." } } @else { (root_table(&roots)) }
    };
    let page = HtmlPage::new(&gateway, "Languages")
        .section(Section::Languages)
        .caller(&caller);
    Ok(page.respond(&content))
}

fn language_table(languages: &[Language], executors: &[ExecutorState]) -> Markup {
    html! {
        div class="scroll" { table {
            thead { tr { th { "Name" } th { "Language" } th { "Source file" } th { "Root" } th { "Versions by executor" } th { "Commands" } } }
            tbody {
                @for language in languages {
                    tr {
                        td { code { (language.name) } @for alias in &language.aliases { " " code class="dim" { (alias) } } }
                        td { (language.title) }
                        td { code { (language.source_name) } }
                        td { @if let Some(root) = &language.root { (root) } }
                        td { (language.versions_by_executor(executors)) }
                        td {
                            @if let Some(compile) = &language.compile { code { (compile) } br; }
                            code { (language.execute) }
                        }
                    }
                }
            }
        } }
    }
}

fn root_table(roots: &[Root]) -> Markup {
    html! {
        div class="scroll" { table {
            thead { tr { th { "Root" } th { "Executors" } th { "SHA-256" } } }
            tbody {
                @for root in roots {
                    tr {
                        td { (root.name) }
                        td { (root.executors) }
                        td class="id" { @if let Some(sha256) = root.sha256 { (sha256) } @else { span class="dim" { "a folder of the operator" } } }
                    }
                }
            }
        } }
    }
}
