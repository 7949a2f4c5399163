//! Interactive cases: who wins when either side exits early, closes a pipe, never writes, or writes for ever.

use std::time::{Duration, Instant};

use model::{Check, JudgeProtocol, Limits, OutcomeReason, Points, Verdict};

use crate::judged_tasks::{JudgedAttempt, JudgingHarness, case, judge_program, judged_task};

/// Runs a program with an interactor; both are shell scripts.
async fn interact(harness: &mut JudgingHarness, program: &str, interactor: &str) -> JudgedAttempt {
    interact_by(harness, JudgeProtocol::Icpc, program, interactor).await
}

async fn interact_by(
    harness: &mut JudgingHarness,
    protocol: JudgeProtocol,
    program: &str,
    interactor: &str,
) -> JudgedAttempt {
    let check = Check::Interactive(judge_program(protocol, interactor));
    let mut case = case("1", "12\n", "answer\n");
    case.points = Points::from_f64(10.0).unwrap();
    let mut spec = judged_task(program, vec![case], check);
    spec.execute.limits = Limits {
        wall: Some(Duration::from_secs(4)),
        cpu: Some(Duration::from_secs(1)),
        output: Some(1 << 20),
        ..Limits::default()
    };
    harness.judge(spec).await
}

#[tokio::test]
async fn both_programs_talk_and_the_interactor_decides() {
    let mut harness = JudgingHarness::start().await;
    let program = "read number; echo $((number * 2)); read verdict; [ \"$verdict\" = fine ]";
    let interactor = "read number < $1; [ \"$(cat $2)\" = answer ] || exit 1; echo $number; read double
        echo well done > $3/teammessage.txt; [ \"$double\" = 24 ] || exit 43; echo fine; exit 42";
    let judged = interact(&mut harness, program, interactor).await;
    assert_eq!(judged.marks(), [Verdict::Accepted], "{judged:?}");
    assert_eq!(judged.stdout(0), "24\n");
    let check = judged.cases[0].check.as_ref().unwrap();
    assert_eq!((check.exit_code, &*check.message), (Some(42), "well done\n"));
    harness.executor.stop().await;
}

#[tokio::test]
async fn nobody_hangs_and_the_right_side_is_blamed() {
    let mut harness = JudgingHarness::start().await;
    let loops = "while :; do :; done";
    let table = [
        // A normal end on both sides.
        ("echo 1", "read x; exit 42", Verdict::Accepted),
        ("echo 1", "read x; exit 43", Verdict::WrongAnswer),
        ("exit 0", "exit 42", Verdict::Accepted),
        // The program fails by itself.
        ("exit 1", "read x || exit 43; exit 42", Verdict::RuntimeError),
        (
            "kill -SEGV $$",
            "read x || exit 43; exit 42",
            Verdict::RuntimeError,
        ),
        ("echo 1; exit 1", "read x; cat; exit 42", Verdict::RuntimeError),
        (loops, "read x || exit 43; exit 42", Verdict::TimeLimit),
        ("sleep 60", "read x || exit 43; exit 42", Verdict::TimeLimit),
        // Both wait for each other.
        ("read x", "read x || exit 43", Verdict::TimeLimit),
        // The program does not say what the interactor needs.
        ("exit 0", "read x || exit 43; exit 42", Verdict::WrongAnswer),
        (
            "exec 1>&-; sleep 60",
            "read x || exit 43; exit 42",
            Verdict::WrongAnswer,
        ),
        // The interactor rejects first, whatever the program does then.
        (
            "while echo 1; do :; done; exit 1",
            "read x; exit 43",
            Verdict::WrongAnswer,
        ),
        ("sleep 60", "exit 43", Verdict::WrongAnswer),
        (loops, "exit 43", Verdict::WrongAnswer),
        ("read x || exit 1", "exit 43", Verdict::WrongAnswer),
        // The interactor accepts early: the program must end well.
        ("sleep 0.2; echo 1; echo 2", "read x; exit 42", Verdict::Accepted),
        ("read x; exit 0", "exit 42", Verdict::Accepted),
        ("read x; exit 1", "exit 42", Verdict::RuntimeError),
        (loops, "exit 42", Verdict::TimeLimit),
        ("yes", "exit 42", Verdict::OutputLimit),
        // Floods.
        ("yes; exit 0", "cat > /dev/null; exit 42", Verdict::OutputLimit),
        ("sleep 60", "yes; exit 42", Verdict::TimeLimit),
        // The interactor closes its input but goes on.
        (
            "echo 1; echo 2; read x",
            "exec 0<&-; echo 3; exit 42",
            Verdict::Accepted,
        ),
        // The program closes its input.
        (
            "exec 0<&-; sleep 0.2; echo 1",
            "echo 1; echo 2; read x; exit 42",
            Verdict::Accepted,
        ),
        // The interactor fails.
        ("read x", "exit 1", Verdict::JudgeError),
        ("sleep 60", "kill -SEGV $$", Verdict::JudgeError),
        ("echo 1", "read x; exit 0", Verdict::JudgeError),
    ];
    for (program, interactor, verdict) in table {
        let start = Instant::now();
        let judged = interact(&mut harness, program, interactor).await;
        let took = start.elapsed();
        assert_eq!(judged.marks(), [verdict], "{program} | {interactor}: {judged:?}");
        assert!(
            took < Duration::from_secs(15),
            "{program} | {interactor}: {took:?}"
        );
    }
    harness.executor.stop().await;
}

/// How the program ends counts, whichever of both ends first.
#[tokio::test]
async fn an_interactor_of_testlib_that_gives_points_does_not_reject() {
    let mut harness = JudgingHarness::start().await;
    let table = [
        (
            "read x; sleep 0.3",
            "echo 1; echo points 5 >&2; exit 7",
            Verdict::Accepted,
            5.0,
        ),
        (
            "read x; sleep 0.3; exit 3",
            "echo 1; echo points 5 >&2; exit 7",
            Verdict::RuntimeError,
            0.0,
        ),
        ("read x; sleep 0.3", "echo 1; exit 0", Verdict::Accepted, 10.0),
        ("sleep 60", "echo points 5 >&2; exit 7", Verdict::TimeLimit, 0.0),
        // What is known to be rejected does not wait for the program.
        ("sleep 60", "exit 1", Verdict::WrongAnswer, 0.0),
        // No points at all, or none that can be read.
        (
            "sleep 0.3",
            "echo points 0 >&2; exit 7",
            Verdict::WrongAnswer,
            0.0,
        ),
        ("sleep 0.3", "exit 7", Verdict::JudgeError, 0.0),
    ];
    for (program, interactor, verdict, points) in table {
        let judged = interact_by(&mut harness, JudgeProtocol::Testlib, program, interactor).await;
        assert_eq!(judged.marks(), [verdict], "{program} | {interactor}: {judged:?}");
        assert_eq!(
            judged.judgement.score,
            Points::from_f64(points).unwrap(),
            "{interactor}"
        );
    }
    harness.executor.stop().await;
}

/// Such an interactor never starts. No attempt on this executor could end otherwise.
#[tokio::test]
async fn an_interactor_whose_network_does_not_exist_is_a_judge_error() {
    let mut harness = JudgingHarness::start().await;
    let mut interactor = judge_program(JudgeProtocol::Icpc, "exit 42");
    interactor.execute.network = Some(model::NetworkName::new("nowhere").unwrap());
    let spec = judged_task("read x", vec![case("1", "", "")], Check::Interactive(interactor));
    let judged = harness.judge(spec).await;
    assert_eq!(judged.marks(), [Verdict::JudgeError], "{judged:?}");
    assert!(
        judged.judge_message(0).contains("no network \"nowhere\""),
        "{judged:?}"
    );
    harness.executor.stop().await;
}

#[tokio::test]
async fn an_interactor_that_hangs_is_a_judge_error() {
    let mut harness = JudgingHarness::start().await;
    let mut interactor = judge_program(JudgeProtocol::Icpc, "sleep 60");
    interactor.execute.limits.wall = Some(Duration::from_millis(100));
    let mut spec = judged_task("echo 1", vec![case("1", "", "")], Check::Interactive(interactor));
    spec.execute.limits.wall = Some(Duration::from_secs(1));
    let judged = harness.judge(spec).await;
    assert_eq!(judged.marks(), [Verdict::JudgeError]);
    assert!(judged.judge_message(0).contains("wall_limit"), "{judged:?}");
    harness.executor.stop().await;
}

/// The end of a program is seen at its pipe before it is known, and the interactor could be faster.
#[tokio::test]
async fn a_program_that_ends_first_is_judged_by_its_own_end_every_time() {
    let mut harness = JudgingHarness::start().await;
    for _ in 0..30 {
        let judged = interact(&mut harness, "exit 1", "read x || exit 43; exit 42").await;
        assert_eq!(judged.marks(), [Verdict::RuntimeError]);
        let judged = interact(&mut harness, "read x || exit 1", "exit 43").await;
        assert_eq!(judged.marks(), [Verdict::WrongAnswer]);
        let execute = judged.cases[0].execute.as_ref().unwrap();
        assert_ne!(execute.reason, OutcomeReason::TimeLimit);
    }
    harness.executor.stop().await;
}

/// Both programs wait for ever, and both must be gone at once.
#[tokio::test]
async fn a_revoked_attempt_ends_both_programs() {
    let mut harness = JudgingHarness::start().await;
    let check = Check::Interactive(judge_program(
        JudgeProtocol::Icpc,
        "echo ready; read x; sleep 600",
    ));
    let mut spec = judged_task("cat > /dev/null; sleep 600", vec![case("1", "", "")], check);
    spec.execute.limits.wall = Some(Duration::from_secs(600));
    let attempt_id = harness.executor.assign(harness.client.session, spec).await;
    harness
        .executor
        .reported(|report| report.executing.iter().any(|one| one.attempt_id == attempt_id))
        .await;
    let start = Instant::now();
    harness.executor.judicator.revoke(attempt_id);
    harness.executor.forgotten(attempt_id).await;
    // The slot takes the next task only when both have ended.
    let judged = interact(&mut harness, "read x; echo $x", "echo 1; read x; exit 42").await;
    assert_eq!(judged.marks(), [Verdict::Accepted]);
    assert!(start.elapsed() < Duration::from_secs(60));
    harness.executor.stop().await;
}
