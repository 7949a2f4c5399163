//! The page Run: write a program, run it, see its output while it runs, cancel, share.

use cluster_tests::{Browser, Key, PHONE, Role};
use serde_json::{Value, json};

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
        wait_for_draft(browser, "some input").await;
        browser.reload().await;
        browser
            .wait_for_text_in(".cm-content", "kept through a reload")
            .await;
        assert_eq!(browser.value("Input").await, "some input");
    })
    .await;
}

/// Chooses a language by its name, as what the list shows has the version of this machine.
async fn choose_language(browser: &Browser, name: &str) {
    let script = "const list = document.querySelector('[name=language]'); list.value = arguments[0]; \
                  list.dispatchEvent(new Event('change', {bubbles: true}))";
    browser.script(script, &[json!(name)]).await;
}

/// Waits until the script of the page has kept this text for a reload.
pub(crate) async fn wait_for_draft(browser: &Browser, text: &str) {
    let script = "return (sessionStorage.getItem('conclave.run') || '').includes(arguments[0])";
    browser
        .wait_for_truth("the draft to be kept", script, &[json!(text)])
        .await;
}

#[tokio::test]
async fn a_program_is_named_after_the_language_that_is_chosen_later() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        browser.open("/run?language=python").await;
        browser.wait_for(".cm-content").await;
        let program = "int puts(const char *); int main() { puts(\"in C now\"); return 0; }";
        browser.fill("Content of main.py", program).await;
        choose_language(browser, "c").await;
        browser.control(Role::Tab, "main.c").await;
        run_with_keys(browser).await;
        browser.wait_for_text_in("#run-result pre", "in C now").await;
        // A name of the reader's own stays.
        browser.fill("File name", "mine.c").await;
        choose_language(browser, "python").await;
        browser.control(Role::Tab, "mine.c").await;
    })
    .await;
}

#[tokio::test]
async fn the_program_is_there_when_the_reader_comes_back() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        write_program(browser, "bash", "echo program of before").await;
        wait_for_draft(browser, "program of before").await;
        for _ in 0..2 {
            browser.click(Role::Link, "Tasks").await;
            browser.wait_for_path("/").await;
            browser.click(Role::Link, "Run").await;
            browser.wait_for_text_in(".cm-content", "program of before").await;
            run_with_keys(browser).await;
            browser.wait_for_text_in("#run-result", "Succeeded").await;
        }
        browser.click(Role::Button, "Reset").await;
        browser.wait_for_path("/run").await;
        browser.wait_for(".cm-content").await;
        assert!(!browser.texts(".cm-content").await.concat().contains("of before"));
    })
    .await;
}

#[tokio::test]
async fn attached_files_are_there_after_a_run_and_named_before_it() {
    let site = Site::up(&[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let [bytes, late] = ["bytes.bin", "late.bin"].map(|name| folder.path().join(name));
    std::fs::write(&bytes, [0xff, 0, 0xfe]).expect("a file");
    std::fs::write(&late, [0xff, 0]).expect("a file");
    site.visit(async |browser| {
        write_program(browser, "bash", "echo *.bin $(cat *.bin | wc -c)").await;
        browser.choose_files("#upload", &[&bytes]).await;
        browser.control(Role::Button, "Detach bytes.bin").await;
        run_with_keys(browser).await;
        browser.wait_for_text_in("#run-result pre", "bytes.bin 3").await;
        browser.reload().await;
        browser.click(Role::Tab, "bytes.bin").await;
        // It is not shown, and another name does not lose it.
        browser.fill("File name", "renamed.bin").await;
        wait_for_draft(browser, "renamed.bin").await;
        browser.reload().await;
        browser.control(Role::Tab, "renamed.bin").await;
        run_with_keys(browser).await;
        browser.wait_for_text_in("#run-result pre", "renamed.bin 3").await;
        // What has not run yet is nowhere but in the reader's folder.
        browser.choose_files("#upload", &[&late]).await;
        wait_for_draft(browser, "late.bin").await;
        browser.reload().await;
        browser
            .wait_for_text_in("#run-message", "Attach these files again: late.bin.")
            .await;
        browser.control(Role::Tab, "renamed.bin").await;
    })
    .await;
}

#[tokio::test]
async fn a_text_with_the_line_ends_of_windows_opens_in_the_editor() {
    let site = Site::up(&[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("main.py");
    std::fs::write(&program, "print('from')\r\nprint('Windows')\r\n").expect("a file");
    site.visit(async |browser| {
        write_program(browser, "python", "print('typed')").await;
        browser.choose_files("#upload", &[&program]).await;
        browser.wait_for_text_in(".cm-content", "print('Windows')").await;
        browser.wait_for_text_in("#run-message", "now end with").await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result pre", "from Windows").await;
    })
    .await;
}

#[tokio::test]
async fn the_limits_that_are_shown_are_those_that_a_task_gets() {
    // Without cells there are no limits on what a machine can give.
    let site = Site::up(&["--isolation", "cell"]).await;
    site.visit(async |browser| {
        let shown = "return document.getElementById('run-execute-limits-open-files').placeholder";
        let id = site
            .run(json!({"language": "python", "source_code": "print(1)", "execute": {"limits": {"processes": 4000}}}))
            .await;
        let plain = site.run(json!({"language": "python", "source_code": "print(1)"})).await;
        let task = site.web.get(&format!("/api/v1/tasks/{plain}")).await.json();
        let limit = match &task["execute"]["limits"]["open_files"] {
            Value::Number(files) => files.to_string(),
            _ => "no limit".to_string(),
        };
        browser.open("/run?language=python").await;
        assert_eq!(browser.script(shown, &[]).await, limit);
        // What follows from the number of processes is nobody's choice.
        browser.open(&format!("/run?from={id}")).await;
        let values = "return Array.from(document.querySelectorAll('#run-limits input'), input => input.value).filter(Boolean)";
        assert_eq!(browser.script(values, &[]).await, json!(["4000"]));
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
