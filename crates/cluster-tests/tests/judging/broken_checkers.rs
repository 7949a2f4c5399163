//! Checkers that crash, hang, flood, and lie about their protocol. None of it is held against the user.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{ECHO, JudgingNode, text};

/// Does what the output of the program asks for, and accepts it if nothing else is asked for.
const BROKEN: &str = r#"
import os, resource, signal, sys
feedback = sys.argv[3]
word, *rest = sys.stdin.read().split()
def tell(name, data):
    with open(feedback + name, 'wb') as file: file.write(data)
if word == 'exit': os._exit(int(rest[0]))
if word == 'signal': os.kill(os.getpid(), int(rest[0]))
if word == 'throw': raise ValueError('the checker is confused')
if word == 'spin':
    while True: pass
if word == 'sleep': signal.pause()
if word == 'memory': keep = [b'x' * (1 << 20) for _ in range(1 << 20)]
if word == 'stdout':
    while True: os.write(1, b'x' * 65536)
if word == 'stderr':
    while True: os.write(2, b'x' * 65536)
if word == 'fill':
    while True: tell(f'{os.urandom(8).hex()}', b'x' * (8 << 20))
if word == 'forks':
    while True: os.fork()
if word == 'score': tell('score.txt', ' '.join(rest).encode())
if word == 'bytes':
    tell('judgemessage.txt', b'judge \xff\xfe\x00 end')
    tell('teammessage.txt', b'team \xc3')
if word == 'long':
    tell('judgemessage.txt', 'é'.encode() * (1 << 20))
    tell('teammessage.txt', b'y' * (1 << 20))
if word == 'links':
    os.symlink('/etc/passwd', feedback + 'judgemessage.txt')
    os.symlink('/proc/self/environ', feedback + 'teammessage.txt')
if word == 'pipes':
    os.mkfifo(feedback + 'judgemessage.txt'); os.mkdir(feedback + 'teammessage.txt')
if word == 'gone':
    os.rmdir(feedback)
os._exit(42)
"#;

const MAX_MESSAGE: usize = 64 << 10;

fn broken_checker() -> Value {
    json!({
        "kind": "program", "protocol": "icpc", "language": "python", "source": {"check.py": BROKEN},
        "limits": {"cpu": "500ms", "wall": "2s", "memory": "64MiB", "space": "64MiB", "processes": 16, "output": "1MiB"},
    })
}

fn cases_of(words: &[&str]) -> Value {
    let case = |word: &&str| json!({"name": word, "input": word, "answer": "", "points": 2});
    words.iter().map(case).collect()
}

#[tokio::test]
async fn a_checker_that_fails_is_an_error_of_the_judge() {
    let node = JudgingNode::start();
    let broken = [
        "exit 0",
        "exit 1",
        "exit 41",
        "exit 44",
        "exit 255",
        "signal 11",
        "signal 9",
        "throw",
        "spin",
        "sleep",
        "memory",
        "stdout",
        "stderr",
        "fill",
        "forks",
    ];
    let words = [&["good"], &broken[..], &["good again"]].concat();
    let task = node
        .judge(&json!({"execute": {"command": ECHO}, "check": broken_checker(), "cases": cases_of(&words)}))
        .await;
    let mut expected: Vec<_> = words.iter().map(|word| (*word, "judge_error")).collect();
    expected[0].1 = "accepted";
    expected[words.len() - 1].1 = "accepted";
    task.assert_cases(&expected);
    task.assert_status("system_error", "judge_error");
    assert_eq!(task.score(), (4.0, 2.0 * words.len() as f64));
    for word in &words[1..words.len() - 1] {
        let case = task.case(word);
        // The program itself has done nothing wrong.
        assert_eq!(case["execute"]["exit_code"], 0, "{case:#}");
        let said = text(&case["check"]["judge_message"]);
        assert!(
            !said.is_empty() && said.len() <= MAX_MESSAGE,
            "{word}: {} bytes: {case:#}",
            said.len()
        );
    }
    let said = text(&task.case("throw")["check"]["judge_message"]);
    assert!(said.contains("the checker is confused"), "{said:?}");
    assert_eq!(task.case("exit 44")["check"]["exit_code"], 44);
    node.assert_healthy().await;
}

#[tokio::test]
async fn messages_are_cut_and_made_text() {
    let node = JudgingNode::start();
    let words = ["bytes", "long", "links", "pipes", "gone"];
    let task = node
        .judge(&json!({"execute": {"command": ECHO}, "check": broken_checker(), "cases": cases_of(&words)}))
        .await;
    task.assert_cases(&words.map(|word| (word, "accepted")));
    let check = |word: &str| task.case(word)["check"].clone();
    let bytes = check("bytes");
    let judge = text(&bytes["judge_message"]);
    assert!(
        judge.starts_with("judge \u{fffd}") && judge.ends_with("end"),
        "{judge:?}"
    );
    assert!(text(&bytes["message"]).starts_with("team"), "{bytes}");
    let long = check("long");
    for (name, start) in [("judge_message", "\u{e9}\u{e9}"), ("message", "yy")] {
        let message = text(&long[name]);
        assert!(message.starts_with(start), "{name}: {:?}", message.get(..20));
        assert!(message.len() <= MAX_MESSAGE, "{name} has {} bytes", message.len());
    }
    // What the checker links to is not what it says.
    for word in ["links", "pipes", "gone"] {
        let check = check(word);
        assert_eq!(
            (&check["message"], &check["judge_message"]),
            (&json!(""), &json!("")),
            "{word}"
        );
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a_score_that_is_no_number_of_points_is_an_error_of_the_judge() {
    let node = JudgingNode::start();
    let words = [
        "score 1",
        "score -1",
        "score nan",
        "score much",
        "score",
        "score 1e300",
    ];
    let task = node
        .judge(&json!({"execute": {"command": ECHO}, "check": broken_checker(), "cases": cases_of(&words)}))
        .await;
    let accepted: Vec<_> = task
        .cases()
        .iter()
        .filter(|case| case["verdict"] == "accepted")
        .collect();
    assert_eq!(task.case("score 1")["points"], 1.0);
    for word in ["score -1", "score nan", "score much", "score"] {
        assert_eq!(task.case(word)["verdict"], "judge_error", "{:#}", task.case(word));
        assert_eq!(task.case(word)["points"], 0.0);
    }
    assert!(
        accepted.iter().all(|case| case["points"].as_f64() <= Some(2.0)),
        "{accepted:#?}"
    );
}

#[tokio::test]
async fn a_checker_that_does_not_compile_is_an_error_of_the_judge() {
    let node = JudgingNode::start();
    let task = node
        .judge(&json!({
            "execute": {"command": ECHO},
            "check": {"kind": "program", "protocol": "testlib", "language": "c", "source": {"check.c": "int main(void) { return checked; }"}},
            "cases": cases_of(&["1", "2", "3"]),
        }))
        .await;
    task.assert_status("system_error", "judge_error");
    task.assert_cases(&[("1", "judge_error"), ("2", "skipped"), ("3", "skipped")]);
    assert_eq!(task.score(), (0.0, 6.0));
    let said = text(&task.case("1")["check"]["judge_message"]);
    assert!(said.contains("checked"), "{said:?}");
}

#[tokio::test]
async fn codes_that_testlib_does_not_have_are_errors_of_the_judge() {
    let node = JudgingNode::start();
    let checker = "import sys\nwords = open(sys.argv[2]).read().split()\nprint(*words[1:], file=sys.stderr)\nsys.exit(int(words[0]))";
    let words = [
        "0 fine",
        "3 fail",
        "42 no",
        "43 no",
        "7 without a number",
        "7 points 1.5",
        "7 points 0",
        "7 points x",
    ];
    let task = node
        .judge(&json!({
            "execute": {"command": ECHO},
            "check": {"kind": "program", "protocol": "testlib", "language": "python", "source": {"check.py": checker}},
            "cases": cases_of(&words),
        }))
        .await;
    task.assert_cases(&[
        ("0 fine", "accepted"),
        ("3 fail", "judge_error"),
        ("42 no", "judge_error"),
        ("43 no", "judge_error"),
        ("7 without a number", "judge_error"),
        ("7 points 1.5", "accepted"),
        ("7 points 0", "wrong_answer"),
        ("7 points x", "judge_error"),
    ]);
}

/// A task stops at an error of the judge, too, and the error is not worth a second attempt.
#[tokio::test]
async fn an_error_of_the_judge_ends_a_task_that_stops_at_the_first_failure() {
    let node = JudgingNode::start();
    let begun = Instant::now();
    let task = node
        .judge(&json!({
            "execute": {"command": ECHO}, "check": broken_checker(), "stop": "first_failure",
            "cases": cases_of(&["good", "exit 1", "sleep"]),
        }))
        .await;
    task.assert_cases(&[
        ("good", "accepted"),
        ("exit 1", "judge_error"),
        ("sleep", "skipped"),
    ]);
    task.assert_status("system_error", "judge_error");
    // Attempts that the platform could not run are repeated after pauses that grow to half a minute.
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "after {:?}",
        begun.elapsed()
    );
}
