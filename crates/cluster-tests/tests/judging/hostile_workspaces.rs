//! Compile steps that leave traps for the executor, which copies what they left into the cell of each case.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{JudgedTask, JudgingNode, numbered_cases, text};

/// Long, because the machine may be busy; following the trap would take longer or for ever.
const SOON: Duration = Duration::from_secs(90);

async fn judge(node: &JudgingNode, compile: &str, execute: &str, cases: Value) -> JudgedTask {
    let begun = Instant::now();
    let limits = json!({"wall": "20s", "space": "64MiB", "memory": "256MiB"});
    let task = node
        .judge(&json!({
            "compile": {"command": compile, "limits": limits},
            "execute": {"command": execute, "limits": limits},
            "cases": cases,
        }))
        .await;
    assert!(begun.elapsed() < SOON, "{compile} took {:?}", begun.elapsed());
    task
}

#[tokio::test]
async fn special_files_are_left_behind_and_links_are_not_followed() {
    let node = JudgingNode::start();
    let secret = node.system.folder.path().join("secret-of-the-host");
    std::fs::write(&secret, "THE-HOST\n").expect("a file");
    let compile = format!(
        "mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; ln -s {secret} host; \
         ln -s /proc/self/root root; ln -s loop loop; ln -s /dev/zero zero; ln -s fifo to-fifo; ln -s . here; \
         mkdir closed; echo x > closed/x; chmod 000 closed; echo y > y; chmod 000 y; ln y hard; echo done > good",
        secret = secret.display()
    );
    let execute = "cat good; cat host; ls fifo socket; cat loop; readlink host loop here";
    let answer = format!("done\n{}\nloop\n.\n", secret.display());
    let cases = numbered_cases(&[("", &answer), ("", &answer)]);
    let task = judge(&node, &compile, &format!("{execute} 2>/dev/null; true"), cases).await;
    // What cannot be read cannot be copied: an executor may refuse that, but must not read on the host instead.
    for case in task.cases() {
        assert!(!text(&case["execute"]["stdout"]).contains("THE-HOST"), "{case:#}");
    }
    assert_eq!(task.verdicts(), ["accepted"; 2], "{:#}", task.0);
    node.assert_healthy().await;
}

#[tokio::test]
async fn files_of_a_case_are_not_written_through_links() {
    let node = JudgingNode::start();
    let target = node.system.folder.path().join("target");
    std::fs::create_dir(&target).expect("a folder");
    std::fs::write(target.join("file"), "untouched").expect("a file");
    for link in [
        target.display().to_string(),
        "../".repeat(30) + &target.display().to_string()[1..],
    ] {
        let compile = format!("ln -s {link} folder; ln -s {link}/file file");
        let cases = json!([
            {"name": "1", "files": {"folder/pwned": "pwned", "file": "pwned"}},
            {"name": "2", "files": {"file": "pwned"}},
            {"name": "3", "files": {"folder/file": "pwned"}},
        ]);
        let task = judge(&node, &compile, "cat file folder/pwned; true", cases).await;
        let names: Vec<_> = std::fs::read_dir(&target)
            .expect("a folder")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(names, ["file"], "{:#}", task.0);
        assert_eq!(
            std::fs::read(target.join("file")).expect("a file"),
            b"untouched",
            "{:#}",
            task.0
        );
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn workspaces_that_are_too_large_to_copy_fail_the_task_alone() {
    let node = JudgingNode::start();
    for (name, compile) in [
        ("a sparse file", "truncate -s 1T sparse || truncate -s 60M sparse"),
        (
            "a deep folder",
            "for i in $(seq 400); do mkdir d && cd d || exit 0; done",
        ),
        (
            "a path that can only be made part by part",
            "of() { printf \"$1%.0s\" $(seq $2); }; for i in $(seq 15); do mkdir $(of d 255); cd $(of d 255); done; mkdir $(of e 238)",
        ),
        ("many files", "seq 3000 | xargs touch"),
        ("many folders", "seq 3000 | xargs mkdir"),
        ("many links", "for i in $(seq 1000); do ln -s x link$i; done"),
        ("a full disk", "cat /dev/zero > full; true"),
        (
            "odd names",
            "touch \"$(printf 'a\\nb')\" \"$(printf '\\377\\376')\" ' ' '-rf' '*' && mkdir \"$(printf '\\377')\"",
        ),
    ] {
        let task = judge(&node, compile, "cat", numbered_cases(&[("1", "1"), ("2", "2")])).await;
        let verdict = task.verdict();
        // Whether it fits is up to the limits; that it is said what happened is not.
        assert!(
            matches!(verdict, "accepted" | "runtime_error" | "compile_error"),
            "{name}: {:#}",
            task.0
        );
        println!("{name}: {verdict}");
        node.assert_healthy().await;
    }
}

#[tokio::test]
async fn a_case_that_kills_all_it_can_reach_ends_only_itself() {
    let node = JudgingNode::start();
    let program = "read word; [ $word = kill ] && { setsid sleep 600 & kill -9 -1; kill -9 1; kill -9 $$; }; echo $word";
    let task = node
        .judge(&json!({
            "execute": {"command": program},
            "cases": numbered_cases(&[("good\n", "good"), ("kill\n", "kill"), ("good\n", "good"), ("kill\n", "kill"), ("good\n", "good")]),
        }))
        .await;
    assert_eq!(
        task.verdicts(),
        [
            "accepted",
            "runtime_error",
            "accepted",
            "runtime_error",
            "accepted"
        ],
        "{:#}",
        task.0
    );
    node.assert_healthy().await;
}
