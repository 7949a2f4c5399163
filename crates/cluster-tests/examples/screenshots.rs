//! Saves pictures of every page, in light, dark and at the width of a phone. `scripts/screenshots` runs it.
#![allow(clippy::print_stdout, reason = "it says what it has saved")]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cluster_tests::{Browser, ColorScheme, DemoSite, LAPTOP, PHONE, TestSystem};

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.context("usage: screenshots DIR")?;
    std::fs::create_dir_all(&folder)?;
    let site = DemoSite::start().await?;
    site.visit(async |browser| {
        browser.tolerate("the server responded with a status of 4");
        for (name, path) in site.pages() {
            save_each_way(browser, &folder, name, &path).await;
        }
        save_each_way(browser, &folder, "error", "/no-such-page").await;
    })
    .await;
    sign_in(&folder).await
}

/// The page for signing in is only there where tokens are on.
async fn sign_in(folder: &Path) -> Result<()> {
    let system = TestSystem::new()?;
    let tokens = system.folder.path().join("tokens");
    std::fs::write(&tokens, "ada-has-a-long-token ada\n")?;
    let _up = system.up(&["--tokens-file", &tokens.display().to_string()])?;
    Browser::visit(&system.url(""), async |browser| {
        browser.tolerate("the server responded with a status of 4");
        save_each_way(browser, folder, "sign-in", "/sign-in").await;
    })
    .await;
    Ok(())
}

async fn save_each_way(browser: &Browser, folder: &Path, name: &str, path: &str) {
    for (way, scheme, size) in [
        ("light", ColorScheme::Light, LAPTOP),
        ("dark", ColorScheme::Dark, LAPTOP),
        ("phone", ColorScheme::Light, PHONE),
    ] {
        browser.prefer(scheme).await;
        browser.resize(size).await;
        browser.open(path).await;
        let file = folder.join(format!("{name}-{way}.png"));
        browser.save_picture(&file).await;
        println!("{}", file.display());
    }
}
