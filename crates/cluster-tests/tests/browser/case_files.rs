//! Files with cases on the page Run: what is taken from a folder, and what is attached.

use std::path::PathBuf;

use cluster_tests::Role;
use tempfile::TempDir;

use crate::harness::Site;
use crate::judging::{CELLS, SUM, open_cases};

/// A folder with files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

#[tokio::test]
async fn a_zip_among_other_files_is_no_zip_of_cases() {
    let site = Site::up(&CELLS).await;
    let folder = Folder::new();
    let files = [
        folder.file("a.in", "1 2\n"),
        folder.file("a.ans", "3\n"),
        folder.file("attachments.zip", "PK"),
    ];
    site.visit(async |browser| {
        open_cases(browser, SUM, "python").await;
        let paths: Vec<_> = files.iter().map(AsRef::as_ref).collect();
        browser.choose_files("#cases_upload", &paths).await;
        browser.wait_for(".run-case").await;
        assert_eq!(browser.value("Name of case 1").await, "a");
        assert!(!browser.has_control(Role::Button, "Detach attachments.zip").await);
    })
    .await;
}

#[tokio::test]
async fn attached_cases_stay_until_they_are_detached() {
    let site = Site::up(&CELLS).await;
    let folder = Folder::new();
    let large = format!("1 2{}\n", " ".repeat(70_000));
    let file = |name: &str| folder.file(name, if name.ends_with(".in") { &large } else { "3\n" });
    let first = ["a.in", "a.ans"].map(file);
    let second = ["b.in", "b.ans"].map(file);
    let third = ["b.ans", "c.in", "c.ans"].map(file);
    let notes = folder.file("notes.txt", "not a case");
    site.visit(async |browser| {
        open_cases(browser, SUM, "python").await;
        let attach = async |files: &[PathBuf]| {
            let paths: Vec<_> = files.iter().map(AsRef::as_ref).collect();
            browser.choose_files("#cases_upload", &paths).await;
        };
        attach(&first).await;
        attach(&second).await;
        browser
            .control(Role::Button, "Detach 2 files (a.ans to a.in)")
            .await;
        browser
            .control(Role::Button, "Detach 2 files (b.ans to b.in)")
            .await;
        attach(&[notes]).await;
        browser.wait_for_text("There is no case among these files").await;
        browser.assert_accessible().await;
        // A file that is attached again takes the place of the one before.
        attach(&third).await;
        browser
            .wait_until_without("There is no case among these files")
            .await;
        browser.control(Role::Button, "Detach b.in").await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "3 of 3 points").await;
        browser
            .click(Role::Button, "Detach 2 files (a.ans to a.in)")
            .await;
        browser.wait_until_without("a.ans to a.in").await;
        browser.control(Role::Button, "Detach b.in").await;
    })
    .await;
}
