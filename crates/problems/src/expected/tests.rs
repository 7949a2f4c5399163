use std::time::Duration;

use model::Verdict::{Accepted, CompileError, JudgeError, RuntimeError, Skipped, TimeLimit, WrongAnswer};
use model::{Points, Verdict};

use super::*;

fn cases(verdicts: &[Verdict]) -> Vec<JudgedCase<'static>> {
    let names = ["sample/1", "secret/a/1", "secret/b/1"];
    let case = |(name, verdict): (&&'static str, &Verdict)| JudgedCase {
        name,
        verdict: *verdict,
        time: Duration::from_millis(10 * name.len() as u64),
        judge_message: "line 3 differs",
    };
    names.iter().zip(verdicts).map(case).collect()
}

fn check(expected: &ExpectedVerdicts, verdict: Verdict, marks: &[Verdict], mismatches: &[&str]) {
    let judged = JudgedSubmission {
        verdict,
        score: Points::ONE,
        max_score: Points::ONE,
        cases: &cases(marks),
    };
    assert_eq!(
        expected.mismatches(&judged),
        mismatches,
        "{expected}: {verdict} {marks:?}"
    );
}

#[test]
fn every_case_is_permitted_and_one_is_required() {
    let rule = VerdictRule::new("wrong_answer", &[Accepted, WrongAnswer], &[WrongAnswer]);
    let expected = ExpectedVerdicts::of_rule(rule);
    check(&expected, WrongAnswer, &[Accepted, WrongAnswer, Skipped], &[]);
    let none = ["wrong_answer: no case is wrong_answer"];
    check(&expected, Accepted, &[Accepted, Accepted, Accepted], &none);
    let crash = ["wrong_answer: case secret/b/1 is runtime_error, permitted is accepted or wrong_answer"];
    check(
        &expected,
        WrongAnswer,
        &[Accepted, WrongAnswer, RuntimeError],
        &crash,
    );
    let several = [
        "wrong_answer: 2 cases are runtime_error (the first is sample/1), permitted is accepted or wrong_answer",
    ];
    check(
        &expected,
        RuntimeError,
        &[RuntimeError, WrongAnswer, RuntimeError],
        &several,
    );
    check(
        &expected,
        CompileError,
        &[],
        &["wrong_answer: it does not compile"],
    );
    check(
        &expected,
        JudgeError,
        &[],
        &["the judge failed, so nothing can be said"],
    );
}

#[test]
fn expected_results_are_about_the_submission_as_a_whole() {
    let expected = ExpectedVerdicts {
        results: [TimeLimit, WrongAnswer].into(),
        rules: vec![],
    };
    check(&expected, TimeLimit, &[Accepted, TimeLimit, RuntimeError], &[]);
    let other = ["accepted came out, expected is wrong_answer or time_limit"];
    check(&expected, Accepted, &[Accepted], &other);
    check(&ExpectedVerdicts::default(), RuntimeError, &[RuntimeError], &[]);
}

#[test]
fn rules_can_be_about_some_cases_a_score_and_a_message() {
    let mut rule = VerdictRule::new("x", &[Accepted], &[]);
    rule.cases = CasePattern::new("secret/a");
    let mut expected = ExpectedVerdicts::of_rule(rule);
    check(&expected, WrongAnswer, &[WrongAnswer, Accepted, WrongAnswer], &[]);
    expected.rules[0].required = [TimeLimit].into();
    check(
        &expected,
        Accepted,
        &[TimeLimit, Accepted, TimeLimit],
        &["x: no case of secret/a is time_limit"],
    );
    expected.rules[0].required.clear();
    expected.rules[0].score = ExpectedScore::Partial;
    check(
        &expected,
        Accepted,
        &[Accepted; 3],
        &["x: the score is the full one, 1"],
    );
    expected.rules[0].score = ExpectedScore::Between {
        least: 2.0,
        most: 3.0,
    };
    check(
        &expected,
        Accepted,
        &[Accepted; 3],
        &["x: the score is 1, expected is 2 to 3"],
    );
    expected.rules[0].score = ExpectedScore::Between {
        least: 0.0,
        most: 1.0,
    };
    expected.rules[0].message = Some("line 3".into());
    check(&expected, Accepted, &[Accepted; 3], &[]);
    expected.rules[0].message = Some("line 4".into());
    check(
        &expected,
        Accepted,
        &[Accepted; 3],
        &["x: no message of the judge has 'line 4'"],
    );
}

#[test]
fn the_slowest_run_counts_only_cases_of_the_rule() {
    let mut rule = VerdictRule::new("x", &[Accepted], &[]);
    rule.bound = TimeBound::FastEnough;
    rule.cases = CasePattern::new("sample");
    let expected = ExpectedVerdicts::of_rule(rule);
    let cases = cases(&[Accepted; 3]);
    let slowest = expected.slowest(TimeBound::FastEnough, &cases);
    assert_eq!(slowest, Some(Duration::from_millis(80)));
    assert_eq!(expected.slowest(TimeBound::TooSlow, &cases), None);
}

#[test]
fn tables_name_what_is_required() {
    for (permitted, required, expected) in [
        (&[Accepted][..], &[][..], "accepted"),
        (&[], &[TimeLimit, RuntimeError], "time_limit or runtime_error"),
        (&[], &[], "any"),
        (&[], &CRASHES, "runtime_error"),
        (
            &[],
            &[Verdict::MemoryLimit, Verdict::OutputLimit],
            "memory_limit or output_limit",
        ),
    ] {
        let rule = VerdictRule::new("x", permitted, required);
        assert_eq!(ExpectedVerdicts::of_rule(rule).to_string(), expected);
    }
    assert_eq!(ExpectedVerdicts::default().to_string(), "any");
}
