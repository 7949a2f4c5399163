//! The page Run: write a program, run it, see its output while it runs, cancel, share.

use cluster_tests::{Browser, Key, PHONE, Role};
use serde_json::json;

use crate::harness::Site;

/// Replaces the program of a new page in this language.
async fn write_program(browser: &Browser, language: &str, program: &str) {
    browser.open(&format!("/run?language={language}")).await;
    // The editor takes the place of the plain text field.
    browser.wait_for(".cm-content").await;
    browser.fill("Content of", program).await;
}

async fn run_with_keys(browser: &Browser) {
    browser.press(&[Key::CONTROL, Key::ENTER]).await;
}

#[tokio::test]
async fn output_appears_while_the_program_runs() {
    let site = Site::up(&[]).await;
    let gate = site.gate("one");
    site.visit(async |browser| {
        let program = format!("echo first part; {}; echo second part", gate.wait());
        write_program(browser, "bash", &program).await;
        run_with_keys(browser).await;
        browser.wait_for_text_in("#run-result", "first part").await;
        browser.wait_for_text_in("#run-result", "running").await;
        assert!(
            !browser
                .texts("#run-result")
                .await
                .concat()
                .contains("second part")
        );
        // The page is not reloaded: what was typed is where it was.
        assert!(browser.texts(".cm-content").await.concat().contains("first part"));
        browser.assert_accessible().await;
        gate.open();
        browser.wait_for_text_in("#run-result", "second part").await;
        browser.wait_for_text_in("#run-result", "Succeeded").await;
        // Times and memory against the limits.
        browser.wait_for_text_in("#run-result", "Wall time").await;
        browser.wait_for_text_in("#run-result", "Memory").await;
        browser.assert_accessible().await;
    })
    .await;
}

#[tokio::test]
async fn a_program_is_cancelled() {
    let site = Site::up(&[]).await;
    let gate = site.gate("never");
    site.visit(async |browser| {
        write_program(browser, "bash", &format!("echo begun; {}", gate.wait())).await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "begun").await;
        browser.click(Role::Button, "Cancel").await;
        browser.wait_for_text_in("#run-result", "cancelled").await;
        // And another one runs in its place.
        browser.fill("Content of", "echo another one").await;
        run_with_keys(browser).await;
        browser.wait_for_text_in("#run-result", "Succeeded").await;
        browser.wait_for_text_in("#run-result pre", "another one").await;
    })
    .await;
}

#[tokio::test]
async fn what_was_typed_survives_a_reload() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        write_program(browser, "python", "print('kept through a reload')").await;
        browser.fill("Input", "some input").await;
        let stored = "return (sessionStorage.getItem('conclave.run') || '').includes('some input')";
        browser.wait_for_truth("the draft to be kept", stored, &[]).await;
        browser.reload().await;
        browser
            .wait_for_text_in(".cm-content", "kept through a reload")
            .await;
        assert_eq!(browser.value("Input").await, "some input");
    })
    .await;
}

#[tokio::test]
async fn several_files_input_arguments_and_uploads_reach_the_program() {
    let site = Site::up(&[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let words = folder.path().join("words.txt");
    std::fs::write(&words, "uploaded words\n").expect("a file");
    let bytes = folder.path().join("bytes.bin");
    std::fs::write(&bytes, [0xff, 0, 0xfe]).expect("a file");
    site.visit(async |browser| {
        let program = "import sys, helper; helper.show(sys.argv[1:], sys.stdin.read(), open('words.txt').read(), len(open('bytes.bin', 'rb').read()))";
        write_program(browser, "python", program).await;
        browser.click(Role::Button, "Add a file").await;
        browser.fill("File name", "helper.py").await;
        browser.fill("Content of helper.py", "def show(*what): print(*what)").await;
        browser.choose_files("#upload", &[&words, &bytes]).await;
        browser.control(Role::Tab, "words.txt").await;
        browser.wait_for_text("bytes.bin").await;
        browser.fill("Arguments", "one 'two words'").await;
        browser.fill("Input", "the input").await;
        browser.assert_accessible().await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result pre", "['one', 'two words'] the input uploaded words").await;
        browser.wait_for_text_in("#run-result pre", "3").await;
        // Tabs are walked with the arrow keys.
        browser.click(Role::Tab, "helper.py").await;
        browser.press(&[Key::LEFT]).await;
        assert_eq!(browser.focused().await.1, "tab");
        browser.control(Role::Field, "Content of main.py").await;
    })
    .await;
}

#[tokio::test]
async fn a_run_is_shared_by_its_link_and_as_a_command() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        write_program(browser, "bash", "echo shared program").await;
        run_with_keys(browser).await;
        browser.wait_for_text_in("#run-result", "Succeeded").await;
        browser.click(Role::Button, "Copy the link").await;
        let link = browser.clipboard().await;
        let path = link
            .strip_prefix(browser.site())
            .expect("a link to this site")
            .to_string();
        assert!(path.starts_with("/run?from="), "{link}");
        site.visit(async |other| {
            other.open(&path).await;
            other.wait_for_text_in(".cm-content", "echo shared program").await;
            other.wait_for_text_in("#run-result", "Succeeded").await;
            other.assert_accessible().await;
        })
        .await;
        browser.click(Role::Summary, "As curl").await;
        browser.click(Role::Button, "Copy as curl").await;
        let curl = browser.clipboard().await;
        assert!(
            curl.starts_with("curl ") && curl.contains(browser.site()),
            "{curl}"
        );
        browser.click(Role::Button, "Copy as JSON").await;
        let task: serde_json::Value = serde_json::from_str(&browser.clipboard().await).expect("JSON");
        let done = site.web.run(&task).await;
        assert_eq!(
            done["result"]["execute"]["stdout"],
            json!("shared program\n"),
            "{done:#}"
        );
    })
    .await;
}

#[tokio::test]
async fn an_invalid_limit_is_named_at_its_field() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        browser.tolerate("the server responded with a status of 422");
        write_program(browser, "python", "print(1)").await;
        browser.click(Role::Summary, "Limits").await;
        browser.fill("Wall time", "soon").await;
        run_with_keys(browser).await;
        browser.wait_for_text_in("#run-message", "Wall time").await;
        let (focused, _) = browser.focused().await;
        assert_eq!(focused, "Wall time");
        browser.assert_accessible().await;
        browser.fill("Wall time", "3s").await;
        run_with_keys(browser).await;
        browser.wait_for_text_in("#run-result", "of 3 s").await;
    })
    .await;
}

#[tokio::test]
async fn a_program_is_run_on_a_phone() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        browser.resize(PHONE).await;
        write_program(browser, "python", "print('x' * 500)").await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "Succeeded").await;
        browser.assert_no_sideways_scroll().await;
    })
    .await;
}
