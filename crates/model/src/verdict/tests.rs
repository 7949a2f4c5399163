use std::time::Duration;

use super::*;
use crate::{CapturedOutput, Case, Check, Limits, StopRule, TaskFiles};

fn outcome(reason: OutcomeReason, exit_code: Option<i32>) -> Outcome {
    Outcome {
        reason,
        exit_code,
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: CapturedOutput::default(),
        stderr: CapturedOutput::default(),
    }
}

fn exited(code: i32) -> Outcome {
    outcome(OutcomeReason::Exited, Some(code))
}

fn name(name: &str) -> CaseName {
    CaseName::new(name).unwrap()
}

fn points(points: f64) -> Points {
    Points::from_f64(points).unwrap()
}

#[test]
fn a_failed_run_needs_no_check() {
    use OutcomeReason::*;
    for (outcome, expected) in [
        (exited(0), None),
        (exited(1), Some(Verdict::RuntimeError)),
        (outcome(Signalled, None), Some(Verdict::RuntimeError)),
        (outcome(TimeLimit, None), Some(Verdict::TimeLimit)),
        (outcome(WallLimit, None), Some(Verdict::TimeLimit)),
        (outcome(MemoryLimit, None), Some(Verdict::MemoryLimit)),
        (outcome(OutputLimit, None), Some(Verdict::OutputLimit)),
        (outcome(ProcessLimit, Some(0)), Some(Verdict::RuntimeError)),
        (outcome(DiskLimit, Some(0)), Some(Verdict::RuntimeError)),
    ] {
        assert_eq!(Verdict::of_outcome(&outcome), expected, "{outcome:?}");
    }
}

#[test]
fn the_exit_code_of_a_checker_decides() {
    use JudgeProtocol::*;
    use Verdict::*;
    let five = Some(points(5.0));
    let check = |protocol: JudgeProtocol, outcome: &Outcome, score, expected: Option<(Verdict, f64)>| {
        let decided = protocol.decide(outcome, score, points(10.0));
        let expected = expected.map(|(verdict, given)| CaseDecision {
            verdict,
            points: points(given),
        });
        assert_eq!(decided, expected, "{protocol:?} {outcome:?}");
    };
    check(Icpc, &exited(42), None, Some((Accepted, 10.0)));
    check(Icpc, &exited(42), five, Some((Accepted, 5.0)));
    check(Icpc, &exited(42), Some(points(50.0)), Some((Accepted, 10.0)));
    check(Icpc, &exited(43), five, Some((WrongAnswer, 0.0)));
    for wrong in [0, 1, 2, 41, 44, 255] {
        check(Icpc, &exited(wrong), None, None);
    }
    check(Testlib, &exited(0), None, Some((Accepted, 10.0)));
    check(Testlib, &exited(1), None, Some((WrongAnswer, 0.0)));
    check(Testlib, &exited(2), None, Some((WrongAnswer, 0.0)));
    check(Testlib, &exited(7), five, Some((Accepted, 5.0)));
    check(Testlib, &exited(7), Some(Points::ZERO), Some((WrongAnswer, 0.0)));
    for wrong in [3, 42, 43] {
        check(Testlib, &exited(wrong), None, None);
    }
    check(Testlib, &exited(7), None, None);
    let killed = outcome(OutcomeReason::TimeLimit, Some(42));
    check(Icpc, &killed, None, None);
}

#[test]
fn interactive_verdicts_have_the_precedence_that_icpc_judges_expect() {
    use FirstToEnd::*;
    use OutcomeReason::{Signalled, TimeLimit, WallLimit};
    use Verdict::{Accepted, JudgeError, RuntimeError, WrongAnswer};
    let broken_pipe = outcome(Signalled, None);
    let out_of_time = outcome(TimeLimit, None);
    let stuck = outcome(WallLimit, None);
    for (submission, interactor, first, expected) in [
        (&exited(0), Some(Accepted), Submission, Accepted),
        (&exited(0), Some(Accepted), Interactor, Accepted),
        (&exited(0), Some(WrongAnswer), Submission, WrongAnswer),
        (&broken_pipe, Some(WrongAnswer), Interactor, WrongAnswer),
        (&exited(1), Some(WrongAnswer), Interactor, WrongAnswer),
        (&broken_pipe, Some(WrongAnswer), Submission, RuntimeError),
        (&out_of_time, Some(WrongAnswer), Submission, Verdict::TimeLimit),
        (&out_of_time, Some(Accepted), Submission, Verdict::TimeLimit),
        (&out_of_time, None, Submission, Verdict::TimeLimit),
        (&out_of_time, Some(WrongAnswer), Interactor, WrongAnswer),
        (&stuck, Some(WrongAnswer), Submission, Verdict::TimeLimit),
        (&broken_pipe, None, Interactor, JudgeError),
        (&exited(0), None, Submission, JudgeError),
        (&exited(1), None, Submission, RuntimeError),
        (&exited(1), Some(Accepted), Interactor, RuntimeError),
    ] {
        let found = Verdict::of_interaction(submission, interactor, first);
        assert_eq!(found, expected, "{submission:?} {interactor:?} {first:?}");
    }
}

fn judging(groups: &[(&str, GroupScoring)], cases: &[(Option<&str>, f64)]) -> Judging {
    let case = |(index, (group, worth)): (usize, &(Option<&str>, f64))| Case {
        name: name(&index.to_string()),
        input: Content::empty(),
        answer: None,
        args: vec![],
        files: TaskFiles::new(),
        points: points(*worth),
        group: group.map(name),
        limits: Limits::default(),
        is_sample: false,
    };
    Judging {
        cases: cases.iter().enumerate().map(case).collect(),
        check: Check::None,
        stop: StopRule::Never,
        groups: groups
            .iter()
            .map(|(group, scoring)| (name(group), *scoring))
            .collect(),
        problem: None,
    }
}

#[test]
fn groups_add_up_in_their_way() {
    use Verdict::{Accepted, Skipped, WrongAnswer};
    let judging = judging(
        &[("least", GroupScoring::Min), ("all", GroupScoring::PassAll)],
        &[
            (None, 1.0),
            (Some("least"), 10.0),
            (Some("least"), 20.0),
            (Some("all"), 3.0),
            (Some("all"), 4.0),
            (Some("unlisted"), 0.5),
        ],
    );
    assert_eq!(judging.max_score(), points(1.0 + 10.0 + 7.0 + 0.5));
    let score = |given: &[(Verdict, f64)]| {
        let results: Vec<_> = given
            .iter()
            .map(|(verdict, given)| CaseResult {
                name: name("x"),
                verdict: *verdict,
                points: points(*given),
                execute: None,
                check: None,
            })
            .collect();
        (judging.verdict(&results), judging.score(&results).as_f64())
    };
    let full = [
        (Accepted, 1.0),
        (Accepted, 10.0),
        (Accepted, 20.0),
        (Accepted, 3.0),
        (Accepted, 4.0),
        (Accepted, 0.5),
    ];
    assert_eq!(score(&full), (Accepted, 18.5));
    let mut one_wrong = full;
    one_wrong[3] = (WrongAnswer, 0.0);
    assert_eq!(score(&one_wrong), (WrongAnswer, 11.5));
    let mut partial = full;
    partial[2] = (Accepted, 4.0);
    assert_eq!(score(&partial), (Accepted, 12.5));
    let mut stopped = full;
    stopped[1] = (WrongAnswer, 0.0);
    stopped[2..].fill((Skipped, 0.0));
    assert_eq!(score(&stopped), (WrongAnswer, 1.0));
    assert_eq!(score(&full[..1]), (Accepted, 1.0));
}

#[test]
fn the_verdict_decides_the_status() {
    use TaskStatus::{CompileFailed, RunFailed, Success, SystemError};
    for (verdict, score, expected) in [
        (Verdict::Accepted, 3.0, Success),
        (Verdict::Accepted, 0.0, Success),
        (Verdict::WrongAnswer, 3.0, RunFailed),
        (Verdict::WrongAnswer, 10.0, Success),
        (Verdict::TimeLimit, 0.0, RunFailed),
        (Verdict::CompileError, 0.0, CompileFailed),
        (Verdict::JudgeError, 0.0, SystemError),
    ] {
        let judgement = Judgement {
            verdict,
            score: points(score),
            max_score: points(10.0),
            marks: vec![],
            max_cpu: Duration::ZERO,
            max_memory: 0,
            cases: Content::empty(),
        };
        assert_eq!(judgement.status(), expected, "{verdict} {score}");
    }
}
