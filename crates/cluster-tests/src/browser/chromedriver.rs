//! The process `chromedriver`, which starts Chromium and speaks the WebDriver protocol.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use serde_json::json;

use super::webdriver::WebDriverSession;
use crate::wait_until;

/// Starting a browser takes seconds on a busy machine.
const STARTS: Duration = Duration::from_secs(60);

/// How often chromedriver may choose a port that is in use.
const MAX_STARTS: usize = 5;

/// Longer than any wait of a story.
const SCRIPT_MS: u64 = 120_000;

/// Chromium's arguments: no sandbox, because tests run as root; no request of its own to other machines.
const CHROMIUM_FLAGS: [&str; 13] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    // /dev/shm is small in containers.
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
];

/// A running `chromedriver` in a process namespace of its own, so that no process of the browser outlives it.
pub(super) struct ChromeDriver {
    child: Child,
    port: u16,
}

impl ChromeDriver {
    /// Chromedriver chooses a free port of IPv6, and ends if the same port of IPv4 is in use. Another start chooses another one.
    pub(super) async fn start(profile: &Path) -> ChromeDriver {
        let mut starts = 0;
        loop {
            starts += 1;
            match ChromeDriver::try_start(profile).await {
                Ok(driver) => return driver,
                Err(said) if said.contains("Address already in use") && starts < MAX_STARTS => {}
                Err(said) => panic!("{said}"),
            }
        }
    }

    /// An error is what chromedriver said before it ended.
    async fn try_start(profile: &Path) -> Result<ChromeDriver, String> {
        let log = profile.join("chromedriver.log");
        let output = std::fs::File::create(&log).expect("a log");
        let child = Command::new("unshare")
            .args([
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "chromedriver",
                "--port=0",
            ])
            // Everything that Chromium writes outside of its profile.
            .env("HOME", profile)
            .env("TMPDIR", profile)
            .stdin(Stdio::null())
            .stderr(output.try_clone().expect("a log"))
            .stdout(output)
            .spawn()
            .expect("unshare and chromedriver start; `scripts/setup test` installs them");
        let mut driver = ChromeDriver { child, port: 0 };
        driver.port = wait_until("chromedriver to listen", STARTS, async || {
            let ended = driver.child.try_wait();
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if let Ok(Some(status)) = ended {
                return Some(Err(format!("chromedriver ended ({status}):\n{said}")));
            }
            let (_, port) = said.split_once("started successfully on port ")?;
            let (port, _) = port.split_once('.')?;
            u16::from_str(port).ok().map(Ok)
        })
        .await?;
        Ok(driver)
    }

    /// A browser window with this folder for its profile.
    pub(super) async fn new_session(&self, profile: &Path) -> WebDriverSession {
        let mut flags: Vec<_> = CHROMIUM_FLAGS.map(String::from).to_vec();
        flags.push(format!("--user-data-dir={}", profile.join("profile").display()));
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"browser": "ALL"},
            // A dialog that a page opens by itself fails the next command, and so the test.
            "unhandledPromptBehavior": "ignore",
            "timeouts": {"script": SCRIPT_MS, "pageLoad": SCRIPT_MS},
        });
        let address = format!("http://127.0.0.1:{}", self.port);
        let session = WebDriverSession::new(&address, &wanted).await;
        session.unwrap_or_else(|error| panic!("{error}; `scripts/setup test` installs chromium"))
    }
}

impl Drop for ChromeDriver {
    fn drop(&mut self) {
        // The kernel kills the whole namespace with its first process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
