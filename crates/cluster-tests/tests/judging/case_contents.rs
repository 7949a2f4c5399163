//! What belongs to one case alone: its input, arguments, files and limits, on the files as the compile step left them.

use std::io::{Cursor, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::harness::{ECHO, JudgingNode, text};

/// Leaves files of every kind. A FIFO is no file that a case could begin with.
const COMPILE: &str = "printf 'one\\n' > data.txt; chmod 640 data.txt; ln -s data.txt link; ln -s /etc/hostname outside; \
    mkdir -p d/e d/empty; printf 'deep\\n' > d/e/f; printf '#!/bin/sh\\necho ran\\n' > tool; chmod 755 tool; mkfifo fifo; \
    touch /tmp/of-compile /dev/shm/of-compile; (setsid sleep 600 &)";

/// Shows all that a case begins with, and then spoils it for the next.
const SHOW_AND_SPOIL: &str = "ls -A . /tmp /dev/shm; cat link d/e/f; ./tool; stat -c '%a %F' data.txt tool d; readlink outside; \
    cat /proc/[0-9]*/comm | grep -c sleep; \
    echo two > data.txt; rm -r link d; chmod 000 tool; touch spoiled /tmp/spoiled /dev/shm/spoiled; (setsid sleep 600 &)";

const SHOWN: &str = ".:\nd\ndata.txt\nlink\nmain.txt\noutside\ntool\n\n/dev/shm:\n\n/tmp:\none\ndeep\nran\n640 regular file\n\
    755 regular file\n755 directory\n/etc/hostname\n0\n";

#[tokio::test]
async fn each_case_begins_with_what_the_compile_step_left() {
    let node = JudgingNode::start();
    let names = ["1", "2", "3", "4", "5", "6"];
    let cases: Value = names
        .iter()
        .map(|name| json!({"name": name, "answer": SHOWN}))
        .collect();
    let task = node
        .judge(&json!({
            "source": {"main.txt": ""},
            "compile": {"command": format!("umask 022; {COMPILE}")},
            "execute": {"command": SHOW_AND_SPOIL},
            "check": {"kind": "exact"},
            "cases": cases,
        }))
        .await;
    task.assert_cases(&names.map(|name| (name, "accepted")));
    node.assert_healthy().await;
}

/// Without a compile step each case has the files of the task.
#[tokio::test]
async fn each_case_of_a_script_has_its_files_anew() {
    let node = JudgingNode::start();
    let task = node
        .judge(&json!({
            "source": {"main.sh": {"text": "cat list; ls /tmp; echo more >> list; touch /tmp/x; rm main.sh", "executable": true}, "list": "a\n"},
            "execute": {"command": ["/bin/sh", "main.sh"]},
            "check": {"kind": "exact"},
            "cases": [{"name": "1", "answer": "a\n"}, {"name": "2", "answer": "a\n"}, {"name": "3", "answer": "a\n"}],
        }))
        .await;
    assert_eq!(task.verdicts(), ["accepted"; 3], "{:#}", task.0);
}

#[tokio::test]
async fn arguments_and_files_of_a_case_are_for_it_alone() {
    let node = JudgingNode::start();
    let task = node
        .judge(&json!({
            "compile": {"command": "printf 'of the compile step\\n' > file"},
            "execute": {"command": ["/bin/sh", "-c", "echo \"$#\" \"$@\"; cat file; ls extra 2>/dev/null; cat", "sh"], "args": ["of all"]},
            "check": {"kind": "exact"},
            "cases": [
                {"name": "plain", "input": "x\n", "answer": "1 of all\nof the compile step\nx\n"},
                {"name": "both", "args": ["a b", "$HOME"], "files": {"file": "of the case\n", "extra/1": "", "extra/2": ""},
                 "answer": "3 of all a b $HOME\nof the case\n1\n2\n"},
                {"name": "plain again", "answer": "1 of all\nof the compile step\n"},
            ],
        }))
        .await;
    assert_eq!(task.verdicts(), ["accepted"; 3], "{:#}", task.0);
}

/// A file that is no program for the kernel is a script for the shell, with cases and without.
#[tokio::test]
async fn a_script_that_names_no_interpreter_runs_as_it_does_without_cases() {
    let node = JudgingNode::start();
    let task = json!({
        "compile": {"command": "printf 'read x; echo \"got $x\"\\n' > run; chmod +x run"},
        "execute": {"command": "./run"},
    });
    let with = |field: &str, value: Value| {
        let mut task = task.clone();
        task[field] = value;
        task
    };
    let plain = node.web.post("/api/v1/tasks?wait=60", &task).await.json();
    assert_eq!(plain["result"]["execute"]["stdout"], "got \n", "{plain:#}");
    let cases = json!([
        {"name": "1", "input": "1", "answer": "got 1"},
        {"name": "2", "input": "2", "answer": "own 2", "files": {"run": {"text": "read x; echo own $x", "executable": true}}},
        // A file in place of a folder, and a folder in place of the program.
        {"name": "3", "input": "3", "answer": "", "files": {"run/x": ""}},
    ]);
    let judged = node.judge(&with("cases", cases)).await;
    judged.assert_cases(&[("1", "accepted"), ("2", "accepted"), ("3", "runtime_error")]);
    node.assert_healthy().await;
}

#[tokio::test]
async fn limits_of_a_case_are_for_it_alone() {
    let node = JudgingNode::start();
    let spin = "import time\nwhile time.process_time() < 0.5: pass\nprint(len(bytearray(int(input()))))";
    let case = |name: &str, bytes: u64, limits: Value| json!({"name": name, "input": bytes.to_string(), "answer": bytes.to_string(), "limits": limits});
    let task = node
        .judge(&json!({
            "language": "python",
            "source_code": spin,
            "execute": {"limits": {"cpu": "5s", "memory": "128MiB"}},
            "cases": [
                case("usual", 1000, json!({})),
                case("short", 1000, json!({"cpu": "200ms"})),
                case("usual again", 1000, json!({})),
                case("small", 40 << 20, json!({"memory": "32MiB"})),
                case("large", 40 << 20, json!({})),
                case("larger", 200 << 20, json!({"memory": "320MiB"})),
            ],
        }))
        .await;
    task.assert_cases(&[
        ("usual", "accepted"),
        ("short", "time_limit"),
        ("usual again", "accepted"),
        ("small", "memory_limit"),
        ("large", "accepted"),
        ("larger", "accepted"),
    ]);
}

#[tokio::test]
async fn contents_may_be_base64_and_blobs() {
    let node = JudgingNode::start();
    let bytes = [b"\0\xff binary ".repeat(20_000), b"end".to_vec()].concat();
    let hash: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let put = node
        .web
        .request("PUT", &format!("/api/v1/blobs/{hash}"))
        .body(bytes.clone());
    assert!(put.send().await.expect("an answer").status().is_success());
    let (blob, inline) = (json!({"blob": hash}), json!({"base64": STANDARD.encode(&bytes)}));
    let task = node
        .judge(&json!({
            "execute": {"command": ECHO},
            "check": {"kind": "exact"},
            "cases": [
                {"name": "blob", "input": blob, "answer": inline},
                {"name": "inline", "input": inline, "answer": blob},
                {"name": "cut", "input": blob, "answer": {"base64": STANDARD.encode(&bytes[1..])}},
            ],
        }))
        .await;
    task.assert_cases(&[
        ("blob", "accepted"),
        ("inline", "accepted"),
        ("cut", "wrong_answer"),
    ]);
    let missing = json!({
        "execute": {"command": ECHO},
        "cases": [{"name": "1", "input": {"blob": "ab".repeat(32)}, "answer": ""}],
    });
    let answer = node.web.post("/api/v1/tasks", &missing).await;
    let problem = answer.assert_problem(422);
    assert!(text(&problem["detail"]).contains("abab"), "{problem}");
}

#[tokio::test]
async fn a_folder_of_inputs_and_answers_is_a_list_of_cases() {
    let node = JudgingNode::start();
    let task = node
        .judge(&json!({
            "execute": {"command": ECHO},
            "cases": {"b.in": "2\n", "b.out": "2\n", "a.in": "1\n", "a.ans": "1\n", "sub/10.in": "x", "sub/10.ans": "y"},
        }))
        .await;
    // Cases run in the order of their names, and other files are no cases.
    task.assert_cases(&[("a", "accepted"), ("b", "accepted"), ("sub/10", "wrong_answer")]);
}

#[tokio::test]
async fn a_zip_of_inputs_and_answers_is_a_list_of_cases() {
    let node = JudgingNode::start();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, text) in [
        ("tests/2.out", "4\n"),
        ("tests/2.in", "2\n"),
        ("tests/1.in", "1\n"),
        ("tests/1.ans", "1\n"),
        ("tests/readme.txt", ""),
        ("__MACOSX/tests/._1.in", ""),
    ] {
        zip.start_file(path, SimpleFileOptions::default())
            .expect("room for a file");
        zip.write_all(text.as_bytes()).expect("room for a file");
    }
    let bytes = zip.finish().expect("a zip").into_inner();
    let task = json!({"execute": {"command": ECHO}, "cases": {"zip": {"base64": STANDARD.encode(bytes)}}});
    node.judge(&task)
        .await
        .assert_cases(&[("tests/1", "accepted"), ("tests/2", "wrong_answer")]);
    let broken =
        json!({"execute": {"command": ECHO}, "cases": {"zip": {"base64": STANDARD.encode("no zip")}}});
    node.assert_refused(&broken, "cases", "zip").await;
}

/// Cells are used again and again, but what they counted of one case is not part of the next.
#[tokio::test]
async fn times_and_memory_of_a_case_are_its_own() {
    let node = JudgingNode::start();
    let program = "import time\nmib, seconds = map(float, input().split())\n\
        block = bytearray(int(mib) << 20)\nwhile time.process_time() < seconds: pass";
    let large = json!({"name": "", "input": "80 0.4"});
    let small = json!({"name": "", "input": "0 0"});
    let mut cases = vec![
        large.clone(),
        small.clone(),
        large.clone(),
        small.clone(),
        large,
        small,
    ];
    for (index, case) in cases.iter_mut().enumerate() {
        case["name"] = json!(index.to_string());
    }
    let task = node
        .judge(&json!({"language": "python", "source_code": program, "cases": cases, "execute": {"limits": {"memory": "256MiB"}}}))
        .await;
    task.assert_status("success", "accepted");
    for (index, case) in task.cases().iter().enumerate() {
        let outcome = &case["execute"];
        let (memory, cpu) = (outcome["memory_bytes"].as_u64(), outcome["cpu_seconds"].as_f64());
        let is_large = index.is_multiple_of(2);
        assert_eq!(memory > Some(80 << 20), is_large, "{case:#}");
        assert_eq!(cpu >= Some(0.4), is_large, "{case:#}");
    }
}
