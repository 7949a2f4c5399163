//! Programs that judge: both protocols, their messages and scores, what they may see, and how they fail.

use std::time::Duration;

use model::{Case, Check, JudgeProgram, JudgeProtocol, Points, ProblemName, ProblemRef, UserName, Verdict};

use crate::judged_tasks::{
    JudgedAttempt, JudgingHarness, case, compile_step, files, judge_program, judged_task,
};

const ICPC: JudgeProtocol = JudgeProtocol::Icpc;
const TESTLIB: JudgeProtocol = JudgeProtocol::Testlib;

fn ten_points(name: &str) -> Case {
    Case {
        points: Points::from_f64(10.0).unwrap(),
        ..case(name, "input\n", "answer\n")
    }
}

/// Judges a program that writes `output`.
async fn judge(harness: &mut JudgingHarness, program: JudgeProgram) -> JudgedAttempt {
    let spec = judged_task("echo output", vec![ten_points("1")], Check::Program(program));
    harness.judge(spec).await
}

#[tokio::test]
async fn a_program_decides_by_its_protocol() {
    let mut harness = JudgingHarness::start().await;
    let table = [
        (ICPC, "exit 42", Verdict::Accepted, 10.0),
        (ICPC, "exit 43", Verdict::WrongAnswer, 0.0),
        (ICPC, "echo 2.5 > $3/score.txt; exit 42", Verdict::Accepted, 2.5),
        (
            ICPC,
            "echo 0.5 > $3/score_multiplier.txt; exit 42",
            Verdict::Accepted,
            5.0,
        ),
        (ICPC, "echo 99 > $3/score.txt; exit 42", Verdict::Accepted, 10.0),
        (
            ICPC,
            "echo much > $3/score.txt; exit 42",
            Verdict::JudgeError,
            0.0,
        ),
        (
            ICPC,
            "echo much > $3/score.txt; exit 43",
            Verdict::WrongAnswer,
            0.0,
        ),
        (ICPC, "exit 0", Verdict::JudgeError, 0.0),
        (ICPC, "exit 1", Verdict::JudgeError, 0.0),
        (ICPC, "kill -SEGV $$", Verdict::JudgeError, 0.0),
        (TESTLIB, "exit 0", Verdict::Accepted, 10.0),
        (TESTLIB, "exit 1", Verdict::WrongAnswer, 0.0),
        (TESTLIB, "exit 2", Verdict::WrongAnswer, 0.0),
        (TESTLIB, "exit 3", Verdict::JudgeError, 0.0),
        (TESTLIB, "echo points 7 good >&2; exit 7", Verdict::Accepted, 7.0),
        (TESTLIB, "echo points 0 >&2; exit 7", Verdict::WrongAnswer, 0.0),
        (TESTLIB, "echo points many >&2; exit 7", Verdict::JudgeError, 0.0),
        (TESTLIB, "exit 42", Verdict::JudgeError, 0.0),
    ];
    for (protocol, script, verdict, points) in table {
        let judged = judge(&mut harness, judge_program(protocol, script)).await;
        assert_eq!(judged.marks(), [verdict], "{script}: {judged:?}");
        assert_eq!(
            judged.judgement.score,
            Points::from_f64(points).unwrap(),
            "{script}"
        );
    }
    harness.executor.stop().await;
}

#[tokio::test]
async fn a_program_gets_the_files_of_the_case_and_its_own() {
    let mut harness = JudgingHarness::start().await;
    let script =
        "[ \"$(cat $1) $(cat $2) $(cat) $4 $(cat own)\" = 'input answer output extra mine' ] || exit 1
        [ -d $3 ] && [ -z \"$(ls $3)\" ] || exit 2
        echo for the team > $3/teammessage.txt; echo for the judge > $3/judgemessage.txt; exit 42";
    let mut program = judge_program(ICPC, script);
    program.source.extend(files(&[("own", "mine")]));
    program.execute.args = vec!["extra".into()];
    let judged = judge(&mut harness, program).await;
    assert_eq!(judged.marks(), [Verdict::Accepted], "{}", judged.judge_message(0));
    let check = judged.cases[0].check.as_ref().unwrap();
    assert_eq!(
        (check.exit_code, &*check.message, &*check.judge_message),
        (Some(42), "for the team\n", "for the judge\n")
    );
    let script =
        "[ \"$(cat $1) $(cat $2) $(cat $3)\" = 'input output answer' ] || exit 3; echo fine >&2; exit 0";
    let judged = judge(&mut harness, judge_program(TESTLIB, script)).await;
    assert_eq!(judged.marks(), [Verdict::Accepted], "{}", judged.judge_message(0));
    assert_eq!(judged.judge_message(0), "fine\n");
    harness.executor.stop().await;
}

#[tokio::test]
async fn what_a_testlib_checker_quotes_is_not_for_the_users_of_a_problem() {
    let mut harness = JudgingHarness::start().await;
    let program = judge_program(TESTLIB, "echo expected 42 >&2; exit 1");
    for (owner, message) in [("ada", "expected 42\n"), ("eve", "")] {
        let check = Check::Program(program.clone());
        let mut spec = judged_task("echo 1", vec![ten_points("1")], check);
        spec.judging.as_mut().unwrap().problem = Some(ProblemRef {
            name: ProblemName::new("sum").unwrap(),
            owner: UserName::new(owner).unwrap(),
        });
        let judged = harness.judge(spec).await;
        let check = judged.cases[0].check.as_ref().unwrap();
        assert_eq!(
            (&*check.message, &*check.judge_message),
            (message, "expected 42\n")
        );
    }
    harness.executor.stop().await;
}

#[tokio::test]
async fn programs_that_hang_flood_or_play_with_their_messages_are_judge_errors_or_harmless() {
    let mut harness = JudgingHarness::start().await;
    let mut hanging = judge_program(ICPC, "sleep 60");
    hanging.execute.limits.wall = Some(Duration::from_millis(500));
    let judged = judge(&mut harness, hanging).await;
    assert_eq!(judged.marks(), [Verdict::JudgeError]);
    assert!(judged.judge_message(0).contains("wall_limit"), "{judged:?}");
    let judged = judge(&mut harness, judge_program(ICPC, "yes; exit 42")).await;
    assert_eq!(judged.marks(), [Verdict::JudgeError]);
    assert!(judged.judge_message(0).contains("output_limit"), "{judged:?}");
    for script in [
        "mkfifo $3/judgemessage.txt; exit 43",
        "ln -s /etc/passwd $3/judgemessage.txt; exit 43",
        "rm -r $3; ln -s /etc $3; exit 43",
        "rm -r $3; exit 43",
        "cd /; rm -rf /box/.case; exit 43",
    ] {
        let judged = judge(&mut harness, judge_program(ICPC, script)).await;
        assert_eq!(judged.marks(), [Verdict::WrongAnswer], "{script}");
        assert_eq!(judged.judge_message(0), "", "{script}");
    }
    let long = "head -c 1000000 /dev/zero | tr '\\0' '\\377' > $3/judgemessage.txt; exit 43";
    let judged = judge(&mut harness, judge_program(ICPC, long)).await;
    let message = judged.judge_message(0);
    assert!(message.starts_with('\u{fffd}') && message.ends_with("..."));
    assert!(message.len() < 20_000, "{}", message.len());
    harness.executor.stop().await;
}

#[tokio::test]
async fn a_program_is_compiled_once_for_many_tasks() {
    let mut harness = JudgingHarness::start().await;
    let mut messages = Vec::new();
    for marker in ["a", "a", "b", "a"] {
        let mut program = judge_program(ICPC, "cat made/at > $3/judgemessage.txt; exit 42");
        program.source.extend(files(&[("marker", marker)]));
        // The time of the compilation is the program's message.
        program.compile = Some(compile_step("mkdir made; date +%s%N > made/at; chmod 500 made"));
        let judged = judge(&mut harness, program).await;
        assert_eq!(judged.marks(), [Verdict::Accepted], "{judged:?}");
        messages.push(judged.judge_message(0).to_string());
    }
    assert!(!messages[0].is_empty());
    assert_eq!(messages[0], messages[1]);
    assert_ne!(messages[0], messages[2]);
    assert_eq!(messages[0], messages[3]);
    harness.executor.stop().await;
}

#[tokio::test]
async fn no_case_runs_if_the_program_that_judges_does_not_compile() {
    let mut harness = JudgingHarness::start().await;
    let mut program = judge_program(ICPC, "exit 42");
    program.compile = Some(compile_step("echo a syntax error >&2; exit 1"));
    let cases = vec![ten_points("1"), ten_points("2")];
    let judged = harness
        .judge(judged_task("true", cases, Check::Program(program)))
        .await;
    assert_eq!(judged.marks(), [Verdict::JudgeError, Verdict::Skipped]);
    assert!(judged.judge_message(0).contains("a syntax error"), "{judged:?}");
    assert_eq!(judged.cases[0].execute, None);
    harness.executor.stop().await;
}

#[tokio::test]
async fn long_outputs_reach_the_program_as_a_whole() {
    let mut harness = JudgingHarness::start().await;
    let count = "seq 1 100000";
    for (protocol, script) in [
        (ICPC, "[ $(wc -l) = 100000 ] && exit 42; exit 43"),
        (TESTLIB, "[ $(wc -l < $2) = 100000 ] && exit 0; exit 1"),
    ] {
        let check = Check::Program(judge_program(protocol, script));
        let judged = harness
            .judge(judged_task(count, vec![ten_points("1")], check))
            .await;
        assert_eq!(judged.marks(), [Verdict::Accepted], "{}", judged.judge_message(0));
    }
    harness.executor.stop().await;
}
