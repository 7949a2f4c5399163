//! What pages have logged: errors of scripts, refused resources, violations of the content security policy.

use std::fmt;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::Browser;

/// An entry of the browser's log.
#[derive(Debug)]
pub(super) struct LogEntry {
    level: String,
    source: String,
    message: String,
}

impl LogEntry {
    fn of(entry: &Value) -> LogEntry {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_string();
        LogEntry {
            level: text("level"),
            source: text("source"),
            message: text("message"),
        }
    }

    fn is_error(&self) -> bool {
        self.level == "SEVERE"
            || self.source == "security"
            || self.message.contains("Content Security Policy")
    }
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.level, self.source, self.message)
    }
}

/// Parts of error messages that a story expects.
#[derive(Default)]
pub(super) struct ToleratedMessages(Mutex<Vec<String>>);

impl Browser {
    /// Errors with this text in the browser's log do not fail the story, for example the status of an error page.
    pub fn tolerate(&self, text: &str) {
        let mut tolerated = self.tolerated.0.lock().expect("no panic while it was held");
        tolerated.push(text.to_string());
    }

    /// What was logged since the last call.
    pub(super) async fn logged(&self) -> Vec<LogEntry> {
        let log = self.session.post("se/log", json!({"type": "browser"})).await;
        let log = log.unwrap_or_default();
        log.as_array().into_iter().flatten().map(LogEntry::of).collect()
    }

    /// Asserts that pages have logged no error and have not violated their policy since the last call.
    pub async fn assert_nothing_logged(&self) {
        let errors = self.logged_errors().await;
        assert!(errors.is_empty(), "pages logged errors:\n{}", errors.join("\n"));
    }

    /// The errors and violations that pages have logged since the last call, without those that are tolerated.
    pub async fn logged_errors(&self) -> Vec<String> {
        let entries = self.logged().await;
        let tolerated = self.tolerated.0.lock().expect("no panic while it was held");
        let expected = |entry: &LogEntry| tolerated.iter().any(|text| entry.message.contains(text));
        let errors = entries
            .iter()
            .filter(|entry| entry.is_error() && !expected(entry));
        errors.map(ToString::to_string).collect()
    }
}
