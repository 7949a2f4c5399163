//! The layout and the HTTP headers of every page.

use std::sync::LazyLock;

use axum::http::header::{self, HeaderName};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");

/// Allows nothing but the style above, so that HTML that was not escaped could not run scripts or load anything.
static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
});

/// The HTML frame of a gateway web page: title, navigation and style, around a content that the caller passes.
pub(super) struct HtmlPage<'a> {
    pub(super) title: &'a str,
    pub(super) version: &'a str,
    /// Seconds after which the browser reloads the page.
    pub(super) refresh: Option<u32>,
}

impl HtmlPage<'_> {
    pub(super) fn respond(&self, content: &Markup) -> Response {
        html_response(self.render(content).into_string())
    }

    pub(super) fn render(&self, content: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    @if let Some(seconds) = self.refresh { meta http-equiv="refresh" content=(seconds); }
                    title { (self.title) " · Conclave" }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        strong { a href="/" { "Conclave" } }
                        a href="/" { "Tasks" }
                        a href="/groups" { "Groups" }
                        a href="/languages" { "Languages" }
                        a href="/api/docs" { "API" }
                        span class="version" { (self.version) }
                    }
                    main { (content) }
                }
            }
        }
    }
}

/// The response with a rendered page.
pub(super) fn html_response(page: String) -> Response {
    (headers(), Html(page)).into_response()
}

fn headers() -> [(HeaderName, &'static str); 4] {
    [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A phone is narrower than a hash. Without wrapping, the whole page would scroll sideways.
    #[test]
    fn long_words_wrap() {
        let rule = |selector: &str| {
            let found = STYLE
                .lines()
                .find(|line| line.starts_with(&format!("{selector} {{")));
            found.unwrap_or_default().to_string()
        };
        assert!(STYLE.contains("main { padding-bottom: 4rem; overflow-wrap: anywhere; }"));
        assert!(rule("pre").contains("overflow-wrap: anywhere"));
        assert!(rule("dl").contains("minmax(0, 1fr)"));
        // Wide tables scroll on their own.
        assert!(rule(".scroll").contains("overflow-x: auto"));
    }
}
