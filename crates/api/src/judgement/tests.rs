use std::time::Duration;

use bytes::Bytes;
use model::{
    AttemptNumber, CapturedOutput, CaseName, Content, GroupScoring, OutcomeReason, Points, StepCommand,
    TaskId, TaskSpec, TaskStatus, UnixTime, UserName,
};

use super::*;
use crate::{Task, parse_json};

/// A task whose second case was not accepted, so that the third was skipped.
fn judged_task() -> (model::Task, Vec<model::CaseResult>) {
    let name = |name: &str| CaseName::new(name).unwrap();
    let content = |text: &str| Content::Inline(text.to_string().into());
    let case = |number: &str, points: f64| model::Case {
        name: name(number),
        input: content("1 2\n"),
        answer: Some(content("3\n")),
        args: Vec::new(),
        files: model::TaskFiles::new(),
        points: Points::from_f64(points).unwrap(),
        group: Some(name("small")),
        limits: model::Limits::default(),
        is_sample: number == "1",
    };
    let judging = model::Judging {
        cases: vec![case("1", 10.0), case("2", 7.5), case("3", 2.5)],
        check: model::Check::Tokens(model::TokenCheck::default()),
        stop: model::StopRule::FirstFailure,
        groups: [(name("small"), GroupScoring::Sum)].into(),
        problem: None,
    };
    let outcome = model::Outcome {
        reason: OutcomeReason::Exited,
        exit_code: Some(0),
        signal: None,
        wall: Duration::from_millis(3),
        cpu: Duration::from_millis(1),
        memory: 1_234_567,
        stdout: CapturedOutput::small(Bytes::from_static(b"3\n")),
        stderr: CapturedOutput::default(),
    };
    let result = |number: &str, verdict: Verdict, points: f64, exit_code: i32| {
        let ran = verdict != Verdict::Skipped;
        let check = model::CheckResult {
            exit_code: Some(exit_code),
            message: "for the user".into(),
            judge_message: "for the owner".into(),
        };
        model::CaseResult {
            name: name(number),
            verdict,
            points: Points::from_f64(points).unwrap(),
            execute: ran.then(|| outcome.clone()),
            check: ran.then_some(check),
        }
    };
    let results = vec![
        result("1", Verdict::Accepted, 10.0, 42),
        result("2", Verdict::WrongAnswer, 0.0, 43),
        result("3", Verdict::Skipped, 0.0, 0),
    ];
    let judgement = judging.judgement(&results, Content::empty());
    let user = UserName::new("ada").unwrap();
    let mut spec = TaskSpec::new(user, StepCommand::Shell("./main".into()));
    spec.judging = Some(judging);
    let task = model::Task {
        id: TaskId("00000000-0000-7000-8000-000000000007".parse().unwrap()),
        spec,
        status: TaskStatus::RunFailed,
        executor: None,
        session: None,
        attempt: AttemptNumber(1),
        add_time: UnixTime(1_767_225_600_000_001),
        start_time: None,
        report_time: None,
        finish_time: None,
        ran_on: Vec::new(),
        result: Some(model::TaskResult {
            judgement: Some(judgement),
            ..model::TaskResult::default()
        }),
        trouble: None,
    };
    (task, results)
}

#[test]
fn a_judged_task_in_a_response() {
    let (task, results) = judged_task();
    let mut task = Task::from(task);
    task.set_case_results(results);
    insta::assert_json_snapshot!(task);
    let written = serde_json::to_string(&task).unwrap();
    assert_eq!(parse_json::<Task>(written.as_bytes()).unwrap(), task);
}

#[test]
fn without_results_only_the_verdicts_are_shown() {
    let (task, _) = judged_task();
    let result = Task::from(task).result.unwrap();
    let shown: Vec<_> = result
        .cases
        .unwrap()
        .into_iter()
        .map(|case| (case.name.to_string(), case.verdict, case.execute))
        .collect();
    let expected = [
        ("1", Verdict::Accepted),
        ("2", Verdict::WrongAnswer),
        ("3", Verdict::Skipped),
    ];
    assert_eq!(
        shown,
        expected.map(|(name, verdict)| (name.to_string(), verdict, None))
    );
}

#[test]
fn secrets_are_left_out() {
    let (task, results) = judged_task();
    let mut task = Task::from(task);
    task.set_case_results(results);
    task.hide_secrets();
    let (cases, result) = (task.cases.unwrap(), task.result.unwrap());
    let results = result.cases.unwrap();
    // The sample keeps everything but the message for the owner.
    assert!(cases[0].input.is_some() && cases[0].answer.is_some());
    assert_eq!(results[0].execute.as_ref().unwrap().stdout, "3\n");
    assert_eq!(results[0].check.as_ref().unwrap().judge_message, None);
    assert_eq!((&cases[1].input, &cases[1].answer), (&None, &None));
    let (execute, check) = (
        results[1].execute.as_ref().unwrap(),
        results[1].check.as_ref().unwrap(),
    );
    assert_eq!((execute.stdout.as_str(), execute.stdout_bytes), ("", 0));
    assert_eq!(
        (check.message.as_str(), &check.judge_message),
        ("for the user", &None)
    );
    // What it costs and what it was judged is no secret.
    assert_eq!(execute.memory_bytes, 1_234_567);
    assert_eq!(results[1].verdict, Verdict::WrongAnswer);
    assert_eq!((result.score, result.max_score), (Some(10.0), Some(20.0)));
}
