//! Every verdict of a case and of a task, for tiny programs that earn it.

use serde_json::{Value, json};

use crate::harness::{ECHO, JudgingNode, numbered_cases, text};

/// Does what its input says. The right answer is 42.
const OBEDIENT: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char block[1 << 16];

int main(void) {
    char word[32] = "";
    if (scanf("%31s", word) != 1)
        return 9;
#define ASKED(name) (strcmp(word, name) == 0)
    if (ASKED("wrong"))
        puts("41");
    else if (!ASKED("silent") && !ASKED("output"))
        puts("42");
    fflush(stdout);
    if (ASKED("exit"))
        return 3;
    if (ASKED("crash"))
        raise(SIGSEGV);
    if (ASKED("abort"))
        abort();
    if (ASKED("burn"))
        for (;;)
            __asm__ volatile("");
    if (ASKED("sleep"))
        for (;;)
            pause();
    if (ASKED("memory"))
        for (;;)
            memset(malloc(1 << 20), 1, 1 << 20);
    if (ASKED("output"))
        for (;;)
            puts("42");
    if (ASKED("disk")) {
        int file = open("big", O_CREAT | O_WRONLY, 0600);
        while (write(file, block, sizeof block) > 0)
            ;
        return 4;
    }
    if (ASKED("processes"))
        for (;;)
            if (fork() == 0)
                pause();
    return 0;
}
"#;

#[tokio::test]
async fn each_case_has_the_verdict_that_the_program_earns() {
    let node = JudgingNode::start();
    let expected = [
        ("right", "accepted", "exited"),
        ("wrong", "wrong_answer", "exited"),
        ("silent", "wrong_answer", "exited"),
        ("exit", "runtime_error", "exited"),
        ("crash", "runtime_error", "signalled"),
        ("abort", "runtime_error", "signalled"),
        ("burn", "time_limit", "time_limit"),
        ("sleep", "time_limit", "wall_limit"),
        ("memory", "memory_limit", "memory_limit"),
        ("output", "output_limit", "output_limit"),
        ("disk", "runtime_error", "disk_limit"),
        ("processes", "runtime_error", "process_limit"),
    ];
    let cases: Value = expected
        .iter()
        .map(|(name, ..)| json!({"name": name, "input": name, "answer": "42\n"}))
        .collect();
    let task = node
        .judge(&json!({
            "language": "c",
            "source": {"main.c": OBEDIENT},
            "execute": {"limits": {
                "cpu": "300ms", "wall": "3s", "memory": "64MiB", "output": "64KiB", "processes": 8, "space": "8MiB",
            }},
            "cases": cases,
        }))
        .await;
    task.assert_cases(&expected.map(|(name, verdict, _)| (name, verdict)));
    for (name, verdict, reason) in expected {
        let case = task.case(name);
        assert_eq!(case["execute"]["reason"], reason, "{name}: {case:#}");
        // A program that failed by itself needs no check.
        let is_checked = matches!(verdict, "accepted" | "wrong_answer");
        assert_eq!(case["check"].is_object(), is_checked, "{name}: {case:#}");
    }
    task.assert_status("run_failed", "wrong_answer");
    assert_eq!(task.score(), (1.0, 12.0));
    let result = &task.0["result"];
    assert_eq!(result["execute"], Value::Null, "{result:#}");
    assert_eq!(result["compile"]["exit_code"], 0, "{result:#}");
    let right = task.case("right");
    assert_eq!(right["execute"]["stdout"], "42\n", "{right:#}");
    assert_eq!(right["check"]["exit_code"], 42, "{right:#}");
    assert_eq!(task.case("wrong")["check"]["exit_code"], 43);
    // The user brought the cases, and so may know where the output is wrong.
    let message = text(&task.case("wrong")["check"]["judge_message"]);
    assert!(message.contains("41") && message.contains("42"), "{message:?}");
    node.assert_healthy().await;
}

#[tokio::test]
async fn the_first_case_that_is_not_accepted_decides_about_the_task() {
    let node = JudgingNode::start();
    let judge = async |words: &[&str], stop: &str| {
        let cases: Vec<_> = words.iter().map(|word| (*word, "42")).collect();
        let task = json!({
            "language": "c", "source_code": OBEDIENT, "cases": numbered_cases(&cases), "stop": stop,
            "execute": {"limits": {"cpu": "200ms"}},
        });
        node.judge(&task).await
    };
    let task = judge(&["right", "right"], "never").await;
    task.assert_status("success", "accepted");
    assert_eq!(task.score(), (2.0, 2.0));

    let task = judge(&["right", "exit", "wrong", "burn"], "never").await;
    task.assert_status("run_failed", "runtime_error");
    assert_eq!(
        task.verdicts(),
        ["accepted", "runtime_error", "wrong_answer", "time_limit"]
    );

    let task = judge(&["right", "burn", "wrong", "right"], "first_failure").await;
    task.assert_status("run_failed", "time_limit");
    assert_eq!(task.verdicts(), ["accepted", "time_limit", "skipped", "skipped"]);
    assert_eq!(task.points(), [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(task.score(), (1.0, 4.0));
    for case in &task.cases()[2..] {
        assert_eq!(
            (&case["execute"], &case["check"]),
            (&Value::Null, &Value::Null),
            "{case:#}"
        );
    }
    // A list of tasks shows the verdict as the reason, without reading the cases, and is searched by it.
    for (reason, count) in [
        ("time_limit", 1),
        ("signalled", 1),
        ("exited", 1),
        ("wrong_answer", 0),
    ] {
        let list = node
            .web
            .get(&format!("/api/v1/tasks?reason={reason}"))
            .await
            .json();
        let found = list["tasks"].as_array().expect("a list");
        assert_eq!(found.len(), count, "{reason}: {list:#}");
        assert!(found.iter().all(|task| task["reason"] == reason), "{list:#}");
    }
}

#[tokio::test]
async fn a_program_that_does_not_compile_is_not_run() {
    let node = JudgingNode::start();
    let task = node
        .judge(&json!({
            "language": "c",
            "source_code": "int main(void) { return nothing; }",
            "cases": [{"name": "a", "input": "", "answer": "", "points": 3}, {"name": "b", "input": "", "answer": ""}],
        }))
        .await;
    task.assert_status("compile_failed", "compile_error");
    task.assert_cases(&[("a", "skipped"), ("b", "skipped")]);
    assert_eq!(task.score(), (0.0, 4.0));
    let compile = &task.0["result"]["compile"];
    assert!(text(&compile["stderr"]).contains("nothing"), "{compile:#}");
    for case in task.cases() {
        assert_eq!(
            (&case["execute"], &case["check"]),
            (&Value::Null, &Value::Null),
            "{case:#}"
        );
    }
}

/// The limit that counts is CPU time, so a program that only waits is not over it.
#[tokio::test]
async fn time_that_a_program_waits_is_not_counted() {
    let node = JudgingNode::start();
    let task = node
        .judge(&json!({
            "execute": {"command": "sleep 1; cat", "limits": {"cpu": "300ms"}},
            "cases": numbered_cases(&[("1", "1"), ("2", "2")]),
        }))
        .await;
    task.assert_status("success", "accepted");
    for case in task.cases() {
        let outcome = &case["execute"];
        assert!(outcome["cpu_seconds"].as_f64() < Some(0.3), "{outcome:#}");
        assert!(outcome["wall_seconds"].as_f64() >= Some(1.0), "{outcome:#}");
    }
}

#[tokio::test]
async fn a_retry_is_judged_again() {
    let node = JudgingNode::start();
    let first = node
        .judge(&json!({"execute": {"command": ECHO}, "cases": numbered_cases(&[("1", "1"), ("2", "3")])}))
        .await;
    first.assert_status("run_failed", "wrong_answer");
    let path = format!("/api/v1/tasks/{}/retry", text(&first.0["id"]));
    let again = node.web.post(&path, &json!(null)).await.json();
    assert_ne!(again["id"], first.0["id"]);
    let again = node.judged(again).await;
    again.assert_status("run_failed", "wrong_answer");
    assert_eq!(again.verdicts(), ["accepted", "wrong_answer"]);
    assert_eq!(again.0["cases"], first.0["cases"]);
}
