//! What pages request, and whether the reader looks at them.

use serde_json::{Value, json};

use super::Browser;

/// A tab in front of a page, which hides it.
pub struct CoveringTab {
    page: Value,
    tab: Value,
}

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

    /// Hides the page behind a new tab. The story goes on with the hidden page.
    pub async fn hide(&self) -> CoveringTab {
        let page = self.session.get("window").await.expect("a window");
        let tab = self.session.post("window/new", json!({"type": "tab"})).await;
        let tab = tab.expect("a tab")["handle"].take();
        self.switch_to(&tab).await;
        let opened = self.session.post("url", json!({"url": "about:blank"})).await;
        opened.expect("the tab is in front");
        self.switch_to(&page).await;
        self.wait_for_truth("the page to be hidden", "return document.hidden", &[])
            .await;
        CoveringTab { page, tab }
    }

    /// Closes the tab in front of a hidden page.
    pub async fn show(&self, covering: CoveringTab) {
        self.switch_to(&covering.tab).await;
        self.session.delete("window").await.expect("the tab closes");
        self.switch_to(&covering.page).await;
        self.wait_for_truth("the page to be visible", "return !document.hidden", &[])
            .await;
    }

    async fn switch_to(&self, window: &Value) {
        let switched = self.session.post("window", json!({"handle": window})).await;
        switched.unwrap_or_else(|error| panic!("{error}"));
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
