//! Judged tasks with built-in checks: a cell for each case, verdicts, limits, and what can be seen of other cases.

use std::time::Duration;

use model::{
    Check, Content, GroupScoring, JudgeProtocol, Limits, OutcomeReason, OutputSource, Points, StepName,
    StopRule, StreamName, TaskForm, TokenCheck, Verdict,
};

use crate::judged_tasks::{JudgingHarness, case, compile_step, files, judge_program, judged_task};

const TOKENS: Check = Check::Tokens(TokenCheck {
    case_sensitive: false,
    space_sensitive: false,
    absolute_tolerance: None,
    relative_tolerance: None,
});

#[tokio::test]
async fn a_task_is_compiled_once_and_judged_case_by_case() {
    let mut harness = JudgingHarness::start().await;
    let cases = vec![
        case("1", "1 2\n", "3\n"),
        case("2", "10 20\n", "31\n"),
        case("3", "5 5\n", "10"),
    ];
    let mut spec = judged_task("./add", cases, TOKENS);
    let script = "read a b; echo \"$((a + b))\"";
    spec.compile = Some(compile_step("cp program add; chmod 700 add; echo compiled"));
    spec.source = files(&[("program", &format!("#!/bin/sh\n{script}\n"))]);
    let judging = spec.judging.as_mut().unwrap();
    judging.cases[0].points = Points::from_f64(10.0).unwrap();
    let judged = harness.judge(spec).await;
    let compile = judged.compile.as_ref().unwrap();
    assert_eq!(compile.stdout.head, "compiled\n");
    assert_eq!(
        judged.marks(),
        [Verdict::Accepted, Verdict::WrongAnswer, Verdict::Accepted]
    );
    assert_eq!(judged.judgement.verdict, Verdict::WrongAnswer);
    assert_eq!(judged.judgement.score, Points::from_f64(11.0).unwrap());
    assert_eq!(judged.judgement.max_score, Points::from_f64(12.0).unwrap());
    assert_eq!(judged.stdout(1), "30\n");
    assert_eq!(
        judged.judge_message(1),
        "word 1 (line 1): expected '31', found '30'"
    );
    let codes: Vec<_> = judged
        .cases
        .iter()
        .map(|case| case.check.as_ref().unwrap().exit_code)
        .collect();
    assert_eq!(codes, [Some(42), Some(43), Some(42)]);
    harness.executor.stop().await;
}

#[tokio::test]
async fn every_way_to_fail_has_its_verdict() {
    let mut harness = JudgingHarness::start().await;
    let scripts = [
        ("echo 1", Verdict::Accepted),
        ("echo 2", Verdict::WrongAnswer),
        ("echo 1; exit 3", Verdict::RuntimeError),
        ("kill -SEGV $$", Verdict::RuntimeError),
        ("while :; do :; done", Verdict::TimeLimit),
        ("sleep 60", Verdict::TimeLimit),
        ("head -c 3000000 /dev/zero", Verdict::OutputLimit),
        ("head -c 400000000 /dev/zero | tail", Verdict::MemoryLimit),
        (
            "head -c 100000000 /dev/zero > full || exit 1",
            Verdict::RuntimeError,
        ),
    ];
    let mut cases: Vec<_> = (0..scripts.len())
        .map(|index| case(&index.to_string(), scripts[index].0, "1"))
        .collect();
    for (case, (script, _)) in cases.iter_mut().zip(&scripts) {
        let wall = if script.starts_with("sleep") { 1 } else { 30 };
        case.limits = Limits {
            wall: Some(Duration::from_secs(wall)),
            cpu: Some(Duration::from_secs(3)),
            memory: Some(200 << 20),
            ..Limits::default()
        };
    }
    let judged = harness.judge(judged_task("sh", cases, TOKENS)).await;
    let expected: Vec<_> = scripts.iter().map(|(_, verdict)| *verdict).collect();
    assert_eq!(judged.marks(), expected);
    let reason = |case: usize| judged.cases[case].execute.as_ref().unwrap().reason;
    assert_eq!(
        [reason(4), reason(5), reason(8)],
        [
            OutcomeReason::TimeLimit,
            OutcomeReason::WallLimit,
            OutcomeReason::DiskLimit
        ]
    );
    harness.executor.stop().await;
}

#[tokio::test]
async fn a_case_sees_what_the_compile_step_left_and_nothing_of_other_cases() {
    let mut harness = JudgingHarness::start().await;
    let look = "find . | sort; stat -c %a private; readlink link; cat deep/er/file own 2>/dev/null; \
                cat /tmp/left 2>/dev/null; touch left /tmp/left; echo changed > deep/er/file; sleep 60 & :";
    let mut cases = vec![case("1", "", ""), case("2", "", "")];
    cases[0].files = files(&[("deep/own", "1"), ("own", "own")]);
    cases[1].args = vec!["ignored".into()];
    let mut spec = judged_task(look, cases, Check::None);
    spec.compile = Some(compile_step(
        "mkdir -p deep/er empty; echo deep > deep/er/file; ln -s /etc/passwd link; ln -s ../outside deep/own; \
         mkfifo pipe; touch /tmp/left; echo x > private; chmod 700 private; chmod 555 empty",
    ));
    spec.source = files(&[("source", "x")]);
    let judged = harness.judge(spec).await;
    assert_eq!(judged.marks(), [Verdict::Accepted; 2]);
    let listed = "./deep/er\n./deep/er/file\n./deep/own\n./empty\n./link\n";
    let rest = "./private\n./source\n700\n/etc/passwd\ndeep\n";
    assert_eq!(judged.stdout(0), format!(".\n./deep\n{listed}./own\n{rest}own"));
    assert_eq!(judged.stdout(1), format!(".\n./deep\n{listed}{rest}"));
    harness.executor.stop().await;
}

#[tokio::test]
async fn answers_are_nowhere_in_the_cell_of_the_program() {
    let mut harness = JudgingHarness::start().await;
    let secret = "SECRET-ANSWER-OF-THE-CASE";
    let search = "grep -rls SECRET-[A]NSWER-OF /box /tmp /dev/shm /run /home /root /etc 2>/dev/null; \
                  cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep SECRET-[A]NSWER-OF; \
                  ls -l /proc/self/fd | grep -c -e '-> /[^dp]'; true";
    let spec = judged_task(
        search,
        vec![case("1", "", secret), case("2", "", secret)],
        Check::Exact,
    );
    let judged = harness.judge(spec).await;
    assert_eq!(judged.marks(), [Verdict::WrongAnswer; 2]);
    for case in 0..2 {
        assert_eq!(judged.stdout(case), "0\n");
    }
    harness.executor.stop().await;
}

#[tokio::test]
async fn cases_after_the_first_failure_are_skipped_if_the_task_wants_that() {
    let mut harness = JudgingHarness::start().await;
    let cases = || vec![case("1", "a", "a"), case("2", "b", "x"), case("3", "c", "c")];
    let mut spec = judged_task("cat", cases(), Check::Lines);
    let group = model::CaseName::new("all").unwrap();
    let judging = spec.judging.as_mut().unwrap();
    judging.stop = StopRule::FirstFailure;
    judging.groups.insert(group.clone(), GroupScoring::PassAll);
    for case in &mut judging.cases {
        case.group = Some(group.clone());
    }
    let judged = harness.judge(spec).await;
    assert_eq!(
        judged.marks(),
        [Verdict::Accepted, Verdict::WrongAnswer, Verdict::Skipped]
    );
    assert_eq!((&judged.cases[2].execute, &judged.cases[2].check), (&None, &None));
    assert_eq!(judged.judgement.score, Points::ZERO);
    let all = harness.judge(judged_task("cat", cases(), Check::Lines)).await;
    assert_eq!(all.marks()[2], Verdict::Accepted);
    harness.executor.stop().await;
}

#[tokio::test]
async fn a_task_that_does_not_compile_runs_no_case() {
    let mut harness = JudgingHarness::start().await;
    for (script, reason) in [
        ("echo wrong >&2; exit 1", OutcomeReason::Exited),
        ("truncate -s 1T huge", OutcomeReason::DiskLimit),
        (
            "for i in 1 2 3; do head -c 30000000 /dev/zero > $i; done",
            OutcomeReason::DiskLimit,
        ),
    ] {
        let mut spec = judged_task("true", vec![case("1", "", ""), case("2", "", "")], TOKENS);
        spec.compile = Some(compile_step(script));
        let judged = harness.judge(spec).await;
        let compile = judged.compile.as_ref().unwrap();
        assert_eq!(compile.reason, reason, "{script}: {judged:?}");
        assert_eq!(judged.judgement.verdict, Verdict::CompileError);
        assert_eq!(judged.marks(), [Verdict::Skipped; 2]);
    }
    harness.executor.stop().await;
}

#[tokio::test]
async fn marks_can_be_followed_and_the_output_of_cases_cannot() {
    let mut harness = JudgingHarness::start_with(|options| options.cells = None).await;
    let gate = harness.executor.gate("gate");
    let mut spec = judged_task("sh", vec![case("a b", "echo 1", "1")], TOKENS);
    let wait = format!("echo 1; {}", gate.wait());
    spec.judging.as_mut().unwrap().cases.push(case("2", &wait, "2"));
    let attempt_id = harness.executor.assign(harness.client.session, spec).await;
    let source = OutputSource::new(StepName::Execute, StreamName::Stdout);
    let first = "0 accepted a b\n";
    let marks = harness.client.read_bytes(attempt_id, source, first.len()).await;
    assert_eq!(String::from_utf8(marks).unwrap(), first);
    gate.open().await;
    harness.executor.completed(attempt_id).await;
    harness.executor.stop().await;
}

#[tokio::test]
async fn many_cases_have_their_results_in_a_blob_with_the_beginning_of_their_output() {
    let mut harness = JudgingHarness::start().await;
    let cases = (0..100).map(|index| case(&index.to_string(), &index.to_string(), ""));
    let script = "cat; head -c 200000 /dev/zero | tr '\\0' x";
    let mut spec = judged_task(script, cases.collect(), Check::None);
    spec.execute.limits.output = Some(1 << 20);
    let judged = harness.judge(spec).await;
    assert!(matches!(judged.judgement.cases, Content::Blob(_)));
    assert_eq!(judged.marks(), [Verdict::Accepted; 100]);
    for index in 0..100 {
        let stdout = judged.stdout(index);
        assert!(stdout.starts_with(&format!("{index}x")));
        let output = &judged.cases[index].execute.as_ref().unwrap().stdout;
        assert!(output.truncated && output.size == stdout.len() as u64 && stdout.len() >= 10_000);
    }
    harness.executor.stop().await;
}

#[tokio::test]
async fn long_outputs_are_compared_as_a_whole() {
    let mut harness = JudgingHarness::start().await;
    let count = "seq 1 40000";
    let answer: String = (1..=40_000).map(|number| format!("{number}\n")).collect();
    let wrong = answer.replace("39999", "39998");
    let cases = vec![case("1", "", &answer), case("2", "", &wrong)];
    for check in [Check::Exact, Check::Lines, TOKENS] {
        let judged = harness.judge(judged_task(count, cases.clone(), check)).await;
        assert_eq!(judged.marks(), [Verdict::Accepted, Verdict::WrongAnswer]);
    }
    harness.executor.stop().await;
}

/// Without cells, tasks with cases are left to executors that have some.
#[tokio::test]
async fn an_executor_without_cells_judges_only_if_its_operator_wants_that() {
    for (judge_without_cells, form) in [(false, TaskForm::NEWEST_WITHOUT_CELLS), (true, TaskForm::NEWEST)] {
        let mut harness = JudgingHarness::start_with(|options| {
            options.cells = None;
            options.judge_without_cells = judge_without_cells;
        })
        .await;
        harness
            .executor
            .reported(|report| report.executor_info.newest_form == form)
            .await;
        if judge_without_cells {
            let program = judge_program(JudgeProtocol::Icpc, "read x; [ $x = 1 ] && exit 42; exit 43");
            let cases = || vec![case("1", "", ""), case("2", "", "")];
            for check in [Check::Program(program.clone()), Check::Interactive(program)] {
                let mut spec = judged_task("cat number", cases(), check);
                spec.compile = Some(compile_step("echo 1 > number"));
                let judged = harness.judge(spec).await;
                assert_eq!(judged.marks(), [Verdict::Accepted; 2], "{judged:?}");
            }
        }
        harness.executor.stop().await;
    }
}

#[tokio::test]
async fn pinned_slots_run_everything_on_one_processor() {
    let mut harness = JudgingHarness::start_with(|options| options.pin = true).await;
    let show = "grep Cpus_allowed_list /proc/self/status";
    let program = judge_program(
        JudgeProtocol::Icpc,
        &format!("[ \"$({show})\" = \"$(cat)\" ] && exit 42; exit 43"),
    );
    let cases = vec![case("1", "", ""), case("2", "", "")];
    let judged = harness
        .judge(judged_task(show, cases, Check::Program(program)))
        .await;
    assert_eq!(judged.marks(), [Verdict::Accepted; 2]);
    let first = sandbox::allowed_cpus().unwrap()[0];
    for case in 0..2 {
        let processors = judged.stdout(case);
        let processors = processors.split_whitespace().last().unwrap();
        assert_eq!(processors, first.to_string());
    }
    harness.executor.stop().await;
}
