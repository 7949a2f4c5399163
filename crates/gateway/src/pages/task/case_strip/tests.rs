use std::time::Duration;

use model::{Case, Check, Content, Judging, Limits, StopRule, TaskResult};

use super::*;
use crate::pages::task::tests::task;

/// Judging with a case of each of these names.
pub(in crate::pages) fn judging(names: &[&str]) -> Judging {
    let case = |name: &&str| Case {
        name: CaseName::new(*name).unwrap(),
        input: Content::Inline("1 2\n".into()),
        answer: Some(Content::Inline("3\n".into())),
        args: vec![],
        files: BTreeMap::new(),
        points: Points::ONE,
        group: None,
        limits: Limits::default(),
        is_sample: false,
    };
    Judging {
        cases: names.iter().map(case).collect(),
        check: Check::Tokens(model::TokenCheck::default()),
        stop: StopRule::Never,
        groups: BTreeMap::new(),
        problem: None,
    }
}

/// A task that was judged with these marks.
pub(in crate::pages) fn judged_task(marks: &[Verdict]) -> Task {
    let names: Vec<String> = (1..=marks.len()).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let accepted = marks.iter().filter(|mark| **mark == Verdict::Accepted).count();
    let judgement = Judgement {
        verdict: marks
            .iter()
            .copied()
            .find(|mark| *mark != Verdict::Accepted)
            .unwrap_or(Verdict::Accepted),
        score: Points::from_f64(accepted as f64).unwrap(),
        max_score: Points::from_f64(marks.len() as f64).unwrap(),
        marks: marks.to_vec(),
        max_cpu: Duration::from_millis(20),
        max_memory: 1 << 20,
        cases: Content::empty(),
    };
    let mut task = task(judgement.status());
    task.spec.judging = Some(judging(&names));
    task.result = Some(TaskResult {
        judgement: Some(judgement),
        ..TaskResult::default()
    });
    task
}

fn shown(task: &Task) -> String {
    cases_section(task).into_string()
}

#[test]
fn a_judged_task_shows_its_verdict_its_score_and_each_case() {
    let task = judged_task(&[Verdict::Accepted, Verdict::WrongAnswer, Verdict::Skipped]);
    let shown = shown(&task);
    for expected in [
        "<strong>Wrong answer</strong> in case <a href=\"/tasks/00000000-0000-0000-0000-000000000007/cases/1\"",
        "<b>1</b> of <b>3</b> points",
        "<b>1</b> skipped",
        "aria-label=\"1: accepted\"",
        "data-case=\"1\" data-verdict=\"wrong_answer\"",
        "hx-boost=\"true\"",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn a_running_task_shows_the_cases_that_are_judged() {
    let mut task = judged_task(&[Verdict::Accepted; 3]);
    task.result = None;
    task.status = TaskStatus::Running;
    let strip = CaseStrip::of(&task).unwrap();
    let known = KnownVerdicts {
        marks: &[(1, Verdict::TimeLimit)].into(),
        judgement: None,
        status: task.status,
    };
    let running = strip.show(known).into_string();
    for expected in [
        "1 of 3 cases judged",
        "1: not judged yet",
        "2: time limit",
        "3: not judged yet",
    ] {
        assert!(running.contains(expected), "{expected}: {running}");
    }
    task.status = TaskStatus::Cancelled;
    assert!(shown(&task).contains("The cases were not judged."));
}

#[test]
fn a_judge_error_is_not_held_against_the_program() {
    let shown = shown(&judged_task(&[Verdict::JudgeError]));
    assert!(
        shown.contains("not held against the program that is judged"),
        "{shown}"
    );
    assert!(shown.contains("verdict busy"), "{shown}");
}

#[test]
fn names_of_cases_are_text() {
    let mut task = judged_task(&[Verdict::WrongAnswer]);
    task.spec.judging = Some(judging(&["\"><script>alert(1)</script>\u{202e}"]));
    let shown = shown(&task);
    assert!(
        !shown.contains("<script") && !shown.contains('\u{202e}'),
        "{shown}"
    );
    assert!(shown.contains("&lt;script&gt;"), "{shown}");
}

#[test]
fn the_number_of_marks_is_bounded() {
    let shown = shown(&judged_task(&[Verdict::Accepted; MAX_MARKS + 2]));
    assert_eq!(shown.matches("data-case=").count(), MAX_MARKS);
    assert!(shown.contains("2 more cases"), "{shown}");
}

#[test]
fn a_task_without_cases_shows_none() {
    assert_eq!(shown(&task(TaskStatus::Success)), "");
}
