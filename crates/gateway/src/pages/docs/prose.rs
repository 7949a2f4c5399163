//! Renders the Markdown that the descriptions of the OpenAPI document use.

use maud::{Markup, html};
use serde_json::Value;

/// Paragraphs, code blocks and inline code.
pub(super) fn prose(value: &Value) -> Markup {
    html! {
        @for block in text(value).split("\n\n").filter(|block| !block.trim().is_empty()) {
            @if let Some(code) = block.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) {
                pre { (code.split_once('\n').map_or(code, |(_, code)| code)) }
            } @else {
                p { (inline(block)) }
            }
        }
    }
}

pub(super) fn inline(text: &str) -> Markup {
    let pieces: Vec<_> = text.split('`').collect();
    // A backtick without a second one is an ordinary character.
    if pieces.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (index, piece) in pieces.into_iter().enumerate() {
            @if index.is_multiple_of(2) { (piece) } @else { code { (piece) } }
        }
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_shown_as_code() {
        let check = |text: &str, expected: &str| assert_eq!(prose(&text.into()).into_string(), expected);
        check("a `b<c` d", "<p>a <code>b&lt;c</code> d</p>");
        check("one\n\ntwo", "<p>one</p><p>two</p>");
        check("```sh\nls | wc\n```", "<pre>ls | wc\n</pre>");
        check("a ` b", "<p>a ` b</p>");
        check("", "");
    }
}
