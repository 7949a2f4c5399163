use std::time::Duration;

use model::{CaseName, OutcomeReason, ProblemName, ProblemRef, TaskStatus, UserName};

use super::*;
use crate::fake_calls::{self, FakeCalls};
use crate::pages::task::case_strip_fixtures::{judged_task, judging};

fn user(name: &str) -> UserName {
    UserName::new(name).unwrap()
}

fn outcome(stdout: &str, stderr: &str) -> Outcome {
    Outcome {
        reason: OutcomeReason::Exited,
        exit_code: Some(0),
        signal: None,
        wall: Duration::from_millis(12),
        cpu: Duration::from_millis(10),
        memory: 1 << 20,
        stdout: CapturedOutput::small(stdout.to_string()),
        stderr: CapturedOutput::small(stderr.to_string()),
    }
}

fn result(verdict: Verdict, stdout: &str) -> CaseResult {
    CaseResult {
        name: CaseName::new("1").unwrap(),
        verdict,
        points: Points::ZERO,
        execute: Some(outcome(stdout, "a warning")),
        check: Some(CheckResult {
            exit_code: Some(43),
            message: "look at line 1".into(),
            judge_message: "expected secret".into(),
        }),
    }
}

/// A task of bob with one case and this result, judged by his own cases or by a problem of ada.
fn task(result: &CaseResult, problem: Option<&str>) -> Task {
    let mut task = judged_task(&[result.verdict]);
    task.spec.user = user("bob");
    if let Some(problem) = problem {
        let judging = task.spec.judging.as_mut().unwrap();
        judging.problem = Some(ProblemRef {
            name: ProblemName::new(problem).unwrap(),
            owner: user("ada"),
        });
    }
    let judgement = task.result.as_mut().unwrap().judgement.as_mut().unwrap();
    let encoded = rpc::encode_case_results(std::slice::from_ref(result));
    judgement.cases = model::Content::Inline(encoded);
    task
}

async fn shown_to(task: &Task, caller: &Caller) -> String {
    let (gateway, _) = fake_calls::gateway(Arc::new(FakeCalls::default()));
    let mut opened = OpenedCase::of(task, 0, caller).unwrap();
    opened.read_result(&gateway, task).await.unwrap();
    let contents = opened.read_contents(&gateway).await.unwrap();
    opened.show(&contents).into_string()
}

#[tokio::test]
async fn a_wrong_answer_shows_what_differs() {
    let task = task(&result(Verdict::WrongAnswer, "4\n"), None);
    let shown = shown_to(&task, &Caller::User(user("bob"))).await;
    for expected in [
        "<strong>Wrong answer</strong>",
        "1 2\n",
        "expected: </span><code><bdi>3</bdi>",
        "got: </span><code><bdi>4</bdi>",
        "look at line 1",
        "expected secret",
        "a warning",
        "<b>0</b> of <b>1</b> points",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[tokio::test]
async fn an_accepted_case_has_no_difference() {
    let task = task(&result(Verdict::Accepted, "3\n"), None);
    let shown = shown_to(&task, &Caller::Anyone).await;
    assert!(
        !shown.contains("Difference") && shown.contains("Expected output"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_limit_is_explained() {
    let mut result = result(Verdict::TimeLimit, "");
    result.check = None;
    result.execute.as_mut().unwrap().reason = OutcomeReason::TimeLimit;
    let mut task = task(&result, None);
    task.spec.judging.as_mut().unwrap().cases[0].limits.cpu = Some(Duration::from_secs(2));
    let shown = shown_to(&task, &Caller::Anyone).await;
    assert!(
        shown.contains("Out of time</strong>: Ran out of time: 10.0 ms of CPU, limit 2 s"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_secret_case_shows_the_submitter_the_message_alone() {
    let task = task(&result(Verdict::WrongAnswer, "4\n"), Some("sums"));
    let hidden = [
        "1 2\n",
        ">\n4",
        "<bdi>3</bdi>",
        "expected secret",
        "a warning",
        "Difference",
        "2 bytes",
    ];
    let shown = shown_to(&task, &Caller::User(user("bob"))).await;
    for secret in hidden {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    for expected in [
        "known only to <bdi>ada</bdi>",
        "look at line 1",
        "Wrong answer",
        "10.0 ms",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    for caller in [
        Caller::Anyone,
        Caller::Operator(user("root")),
        Caller::User(user("ada")),
    ] {
        let shown = shown_to(&task, &caller).await;
        assert!(
            shown.contains("expected secret") && shown.contains("a warning"),
            "{caller:?}: {shown}"
        );
    }
}

#[tokio::test]
async fn a_sample_shows_everything_but_the_message_to_the_judges() {
    let mut task = task(&result(Verdict::WrongAnswer, "4\n"), Some("sums"));
    task.spec.judging.as_mut().unwrap().cases[0].is_sample = true;
    let shown = shown_to(&task, &Caller::User(user("bob"))).await;
    assert!(
        shown.contains("Difference") && shown.contains("look at line 1"),
        "{shown}"
    );
    assert!(!shown.contains("expected secret"), "{shown}");
}

#[tokio::test]
async fn what_a_case_contains_is_text() {
    let hostile = "</pre><script>alert(1)</script>\u{202e}\u{1b}[31m";
    let mut result = result(Verdict::WrongAnswer, hostile);
    let check = result.check.as_mut().unwrap();
    (check.message, check.judge_message) = (hostile.into(), hostile.into());
    let mut task = task(&result, None);
    let case = &mut task.spec.judging.as_mut().unwrap().cases[0];
    case.name = CaseName::new("\"><script>\u{202e}").unwrap();
    case.group = CaseName::new("<script>").ok();
    case.args = vec![hostile.into()];
    case.input = model::Content::Inline(hostile.as_bytes().to_vec().into());
    case.answer = Some(case.input.clone());
    let shown = shown_to(&task, &Caller::Anyone).await;
    assert!(
        !shown.contains("<script") && shown.contains("&lt;script&gt;"),
        "{shown}"
    );
    assert!(
        !shown.contains('\u{202e}') && !shown.contains('\u{1b}'),
        "{shown}"
    );
}

#[tokio::test]
async fn results_in_a_blob_are_read() {
    let calls = Arc::new(FakeCalls::default());
    let encoded = rpc::encode_case_results(&[result(Verdict::Accepted, "3\n")]);
    let blob = model::Content::Blob(calls.put(&encoded));
    let (gateway, _) = fake_calls::gateway(calls);
    let mut task = task(&result(Verdict::Accepted, "3\n"), None);
    task.result.as_mut().unwrap().judgement.as_mut().unwrap().cases = blob;
    let mut opened = OpenedCase::of(&task, 0, &Caller::Anyone).unwrap();
    opened.read_result(&gateway, &task).await.unwrap();
    assert_eq!(opened.result, Some(result(Verdict::Accepted, "3\n")));
}

#[test]
fn a_case_that_does_not_exist_is_not_found() {
    let mut task = judged_task(&[Verdict::Accepted]);
    assert!(OpenedCase::of(&task, 1, &Caller::Anyone).is_none());
    task.spec.judging = Some(judging(&["a", "b"]));
    task.status = TaskStatus::Running;
    task.result = None;
    assert!(OpenedCase::of(&task, 1, &Caller::Anyone).is_some());
    task.spec.judging = None;
    assert!(OpenedCase::of(&task, 0, &Caller::Anyone).is_none());
}
