//! Checks pages with axe-core, which set-up installs into the cache folder.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Browser, ColorScheme};

/// Runs every rule of WCAG 2.2 A and AA and axe's own best practices, and returns what is violated.
const RUN: &str = r"
    const done = arguments[arguments.length - 1];
    axe.run(document, {resultTypes: ['violations']}).then(
        result => done(result.violations.flatMap(rule => rule.nodes.map(
            node => `${rule.id}: ${rule.help}\n  ${node.html.slice(0, 300)}\n  ${node.failureSummary}`))),
        error => done([String(error)]));
";

impl Browser {
    /// Asserts that axe-core finds no violation in the page, in light and dark.
    pub async fn assert_accessible(&self) {
        let violations = self.accessibility_violations().await;
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }

    /// What axe-core finds in the page, in light and dark.
    pub async fn accessibility_violations(&self) -> Vec<String> {
        let mut all = Vec::new();
        for scheme in ColorScheme::BOTH {
            self.prefer(scheme).await;
            let (path, found) = (self.path().await, self.violations().await);
            all.extend(
                found
                    .iter()
                    .map(|violation| format!("{path} in {}: {violation}", scheme.name())),
            );
        }
        self.prefer(ColorScheme::Light).await;
        all
    }

    async fn violations(&self) -> Vec<String> {
        if self.script("return typeof axe", &[]).await != json!("object") {
            let source = std::fs::read_to_string(axe_source());
            let source = source.unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; `scripts/setup test` installs it",
                    axe_source().display()
                )
            });
            // Its scope is a function, so that a global has to be made one by name.
            self.script(&format!("{source}\nwindow.axe = axe;"), &[]).await;
        }
        let found: Value = self.session.execute_async(RUN, &[]).await.expect("axe-core runs");
        serde_json::from_value(found).expect("texts")
    }
}

fn axe_source() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache =
        cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"));
    cache.join("conclave/axe-core/node_modules/axe-core/axe.min.js")
}
