//! Judged tasks and problems for tests.

use std::collections::BTreeMap;

use model::{
    CapturedOutput, Case, CaseName, CaseResult, Check, CheckResult, Content, JudgeProblem, JudgeProgram,
    JudgeProtocol, Judging, Limits, Outcome, OutcomeReason, Points, ProblemName, StopRule, Task, TaskFile,
    TaskFiles, TaskResult, UnixTime, UserName, Verdict, WorkspacePath,
};

use crate::fake_calls::task;

pub(crate) fn user(name: &str) -> UserName {
    UserName::new(name).unwrap()
}

/// Each content of a case names its place, so that a test finds it where it must not be.
fn case(name: &str, is_sample: bool) -> Case {
    let content = |part: &str| Content::Inline(format!("{part} of {name}").into());
    let file = TaskFile {
        content: content("file"),
        executable: false,
    };
    Case {
        name: CaseName::new(name).unwrap(),
        input: content("input"),
        answer: Some(content("answer")),
        args: vec![format!("argument of {name}")],
        files: TaskFiles::from([(WorkspacePath::new("extra").unwrap(), file)]),
        points: Points::ONE,
        group: None,
        limits: Limits::default(),
        is_sample,
    }
}

/// A sample and a secret case, checked by a program.
pub(crate) fn judging() -> Judging {
    let source = TaskFile {
        content: Content::Inline("source of the checker".into()),
        executable: false,
    };
    let program = JudgeProgram {
        protocol: JudgeProtocol::Icpc,
        language: None,
        root: None,
        source: TaskFiles::from([(WorkspacePath::new("check.py").unwrap(), source)]),
        compile: None,
        execute: model::ExecuteStep {
            args: vec!["argument of the checker".into()],
            ..api::ExecuteStep::of_language().into()
        },
    };
    Judging {
        cases: vec![case("sample", true), case("secret", false)],
        check: Check::Program(program),
        stop: StopRule::FirstFailure,
        groups: BTreeMap::new(),
        problem: None,
    }
}

/// A problem of bob.
pub(crate) fn problem() -> JudgeProblem {
    JudgeProblem {
        name: ProblemName::new("hello").unwrap(),
        owner: user("bob"),
        title: "Hello".into(),
        limits: Limits::default(),
        judging: judging(),
        update_time: UnixTime(1),
    }
}

fn result(case: &Case, verdict: Verdict) -> CaseResult {
    let name = &case.name;
    let ran = verdict != Verdict::Skipped;
    let output = |stream: &str| CapturedOutput::small(format!("{stream} of {name}"));
    let execute = Outcome {
        reason: OutcomeReason::Exited,
        exit_code: Some(0),
        signal: None,
        wall: std::time::Duration::ZERO,
        cpu: std::time::Duration::ZERO,
        memory: 0,
        stdout: output("stdout"),
        stderr: output("stderr"),
    };
    let check = CheckResult {
        exit_code: Some(42),
        message: format!("message of {name}"),
        judge_message: format!("judge message of {name}"),
    };
    CaseResult {
        name: name.clone(),
        verdict,
        points: match verdict {
            Verdict::Accepted => case.points,
            _ => Points::ZERO,
        },
        execute: ran.then_some(execute),
        check: ran.then_some(check),
    }
}

/// The results of the cases with these verdicts.
pub(crate) fn results(judging: &Judging, verdicts: &[Verdict]) -> Vec<CaseResult> {
    let cases = judging.cases.iter().zip(verdicts);
    cases.map(|(case, verdict)| result(case, *verdict)).collect()
}

/// A task that is done, with this judging and these verdicts.
pub(crate) fn judged_task(judging: Judging, verdicts: &[Verdict]) -> Task {
    let results = results(&judging, verdicts);
    let encoded = Content::Inline(rpc::encode_case_results(&results));
    let judgement = judging.judgement(&results, encoded);
    let mut task = task();
    task.status = judgement.status();
    task.attempt = model::AttemptNumber(1);
    task.result = Some(TaskResult {
        judgement: Some(judgement),
        ..TaskResult::default()
    });
    task.spec.judging = Some(judging);
    task
}
