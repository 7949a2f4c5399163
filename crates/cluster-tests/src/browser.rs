//! A real browser for tests: headless Chromium, used as a person uses it, by the names of buttons and fields.

mod accessibility;
mod appearance;
mod chromedriver;
mod console;
mod controls;
mod network;
mod waits;
mod webdriver;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use serde_json::{Value, json};
use tempfile::TempDir;

pub use appearance::ColorScheme;
pub use controls::{Key, Role};
pub use webdriver::{PageElement, RefusedCommand};

use crate::conclave;
use chromedriver::ChromeDriver;
use console::ToleratedMessages;
use webdriver::WebDriverSession;

/// The width of a small phone, and a height that shows something.
pub const PHONE: (u32, u32) = (360, 740);
/// The window of a laptop.
pub const LAPTOP: (u32, u32) = (1280, 900);

/// One headless Chromium with an empty profile, and the site that a test visits with it.
pub struct Browser {
    session: WebDriverSession,
    /// The address of the site, without a path.
    site: String,
    tolerated: ToleratedMessages,
    // Dropped with everything that the browser has started.
    _driver: ChromeDriver,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser for this site, does what the story says, and asserts that no page has logged an error or violated its
    /// policy. If the story fails, what the browser shows is printed, and saved as an image.
    pub async fn visit(site: &str, story: impl AsyncFnOnce(&Browser)) {
        let browser = Browser::start(site).await;
        let told = AssertUnwindSafe(async {
            story(&browser).await;
            browser.assert_nothing_logged().await;
        });
        let outcome = told.catch_unwind().await;
        if let Err(panic) = outcome {
            browser.print_state().await;
            std::panic::resume_unwind(panic);
        }
    }

    async fn start(site: &str) -> Browser {
        let profile = TempDir::new().expect("a folder for a profile");
        let driver = ChromeDriver::start(profile.path()).await;
        let session = driver.new_session(profile.path()).await;
        let browser = Browser {
            session,
            site: site.trim_end_matches('/').to_string(),
            tolerated: ToleratedMessages::default(),
            _driver: driver,
            _profile: profile,
        };
        browser.resize(LAPTOP).await;
        browser
    }

    /// Opens a page of the site by its path, and waits until it has loaded.
    pub async fn open(&self, path: &str) {
        let url = format!("{}{path}", self.site);
        let opened = self.session.post("url", json!({"url": url})).await;
        opened.unwrap_or_else(|error| panic!("{url}: {error}"));
    }

    pub async fn reload(&self) {
        self.command("refresh").await;
    }

    pub async fn back(&self) {
        self.command("back").await;
    }

    /// The address of the site, without a path.
    pub fn site(&self) -> &str {
        &self.site
    }

    /// Path and query of the page that is shown.
    pub async fn path(&self) -> String {
        let path = self
            .script("return location.pathname + location.search", &[])
            .await;
        path.as_str().unwrap_or_default().to_string()
    }

    async fn command(&self, command: &str) {
        let done = self.session.post(command, json!({})).await;
        done.unwrap_or_else(|error| panic!("{error}"));
    }

    /// The text of the page as a reader sees it.
    pub async fn text(&self) -> String {
        self.script("return document.body ? document.body.innerText : ''", &[])
            .await
            .as_str()
            .unwrap_or_default()
            .to_string()
    }

    /// The texts of all elements that match a CSS selector.
    pub async fn texts(&self, css: &str) -> Vec<String> {
        let script = "return Array.from(document.querySelectorAll(arguments[0]), e => e.innerText.trim())";
        let texts = self.script(script, &[json!(css)]).await;
        serde_json::from_value(texts).expect("texts")
    }

    /// How many elements match a CSS selector.
    pub async fn count(&self, css: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        let count = self.script(script, &[json!(css)]).await;
        count.as_u64().expect("a number")
    }

    /// Runs a script in the page, as an observer: the page's policy does not apply to it.
    pub async fn script(&self, script: &str, arguments: &[Value]) -> Value {
        let answer = self.session.execute(script, arguments).await;
        answer.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// A command of the Chrome DevTools Protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        let answer = self.session.post("goog/cdp/execute", body).await;
        answer.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Prints address, text and log of the page, and saves what it looks like.
    #[expect(clippy::print_stdout, reason = "a failed story shows what its browser showed")]
    async fn print_state(&self) {
        let ask = async |script: &str| {
            let answer = self.session.execute(script, &[]).await;
            answer.map_or_else(
                |error| error.to_string(),
                |value| value.as_str().unwrap_or_default().to_string(),
            )
        };
        println!("---- the browser shows {}", ask("return location.href").await);
        println!("{}", ask("return document.body.innerText").await);
        println!("---- the log of the browser");
        self.logged().await.iter().for_each(|entry| println!("{entry}"));
        if let Ok(image) = self.session.get("screenshot").await {
            let image = STANDARD
                .decode(image.as_str().unwrap_or_default())
                .unwrap_or_default();
            let path = failures().join(format!("{}.png", std::process::id()));
            let saved = std::fs::create_dir_all(failures()).and_then(|()| std::fs::write(&path, image));
            println!("---- a picture of it: {} {saved:?}", path.display());
        }
    }
}

/// The folder for pictures of failed stories, beside the binary under test.
fn failures() -> PathBuf {
    conclave().with_file_name("failed-browser-tests")
}
