//! Programs that check outputs, by the protocols of ICPC packages and of testlib.

use serde_json::{Value, json};

use crate::harness::{ECHO, JudgingNode, text};

/// Accepts an output that equals the answer. The first word of the input asks for a score.
const ICPC: &str = r#"
import os, sys
case_input, answer, feedback, *args = sys.argv[1:]
assert os.path.isdir(feedback) and feedback.endswith('/')
given, wanted, output = open(case_input).read(), open(answer).read(), sys.stdin.read()
def tell(name, text):
    with open(feedback + name, 'w') as file: file.write(text)
tell('judgemessage.txt', f'{args} {given!r} {output!r} {wanted!r}')
tell('teammessage.txt', 'look at line 1')
word, *rest = given.split() or ['']
if word in ('score', 'score_multiplier'): tell(word + '.txt', rest[0])
sys.exit(42 if output == wanted else 43)
"#;

/// Does what the output of the program asks for.
const TESTLIB: &str = r#"
#include <stdio.h>
#include <string.h>

int main(int count, char **words) {
    char output[64] = "", answer[64] = "", input[64] = "";
    FILE *files[3];
    if (count != 5 || strcmp(words[4], "strict") != 0)
        return 3;
    for (int i = 0; i < 3; i++)
        if ((files[i] = fopen(words[i + 1], "r")) == NULL)
            return 3;
    if (fgets(input, sizeof input, files[0]) == NULL || fgets(output, sizeof output, files[1]) == NULL ||
        fgets(answer, sizeof answer, files[2]) == NULL)
        return 3;
    if (strcmp(output, "partial") == 0) {
        fprintf(stderr, "points 2.5 half of it\n");
        return 7;
    }
    fprintf(stderr, "%s for %s", output, answer);
    if (strcmp(output, "malformed") == 0)
        return 2;
    return strcmp(output, answer) != 0;
}
"#;

fn icpc(args: &[&str]) -> Value {
    json!({"kind": "program", "protocol": "icpc", "language": "python", "source": {"check.py": ICPC}, "args": args})
}

#[tokio::test]
async fn an_icpc_checker_decides_and_gives_messages_and_scores() {
    let node = JudgingNode::start();
    let case = |name: &str, input: &str, answer: Option<&str>| json!({"name": name, "input": input, "answer": answer, "points": 10});
    let task = node
        .judge(&json!({
            "execute": {"command": ECHO},
            "check": icpc(&["-e", "1e-6"]),
            "cases": [
                case("right", "a", Some("a")),
                case("wrong", "a", Some("b")),
                case("part", "score 3.5", Some("score 3.5")),
                case("too much", "score 50", Some("score 50")),
                case("a quarter", "score_multiplier 0.25", Some("score_multiplier 0.25")),
                case("wrong with a score", "score 5", Some("b")),
                case("no answer", "", None),
            ],
        }))
        .await;
    task.assert_cases(&[
        ("right", "accepted"),
        ("wrong", "wrong_answer"),
        ("part", "accepted"),
        ("too much", "accepted"),
        ("a quarter", "accepted"),
        ("wrong with a score", "wrong_answer"),
        ("no answer", "accepted"),
    ]);
    assert_eq!(
        task.points(),
        [10.0, 0.0, 3.5, 10.0, 2.5, 0.0, 10.0],
        "{:#}",
        task.0
    );
    assert_eq!(task.score(), (36.0, 70.0));
    task.assert_status("run_failed", "wrong_answer");
    let wrong = &task.case("wrong")["check"];
    assert_eq!(wrong["exit_code"], 43);
    assert_eq!(wrong["message"], "look at line 1");
    assert_eq!(wrong["judge_message"], "['-e', '1e-6'] 'a' 'a' 'b'");
}

#[tokio::test]
async fn a_testlib_checker_decides_and_gives_points() {
    let node = JudgingNode::start();
    let case = |name: &str, answer: &str| json!({"name": name, "input": name, "answer": answer, "points": 4});
    let task = node
        .judge(&json!({
            "execute": {"command": ECHO},
            "check": {
                "kind": "program", "protocol": "testlib", "language": "c", "source": {"check.c": TESTLIB}, "args": ["strict"],
            },
            "cases": [case("same", "same"), case("other", "same"), case("malformed", "x"), case("partial", "x")],
        }))
        .await;
    task.assert_cases(&[
        ("same", "accepted"),
        ("other", "wrong_answer"),
        ("malformed", "wrong_answer"),
        ("partial", "accepted"),
    ]);
    assert_eq!(task.points(), [4.0, 0.0, 0.0, 2.5]);
    let codes: Vec<_> = task
        .cases()
        .iter()
        .map(|case| case["check"]["exit_code"].as_i64())
        .collect();
    assert_eq!(codes, [Some(0), Some(1), Some(2), Some(7)]);
    let check = &task.case("other")["check"];
    assert!(
        text(&check["judge_message"]).contains("other for same"),
        "{check:#}"
    );
}

#[tokio::test]
async fn a_checker_is_compiled_once_for_all_tasks() {
    const COMPILES: &str = "conclave_checker_compiles_total";
    let node = JudgingNode::start();
    let judge = async |accepting: i32, answer: &str| {
        let source = format!("#include \"codes.h\"\nint main(void) {{ return ACCEPT; }} /* {accepting} */");
        let header = format!("#define ACCEPT {accepting}\n");
        let task = json!({
            "execute": {"command": ECHO},
            "check": {"kind": "program", "protocol": "icpc", "language": "cpp", "source": {"check.cpp": source, "codes.h": header}},
            "cases": [{"name": "1", "input": "x", "answer": answer}, {"name": "2", "input": "y", "answer": answer}],
        });
        node.judge(&task).await
    };
    assert_eq!(node.counter(COMPILES).await, 0);
    // The first ones come at the same time, and all but one wait for its compile step.
    let answers = ["a", "b", "c", "d", "e", "f"];
    for task in futures::future::join_all(answers.map(|answer| judge(42, answer))).await {
        task.assert_status("success", "accepted");
    }
    assert_eq!(node.counter(COMPILES).await, 1);
    judge(43, "a").await.assert_status("run_failed", "wrong_answer");
    assert_eq!(node.counter(COMPILES).await, 2);
    judge(42, "g").await.assert_status("success", "accepted");
    assert_eq!(node.counter(COMPILES).await, 2);
}

/// The files of a checker are its own: neither the program nor another run of the checker changes them.
#[tokio::test]
async fn each_run_of_a_checker_begins_anew() {
    let node = JudgingNode::start();
    let checker = "import os, sys\n\
        feedback = sys.argv[3]\n\
        left = [path for path in ('mark', '/tmp/mark', feedback + 'mark') if os.path.exists(path)]\n\
        for path in ('mark', '/tmp/mark', feedback + 'mark'):\n    open(path, 'w').close()\n\
        open(feedback + 'judgemessage.txt', 'w').write(repr([left, sorted(os.listdir('.')), os.listdir(feedback)]))\n\
        sys.exit(43 if left or os.path.exists('of-the-program') else 42)";
    let task = node
        .judge(&json!({
            "execute": {"command": "touch of-the-program mark /tmp/mark; cat"},
            "check": {"kind": "program", "protocol": "icpc", "language": "python", "source": {"check.py": checker}},
            "cases": [{"name": "1"}, {"name": "2"}, {"name": "3"}, {"name": "4"}],
        }))
        .await;
    assert_eq!(task.verdicts(), ["accepted"; 4], "{:#}", task.0);
}
