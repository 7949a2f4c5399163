use model::{
    CapturedOutput, Outcome, OutcomeReason, OutputSource, StepName, StreamName, TaskResult, UnixTime,
};
use std::time::Duration;

use super::*;
use crate::fake_calls::{FakeCalls, gateway, task_id};

const STDOUT: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stdout);

fn written(attempt: u32, offset: u64, bytes: &'static [u8]) -> OutputEvent {
    OutputEvent::Written {
        attempt: AttemptNumber(attempt),
        at: OutputPosition {
            source: STDOUT,
            offset,
        },
        bytes: Bytes::from_static(bytes),
    }
}

fn ended(attempt: u32) -> OutputEvent {
    OutputEvent::StreamEnded {
        attempt: AttemptNumber(attempt),
        source: STDOUT,
        truncated: false,
    }
}

fn status(status: TaskStatus) -> TaskEvent {
    TaskEvent {
        id: task_id(),
        status,
        executor: None,
        time: UnixTime(1),
    }
}

fn result(stdout: CapturedOutput) -> TaskResult {
    TaskResult {
        execute: Some(Outcome {
            reason: OutcomeReason::Exited,
            exit_code: Some(0),
            signal: None,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            memory: 0,
            stdout,
            stderr: CapturedOutput::default(),
        }),
        ..TaskResult::default()
    }
}

fn follow(calls: &Arc<FakeCalls>, offset: u64) -> stream::BoxStream<'static, Result<Bytes, RequestError>> {
    let (gateway, quota) = gateway(calls.clone());
    follow_output(
        gateway,
        quota,
        task_id(),
        OutputPosition {
            source: STDOUT,
            offset,
        },
    )
    .boxed()
}

async fn next(
    bytes: &mut stream::BoxStream<'static, Result<Bytes, RequestError>>,
) -> Option<Result<Bytes, String>> {
    let next = tokio::time::timeout(Duration::from_secs(10), bytes.next());
    next.await
        .expect("no bytes came")
        .map(|item| item.map_err(|error| error.to_string()))
}

#[tokio::test]
async fn bytes_come_as_they_are_written_until_the_step_ends() {
    let calls = Arc::new(FakeCalls::default());
    let (_statuses, output) = (calls.next_statuses(), calls.next_output());
    let mut bytes = follow(&calls, 2);
    output.send(Ok(written(1, 2, b"one"))).unwrap();
    assert_eq!(next(&mut bytes).await, Some(Ok("one".into())));
    output.send(Ok(written(1, 5, b"two"))).unwrap();
    assert_eq!(next(&mut bytes).await, Some(Ok("two".into())));
    output.send(Ok(ended(1))).unwrap();
    assert_eq!(next(&mut bytes).await, None);
    assert_eq!(calls.follow_requests.lock().unwrap()[0].positions[0].offset, 2);
}

#[tokio::test]
async fn a_stream_that_ends_early_is_continued_at_the_offset() {
    let calls = Arc::new(FakeCalls::default());
    let (_statuses, first, second) = (calls.next_statuses(), calls.next_output(), calls.next_output());
    let mut bytes = follow(&calls, 0);
    first.send(Ok(written(1, 0, b"abc"))).unwrap();
    assert_eq!(next(&mut bytes).await, Some(Ok("abc".into())));
    drop(first);
    // The next judicator may send bytes again.
    second.send(Ok(written(1, 1, b"bcde"))).unwrap();
    assert_eq!(next(&mut bytes).await, Some(Ok("de".into())));
    let requests = calls.follow_requests.lock().unwrap();
    assert_eq!(requests[1].positions[0].offset, 3);
    assert_eq!(requests[1].attempt, Some(AttemptNumber(1)));
}

#[tokio::test]
async fn missing_bytes_are_asked_for_again() {
    let calls = Arc::new(FakeCalls::default());
    let (_statuses, first, second) = (calls.next_statuses(), calls.next_output(), calls.next_output());
    let mut bytes = follow(&calls, 0);
    first.send(Ok(written(1, 0, b"abc"))).unwrap();
    first.send(Ok(written(1, 7, b"x"))).unwrap();
    second.send(Ok(written(1, 3, b"def"))).unwrap();
    assert_eq!(next(&mut bytes).await, Some(Ok("abc".into())));
    assert_eq!(next(&mut bytes).await, Some(Ok("def".into())));
}

#[tokio::test]
async fn the_rest_comes_from_the_result_when_the_task_is_done() {
    let check = async |stdout: fn(&FakeCalls) -> CapturedOutput, expected: &[u8]| {
        let calls = Arc::new(FakeCalls::default());
        let (statuses, output) = (calls.next_statuses(), calls.next_output());
        let mut bytes = follow(&calls, 0);
        output.send(Ok(written(2, 0, b"abc"))).unwrap();
        assert_eq!(next(&mut bytes).await, Some(Ok("abc".into())));
        calls.set_task(TaskStatus::Success, 2, Some(result(stdout(&calls))));
        statuses.send(Ok(status(TaskStatus::Success))).unwrap();
        let mut rest = Vec::new();
        while let Some(bytes) = next(&mut bytes).await {
            rest.extend_from_slice(&bytes.unwrap());
        }
        assert!(rest == expected, "{} bytes", rest.len());
    };
    check(|_| CapturedOutput::small("abcdef"), b"def").await;
    check(|_| CapturedOutput::small("abc"), b"").await;
    let large = |calls: &FakeCalls| {
        let whole = ["abc".as_bytes(), &[b'x'; 100_000]].concat();
        CapturedOutput {
            head: Bytes::copy_from_slice(&whole[..CapturedOutput::MAX_HEAD]),
            size: whole.len() as u64,
            blob: Some(calls.put(&whole)),
            truncated: true,
        }
    };
    check(large, &[b'x'; 100_000]).await;
}

#[tokio::test]
async fn a_late_follower_gets_everything_from_the_result() {
    let calls = Arc::new(FakeCalls::default());
    let statuses = calls.next_statuses();
    calls.set_task(
        TaskStatus::Success,
        1,
        Some(result(CapturedOutput::small("abcdef"))),
    );
    statuses.send(Ok(status(TaskStatus::Success))).unwrap();
    let mut bytes = follow(&calls, 4);
    assert_eq!(next(&mut bytes).await, Some(Ok("ef".into())));
    assert_eq!(next(&mut bytes).await, None);
}

#[tokio::test]
async fn a_lost_attempt_aborts_the_connection() {
    // By its status, by the output of the next attempt, by the result of the next attempt.
    for case in 0..3 {
        let calls = Arc::new(FakeCalls::default());
        let (statuses, output) = (calls.next_statuses(), calls.next_output());
        let mut bytes = follow(&calls, 0);
        output.send(Ok(written(1, 0, b"abc"))).unwrap();
        assert_eq!(next(&mut bytes).await, Some(Ok("abc".into())));
        match case {
            0 => {
                calls.set_task(TaskStatus::Retrying, 1, None);
                statuses.send(Ok(status(TaskStatus::Retrying))).unwrap();
            }
            1 => output.send(Ok(written(2, 0, b"abc"))).unwrap(),
            _ => {
                calls.set_task(TaskStatus::Success, 2, Some(result(CapturedOutput::small("abc"))));
                statuses.send(Ok(status(TaskStatus::Success))).unwrap();
            }
        }
        let error = next(&mut bytes).await.unwrap().unwrap_err();
        assert!(error.contains("was lost"), "{case}: {error}");
    }
}

#[tokio::test]
async fn a_late_event_about_the_attempt_before_aborts_nothing() {
    // The follower reads events and bytes in any order.
    for _ in 0..20 {
        let calls = Arc::new(FakeCalls::default());
        let (statuses, output) = (calls.next_statuses(), calls.next_output());
        calls.set_task(TaskStatus::Retrying, 2, None);
        calls.set_executor("e");
        let mut bytes = follow(&calls, 0);
        output.send(Ok(written(2, 0, b"abc"))).unwrap();
        // The second attempt has not reported its first step yet.
        statuses.send(Ok(status(TaskStatus::Retrying))).unwrap();
        assert_eq!(next(&mut bytes).await, Some(Ok("abc".into())));
        output.send(Ok(written(2, 3, b"def"))).unwrap();
        assert_eq!(next(&mut bytes).await, Some(Ok("def".into())));
        output.send(Ok(ended(2))).unwrap();
        assert_eq!(next(&mut bytes).await, None);
    }
}

#[tokio::test]
async fn an_attempt_that_wrote_nothing_may_be_lost() {
    let calls = Arc::new(FakeCalls::default());
    let (statuses, output) = (calls.next_statuses(), calls.next_output());
    let mut bytes = follow(&calls, 0);
    statuses.send(Ok(status(TaskStatus::Retrying))).unwrap();
    output.send(Ok(written(2, 0, b"abc"))).unwrap();
    assert_eq!(next(&mut bytes).await, Some(Ok("abc".into())));
}

#[tokio::test]
async fn a_step_that_never_ran_ends_empty() {
    for (end, result) in [
        (TaskStatus::CompileFailed, Some(TaskResult::default())),
        (TaskStatus::Cancelled, None),
        (TaskStatus::SystemError, None),
    ] {
        let calls = Arc::new(FakeCalls::default());
        let statuses = calls.next_statuses();
        calls.set_task(end, 1, result);
        statuses.send(Ok(status(end))).unwrap();
        assert_eq!(next(&mut follow(&calls, 0)).await, None, "{end}");
    }
}

#[tokio::test]
async fn a_gateway_that_stops_aborts_the_connection() {
    let calls = Arc::new(FakeCalls::default());
    let (gateway, quota) = gateway(calls);
    let from = OutputPosition {
        source: STDOUT,
        offset: 0,
    };
    let mut bytes = follow_output(gateway.clone(), quota, task_id(), from).boxed();
    gateway.stop.cancel();
    let error = next(&mut bytes).await.unwrap().unwrap_err();
    assert!(error.contains("the gateway stops"), "{error}");
}
