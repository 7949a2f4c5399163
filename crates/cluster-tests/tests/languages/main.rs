//! Every language of the table whose toolchain Debian has, in a root with all of them.
//!
//! The root has some gigabytes and takes minutes to build, so only `scripts/test full` runs these tests.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]

use std::time::Duration;

use cluster_tests::{BuiltRoot, LanguagePrograms, RawHttpClient, TestSystem, wait_until};
use serde_json::Value;

/// The search for versions starts dozens of programs.
const SOON: Duration = Duration::from_secs(300);

#[tokio::test]
async fn every_language_of_debian_ends_its_programs_for_the_right_reason() {
    let root = BuiltRoot::of("languages", &["--languages", "all"]).await;
    let system = TestSystem::new().expect("a folder");
    let config = system.folder.path().join("conclave.toml");
    let text = format!("[roots.all]\npath = {:?}\n", root.folder.display().to_string());
    std::fs::write(&config, text).expect("a file");
    let flags = [
        "--isolation",
        "cell",
        "--config",
        config.to_str().expect("a path"),
    ];
    let _up = system.up(&flags).expect("conclave up serves");
    let web = RawHttpClient::new(&system.url(""));
    let offered = wait_until("the languages of the root", SOON, async || {
        let executors = web.get("/api/v1/executors").await.json();
        let languages = executors["executors"][0]["languages"].as_array()?.clone();
        let in_root: Vec<_> = languages
            .into_iter()
            .filter(|offer| offer["root"] == "all")
            .collect();
        let are_known = in_root
            .iter()
            .all(|offer| offer["version"].is_string() || offer["name"] == "text");
        (!in_root.is_empty() && are_known).then_some(in_root)
    })
    .await;
    assert!(offered.len() >= 45, "{}: {offered:?}", offered.len());
    let table = web.get("/api/v1/languages").await.json();
    let programs = LanguagePrograms {
        web: &web,
        root: Some("all"),
    };
    let mut wrong = Vec::new();
    for language in table["languages"].as_array().expect("a list") {
        let is_offered = |offer: &&Value| offer["name"] == language["name"];
        if offered.iter().any(|offer| is_offered(&offer)) {
            wrong.extend(programs.check(language).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
