//! Programs that try to forge a verdict: by their output, their exit code, and files where a checker would look.

use cluster_tests::{ReceivedEvent, StreamedResponse};
use serde_json::{Value, json};

use crate::harness::{JudgingNode, numbered_cases, text};

/// Writes what could pass for a mark, a report, or the message of a checker, to all streams and to many files.
const FORGER: &str = r#"
import json, os, sys
lines = ['0 accepted 1', '1 accepted 2', '2 accepted 3', 'verdict: accepted', '42', 'points 100', 'OK 100',
    json.dumps({'index': 1, 'name': '2', 'verdict': 'accepted'}), json.dumps({'verdict': 'accepted', 'score': 100}),
    'event: case\ndata: {"index":1,"name":"2","verdict":"accepted"}\n', '\0\0\0', '\x1b[2K', '\r\n\r\n']
for stream in (sys.stdout, sys.stderr):
    for line in lines: print(line, file=stream)
    stream.flush()
folders = ['.', 'feedback', '../feedback', '/feedback', '/tmp/feedback', '/tmp', '/box/feedback', '/dev/shm']
names = ['judgemessage.txt', 'teammessage.txt', 'score.txt', 'score_multiplier.txt', 'verdict', 'result.json', 'answer', 'output', 'input', 'nextpass.in']
for folder in folders:
    try: os.makedirs(folder, exist_ok=True)
    except OSError: continue
    for name in names:
        try: open(os.path.join(folder, name), 'w').write('100\n')
        except OSError: pass
for descriptor in range(3, 1024):
    try: os.write(descriptor, b'accepted\n')
    except OSError: pass
sys.exit(int(sys.argv[1]))
"#;

/// Rejects everything, and says what it sees.
const STRICT: &str = "import os, sys\nfeedback = sys.argv[3]\n\
    open(feedback + 'judgemessage.txt', 'w').write(' '.join(os.listdir(feedback)))\nsys.exit(43)";

fn forger(exit_code: i32, check: Value) -> Value {
    json!({
        "source": {"main.py": FORGER},
        "execute": {"command": ["/usr/bin/python3", "-S", "main.py", exit_code.to_string()]},
        "cases": numbered_cases(&[("", "nothing"), ("", "nothing"), ("", "nothing")]),
        "check": check,
    })
}

fn strict_checker(protocol: &str) -> Value {
    json!({"kind": "program", "protocol": protocol, "language": "python", "source": {"check.py": STRICT.replace("43", if protocol == "icpc" { "43" } else { "1" })}})
}

#[tokio::test]
async fn nothing_that_a_program_writes_is_a_verdict() {
    let node = JudgingNode::start();
    let without_feedback = "import sys\nprint('no', file=sys.stderr)\nsys.exit(1)";
    let testlib = json!({"kind": "program", "protocol": "testlib", "language": "python", "source": {"check.py": without_feedback}});
    for check in [
        json!({"kind": "tokens"}),
        json!({"kind": "exact"}),
        json!({"kind": "lines"}),
        strict_checker("icpc"),
        testlib,
    ] {
        let task = node.judge(&forger(0, check.clone())).await;
        task.assert_status("run_failed", "wrong_answer");
        assert_eq!(
            (task.verdicts(), task.points()),
            (vec!["wrong_answer"; 3], vec![0.0; 3]),
            "{check}"
        );
        assert_eq!(task.score(), (0.0, 3.0));
        for case in task.cases() {
            assert_eq!(
                case["check"]["message"].as_str().map(|text| text.contains("100")),
                Some(false),
                "{case:#}"
            );
        }
    }
    // The exit codes of the protocols are those of the judge alone.
    for (exit_code, check) in [
        (42, json!({"kind": "none"})),
        (42, strict_checker("icpc")),
        (7, json!({"kind": "none"})),
    ] {
        let task = node.judge(&forger(exit_code, check)).await;
        task.assert_status("run_failed", "runtime_error");
        assert_eq!(task.score(), (0.0, 3.0));
    }
    let task = node.judge(&forger(0, strict_checker("icpc"))).await;
    assert_eq!(
        task.cases()[0]["check"]["judge_message"],
        "judgemessage.txt",
        "the feedback folder had files"
    );
    node.assert_healthy().await;
}

#[tokio::test]
async fn nothing_that_a_program_writes_is_a_mark() {
    let node = JudgingNode::start();
    let mut task = forger(0, json!({"kind": "tokens"}));
    // The compile step is followed by its output, before any case.
    task["compile"] = json!({"command": "echo 0 accepted 1; echo 1 accepted 2 >&2"});
    let task = node.web.post("/api/v1/tasks", &task).await.json();
    let path = format!("/api/v1/tasks/{}", text(&task["id"]));
    for query in ["", "?output=true"] {
        let stream = StreamedResponse::open(node.web.request("GET", &format!("{path}/events{query}"))).await;
        let events = ReceivedEvent::parse_all(&stream.complete().await);
        let marks: Vec<_> = events.iter().filter(|event| event.name == "case").collect();
        assert!(
            marks.iter().all(|mark| mark.data["verdict"] == "wrong_answer"),
            "{marks:#?}"
        );
        let end = events.last().expect("an end");
        assert_eq!(
            (end.name.as_str(), &end.data["status"]),
            ("status", &json!("run_failed"))
        );
    }
}

/// An interactive program cannot speak with the voice of the judge either.
#[tokio::test]
async fn nothing_that_a_program_tells_an_interactor_is_a_verdict() {
    let node = JudgingNode::start();
    let interact = crate::interaction::interactor(
        "said = sys.stdin.read()\ntell('judgemessage.txt', str(len(said)))\nreject()",
    );
    let mut task = forger(0, Value::Null);
    task["interact"] = interact;
    task.as_object_mut().expect("a task").remove("check");
    let task = node.judge(&task).await;
    assert_eq!(task.verdicts(), ["wrong_answer"; 3], "{:#}", task.0);
    assert_eq!(task.score(), (0.0, 3.0));
}
