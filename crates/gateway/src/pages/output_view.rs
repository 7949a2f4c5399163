//! The output of a task's steps on pages: what is there, and what comes while the task runs. `web/output.js` follows its end,
//! wraps its lines and searches in it; `/live/tasks/ID` sends what comes.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use model::{CapturedOutput, OutputSource, StepName, StreamName, TaskId};

use super::ansi::AnsiConverter;
use super::components;
use super::format;

/// How much of a long text one page shows.
pub(super) const MAX_PART_BYTES: u64 = 512 << 10;

/// The part of a long text that a page shows, and where the other parts are.
pub(super) struct TextPart<'a> {
    /// The id of the element with the text.
    pub(super) text_id: &'a str,
    pub(super) shown: Range<u64>,
    pub(super) size: u64,
    /// The URL of the page that shows any part, but for its parameter `from`.
    pub(super) page: &'a str,
}

impl TextPart<'_> {
    /// Says what is shown, which is all that `web/output.js` searches in, and links to the rest.
    pub(super) fn notice(&self) -> Markup {
        let Range { start, end } = self.shown;
        let size = self.size;
        // A page that shows less than it could is followed by one that shows more.
        let next = if end - start < MAX_PART_BYTES { start } else { end };
        let page = |from: u64| format!("{}&from={from}", self.page);
        html! {
            @if self.shown != (0..size) {
                p class="dim" data-output-partial=(self.text_id) {
                    @if start == 0 { "Only the first " (format::bytes(end)) " of " (format::bytes(size)) " are shown and searched." }
                    @else { "Shown and searched: " (format::bytes(start)) " to " (format::bytes(end)) " of " (format::bytes(size)) "." }
                    @if start > 0 { " " a href=(page(start.saturating_sub(MAX_PART_BYTES))) { "Show what is before" } }
                    @if end < size {
                        " " a href=(page(next)) { "Show more" }
                        @if size - next > MAX_PART_BYTES { " " a href=(page(size - MAX_PART_BYTES)) { "Show the end" } }
                    }
                }
            }
        }
    }
}

/// The URL of the page that shows a finished output in parts, but for its parameter `from`.
pub(super) fn output_page(id: TaskId, source: OutputSource) -> String {
    format!("/tasks/{id}/view?in={}", event_name(source))
}

/// The name of the live events with HTML of an output stream.
pub(super) fn event_name(source: OutputSource) -> &'static str {
    match (source.step, source.stream) {
        (StepName::Compile, StreamName::Stdout) => "compile-stdout",
        (StepName::Compile, StreamName::Stderr) => "compile-stderr",
        (StepName::Execute, StreamName::Stdout) => "execute-stdout",
        (StepName::Execute, StreamName::Stderr) => "execute-stderr",
    }
}

/// The name of the live event with the size of an output stream.
pub(super) fn size_event_name(source: OutputSource) -> &'static str {
    match (source.step, source.stream) {
        (StepName::Compile, StreamName::Stdout) => "compile-stdout-size",
        (StepName::Compile, StreamName::Stderr) => "compile-stderr-size",
        (StepName::Execute, StreamName::Stdout) => "execute-stdout-size",
        (StepName::Execute, StreamName::Stderr) => "execute-stderr-size",
    }
}

/// One output stream of a task. `captured` is what its result keeps; while the step runs, there is none.
pub(super) fn output_view(id: TaskId, source: OutputSource, captured: Option<&CapturedOutput>) -> Markup {
    let (step, stream) = (source.step.as_str(), source.stream.as_str());
    let event = event_name(source);
    let text_id = format!("output-{event}");
    // Following also works when the task is done meanwhile.
    let follow = if captured.is_none() { "?follow=true" } else { "" };
    let raw = format!("/api/v1/tasks/{id}/{step}/{stream}{follow}");
    let label = format!("{stream} of the {step} step");
    let shown = captured.map(shown_html).unwrap_or_default();
    html! {
        section class="output" aria-label=(label) {
            div class="output-head" {
                h3 { (stream) }
                span class="dim" sse-swap=(size_event_name(source)) hx-swap="innerHTML" {
                    @if let Some(captured) = captured { (size(captured)) }
                }
                div class="output-tools" {
                    (search_tools(&text_id, &label))
                    @if captured.is_none() {
                        button type="button" class="needs-script" data-output-follow=(text_id) aria-pressed="true" title="Scroll to the end as output comes" { "Follow" }
                    }
                    button type="button" class="needs-script" data-output-wrap=(text_id) aria-pressed="true" title="Wrap long lines" { "Wrap" }
                    a class="button" href=(raw) { "Raw" }
                    a class="button" href=(raw) download=(format!("{id}-{step}-{stream}.txt")) { "Download" }
                }
            }
            p class="dim" data-output-dropped=(text_id) hidden { "The beginning is not shown here any more. The raw output has all of it." }
            // The first line break in a pre element is not shown.
            pre class="output-text" id=(text_id) tabindex="0" role="region" aria-label={ "Text of " (label) } sse-swap=(event) hx-swap="beforeend" {
                (PreEscaped(format!("\n{shown}")))
            }
            @if let Some(captured) = captured && captured.blob.is_some() {
                (TextPart { text_id: &text_id, shown: 0..captured.head.len() as u64, size: captured.size, page: &output_page(id, source) }.notice())
            }
        }
    }
}

/// The field that searches in an output. The browser finds and marks the matches.
fn search_tools(text_id: &str, label: &str) -> Markup {
    html! {
        span class="output-search needs-script" role="search" aria-label={ "Search in " (label) } {
            input type="search" data-output-search=(text_id) aria-label={ "Search in " (label) } placeholder="Search" size="12";
            span class="dim" data-output-matches=(text_id) aria-live="polite" {}
            button type="button" data-output-previous=(text_id) aria-label="Previous match" { "↑" }
            button type="button" data-output-next=(text_id) aria-label="Next match" { "↓" }
        }
    }
}

/// How much of an output stream is kept.
pub(super) fn size(captured: &CapturedOutput) -> Markup {
    html! {
        @if captured.truncated { "cut off: kept " (format::bytes(captured.size)) " of more" }
        @else { (format::bytes(captured.size)) }
    }
}

fn shown_html(captured: &CapturedOutput) -> String {
    // A character may be cut where the head ends.
    let cut = captured.blob.map_or(0, |_| api::cut_character(&captured.head));
    AnsiConverter::convert(&captured.head[..captured.head.len() - cut])
}

/// A content that a task was given or has kept, as text.
pub(super) fn text_view(id: &str, label: &str, bytes: &[u8]) -> Markup {
    let html = AnsiConverter::convert(bytes);
    html! {
        div class="output-head" {
            div class="output-tools" {
                (search_tools(id, label))
                button type="button" class="needs-script" data-output-wrap=(id) aria-pressed="true" title="Wrap long lines" { "Wrap" }
                button type="button" class="copy needs-script" data-copy-from=(id) title="Copy the text" aria-label="Copy the text" { "❐" }
            }
        }
        pre class="output-text" id=(id) tabindex="0" role="region" aria-label=(label) { (PreEscaped(format!("\n{html}"))) }
    }
}

/// Texts up to this length need no search.
const SHORT_TEXT: usize = 1 << 10;

/// As `text_view`, but a short text has no tools around it. For pages with several texts.
pub(super) fn short_or_long_text(id: &str, label: &str, bytes: &[u8]) -> Markup {
    if bytes.len() > SHORT_TEXT {
        return text_view(id, label, bytes);
    }
    let html = AnsiConverter::convert(bytes);
    html! { pre class="output-text" id=(id) tabindex="0" role="region" aria-label=(label) { (PreEscaped(format!("\n{html}"))) } }
}

/// The notice about scripts on the page of a task that runs.
pub(super) fn without_script() -> Markup {
    html! {
        noscript {
            (components::notice(components::NoticeKind::Busy, &html! {
                "Without scripts this page does not change by itself: reload it. What the task has written so far is behind the links "
                "“Raw” below."
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STDOUT: OutputSource = OutputSource {
        step: StepName::Execute,
        stream: StreamName::Stdout,
    };

    fn captured(head: &[u8]) -> CapturedOutput {
        CapturedOutput::small(head.to_vec())
    }

    #[test]
    fn long_output_is_shown_in_part_with_a_link() {
        let id = TaskId(uuid::Uuid::from_u128(7));
        let mut captured = CapturedOutput {
            size: 70 << 10,
            blob: Some(model::BlobHash([1; 32])),
            ..captured(b"caf\xc3")
        };
        let shown = output_view(id, STDOUT, Some(&captured)).into_string();
        assert!(shown.contains(">\ncaf</pre>"), "{shown}");
        assert!(
            shown.contains("Only the first 4 bytes of 70 KiB are shown and searched."),
            "{shown}"
        );
        assert!(
            shown.contains(&format!(
                "<a href=\"/tasks/{id}/view?in=execute-stdout&amp;from=0\">Show more</a>"
            )),
            "{shown}"
        );
        assert!(!shown.contains("cut off"), "{shown}");
        captured.truncated = true;
        let shown = output_view(id, STDOUT, Some(&captured)).into_string();
        assert!(shown.contains("cut off: kept 70 KiB of more"), "{shown}");
    }

    #[test]
    fn a_part_of_a_text_links_to_the_others() {
        const PART: u64 = MAX_PART_BYTES;
        let check = |shown: Range<u64>, size: u64, expected: &[(&str, u64)]| {
            let part = TextPart {
                text_id: "t",
                shown,
                size,
                page: "/x?y",
            };
            let html = part.notice().into_string();
            let links = expected
                .iter()
                .map(|(words, from)| format!("<a href=\"/x?y&amp;from={from}\">{words}</a>"));
            assert_eq!(html.matches("<a").count(), expected.len(), "{html}");
            links.for_each(|link| assert!(html.contains(&link), "{link}: {html}"));
        };
        let (before, more, end) = ("Show what is before", "Show more", "Show the end");
        check(0..7, 7, &[]);
        check(0..7, 100, &[(more, 0)]);
        check(0..7, 3 * PART, &[(more, 0), (end, 2 * PART)]);
        check(0..PART, 2 * PART, &[(more, PART)]);
        check(0..PART, 3 * PART, &[(more, PART), (end, 2 * PART)]);
        check(9..PART + 9, PART + 10, &[(before, 0), (more, PART + 9)]);
        check(2 * PART..3 * PART, 3 * PART, &[(before, PART)]);
    }

    #[test]
    fn output_is_text_with_colours() {
        let id = TaskId(uuid::Uuid::from_u128(7));
        let shown = output_view(id, STDOUT, Some(&captured(b"\x1b[31m<script>\x1b[0m"))).into_string();
        let text = "<span class=\"ansi-f1\">&lt;script&gt;</span></pre>";
        assert!(shown.contains(text), "{shown}");
        assert!(!shown.contains("<script"), "{shown}");
    }

    #[test]
    fn the_output_of_a_running_step_is_followed() {
        let id = TaskId(uuid::Uuid::from_u128(7));
        let raw = format!("/api/v1/tasks/{id}/execute/stdout");
        let running = output_view(id, STDOUT, None).into_string();
        assert!(
            running.contains(&format!("href=\"{raw}?follow=true\"")),
            "{running}"
        );
        assert!(running.contains("sse-swap=\"execute-stdout\""), "{running}");
        let done = output_view(id, STDOUT, Some(&captured(b""))).into_string();
        assert!(done.contains(&format!("href=\"{raw}\"")), "{done}");
        assert!(done.contains("0 bytes"), "{done}");
    }
}
