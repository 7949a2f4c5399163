//! The built-in checks: which outputs each of them accepts.

use serde_json::{Value, json};

use crate::harness::{ECHO, JudgingNode, numbered_cases};

/// An output, the answer, and whether the check accepts the output.
type Comparison = (&'static str, &'static str, bool);

/// Judges all outputs in one task, each as a case of a program that writes its input.
async fn assert_comparisons(node: &JudgingNode, check: Value, comparisons: &[Comparison]) {
    let cases: Vec<_> = comparisons
        .iter()
        .map(|(output, answer, _)| (*output, *answer))
        .collect();
    let task = node
        .judge(&json!({"execute": {"command": ECHO}, "check": check, "cases": numbered_cases(&cases)}))
        .await;
    for ((output, answer, is_accepted), case) in comparisons.iter().zip(task.cases()) {
        let expected = if *is_accepted {
            ("accepted", 42)
        } else {
            ("wrong_answer", 43)
        };
        let found = (&case["verdict"], &case["check"]["exit_code"]);
        assert_eq!(
            found,
            (&json!(expected.0), &json!(expected.1)),
            "{check}: {output:?} for {answer:?}: {case:#}"
        );
    }
    assert_eq!(task.cases().len(), comparisons.len());
}

#[tokio::test]
async fn exact_compares_bytes_and_lines_ignore_trailing_blanks() {
    let node = JudgingNode::start();
    assert_comparisons(
        &node,
        json!({"kind": "exact"}),
        &[
            ("3\n", "3\n", true),
            ("", "", true),
            ("3", "3\n", false),
            ("3\n", "3", false),
            ("3 \n", "3\n", false),
            ("A\n", "a\n", false),
            ("\u{e9}\n", "\u{e9}\n", true),
        ],
    )
    .await;
    assert_comparisons(
        &node,
        json!({"kind": "lines"}),
        &[
            ("3  \n4\t\n\n\n", "3\n4\n", true),
            ("3\n4", "3\n4\n", true),
            ("", "\n", true),
            ("3\n\n4\n", "3\n4\n", false),
            (" 3\n", "3\n", false),
            ("3 4\n", "3  4\n", false),
            ("A\n", "a\n", false),
            ("3\n", "3\n4\n", false),
            ("3\n4\n", "3\n", false),
        ],
    )
    .await;
    // Nothing is checked, so there is nothing to say about it.
    let anything = json!({
        "execute": {"command": ECHO}, "check": {"kind": "none"}, "cases": numbered_cases(&[("anything", "3\n"), ("", "3\n")]),
    });
    let task = node.judge(&anything).await;
    assert_eq!(task.verdicts(), ["accepted"; 2]);
    assert_eq!(task.cases()[0]["check"], Value::Null);
}

#[tokio::test]
async fn tokens_are_compared_as_icpc_judges_do() {
    let node = JudgingNode::start();
    assert_comparisons(
        &node,
        json!({"kind": "tokens"}),
        &[
            ("3\n", "3\n", true),
            ("\n 1\t2\n\n3 ", "1 2 3\n", true),
            ("1\u{b}2\u{c}3\r\n", "1 2 3\n", true),
            ("yes NO", "YES no\n", true),
            ("", "", true),
            ("", "3\n", false),
            ("3 4", "3\n", false),
            ("3", "3 4\n", false),
            ("12", "1 2\n", false),
            ("1.0", "1\n", false),
            // Only the letters of ASCII have two cases.
            ("\u{c9}", "\u{e9}\n", false),
            // A space that does not separate words.
            ("1\u{a0}2", "1 2\n", false),
        ],
    )
    .await;
    assert_comparisons(
        &node,
        json!({"kind": "tokens", "case_sensitive": true}),
        &[("yes  1", "yes 1\n", true), ("Yes 1", "yes 1\n", false)],
    )
    .await;
    assert_comparisons(
        &node,
        json!({"kind": "tokens", "space_sensitive": true}),
        &[
            ("Yes 1\n", "yes 1\n", true),
            ("yes  1\n", "yes 1\n", false),
            ("yes\t1\n", "yes 1\n", false),
            (" yes 1\n", "yes 1\n", false),
            ("yes 1\n\n", "yes 1\n", false),
            ("yes 1", "yes 1\n", false),
        ],
    )
    .await;
}

#[tokio::test]
async fn numbers_may_differ_by_a_tolerance() {
    let node = JudgingNode::start();
    assert_comparisons(
        &node,
        json!({"kind": "tokens", "float_tolerance": 1e-6}),
        &[
            ("0.3333333", "0.333333\n", true),
            ("1e3 x", "1000 X\n", true),
            ("+1.0", "1\n", true),
            ("-0.0", "0\n", true),
            ("1000000.5", "1000000\n", true),
            ("0.0000005", "0\n", true),
            ("0.00001", "0\n", false),
            ("1.00001", "1\n", false),
            ("-1", "1\n", false),
            ("nan", "1\n", false),
            ("inf", "1\n", false),
            ("12abc", "12\n", false),
            ("one", "1\n", false),
            ("1 1", "1\n", false),
            ("", "1\n", false),
            ("yes 1.0000001", "YES 1\n", true),
        ],
    )
    .await;
    assert_comparisons(
        &node,
        json!({"kind": "tokens", "float_absolute_tolerance": 0.01}),
        &[
            ("1.005", "1\n", true),
            ("1.02", "1\n", false),
            ("1000.02", "1000\n", false),
        ],
    )
    .await;
    assert_comparisons(
        &node,
        json!({"kind": "tokens", "float_relative_tolerance": 0.01}),
        &[
            ("1005", "1000\n", true),
            ("1020", "1000\n", false),
            ("0.001", "0\n", false),
            ("0", "0\n", true),
        ],
    )
    .await;
    assert_comparisons(
        &node,
        json!({"kind": "tokens", "float_relative_tolerance": 0.01, "float_absolute_tolerance": 5}),
        &[
            ("1005", "1000\n", true),
            ("104", "100\n", true),
            ("106", "100\n", false),
            ("5", "0\n", true),
        ],
    )
    .await;
}

/// Nothing of an output is kept twice in memory, and a difference at its end counts.
#[tokio::test]
async fn outputs_of_megabytes_are_compared_to_their_end() {
    let node = JudgingNode::start();
    const LINES: usize = 500_000;
    let answer: String = (0..LINES).map(|line| format!("{line}\n")).collect();
    let almost = answer.replace(&format!("{}\n", LINES - 1), "0\n");
    for kind in ["exact", "lines", "tokens"] {
        let task = node
            .judge(&json!({
                "execute": {"command": format!("seq 0 {}", LINES - 1), "limits": {"output": "8MiB"}},
                "check": {"kind": kind},
                "cases": [
                    {"name": "same", "input": "", "answer": answer},
                    {"name": "almost", "input": "", "answer": almost},
                ],
            }))
            .await;
        task.assert_cases(&[("same", "accepted"), ("almost", "wrong_answer")]);
        let outcome = &task.case("same")["execute"];
        // A result keeps the beginning of each output, because the answer says enough.
        assert_eq!(outcome["stdout_truncated"], true, "{kind}");
        assert!(
            outcome["stdout"]
                .as_str()
                .is_some_and(|text| text.starts_with("0\n1\n")),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_check_that_is_left_out_compares_words_if_there_is_an_answer() {
    let node = JudgingNode::start();
    let judge = async |cases: Value| {
        node.judge(&json!({"execute": {"command": ECHO}, "cases": cases}))
            .await
    };
    let task = judge(json!([{"name": "1", "input": "A  b", "answer": "a B\n"}, {"name": "2", "input": "x", "answer": "y"}])).await;
    assert_eq!(task.verdicts(), ["accepted", "wrong_answer"]);
    let task = judge(json!([{"name": "1", "input": "anything"}, {"name": "2"}])).await;
    assert_eq!(task.verdicts(), ["accepted", "accepted"]);
    task.assert_status("success", "accepted");
    assert_eq!(task.case("1")["execute"]["stdout"], "anything");
}
