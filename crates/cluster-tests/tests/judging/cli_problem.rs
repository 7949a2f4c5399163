//! `conclave problem`: packages of every format are verified, imported, and judge what is submitted.

use cluster_tests::{CommandOutput, ConclaveCli, TestSystem};
use serde_json::{Value, json};

use crate::harness::{JudgingNode, text};
use crate::written_package::{CRASH, NO_PROGRAM, RIGHT, WRONG, WrittenPackage};

/// A node, and commands for it in a folder for packages.
struct CliNode {
    cli: ConclaveCli,
    node: JudgingNode,
}

impl CliNode {
    fn start() -> CliNode {
        let system = TestSystem::new().expect("a folder");
        std::fs::create_dir(system.folder.path().join("packages")).expect("a folder");
        let cli = ConclaveCli::new(&system.url(""));
        CliNode {
            cli,
            node: JudgingNode::start_with(system, &[]),
        }
    }

    fn packages(&self) -> std::path::PathBuf {
        self.node.system.folder.path().join("packages")
    }

    async fn verify(&self, package: &WrittenPackage) -> CommandOutput {
        self.cli
            .run(&["problem", "verify", package.path(), "--json"])
            .await
    }

    async fn import(&self, package: &WrittenPackage, flags: &[&str]) -> CommandOutput {
        let args = [&["problem", "import", package.path()], flags].concat();
        self.cli.run(&args).await
    }

    /// Judges a submission in the folder for packages, and returns its row.
    async fn judge(&self, problem: &str, submission: &str) -> Value {
        let args = ["judge", "--problem", problem, submission, "--json"];
        let judged = self.cli.run_in(&self.packages(), &args).await;
        assert_eq!(judged.code, 0, "{judged:?}");
        judged.json()
    }

    /// The limit on wall time of the task of a row, in seconds.
    async fn wall_limit_of(&self, row: &Value) -> Value {
        let path = format!("/api/v1/tasks/{}", text(&row["task"]));
        let task = self.node.web.get(&path).await.json();
        task["execute"]["limits"]["wall"].clone()
    }
}

/// The time limit of all packages that have one is a second.
const WALL_LIMIT: u64 = 3 + 10;

/// Each submission with its verdict, in the order of their names.
fn verdicts(rows: &[Value]) -> Vec<(&str, &str)> {
    let pairs = rows
        .iter()
        .map(|row| (text(&row["submission"]), text(&row["verdict"])));
    let mut found: Vec<_> = pairs.collect();
    found.sort_unstable();
    found
}

fn row_of<'a>(rows: &'a [Value], submission: &str) -> &'a Value {
    let row = rows.iter().find(|row| row["submission"] == submission);
    row.unwrap_or_else(|| panic!("no {submission} in {rows:#?}"))
}

#[tokio::test]
async fn submissions_of_packages_get_the_verdicts_of_their_folders() {
    let node = CliNode::start();
    let folder = node.packages();
    let usual = [
        ("accepted/right.c", "accepted"),
        ("accepted/right.py", "accepted"),
        ("run_time_error/crash.py", "runtime_error"),
        ("time_limit_exceeded/slow.c", "time_limit"),
        ("wrong_answer/wrong.py", "wrong_answer"),
    ];
    let mut legacy = usual.to_vec();
    legacy.insert(2, ("compiler_error/none.c", "compile_error"));
    legacy.insert(3, ("mixed/either.py", "wrong_answer"));
    let interactive = [
        ("accepted/talk.py", "accepted"),
        ("run_time_error/throws.py", "runtime_error"),
        ("time_limit_exceeded/busy.py", "time_limit"),
        ("wrong_answer/deaf.py", "wrong_answer"),
        ("wrong_answer/leaves.py", "wrong_answer"),
    ];
    for (package, expected) in [
        (WrittenPackage::legacy(&folder), &legacy[..]),
        (WrittenPackage::with_validator(&folder), &usual),
        (WrittenPackage::interactive(&folder), &interactive),
    ] {
        let verified = node.verify(&package).await;
        assert_eq!(verified.code, 0, "{verified:?}");
        let rows = verified.json_lines();
        assert_eq!(verdicts(&rows), expected, "{verified:?}");
        // A busy machine must not decide a verdict.
        for row in &rows {
            assert_eq!(node.wall_limit_of(row).await, WALL_LIMIT, "{row:#}");
        }
        if let Some(slow) = rows
            .iter()
            .find(|row| row["submission"] == "time_limit_exceeded/slow.c")
        {
            assert_eq!(slow["repeated"], json!(["secret/1-small"]), "{slow:#}");
            // It ran on until the safety margin of the format, which is twice the limit.
            let part = slow["time_of_limit"].as_f64().expect("a number");
            assert!(part >= 1.9, "{slow:#}");
        }
    }
    node.node.assert_healthy().await;
}

#[tokio::test]
async fn a_submission_in_the_wrong_folder_fails_the_verification() {
    let node = CliNode::start();
    let package = WrittenPackage::legacy(&node.packages())
        .with("submissions/accepted/not_right.py", WRONG)
        .with("submissions/wrong_answer/not_wrong.py", RIGHT);
    let verified = node.cli.run(&["problem", "verify", package.path()]).await;
    verified.assert_failure(1, &["2 of 9 submissions are not as expected"]);
    let wrong: Vec<_> = verified
        .text()
        .lines()
        .filter(|line| line.contains(" NO "))
        .collect();
    assert_eq!(wrong.len(), 2, "{verified:?}");
    assert!(wrong.iter().all(|line| line.contains("/not_")), "{verified:?}");
    // The mismatch, the times and what is left to the limit are shown.
    for words in [
        "wrong_answer/not_wrong.py: wrong_answer: no case is wrong_answer",
        "OF LIMIT",
        "time limit 1s",
    ] {
        assert!(verified.text().contains(words), "no {words} in {verified:?}");
    }
}

/// The measured run of a submission is far beyond the limit that follows from the other one, so it does not count.
#[tokio::test]
async fn the_limit_that_was_measured_applies_to_every_group_of_cases() {
    let node = CliNode::start();
    let package = WrittenPackage::scored(&node.packages());
    let verified = node.verify(&package).await;
    assert_eq!(verified.code, 0, "{verified:?}");
    let rows = verified.json_lines();
    let fast = row_of(&rows, "accepted/right.c");
    assert_eq!(
        (&fast["score"], &fast["time_limit_seconds"]),
        (&json!(100), &json!(1.0))
    );
    let slow = row_of(&rows, "mixed/slow_in_second.py");
    assert_eq!(
        (&slow["verdict"], &slow["score"]),
        (&json!("time_limit"), &json!(40)),
        "{slow:#}"
    );
    // The repeated run has one of the three groups.
    assert_eq!(slow["repeated"], json!(["secret/second/1"]), "{slow:#}");
    let part = slow["time_of_limit"].as_f64().expect("a number");
    assert!(part >= 1.4, "{slow:#}");
    assert_eq!(slow["notes"], json!([]), "{slow:#}");
}

#[tokio::test]
async fn the_time_limit_follows_from_submissions_that_run() {
    let node = CliNode::start();
    let folder = node.packages();
    let package = |name: &str, accepted: &str, source: &str| {
        WrittenPackage::new(&folder, name)
            .with("problem.yaml", "name: Without a limit\n")
            .with_cases()
            .with(&format!("submissions/accepted/{accepted}"), source)
    };
    let measured = package("measured", "right.py", RIGHT);
    let imported = node.import(&measured, &["--json"]).await.assert_success();
    assert_eq!(imported.json()["limits"]["cpu"], 1, "{imported:?}");

    let broken = package("broken", "none.c", NO_PROGRAM);
    let words = [
        "accepted/none.c must be fast enough, and its times could not be measured; \
        give the time limit with --time-limit: does not compile: ",
    ];
    node.import(&broken, &[]).await.assert_failure(1, &words);
    node.verify(&broken).await.assert_failure(125, &words);
    let listed = node.cli.run(&["problem", "list", "--json"]).await;
    assert_eq!(listed.json()["name"], "measured", "{listed:?}");
    let flags = ["--time-limit", "2s", "--json"];
    let imported = node.import(&broken, &flags).await.assert_success();
    assert_eq!(imported.json()["limits"]["cpu"], 2, "{imported:?}");

    let crashes = package("crashes", "crash.py", CRASH);
    let imported = node.import(&crashes, &[]).await;
    let words = "warning: accepted/crash.py was measured, and is not as expected: \
        accepted: case secret/1-small is runtime_error";
    imported.assert_failure(0, &[words]);
}

#[tokio::test]
async fn packages_that_make_no_sense_are_refused_with_the_file() {
    let node = CliNode::start();
    let folder = node.packages();
    let usual = |name: &str| {
        WrittenPackage::new(&folder, name)
            .with("problem.yaml", "name: x\n")
            .with("submissions/accepted/right.py", RIGHT)
    };
    for (package, words) in [
        (
            WrittenPackage::new(&folder, "empty"),
            vec!["empty: is no problem package", "problem.yaml"],
        ),
        (usual("no-data"), vec!["no-data/data: no cases"]),
        (
            usual("no-answer").with("data/secret/1.in", "1 2\n"),
            vec!["data/secret/1", "ans"],
        ),
        (
            usual("no-time").with_cases().with(".timelimit", "0\n"),
            vec![".timelimit", "0"],
        ),
        (
            usual("odd-limit")
                .with_cases()
                .with("domjudge-problem.ini", "timelimit = soon\n"),
            vec!["domjudge-problem.ini", "soon"],
        ),
        (
            usual("broken").with_cases().with("problem.yaml", "name: [\n"),
            vec!["problem.yaml"],
        ),
        (
            usual("unknown-version")
                .with_cases()
                .with("problem.yaml", "problem_format_version: 1999\n"),
            vec!["1999"],
        ),
        (
            usual("multi-pass").with_cases().with(
                "problem.yaml",
                "problem_format_version: 2025-09\nname: x\ntype: multi-pass\n",
            ),
            vec!["multi-pass"],
        ),
    ] {
        node.verify(&package).await.assert_failure(125, &words);
        node.import(&package, &[]).await.assert_failure(1, &words);
    }
    let missing = node.cli.run(&["problem", "verify", "/no/such/package"]).await;
    missing.assert_failure(125, &["/no/such/package"]);
    for command in ["show nothing", "remove nothing --yes"] {
        let args: Vec<_> = ["problem"]
            .into_iter()
            .chain(command.split_whitespace())
            .collect();
        let missing = node.cli.run(&args).await;
        missing.assert_failure(1, &["problem nothing does not exist"]);
    }
    assert_eq!(
        node.node.web.get("/api/v1/problems").await.json(),
        json!({"problems": []})
    );
}

#[tokio::test]
async fn an_imported_problem_judges_what_is_submitted() {
    let node = CliNode::start();
    let folder = node.packages();
    for package in [
        WrittenPackage::legacy(&folder),
        WrittenPackage::with_validator(&folder),
        WrittenPackage::interactive(&folder),
    ] {
        node.import(&package, &[]).await.assert_success();
    }
    let listed = node.cli.run(&["problem", "list", "--json"]).await;
    let listed = listed.assert_success().json_lines();
    let names: Vec<_> = listed.iter().map(|problem| text(&problem["name"])).collect();
    assert_eq!(names, ["checked", "sum", "talk"]);
    let sum = node.cli.json(&["problem", "show", "sum", "--json"]).await;
    assert_eq!(sum["title"], "Sum of two", "{sum:#}");
    assert_eq!(
        (&sum["limits"]["cpu"], &sum["limits"]["memory"]),
        (&json!(1), &json!(256 << 20))
    );
    let cases = sum["cases"].as_array().expect("cases").iter();
    let cases: Vec<_> = cases.map(|case| text(&case["name"])).collect();
    assert_eq!(
        cases,
        [
            "sample/1",
            "secret/1-small",
            "secret/2-large",
            "secret/3-negative"
        ]
    );
    let shown = node
        .cli
        .run(&["problem", "show", "checked"])
        .await
        .assert_success();
    for words in ["Checked", "program, protocol icpc", "secret/3-negative"] {
        assert!(shown.text().contains(words), "no {words} in {shown:?}");
    }

    for (problem, submission, verdict) in [
        ("sum", "sum/submissions/accepted/right.py", "accepted"),
        ("sum", "sum/submissions/wrong_answer/wrong.py", "wrong_answer"),
        ("checked", "sum/submissions/accepted/right.c", "accepted"),
        ("talk", "talk/submissions/accepted/talk.py", "accepted"),
        ("talk", "talk/submissions/wrong_answer/deaf.py", "wrong_answer"),
    ] {
        let row = node.judge(problem, submission).await;
        let found = (text(&row["submission"]), text(&row["verdict"]));
        assert_eq!(found, (submission, verdict), "{row:#}");
        assert_eq!(node.wall_limit_of(&row).await, WALL_LIMIT, "{row:#}");
    }
    let wrong = "sum/submissions/wrong_answer/wrong.py";
    let row = node.judge("checked", wrong).await;
    assert_eq!(
        (&row["score"], &row["max_score"]),
        (&json!(1), &json!(4)),
        "{row:#}"
    );
    let cases = &row["cases"];
    assert_eq!(cases[1]["judge_message"], "20 and 22: ['0']", "{cases:#}");
    // Contestants are judged until the first failure.
    assert_eq!(cases[2]["verdict"], "skipped", "{cases:#}");
    let args = ["run", "--problem", "checked", wrong];
    let ran = node.cli.run_in(&folder, &args).await;
    ran.assert_failure(120, &[]);

    let removed = node.cli.run(&["problem", "remove", "talk", "--yes"]).await;
    removed.assert_success();
    let args = ["judge", "--problem", "talk", "talk/submissions/accepted/talk.py"];
    let refused = node.cli.run_in(&folder, &args).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.text().contains("'talk' does not exist"), "{refused:?}");
}
