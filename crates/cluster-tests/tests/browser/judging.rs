//! Judging in the browser: cases on the page Run, the marks of a task, a problem and who sees what of it, the results of a
//! group.

use cluster_tests::{Browser, HttpResponse, PHONE, Role};
use serde_json::{Value, json};

use crate::harness::Site;
use crate::sign_in::{ADA, BOB, sign_in, site_with_tokens};

/// Programs are judged in cells, as on a server. Other stories exchange files with tasks.
pub(crate) const CELLS: [&str; 2] = ["--isolation", "cell"];

/// Adds two numbers, and counts too low beyond ten.
pub(crate) const SUM: &str = "a, b = map(int, input().split())\nprint(a + b if a < 10 else a + b - 1)\n";

pub(crate) fn judged(cases: &Value, more: Value) -> Value {
    let mut task = json!({"language": "python", "source_code": SUM, "cases": cases});
    let fields = task.as_object_mut().expect("a task");
    fields.extend(more.as_object().cloned().unwrap_or_default());
    task
}

pub(crate) fn two_cases() -> Value {
    json!([
        {"name": "small", "input": "1 2\n", "answer": "3\n", "points": 10},
        {"name": "large", "input": "10 20\n", "answer": "30\n", "points": 30},
    ])
}

pub(crate) async fn open_cases(browser: &Browser, program: &str, language: &str) {
    browser.open(&format!("/run?language={language}")).await;
    browser.wait_for(".cm-content").await;
    browser.fill("Content of", program).await;
    browser.click(Role::Summary, "Cases with expected output").await;
}

pub(crate) async fn add_case(browser: &Browser, number: u32, input: &str, answer: &str) {
    browser.click(Role::Button, "Add a case").await;
    browser.fill(&format!("Input of case {number}"), input).await;
    browser
        .fill(&format!("Expected output of case {number}"), answer)
        .await;
}

#[tokio::test]
async fn marks_appear_beside_the_cases_while_the_program_is_judged() {
    let site = Site::up(&["--slots", "1", "--judge-without-cells"]).await;
    let gate = site.gate("last");
    site.visit(async |browser| {
        let program = format!(
            "read a b; if [ $a = 9 ]; then {}; fi; echo $((a + b))",
            gate.wait()
        );
        open_cases(browser, &program, "bash").await;
        add_case(browser, 1, "1 2", "3").await;
        add_case(browser, 2, "3 4", "8").await;
        add_case(browser, 3, "9 1", "10").await;
        browser.assert_accessible().await;
        browser.click(Role::Button, "Run").await;
        let rows = "#run-case-list";
        browser.wait_for_text_in(rows, "✓ accepted").await;
        browser.wait_for_text_in(rows, "✗ wrong answer").await;
        browser
            .wait_for_text_in("#run-result", "2 of 3 cases judged")
            .await;
        browser.assert_accessible().await;
        gate.open();
        browser
            .wait_for_text_in("#run-result", "Wrong answer in case 2")
            .await;
        browser.wait_for_text_in("#run-result", "2 of 3 points").await;
        assert_eq!(browser.texts(".run-case-verdict.good").await.len(), 2);
        // A mark opens its case beside the form.
        browser.click(Role::Link, "2: wrong answer").await;
        browser.wait_for_text_in("#case", "Difference").await;
        let difference = browser.texts("#case table.difference").await.concat();
        assert!(
            difference.contains('8') && difference.contains('7'),
            "{difference}"
        );
        assert!(browser.path().await.starts_with("/run?from="));
        browser.assert_accessible().await;
        // What was judged is not what is in the row now.
        browser.fill("Expected output of case 2", "7").await;
        assert_eq!(browser.texts(".run-case-verdict.bad").await.len(), 0);
        browser.click(Role::Button, "Remove case 3").await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "2 of 2 points").await;
        browser.wait_for_text_in("#run-result", "Accepted").await;
    })
    .await;
}

#[tokio::test]
async fn a_judged_run_is_shared_with_its_cases() {
    let site = Site::up(&CELLS).await;
    let id = site
        .run(judged(&two_cases(), json!({"stop": "first_failure"})))
        .await;
    site.visit(async |browser| {
        browser.open(&format!("/run?from={id}")).await;
        browser
            .wait_for_text_in("#run-result", "Wrong answer in case large")
            .await;
        // The marks of the task stand beside the rows.
        browser.wait_for_text_in("#run-case-list", "✗ wrong answer").await;
        assert_eq!(browser.value("Expected output of case 1").await, "3\n");
        assert_eq!(browser.value("Points of case 2").await, "30");
        browser.click(Role::Summary, "As curl").await;
        browser.click(Role::Button, "Copy as JSON").await;
        let task: Value = serde_json::from_str(&browser.clipboard().await).expect("JSON");
        assert_eq!(task["cases"][1]["name"], "large", "{task:#}");
        assert_eq!(task["stop"], "first_failure", "{task:#}");
        let again = site.web.run(&task).await;
        assert_eq!(again["result"]["verdict"], "wrong_answer", "{again:#}");
        browser.click(Role::Button, "Copy as Command line").await;
        let line = browser.clipboard().await;
        assert!(
            line.contains("conclave add") && line.contains("\"large\""),
            "{line}"
        );
    })
    .await;
}

#[tokio::test]
async fn cases_come_from_files() {
    let site = Site::up(&CELLS).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let files = [
        file("b.in", "10 20\n"),
        file("b.ans", "30\n"),
        file("a.in", "1 2\n"),
        file("a.out", "3\n"),
        file("notes.txt", "not a case"),
    ];
    let paths: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    site.visit(async |browser| {
        open_cases(browser, SUM, "python").await;
        browser.choose_files("#cases_upload", &paths).await;
        browser.wait_for(".run-case:nth-child(2)").await;
        assert_eq!(browser.value("Name of case 1").await, "a");
        assert_eq!(browser.value("Input of case 2").await, "10 20\n");
        browser.click(Role::Button, "Run").await;
        browser
            .wait_for_text_in("#run-result", "Wrong answer in case b")
            .await;
        // What was typed survives a reload, with its cases.
        browser.fill("Name of case 1", "renamed").await;
        let stored = "return (sessionStorage.getItem('conclave.run') || '').includes('renamed')";
        browser.wait_for_truth("the draft to be kept", stored, &[]).await;
        browser.reload().await;
        browser.wait_for(".cm-content").await;
        assert_eq!(browser.value("Name of case 1").await, "renamed");
        assert_eq!(browser.count(".run-case").await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_zip_and_a_drop_bring_cases() {
    let site = Site::up(&CELLS).await;
    let folder = tempfile::tempdir().expect("a folder");
    let zip = folder.path().join("cases.zip");
    let mut writer = zip::ZipWriter::new(std::fs::File::create(&zip).expect("a file"));
    for (name, text) in [
        ("tests/a.in", "1 2\n"),
        ("tests/a.ans", "3\n"),
        ("tests/b.in", "10 20\n"),
        ("tests/b.ans", "30\n"),
    ] {
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file(name, options).expect("an entry");
        std::io::Write::write_all(&mut writer, text.as_bytes()).expect("its content");
    }
    writer.finish().expect("a zip");
    site.visit(async |browser| {
        open_cases(browser, SUM, "python").await;
        browser.choose_files("#cases_upload", &[&zip]).await;
        browser.wait_for_text_in("#run-attached-cases", "cases.zip").await;
        browser.assert_accessible().await;
        browser.click(Role::Summary, "As curl").await;
        browser.wait_for_text_in("#run-as-curl", "cases_zip=@").await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "Wrong answer in case tests/b").await;
        browser.click(Role::Button, "Detach cases.zip").await;
        // As a file manager drops files, as far as a script can do that.
        let drop = "const transfer = new DataTransfer(); \
                    for (const [name, text] of [['x.in', '4 4'], ['x.out', '8']]) transfer.items.add(new File([text], name)); \
                    document.querySelector('.run-cases').dispatchEvent(new DragEvent('drop', {dataTransfer: transfer, bubbles: true, cancelable: true}))";
        browser.script(drop, &[]).await;
        browser.wait_for(".run-case").await;
        assert_eq!(browser.value("Name of case 1").await, "x");
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "Accepted").await;
        browser.wait_for_text_in("#run-case-list", "✓ accepted").await;
    })
    .await;
}

#[tokio::test]
async fn cases_are_judged_from_the_plain_form() {
    let site = Site::up(&CELLS).await;
    site.visit(async |browser| {
        browser.disable_scripts().await;
        browser.open("/run?language=python").await;
        browser.fill("Content of file 1", SUM).await;
        browser.click(Role::Summary, "Cases with expected output").await;
        browser.fill("Input of case 1", "1 2").await;
        browser.fill("Expected output of case 1", "3").await;
        browser.fill("Name of case 2", "large").await;
        browser.fill("Input of case 2", "10 20").await;
        browser.fill("Expected output of case 2", "30").await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_path("/tasks/*").await;
        let path = browser.path().await;
        let id = path.trim_start_matches("/tasks/").parse().expect("an id");
        site.system.done(id).await;
        browser.reload().await;
        browser.wait_for_text("Wrong answer in case large").await;
        browser.click(Role::Link, "large: wrong answer").await;
        browser.wait_for_path(&format!("/tasks/{id}/cases/1")).await;
        browser.wait_for_text("Difference").await;
        browser.click(Role::Link, "Previous case").await;
        browser.wait_for_path(&format!("/tasks/{id}/cases/0")).await;
        browser.wait_for_text("Accepted").await;
    })
    .await;
}

#[tokio::test]
async fn a_checker_speaks_to_the_reader() {
    let site = Site::up(&CELLS).await;
    let checker = "import sys\nopen(sys.argv[3] + 'teammessage.txt', 'w').write('for the team')\n\
                   open(sys.argv[3] + 'judgemessage.txt', 'w').write('for the judges')\nsys.exit(43)\n";
    let check = json!({"kind": "program", "protocol": "icpc", "language": "python", "source_code": checker});
    let id = site.run(judged(&two_cases(), json!({"check": check}))).await;
    site.visit(async |browser| {
        browser.resize(PHONE).await;
        browser.open(&format!("/tasks/{id}")).await;
        browser.wait_for_text("0 of 40 points").await;
        browser.click(Role::Link, "small: wrong answer").await;
        browser.wait_for_text_in("#case", "for the team").await;
        browser.wait_for_text_in("#case", "for the judges").await;
        browser.assert_no_sideways_scroll().await;
        browser.assert_accessible().await;
        // The page stays, and the next case takes the place of this one.
        browser.click(Role::Link, "Next case").await;
        browser.wait_for_text_in("#case h2", "large").await;
        assert_eq!(browser.path().await, format!("/tasks/{id}"));
        browser.open("/").await;
        browser.wait_for_text("wrong answer").await;
    })
    .await;
}

async fn as_user(site: &Site, token: &str, method: &str, path: &str, body: &Value) -> HttpResponse {
    let request = site.web.request(method, path).json(body);
    let answer = HttpResponse::of(request.bearer_auth(token)).await;
    assert!(matches!(answer.status, 200 | 201), "{path}: {}", answer.text());
    answer
}

#[tokio::test]
async fn only_the_owner_of_a_problem_sees_its_secrets() {
    let site = site_with_tokens(&CELLS).await;
    let problem = json!({
        "title": "Sums of two numbers",
        "limits": {"cpu": "2s"},
        "cases": [
            {"name": "sample/1", "input": "1 2\n", "answer": "3\n", "sample": true},
            {"name": "secret/1", "input": "10 4321\n", "answer": "4331\n", "group": "secret"},
        ],
    });
    as_user(&site, ADA, "PUT", "/api/v1/problems/sums", &problem).await;
    let submission = json!({"language": "python", "source_code": SUM, "problem": "sums"});
    let added = as_user(&site, BOB, "POST", "/api/v1/tasks?wait=60", &submission).await;
    let id = added.json()["id"].as_str().expect("an id").to_string();
    site.visit(async |browser| {
        browser.open("/problems").await;
        sign_in(browser, ADA).await;
        browser.click(Role::Link, "sums").await;
        browser.wait_for_text("CPU time 2 s").await;
        browser.assert_accessible().await;
        browser.click(Role::Link, "secret/1").await;
        browser.wait_for_text("10 4321").await;
        browser.assert_accessible().await;
    })
    .await;
    site.visit(async |browser| {
        browser.open("/problems/sums").await;
        sign_in(browser, BOB).await;
        browser.wait_for_text("Sums of two numbers").await;
        browser.wait_for_text("wrong answer").await;
        assert!(!browser.has_control(Role::Link, "secret/1").await);
        browser.click(Role::Link, "sample/1").await;
        browser.wait_for_text("1 2").await;
        browser.open("/problems/sums/cases/1").await;
        browser.wait_for_text("known only to").await;
        assert!(!browser.text().await.contains("4321"));
        // His own submission shows him the verdict on the secret case, and nothing of what it contains.
        browser.open(&format!("/tasks/{id}")).await;
        browser.click(Role::Link, "secret/1: wrong answer").await;
        browser.wait_for_text_in("#case", "known only to").await;
        let page = browser.text().await;
        assert!(
            !page.contains("4321") && !page.contains("4331") && !page.contains("4330"),
            "{page}"
        );
        browser.assert_accessible().await;
        // Another try.
        browser.open("/problems/sums").await;
        browser.click(Role::Link, "Submit a program").await;
        browser.wait_for(".cm-content").await;
        assert_eq!(browser.value("Or a problem of this server").await, "sums");
        browser
            .fill("Content of", "a, b = map(int, input().split()); print(a + b)")
            .await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_text_in("#run-result", "Accepted").await;
    })
    .await;
}

#[tokio::test]
async fn the_results_of_a_group_are_a_table() {
    let site = Site::up(&CELLS).await;
    let right = "print(sum(map(int, input().split())))\n";
    for (number, program) in [(1, SUM), (2, right), (3, "print(")] {
        let more = json!({
            "source_code": program, "group": "homework", "user": "ada", "labels": {"number": number.to_string()},
        });
        site.run(judged(&two_cases(), more)).await;
    }
    let verdicts =
        |rows: Vec<String>| -> Vec<bool> { rows.iter().map(|row| row.contains("accepted")).collect() };
    site.visit(async |browser| {
        browser.open("/groups/homework?user=ada").await;
        browser.click(Role::Link, "Results by case").await;
        browser.wait_for("table.results").await;
        assert_eq!(browser.count("table.results a.mark").await, 6);
        assert_eq!(
            verdicts(browser.texts("table.results tbody tr").await),
            [false, true, false]
        );
        browser.assert_accessible().await;
        browser.click(Role::Link, "Score").await;
        browser.wait_for_path("*sort=score&order=desc").await;
        assert_eq!(
            verdicts(browser.texts("table.results tbody tr").await),
            [true, false, false]
        );
        browser.resize(PHONE).await;
        browser.assert_no_sideways_scroll().await;
        browser.assert_accessible().await;
        browser.click(Role::Link, "large: wrong answer").await;
        browser.wait_for_text("Difference").await;
    })
    .await;
    let file = site
        .web
        .get("/groups/homework/results.csv?user=ada&sort=score")
        .await;
    assert_eq!(
        file.header("content-type"),
        "text/csv; charset=utf-8; header=present"
    );
    let text = file.text();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].ends_with(",small,large"), "{text}");
    assert!(
        lines[1].contains("number=2") && lines[1].ends_with(",accepted,accepted"),
        "{text}"
    );
    assert_eq!(lines.len(), 4, "{text}");
}
