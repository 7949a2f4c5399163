//! The list of languages and roots.

use std::sync::Arc;

use api::{ExecutorState, Language, LanguagesResponse, Root, RootsResponse};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::format;
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
        table class="cards" {
            thead { tr {
                th scope="col" { "Name" } th scope="col" { "Language" } th scope="col" { "Source file" } th scope="col" { "Root" }
                th scope="col" { "Versions by executor" } th scope="col" { "Commands" }
            } }
            tbody {
                @for language in languages {
                    tr {
                        th scope="row" data-label="Name" { code { (language.name) } @for alias in &language.aliases { " " code class="dim" { (alias) } } }
                        td data-label="Language" {
                            span { (language.title) " " a href={ "/run?language=" (format::encode(language.name.as_str())) } aria-label={ "Run an example in " (language.title) } { "Run an example" } }
                        }
                        td data-label="Source file" { code { (language.source_name) } }
                        td data-label="Root" { @if let Some(root) = &language.root { (root) } }
                        td data-label="Versions" { (language.versions_by_executor(executors)) }
                        td data-label="Commands" {
                            span {
                                @if let Some(compile) = &language.compile { code { (compile) } br; }
                                code { (language.execute) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn root_table(roots: &[Root]) -> Markup {
    html! {
        div class="scroll" { table {
            thead { tr { th scope="col" { "Root" } th scope="col" { "Executors" } th scope="col" { "SHA-256" } } }
            tbody {
                @for root in roots {
                    tr {
                        th scope="row" { (root.name) }
                        td { (root.executors) }
                        td class="id" { @if let Some(sha256) = root.sha256 { (sha256) } @else { span class="dim" { "a folder of the operator" } } }
                    }
                }
            }
        } }
    }
}
