//! Waits for what a page shows.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Browser, PageElement};
use crate::wait_until;

/// Long, because the machine may be busy with other tests. Nothing here measures speed.
pub(super) const APPEARS: Duration = Duration::from_secs(40);

impl Browser {
    /// Waits until the page shows a text.
    pub async fn wait_for_text(&self, text: &str) {
        self.wait_for_text_in("body", text).await;
    }

    /// Waits until an element that matches a CSS selector shows a text.
    pub async fn wait_for_text_in(&self, css: &str, text: &str) {
        // Parts of a line that lie beside each other are lines of the text.
        let script = "const [css, text] = arguments; return Array.from(document.querySelectorAll(css)).some(element => \
                      [element.innerText, element.innerText.replace(/\\s+/g, ' ')].some(shown => shown.includes(text)))";
        let what = format!("the text {text:?} in {css}");
        self.wait_for_truth(&what, script, &[json!(css), json!(text)])
            .await;
    }

    /// Waits until the page no longer shows a text.
    pub async fn wait_until_without(&self, text: &str) {
        let script = "return !document.body.innerText.includes(arguments[0])";
        let what = format!("the text {text:?} to go");
        self.wait_for_truth(&what, script, &[json!(text)]).await;
    }

    /// Waits until a script returns something that counts as true.
    pub async fn wait_for_truth(&self, what: &str, script: &str, arguments: &[Value]) {
        wait_until(what, APPEARS, async || {
            // The page may be going away just now.
            let answer = self.session.execute(script, arguments).await.ok()?;
            (answer == json!(true)).then_some(())
        })
        .await;
    }

    /// Waits for an element that matches a CSS selector and is displayed.
    pub async fn wait_for(&self, css: &str) -> PageElement<'_> {
        wait_until(&format!("{css} to be displayed"), APPEARS, async || {
            let found = self.session.find_all(css).await.ok()?;
            for element in found {
                if element.is_displayed().await.unwrap_or(false) {
                    return Some(element);
                }
            }
            None
        })
        .await
    }

    /// Waits until path and query of the page are these. A `*` stands for any text.
    pub async fn wait_for_path(&self, pattern: &str) {
        wait_until(&format!("the page {pattern}"), APPEARS, async || {
            let script = "return location.pathname + location.search";
            let path = self.session.execute(script, &[]).await.ok()?;
            matches_pattern(path.as_str()?, pattern).then_some(())
        })
        .await;
    }
}

/// Whether a text is the pattern, in which a `*` stands for any text.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    let Some((beginning, rest)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let Some(text) = text.strip_prefix(beginning) else {
        return false;
    };
    (0..=text.len()).any(|at| text.is_char_boundary(at) && matches_pattern(&text[at..], rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_any_text_at_its_stars() {
        let check = |text: &str, pattern: &str, expected: bool| {
            assert_eq!(matches_pattern(text, pattern), expected, "{text} {pattern}");
        };
        check("/", "/", true);
        check("/?a=1&user=bob&b=2", "/?*user=bob*", true);
        check("/?user=bo", "/?*user=bob*", false);
        check("/tasks/7", "/tasks/*", true);
        check("/tasks/7", "/tasks", false);
    }
}
