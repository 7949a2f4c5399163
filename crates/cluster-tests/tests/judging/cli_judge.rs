//! `conclave judge`: submissions are judged by a folder of cases, and become a table.

use std::fs;
use std::path::Path;

use cluster_tests::ConclaveCli;
use serde_json::Value;

use crate::harness::{JudgingNode, text};
use crate::written_package::{NO_PROGRAM, RIGHT, WRONG, WrittenPackage};

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

#[tokio::test]
async fn a_folder_of_cases_judges_a_table_of_submissions() {
    let node = JudgingNode::start();
    let cli = ConclaveCli::new(&node.system.url(""));
    let folder = tempfile::tempdir().expect("a folder");
    let package = WrittenPackage::new(folder.path(), "package").with_cases();
    let cases = package.folder.join("data/secret");
    let cases = cases.to_str().expect("a path in UTF-8");
    write(folder.path(), "right.py", RIGHT);
    write(folder.path(), "<b>wrong.py", WRONG);
    write(folder.path(), "broken.c", NO_PROGRAM);
    let submissions = ["right.py", "<b>wrong.py", "broken.c"];
    let judge = async |flags: &[&str]| {
        let args = [&["judge", "--cases", cases][..], &submissions, flags].concat();
        let judged = cli.run_in(folder.path(), &args).await;
        assert_eq!(judged.code, 0, "{judged:?}");
        judged
    };

    let table = judge(&[]).await;
    let words = table.text().lines().map(|line| line.split_whitespace().collect());
    let lines: Vec<Vec<&str>> = words.collect();
    let headings = ["SUBMISSION", "VERDICT", "SCORE", "TIME", "MEMORY", "CASES"];
    assert_eq!(lines[0], headings, "{table:?}");
    assert_eq!(lines[1][..3], ["right.py", "accepted", "3/3"], "{table:?}");
    assert_eq!(lines[2][..3], ["<b>wrong.py", "wrong_answer", "2/3"], "{table:?}");
    assert_eq!(lines[3][..3], ["broken.c", "compile_error", "0/3"], "{table:?}");
    let marks = [lines[1].last(), lines[2].last(), lines[3].last()];
    assert_eq!(marks, [Some(&"AAA"), Some(&"WAA"), Some(&"---")], "{table:?}");
    assert!(table.text().contains("broken.c: does not compile: "), "{table:?}");

    let csv = judge(&["--csv"]).await;
    let rows: Vec<Vec<_>> = csv.text().lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| {
        let found = rows[0].iter().position(|heading| *heading == name);
        found.unwrap_or_else(|| panic!("no column {name}: {csv:?}"))
    };
    let of = |name: &str| -> Vec<&str> { rows[1..].iter().map(|row| row[column(name)]).collect() };
    assert_eq!(of("submission"), submissions);
    assert_eq!(of("language"), ["python", "python", "c"]);
    assert_eq!(of("verdict"), ["accepted", "wrong_answer", "compile_error"]);
    assert_eq!(of("score"), ["3", "2", "0"]);
    assert_eq!(of("1-small"), ["accepted", "wrong_answer", "skipped"]);
    assert_eq!(of("3-negative"), ["accepted", "accepted", "skipped"]);

    let rows = judge(&["--json", "--stop", "first_failure"]).await.json_lines();
    let verdicts = |row: &Value| -> Vec<String> {
        let cases = row["cases"].as_array().expect("cases").iter();
        cases.map(|case| text(&case["verdict"]).to_string()).collect()
    };
    assert_eq!(verdicts(&rows[0]), ["accepted"; 3]);
    assert_eq!(verdicts(&rows[1]), ["wrong_answer", "skipped", "skipped"]);

    let page = judge(&["--html"]).await;
    let page = page.text();
    for words in ["<table", "wrong_answer", "right.py", "&lt;b&gt;wrong.py"] {
        assert!(page.contains(words), "no {words} in {page}");
    }
    assert!(!page.contains("<b>"), "{page}");
    assert!(
        !page.contains("src=") && !page.contains("href=\"http"),
        "a page that needs no other file: {page}"
    );
}

#[tokio::test]
async fn what_takes_too_long_is_cancelled() {
    let node = JudgingNode::start();
    let cli = ConclaveCli::new(&node.system.url(""));
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "tests/1.in", "");
    write(folder.path(), "sleep.py", "import time\ntime.sleep(1000)\n");
    let args = [
        "judge", "--cases", "tests", "sleep.py", "--group", "g", "--wait", "1s",
    ];
    let judged = cli.run_in(folder.path(), &args).await;
    judged.assert_failure(124, &["group g", "not all submissions were judged in time"]);
    let group = cli.json(&["groups", "--json"]).await;
    assert_eq!(group["counts"]["cancelled"], 1, "{group:#}");
    node.assert_healthy().await;
}

#[tokio::test]
async fn invalid_cases_and_submissions_are_named() {
    let node = JudgingNode::start();
    let cli = ConclaveCli::new(&node.system.url(""));
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.py", RIGHT);
    write(folder.path(), "half/1.in", "");
    write(folder.path(), "half/1.ans", "");
    write(folder.path(), "half/2.in", "");
    write(folder.path(), "empty/README", "");
    for (args, words) in [
        ("--cases half a.py", "half/2.in: has no 2.ans or 2.out beside it"),
        ("--cases empty a.py", "empty: no cases: there is no *.in file"),
        ("--cases half nowhere.py", "half/2.in"),
        ("--problem x nowhere.py", "there is no file or folder nowhere.py"),
    ] {
        let args: Vec<_> = ["judge"].into_iter().chain(args.split_whitespace()).collect();
        let refused = cli.run_in(folder.path(), &args).await;
        refused.assert_failure(125, &[words]);
    }
}
