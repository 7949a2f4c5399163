//! What pages request, and whether the reader looks at them.

use serde_json::json;

use super::Browser;

impl Browser {
    /// The addresses of everything that the page has loaded or connected to so far, itself included.
    pub async fn requested(&self) -> Vec<String> {
        let script =
            "return [location.href, ...performance.getEntriesByType('resource').map(entry => entry.name)]";
        let requested = self.script(script, &[]).await;
        serde_json::from_value(requested).expect("addresses")
    }

    /// Asserts that the page has requested nothing from other sites.
    pub async fn assert_same_site(&self) {
        for address in self.requested().await {
            let own = address.starts_with(&format!("{}/", self.site)) || address.starts_with("data:");
            assert!(own, "{} requests {address}", self.path().await);
        }
    }

    /// Tells the page that it is hidden. A browser without a display keeps every tab visible.
    pub async fn hide(&self) {
        self.script(
            "Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});
             document.dispatchEvent(new Event('visibilitychange'))",
            &[],
        )
        .await;
    }

    /// Tells the page that it is visible again.
    pub async fn show(&self) {
        self.script(
            "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))",
            &[],
        )
        .await;
    }

    /// Pages opened from now on run no scripts.
    pub async fn disable_scripts(&self) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true}))
            .await;
    }

    /// Cuts the browser off from all networks, or connects it again.
    pub async fn set_offline(&self, offline: bool) {
        let conditions = json!({
            "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1,
        });
        self.devtools("Network.enable", json!({})).await;
        self.devtools("Network.emulateNetworkConditions", conditions)
            .await;
    }

    /// Allows the page to read and write the clipboard, and returns nothing else than what it contains.
    pub async fn clipboard(&self) -> String {
        let permissions = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
        self.devtools("Browser.grantPermissions", permissions).await;
        let read =
            "const done = arguments[0]; navigator.clipboard.readText().then(done, e => done('error: ' + e))";
        let text = self.session.execute_async(read, &[]).await;
        text.expect("a clipboard")
            .as_str()
            .unwrap_or_default()
            .to_string()
    }
}
