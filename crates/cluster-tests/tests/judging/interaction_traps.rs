//! Traps of interactive judging: either side ends early, closes a pipe, never writes, loops, or leaves a child behind. The
//! verdict is always the one that ICPC judges expect, and neither side hangs.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::JudgingNode;
use crate::interaction::{interactive_task, interactor};

/// What an interactor does, what the program does, and the verdict.
type Trap = (&'static str, &'static str, &'static str, &'static str);

/// Long, because the machine may be busy; far below the limits of a program that is left to itself.
const AT_ONCE: Duration = Duration::from_secs(20);

async fn assert_verdicts(traps: &[Trap]) {
    let node = JudgingNode::start();
    let mut wrong = Vec::new();
    for (name, judge, program, expected) in traps {
        let mut interact = interactor(judge);
        interact["limits"] = json!({"cpu": "2s", "wall": "4s", "memory": "64MiB"});
        let task = node.judge(&interactive_task(program, &interact)).await;
        if task.verdict() != *expected {
            wrong.push(format!(
                "{name}: {} instead of {expected}: {:#}",
                task.verdict(),
                task.0["result"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    node.assert_healthy().await;
}

/// Asks for the double of 21.
const ASKS: &str = "say(21)\naccept() if hear() == '42' else reject()";

#[tokio::test]
async fn a_side_that_ends_early_gets_the_verdict_that_it_earns() {
    assert_verdicts(&[
        ("both are right", ASKS, "say(2 * int(hear()))", "accepted"),
        ("the program is wrong", ASKS, "hear()\nsay(41)", "wrong_answer"),
        ("the program ends without a word", ASKS, "pass", "wrong_answer"),
        ("the program ends after reading", ASKS, "hear()", "wrong_answer"),
        (
            "the program fails, then the interactor rejects",
            ASKS,
            "hear()\nsys.exit(3)",
            "runtime_error",
        ),
        (
            "the program fails after a right answer",
            ASKS,
            "say(2 * int(hear()))\nsys.exit(3)",
            "runtime_error",
        ),
        (
            "the program is terminated by itself",
            ASKS,
            "os.kill(os.getpid(), signal.SIGTERM)",
            "runtime_error",
        ),
        (
            "the interactor rejects, and the program breaks its pipe",
            "hear()\nreject()",
            "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwhile True: say(1)",
            "wrong_answer",
        ),
        (
            "the interactor rejects, and the program fails as it writes",
            "reject()",
            "time.sleep(0.3)\nsay(1)\nsay(2)",
            "wrong_answer",
        ),
        // Nobody reads what the program writes then. That is no fault of the program.
        (
            "the interactor accepts, and the program writes on",
            "accept()",
            "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\ntime.sleep(0.3)\nfor _ in range(1000): say('x' * 99)",
            "accepted",
        ),
        (
            "the interactor accepts, and the program writes for ever",
            "accept()",
            "while True: say('x' * 999)",
            "output_limit",
        ),
        (
            "the interactor accepts, and the program ends well later",
            "accept()",
            "time.sleep(0.3)",
            "accepted",
        ),
    ])
    .await;
}

#[tokio::test]
async fn closed_pipes_are_no_end_of_the_other_side() {
    assert_verdicts(&[
        (
            "the interactor closes its output",
            "say(1)\nsay(2)\nos.close(1)\naccept() if hear() == '3' else reject()",
            "say(sum(int(line) for line in sys.stdin))",
            "accepted",
        ),
        (
            "the program closes its input",
            "time.sleep(0.2)\nsay(1)\naccept() if hear() == '42' else reject()",
            "os.close(0)\nsay(42)\ntime.sleep(0.4)",
            "accepted",
        ),
        (
            "the program closes its output",
            ASKS,
            "hear()\nos.close(1)\ntime.sleep(0.2)\nos._exit(0)",
            "wrong_answer",
        ),
        (
            "the interactor closes its input",
            "os.close(0)\nsay(1)\ntime.sleep(0.2)\naccept()",
            "hear()\nos._exit(0)",
            "accepted",
        ),
    ])
    .await;
}

#[tokio::test]
async fn who_never_writes_runs_into_a_limit() {
    assert_verdicts(&[
        ("both wait", "hear()\nreject()", "hear()", "time_limit"),
        ("the program sleeps", ASKS, "time.sleep(100)", "time_limit"),
        (
            "the program computes",
            ASKS,
            "hear()\nwhile True: pass",
            "time_limit",
        ),
        (
            "the program fills the pipe and nobody reads",
            "time.sleep(100)",
            "while True: say('x' * 1000)",
            "time_limit",
        ),
        (
            "both write without end",
            "while True: say(hear())",
            "while True: say(1)",
            "time_limit",
        ),
        (
            "the interactor accepts, and the program computes",
            "accept()",
            "while True: pass",
            "time_limit",
        ),
        (
            "the interactor accepts, and the program sleeps",
            "accept()",
            "time.sleep(100)",
            "time_limit",
        ),
    ])
    .await;
}

#[tokio::test]
async fn limits_of_the_program_hold_while_it_talks() {
    assert_verdicts(&[
        (
            "memory",
            ASKS,
            "keep = [b'x' * (1 << 20) for _ in range(1 << 20)]",
            "memory_limit",
        ),
        (
            "output",
            "while hear(): pass\nreject()",
            "block = ('x' * 999 + '\\n') * 64\nwhile True: os.write(1, block.encode())",
            "output_limit",
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_interactor_that_fails_is_an_error_of_the_judge() {
    assert_verdicts(&[
        (
            "it crashes",
            "os.kill(os.getpid(), signal.SIGSEGV)",
            "hear()",
            "judge_error",
        ),
        (
            "it crashes, and the program loops",
            "os.kill(os.getpid(), signal.SIGSEGV)",
            "while True: pass",
            "judge_error",
        ),
        ("it exits with 0", "os._exit(0)", "hear()", "judge_error"),
        (
            "it exits with 1",
            "say(1)\nhear()\nos._exit(1)",
            "say(hear())",
            "judge_error",
        ),
        (
            "it throws",
            "hear()\nraise ValueError()",
            "say(1)\nhear()",
            "judge_error",
        ),
        (
            "it sleeps after the program has ended",
            "time.sleep(100)",
            "pass",
            "judge_error",
        ),
        (
            "it computes after the program has ended",
            "while True: pass",
            "pass",
            "judge_error",
        ),
        (
            "it fails after the program has failed",
            "hear()\nos._exit(1)",
            "sys.exit(3)",
            "runtime_error",
        ),
    ])
    .await;
}

#[tokio::test]
async fn children_that_hold_a_pipe_do_not_keep_it_open() {
    const CHILD: &str = "if os.fork() == 0:\n    os.setsid()\n    time.sleep(100)\n";
    let of_program: &'static str = Box::leak(format!("{CHILD}hear()\nos._exit(0)").into_boxed_str());
    let of_rejecting: &'static str = Box::leak(format!("{CHILD}reject()").into_boxed_str());
    let of_accepting: &'static str = Box::leak(format!("{CHILD}accept()").into_boxed_str());
    assert_verdicts(&[
        ("a child of the program", ASKS, of_program, "wrong_answer"),
        (
            "a child of a rejecting interactor",
            of_rejecting,
            "hear()",
            "wrong_answer",
        ),
        (
            "a child of an accepting interactor",
            of_accepting,
            "sys.stdin.read()\nos._exit(0)",
            "accepted",
        ),
    ])
    .await;
}

/// A program with much time left is killed as soon as the interactor rejects it, also one that would not end by itself.
#[tokio::test]
async fn a_rejected_program_is_killed_at_once() {
    let node = JudgingNode::start();
    for program in [
        "while True: pass",
        "time.sleep(1000)",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGPIPE, signal.SIG_IGN)\ntime.sleep(1000)",
    ] {
        let mut task = interactive_task(program, &interactor("reject()"));
        task["execute"]["limits"] = json!({"cpu": "100s", "wall": "100s"});
        let begun = Instant::now();
        let task = node.judge(&task).await;
        task.assert_status("run_failed", "wrong_answer");
        assert!(begun.elapsed() < AT_ONCE, "{program} after {:?}", begun.elapsed());
    }
    node.assert_healthy().await;
}

/// The program has 100 s of time, of which neither side needs much.
#[tokio::test]
async fn a_cancelled_conversation_leaves_nothing() {
    let node = JudgingNode::start();
    let mut task = interactive_task("time.sleep(1000)", &interactor("time.sleep(1000)"));
    task["execute"]["limits"] = json!({"wall": "100s"});
    let task = node.web.post("/api/v1/tasks", &task).await.json();
    let path = format!("/api/v1/tasks/{}", task["id"].as_str().expect("an id"));
    cluster_tests::wait_until("the task to run", AT_ONCE, async || {
        (node.web.get(&path).await.json()["status"] == "running").then_some(())
    })
    .await;
    assert_eq!(node.web.delete(&path).await.status, 200);
    let task = node.web.get(&path).await.json();
    assert_eq!(task["status"], "cancelled", "{task:#}");
    node.assert_healthy().await;
}
