//! The draft of the page Run: what a reload does to cases, attached files with cases, and the verdicts beside them.

use std::path::{Path, PathBuf};

use cluster_tests::{Browser, Role};
use serde_json::{Value, json};

use crate::harness::Site;
use crate::judging::{CELLS, SUM, add_case, judged, open_cases, two_cases};
use crate::run::wait_for_draft;

/// More than the form has rows for.
const MANY: usize = 51;

/// Cases that differ in their names only.
fn many_cases(input: &str) -> Value {
    let names = (1..=MANY).map(|number| format!("{number:02}"));
    names
        .map(|name| json!({"name": name, "input": input, "answer": "3\n", "group": "secret"}))
        .collect()
}

/// Writes a zip with many cases.
fn zip_of_many(folder: &Path) -> PathBuf {
    let path = folder.join("cases.zip");
    let mut writer = zip::ZipWriter::new(std::fs::File::create(&path).expect("a file"));
    for number in 1..=MANY {
        for (end, text) in [("in", "1 2\n"), ("ans", "3\n")] {
            let options = zip::write::SimpleFileOptions::default();
            let entry = writer.start_file(format!("{number:02}.{end}"), options);
            entry.expect("an entry");
            std::io::Write::write_all(&mut writer, text.as_bytes()).expect("its content");
        }
    }
    writer.finish().expect("a zip");
    path
}

/// Loads the page again when it has kept this text, and waits for its editor.
async fn reload_with(browser: &Browser, kept: &str) {
    wait_for_draft(browser, kept).await;
    browser.reload().await;
    browser.wait_for(".cm-content").await;
}

/// Whether the boxes that keep what the form does not show are ticked.
async fn kept_boxes(browser: &Browser) -> Value {
    let script = "return Array.from(document.querySelectorAll('[name$=_kept]'), box => box.checked)";
    browser.script(script, &[]).await
}

#[tokio::test]
async fn an_attached_zip_is_named_before_it_ran_and_there_afterwards() {
    let site = Site::up(&CELLS).await;
    let folder = tempfile::tempdir().expect("a folder");
    let zip = zip_of_many(folder.path());
    site.visit(async |browser| {
        open_cases(browser, "print(3) # first", "python").await;
        browser.choose_files("#cases_upload", &[&zip]).await;
        browser.wait_for_text_in("#run-attached-cases", "cases.zip").await;
        reload_with(browser, "first").await;
        browser
            .wait_for_text_in("#run-message", "Attach these files again: cases.zip.")
            .await;
        browser.choose_files("#cases_upload", &[&zip]).await;
        browser.wait_for_text_in("#run-attached-cases", "cases.zip").await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "Accepted").await;
        for program in ["print(3) # second", "print(3) # third"] {
            browser.fill("Content of", program).await;
            reload_with(browser, program).await;
            assert!(!browser.text().await.contains("Attach these files again"));
            browser.wait_for_text("Keep the 51 cases").await;
            assert_eq!(kept_boxes(browser).await, json!([true]));
        }
    })
    .await;
}

#[tokio::test]
async fn attached_files_that_ran_are_rows_after_a_reload() {
    let site = Site::up(&CELLS).await;
    let folder = tempfile::tempdir().expect("a folder");
    let large = format!("10 20{}\n", " ".repeat(70_000));
    let files = [
        ("a.in", "3 4\n"),
        ("a.ans", "7\n"),
        ("b.in", &large),
        ("b.ans", "30\n"),
    ]
    .map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    });
    let paths: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    site.visit(async |browser| {
        open_cases(browser, SUM, "python").await;
        add_case(browser, 1, "1 2", "3").await;
        browser.choose_files("#cases_upload", &paths).await;
        browser.wait_for_text_in("#run-attached-cases", "4 files").await;
        browser.click(Role::Button, "Run").await;
        browser
            .wait_for_text_in("#run-result", "Wrong answer in case b")
            .await;
        browser.fill("Content of", "print(3) # second").await;
        reload_with(browser, "second").await;
        browser.wait_for(".run-case:nth-child(3)").await;
        assert_eq!(browser.value("Name of case 2").await, "a");
        // The cases are those of the task, and so are its marks.
        browser.wait_for_text_in("#run-case-list", "✗ wrong answer").await;
        browser.fill("Expected output of case 1", "changed").await;
        for _ in 0..2 {
            reload_with(browser, "changed").await;
            assert_eq!(browser.value("Expected output of case 1").await, "changed");
            assert_eq!(browser.value("Name of case 3").await, "b");
            assert_eq!(browser.count(".run-case").await, 3);
        }
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "0 of 3 points").await;
    })
    .await;
}

#[tokio::test]
async fn a_box_that_was_unticked_stays_so() {
    let site = Site::up(&CELLS).await;
    let groups = json!({"groups": {"secret": {"score": "min"}}});
    let id = site.run(judged(&many_cases("1 2\n"), groups)).await;
    site.visit(async |browser| {
        browser.open(&format!("/run?from={id}")).await;
        browser.wait_for(".cm-content").await;
        assert_eq!(kept_boxes(browser).await, json!([true, true]));
        browser.click(Role::Field, "Keep the 51 cases").await;
        browser.click(Role::Field, "Keep the check").await;
        browser.fill("Content of", "print(3) # unticked").await;
        reload_with(browser, "unticked").await;
        assert_eq!(kept_boxes(browser).await, json!([false, false]));
        browser.click(Role::Field, "Keep the 51 cases").await;
        browser.fill("Content of", "print(3) # ticked").await;
        reload_with(browser, " ticked").await;
        assert_eq!(kept_boxes(browser).await, json!([true, false]));
    })
    .await;
}

/// A run with kept cases and a row makes a task whose cases are all kept, also that of the row.
#[tokio::test]
async fn a_row_beside_kept_cases_is_there_once() {
    let site = Site::up(&CELLS).await;
    let id = site.run(judged(&many_cases("1 2\n"), json!({}))).await;
    site.visit(async |browser| {
        browser.open(&format!("/run?from={id}")).await;
        browser.wait_for(".cm-content").await;
        add_case(browser, 1, "4 5", "9").await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "52 of 52 points").await;
        browser.fill("Expected output of case 1", "changed").await;
        reload_with(browser, "changed").await;
        browser.wait_for_text("Keep the 51 cases").await;
        assert_eq!(browser.value("Expected output of case 1").await, "changed");
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "51 of 52 points").await;
    })
    .await;
}

#[tokio::test]
async fn large_cases_do_not_cost_what_was_typed() {
    let site = Site::up(&CELLS).await;
    // Six characters of JSON for each of these, so the form carries megabytes.
    let input = "\u{1}".repeat(15_000);
    let id = site.add(judged(&many_cases(&input), json!({}))).await;
    let folder = tempfile::tempdir().expect("a folder");
    let files: Vec<_> = (1..=40)
        .map(|number| {
            let path = folder.path().join(format!("{number:02}.in"));
            std::fs::write(&path, "1 2\n".repeat(5_000)).expect("a file");
            path
        })
        .collect();
    let paths: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    site.visit(async |browser| {
        browser.open(&format!("/run?from={id}")).await;
        browser.wait_for(".cm-content").await;
        browser.fill("Content of", "print('typed')").await;
        reload_with(browser, "typed").await;
        browser.wait_for_text_in(".cm-content", "typed").await;
        assert_eq!(kept_boxes(browser).await, json!([true]));
        // Together they are too large for rows.
        open_cases(browser, "print('other')", "python").await;
        browser.choose_files("#cases_upload", &paths).await;
        browser.wait_for_text_in("#run-attached-cases", "40 files").await;
        assert_eq!(browser.count(".run-case").await, 0);
        reload_with(browser, "other").await;
        browser.wait_for_text_in("#run-message", "40 files").await;
    })
    .await;
}

/// The verdicts that the page shows beside the rows of cases.
async fn verdicts(browser: &Browser) -> Vec<String> {
    let shown = browser.texts(".run-case-verdict").await;
    shown.into_iter().filter(|text| !text.is_empty()).collect()
}

#[tokio::test]
async fn verdicts_stand_only_beside_the_cases_that_were_judged() {
    let site = Site::up(&CELLS).await;
    let id = site.run(judged(&two_cases(), json!({}))).await;
    site.visit(async |browser| {
        browser.open(&format!("/run?from={id}")).await;
        browser.wait_for_text_in("#run-case-list", "✗ wrong answer").await;
        // Another program changes no case.
        browser.fill("Content of", "print(3) # second").await;
        reload_with(browser, "second").await;
        browser.wait_for_text_in("#run-case-list", "✗ wrong answer").await;
        browser.click(Role::Button, "Remove case 1").await;
        browser.fill("Content of", "print(3) # third").await;
        reload_with(browser, "third").await;
        assert_eq!(browser.value("Name of case 1").await, "large");
        browser.wait_for("#run-task a.mark.bad").await;
        assert!(verdicts(browser).await.is_empty());
        // A row that is removed while the request is on its way moves no verdict to another row.
        add_case(browser, 2, "1 2", "3").await;
        let hold = "const send = window.fetch; \
                    window.fetch = (...request) => send(...request).then(answer => new Promise(resolve => { window.answer = () => resolve(answer) }))";
        browser.script(hold, &[]).await;
        browser.click(Role::Button, "Run").await;
        browser
            .wait_for_truth("the answer", "return Boolean(window.answer)", &[])
            .await;
        browser.click(Role::Button, "Remove case 1").await;
        browser.script("window.answer()", &[]).await;
        browser.wait_for_text_in("#run-case-list", "✓ accepted").await;
        assert_eq!(browser.value("Input of case 1").await, "1 2");
        assert_eq!(verdicts(browser).await, ["✓ accepted"]);
    })
    .await;
}
