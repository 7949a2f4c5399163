//! The parts that pages are made of. Their look is in `web/style/components.css`.

use api::is_hidden_character;
use maud::{Markup, Render, html};
use model::{OutcomeReason, TaskId, TaskStatus, Verdict};

use super::format;

/// Text that users have chosen. It cannot change the direction of the text around it, and characters that are invisible or
/// that change the direction are shown by their numbers.
pub(super) struct UserText<'a>(pub(super) &'a str);

impl Render for UserText<'_> {
    fn render(&self) -> Markup {
        html! {
            bdi {
                @for (hidden, part) in split_hidden(self.0) {
                    @if hidden {
                        @for character in part.chars() {
                            span class="control-character" { "U+" (format!("{:04X}", u32::from(character))) }
                        }
                    } @else { (part) }
                }
            }
        }
    }
}

/// A text of a user or a task for an attribute, where hidden characters cannot be shown by their numbers.
pub(super) fn attribute_text(text: &str) -> String {
    text.chars()
        .filter(|character| !is_hidden_character(*character))
        .collect()
}

/// The text in parts that consist of hidden characters, or of none.
fn split_hidden(text: &str) -> Vec<(bool, &str)> {
    let mut parts = vec![];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hidden = is_hidden_character(first);
        let end = rest
            .find(|character| is_hidden_character(character) != hidden)
            .unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        parts.push((hidden, part));
        rest = after;
    }
    parts
}

/// The status of a task, and why its last step ended.
pub(super) fn status(status: TaskStatus, reason: Option<OutcomeReason>) -> Markup {
    // The mark says the same as the colour.
    let (class, mark) = match status {
        TaskStatus::Success => ("status good", "✓"),
        TaskStatus::CompileFailed | TaskStatus::RunFailed | TaskStatus::SystemError => ("status bad", "✗"),
        TaskStatus::Compiling | TaskStatus::Running | TaskStatus::Retrying => ("status busy", "●"),
        TaskStatus::Pending => ("status wait", "○"),
        TaskStatus::Cancelled => ("status wait", "⊘"),
    };
    // An exit is what the status says already.
    let reason = reason.filter(|reason| !matches!(reason, OutcomeReason::Exited | OutcomeReason::Cancelled));
    html! {
        span class=(class) {
            span class="dot" aria-hidden="true" { (mark) }
            (format::words(status.as_str()))
            @if let Some(reason) = reason { ": " (format::words(reason.as_str())) }
        }
    }
}

/// The class and the sign of a verdict. The sign says the same as the colour.
pub(super) fn verdict_sign(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Accepted => ("good", "✓"),
        Verdict::WrongAnswer => ("bad", "✗"),
        Verdict::TimeLimit => ("bad", "T"),
        Verdict::MemoryLimit => ("bad", "M"),
        Verdict::OutputLimit => ("bad", "O"),
        Verdict::RuntimeError => ("bad", "R"),
        Verdict::CompileError => ("bad", "C"),
        Verdict::JudgeError => ("busy", "!"),
        Verdict::Skipped => ("wait", "–"),
    }
}

/// A verdict in words, with its sign.
pub(super) fn verdict(verdict: Verdict) -> Markup {
    let (class, sign) = verdict_sign(verdict);
    html! {
        span class={ "status " (class) } {
            span class="dot" aria-hidden="true" { (sign) }
            (format::words(verdict.as_str()))
        }
    }
}

/// The end of an id, which distinguishes tasks that were added at the same time, as a link. The button copies the whole id.
pub(super) fn task_link(id: TaskId) -> Markup {
    let whole = id.to_string();
    let short = whole.rsplit('-').next().unwrap_or(&whole);
    html! {
        span class="tight" {
            a class="id" href={ "/tasks/" (whole) } title=(whole) { "…" (short) }
            (copy_button(&whole, "Copy the id"))
        }
    }
}

/// A button that copies a text. It is visible only where scripts run.
pub(super) fn copy_button(text: &str, label: &str) -> Markup {
    html! { button type="button" class="copy needs-script" data-copy=(text) title=(label) aria-label=(label) { "❐" } }
}

/// What is shown in place of a list that is empty, and what to do first.
pub(super) fn empty_state(title: &str, advice: &Markup) -> Markup {
    html! { div class="empty" { h2 { (title) } (advice) } }
}

/// How grave a notice is.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoticeKind {
    Good,
    Bad,
    Busy,
}

/// A message above the content of a page.
pub(super) fn notice(kind: NoticeKind, text: &Markup) -> Markup {
    let class = match kind {
        NoticeKind::Good => "notice good",
        NoticeKind::Bad => "notice bad",
        NoticeKind::Busy => "notice busy",
    };
    html! { div class=(class) role="status" { (text) } }
}

/// A bar that is filled by the used part of a limit. Its text is next to it, so screen readers skip the picture.
pub(super) fn bar(used: f64, limit: f64) -> Markup {
    let part = if limit > 0.0 {
        (used / limit).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let class = if part >= 1.0 {
        "bar bad"
    } else if part >= 0.8 {
        "bar busy"
    } else {
        "bar"
    };
    html! {
        svg class=(class) viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect width=(format!("{:.2}", part * 100.0)) height="1" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_users_is_isolated_and_shows_hidden_characters() {
        let check = |text: &str, expected: &str| {
            assert_eq!(UserText(text).render().into_string(), expected, "{text:?}");
        };
        check("plain", "<bdi>plain</bdi>");
        check("<b>", "<bdi>&lt;b&gt;</bdi>");
        check(
            "a\u{202e}b\u{1b}",
            "<bdi>a<span class=\"control-character\">U+202E</span>b<span class=\"control-character\">U+001B</span></bdi>",
        );
        check("שלום", "<bdi>שלום</bdi>");
    }

    #[test]
    fn a_status_shows_the_reason_where_it_says_more() {
        let shown = |task, reason| status(task, reason).into_string();
        let failed = shown(TaskStatus::RunFailed, Some(OutcomeReason::TimeLimit));
        assert!(failed.contains("run failed: time limit"), "{failed}");
        let success = shown(TaskStatus::Success, Some(OutcomeReason::Exited));
        assert!(success.ends_with("success</span>"), "{success}");
    }

    #[test]
    fn verdicts_differ_without_colours() {
        let signs = Verdict::ALL.map(|verdict| verdict_sign(verdict).1);
        let distinct: std::collections::BTreeSet<_> = signs.iter().collect();
        assert_eq!(distinct.len(), Verdict::ALL.len(), "{signs:?}");
        let shown = verdict(Verdict::WrongAnswer).into_string();
        assert!(
            shown.contains("status bad") && shown.ends_with("wrong answer</span>"),
            "{shown}"
        );
    }

    #[test]
    fn a_bar_is_filled_by_the_used_part() {
        let check = |used: f64, limit: f64, class: &str, width: &str| {
            let bar = bar(used, limit).into_string();
            assert!(bar.contains(&format!("class=\"{class}\"")), "{bar}");
            assert!(bar.contains(&format!("width=\"{width}\"")), "{bar}");
        };
        check(1.0, 4.0, "bar", "25.00");
        check(9.0, 10.0, "bar busy", "90.00");
        check(12.0, 10.0, "bar bad", "100.00");
        check(1.0, 0.0, "bar", "0.00");
    }
}
