//! Live output: what an executor answers to a judicator that asks for the output of a running task.

use std::collections::BTreeSet;

use model::{OutputContent, OutputRead, OutputRequest, OutputSource, StepName, StreamName};

use crate::harness::{ExecutorHarness, compiled_task, new_attempt, task};

const STDOUT: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stdout);
const STDERR: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stderr);
const COMPILE_STDOUT: OutputSource = OutputSource::new(StepName::Compile, StreamName::Stdout);
const COMPILE_STDERR: OutputSource = OutputSource::new(StepName::Compile, StreamName::Stderr);

const ENDED: OutputContent = OutputContent::Ended { truncated: false };

fn bytes(text: &'static str) -> OutputContent {
    OutputContent::Bytes(text.into())
}

/// What `seq` prints: longer than the head of a stream.
fn numbers(count: u32) -> String {
    (1..=count).map(|number| format!("{number}\n")).collect()
}

#[tokio::test]
async fn output_arrives_while_the_program_runs() {
    let mut harness = ExecutorHarness::start().await;
    let mut client = harness.connected().await;
    let (first, second, last) = (
        harness.gate("first"),
        harness.gate("second"),
        harness.gate("last"),
    );
    let waits = [&first, &second, &last].map(|gate| gate.wait());
    let script = format!(
        "printf one; {}; printf two; printf problem >&2; {}; printf three; {}",
        waits[0], waits[1], waits[2]
    );
    let attempt_id = harness.assign(client.session, task(script)).await;

    assert_eq!(client.read(attempt_id, STDOUT, 0).await, bytes("one"));
    let waiting = [
        client.ask(attempt_id, STDOUT, 3),
        client.ask(attempt_id, STDERR, 0),
    ];
    first.open().await;
    let mut answers = [client.answer().await, client.answer().await];
    answers.sort_by_key(|answer| answer.id);
    assert_eq!(answers.each_ref().map(|answer| answer.id), waiting);
    assert_eq!(
        answers.map(|answer| answer.content),
        [bytes("two"), bytes("problem")]
    );
    assert_eq!(
        client.read(attempt_id, STDOUT, 1).await,
        bytes("netwo"),
        "a late reader"
    );

    let id = client.ask(attempt_id, STDOUT, 6);
    second.open().await;
    let answer = client.answer().await;
    assert_eq!((answer.id, answer.content), (id, bytes("three")));

    let waiting = [
        client.ask(attempt_id, STDOUT, 11),
        client.ask(attempt_id, STDERR, 7),
    ];
    last.open().await;
    let answers = [client.answer().await, client.answer().await];
    assert_eq!(
        BTreeSet::from(answers.each_ref().map(|answer| answer.id)),
        BTreeSet::from(waiting)
    );
    assert_eq!(answers.map(|answer| answer.content), [ENDED, ENDED]);
    harness.stop().await;
}

#[tokio::test]
async fn long_output_is_read_from_the_warden_then_from_the_result_and_then_is_unknown() {
    let mut harness = ExecutorHarness::start().await;
    let mut client = harness.connected().await;
    let gate = harness.gate("gate");
    let expected = numbers(50_000);
    assert!(expected.len() > 4 * OutputRead::MAX_BYTES);
    let size = expected.len() as u64;
    let attempt_id = harness
        .assign(client.session, task(format!("seq 50000; {}", gate.wait())))
        .await;

    let running = client.read_bytes(attempt_id, STDOUT, expected.len()).await;
    assert!(running == expected.as_bytes());
    let id = client.ask(attempt_id, STDOUT, size);
    gate.open().await;
    let answer = client.answer().await;
    assert_eq!((answer.id, answer.content), (id, ENDED));

    harness.completed(attempt_id).await;
    let spooled = client.read_bytes(attempt_id, STDOUT, expected.len()).await;
    assert!(spooled == expected.as_bytes());
    assert_eq!(client.read(attempt_id, STDOUT, size).await, ENDED);

    harness.judicator.acknowledge_results();
    harness.forgotten(attempt_id).await;
    assert_eq!(client.read(attempt_id, STDOUT, 0).await, OutputContent::Unknown);
    harness.stop().await;
}

#[tokio::test]
async fn a_request_waits_for_its_step_to_begin() {
    let mut harness = ExecutorHarness::start().await;
    let mut client = harness.connected().await;
    let (compiles, executes) = (harness.gate("compiles"), harness.gate("executes"));
    let spec = compiled_task(
        format!("printf made >&2; {}", compiles.wait()),
        format!("printf ran; {}", executes.wait()),
    );
    let attempt_id = harness.assign(client.session, spec).await;

    let execute = client.ask(attempt_id, STDOUT, 0);
    assert_eq!(client.read(attempt_id, COMPILE_STDERR, 0).await, bytes("made"));
    compiles.open().await;
    let answer = client.answer().await;
    assert_eq!((answer.id, answer.content), (execute, bytes("ran")));
    // The warden now runs the other step, and the output of this one is still there.
    assert_eq!(client.read(attempt_id, COMPILE_STDERR, 1).await, bytes("ade"));
    assert_eq!(client.read(attempt_id, COMPILE_STDERR, 4).await, ENDED);
    assert_eq!(client.read(attempt_id, COMPILE_STDOUT, 0).await, ENDED);
    executes.open().await;
    harness.completed(attempt_id).await;
    assert_eq!(client.read(attempt_id, COMPILE_STDERR, 0).await, bytes("made"));
    harness.stop().await;
}

#[tokio::test]
async fn a_step_that_does_not_run_has_an_empty_output() {
    let mut harness = ExecutorHarness::start().await;
    let mut client = harness.connected().await;
    let gate = harness.gate("gate");
    let attempt_id = harness.assign(client.session, task(gate.wait())).await;
    assert_eq!(client.read(attempt_id, COMPILE_STDOUT, 0).await, ENDED);
    gate.open().await;
    harness.completed(attempt_id).await;
    assert_eq!(client.read(attempt_id, COMPILE_STDOUT, 0).await, ENDED);

    let gate = harness.gate("other");
    let spec = compiled_task(format!("{}; exit 1", gate.wait()), "echo never".into());
    let attempt_id = harness.assign(client.session, spec).await;
    let id = client.ask(attempt_id, STDOUT, 0);
    gate.open().await;
    let answer = client.answer().await;
    assert_eq!((answer.id, answer.content), (id, ENDED));
    harness.stop().await;
}

#[tokio::test]
async fn the_end_of_a_stream_tells_whether_it_was_cut_off() {
    for long in [false, true] {
        let kept = if long { 100_000 } else { 10 };
        let mut harness = ExecutorHarness::start_keeping(kept).await;
        let mut client = harness.connected().await;
        let gate = harness.gate("gate");
        let attempt_id = harness
            .assign(client.session, task(format!("{}; seq 50000", gate.wait())))
            .await;
        let end = client.ask(attempt_id, STDOUT, kept);
        gate.open().await;
        let answer = client.answer().await;
        let truncated = OutputContent::Ended { truncated: true };
        assert_eq!((answer.id, &answer.content), (end, &truncated));
        for is_spooled in [false, true] {
            if is_spooled {
                harness.completed(attempt_id).await;
            }
            let found = client.read_bytes(attempt_id, STDOUT, kept as usize).await;
            assert!(found == numbers(50_000).as_bytes()[..kept as usize]);
            assert_eq!(client.read(attempt_id, STDOUT, kept).await, truncated);
        }
        harness.stop().await;
    }
}

#[tokio::test]
async fn attempts_that_are_unknown_revoked_or_given_back_have_no_output() {
    let mut harness = ExecutorHarness::start().await;
    let mut client = harness.connected().await;
    let unknown = new_attempt(client.session);
    assert_eq!(client.read(unknown, STDOUT, 0).await, OutputContent::Unknown);

    let gate = harness.gate("gate");
    let running = harness.assign(client.session, task(gate.wait())).await;
    harness
        .reported(|report| report.executing.iter().any(|one| one.status.is_some()))
        .await;
    // The only slot is busy, so this one waits and is given back.
    let waiting = harness.assign(client.session, task("true".into())).await;
    let asked = client.ask(running, STDOUT, 0);
    assert_eq!(client.read(waiting, STDOUT, 0).await, OutputContent::Unknown);
    harness.judicator.revoke(running);
    let answer = client.answer().await;
    assert_eq!((answer.id, answer.content), (asked, OutputContent::Unknown));
    harness.stop().await;
}

#[tokio::test]
async fn a_stopped_request_is_not_answered() {
    let mut harness = ExecutorHarness::start().await;
    let mut client = harness.connected().await;
    let gate = harness.gate("gate");
    let attempt_id = harness
        .assign(client.session, task(format!("{}; printf x", gate.wait())))
        .await;
    let stopped = client.ask(attempt_id, STDOUT, 0);
    let waiting = client.ask(attempt_id, STDOUT, 0);
    client.send(OutputRequest::Stop { id: stopped });
    // Ids that are not open have no effect.
    client.send(OutputRequest::Stop { id: 1000 });
    assert_eq!(client.read(attempt_id, COMPILE_STDOUT, 0).await, ENDED);
    gate.open().await;
    let answer = client.answer().await;
    assert_eq!((answer.id, answer.content), (waiting, bytes("x")));
    assert_eq!(client.read(attempt_id, STDOUT, 1).await, ENDED);
    harness.stop().await;
}

#[tokio::test]
async fn requests_beyond_the_limit_are_answered_as_unknown() {
    let mut harness = ExecutorHarness::start().await;
    let mut client = harness.connected().await;
    let gate = harness.gate("gate");
    let attempt_id = harness
        .assign(client.session, task(format!("{}; printf x", gate.wait())))
        .await;
    let mut open: BTreeSet<_> = (0..OutputRead::MAX_OPEN)
        .map(|_| client.ask(attempt_id, STDOUT, 0))
        .collect();
    for _ in 0..2 {
        assert_eq!(client.read(attempt_id, STDOUT, 0).await, OutputContent::Unknown);
    }
    let stopped = open.pop_first().unwrap();
    client.send(OutputRequest::Stop { id: stopped });
    open.insert(client.ask(attempt_id, STDERR, 0));
    let over = client.ask(attempt_id, STDOUT, 0);
    let answer = client.answer().await;
    assert_eq!((answer.id, answer.content), (over, OutputContent::Unknown));
    gate.open().await;
    while !open.is_empty() {
        let answer = client.answer().await;
        assert!(open.remove(&answer.id), "{}", answer.id);
        assert!(answer.content == bytes("x") || answer.content == ENDED);
    }
    harness.stop().await;
}

#[tokio::test]
async fn a_judicator_that_does_not_take_its_answers_holds_up_nothing() {
    let mut harness = ExecutorHarness::start().await;
    let mut client = harness.connected().await;
    let first = harness.assign(client.session, task("seq 50000".into())).await;
    harness.completed(first).await;
    let mut open: BTreeSet<_> = (0..OutputRead::MAX_OPEN as u64)
        .map(|number| client.ask(first, STDOUT, number * 1000))
        .collect();
    let second = harness.assign(client.session, task("true".into())).await;
    harness.completed(second).await;
    let expected = numbers(50_000);
    while !open.is_empty() {
        let answer = client.answer().await;
        assert!(open.remove(&answer.id), "{}", answer.id);
        let OutputContent::Bytes(found) = answer.content else {
            panic!("{:?}", answer.content);
        };
        let offset = (answer.id as usize - 1) * 1000;
        assert!(expected.as_bytes()[offset..].starts_with(&found));
    }
    harness.stop().await;
}

#[tokio::test]
async fn the_executor_connects_again_and_answers_there() {
    let mut harness = ExecutorHarness::start().await;
    let mut client = harness.connected().await;
    let gate = harness.gate("gate");
    let attempt_id = harness
        .assign(
            client.session,
            task(format!("printf a; {}; printf b", gate.wait())),
        )
        .await;
    assert_eq!(client.read(attempt_id, STDOUT, 0).await, bytes("a"));
    client.ask(attempt_id, STDOUT, 1);
    drop(client);

    let mut client = harness.connected().await;
    assert_eq!(client.read(attempt_id, STDOUT, 0).await, bytes("a"));
    let id = client.ask(attempt_id, STDOUT, 1);
    gate.open().await;
    let answer = client.answer().await;
    assert_eq!((answer.id, answer.content), (id, bytes("b")));
    harness.stop().await;
}
