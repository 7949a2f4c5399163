use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Sse};
use http_body_util::BodyExt;
use model::{Outcome, OutcomeReason, StepName, StreamName, TaskResult, TaskStatus, UnixTime};
use serde_json::{Value, json};

use rpc::CallError;

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

fn status(status: TaskStatus) -> TaskEvent {
    TaskEvent {
        id: task_id(),
        status,
        executor: None,
        time: UnixTime(1),
    }
}

fn result(stdout: CapturedOutput, stderr: CapturedOutput) -> TaskResult {
    let outcome = |stdout, stderr| Outcome {
        reason: OutcomeReason::Exited,
        exit_code: Some(0),
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout,
        stderr,
    };
    TaskResult {
        compile: Some(outcome(
            CapturedOutput::small("built\n"),
            CapturedOutput::default(),
        )),
        execute: Some(outcome(stdout, stderr)),
        ..TaskResult::default()
    }
}

/// The events of a task as a client receives them.
struct ReceivedEvents {
    body: Body,
    /// As a browser keeps it.
    last_id: Option<String>,
}

impl ReceivedEvents {
    fn of(calls: &Arc<FakeCalls>) -> ReceivedEvents {
        ReceivedEvents::after(calls, None)
    }

    /// The events of a client that received the event with this id before.
    fn after(calls: &Arc<FakeCalls>, last_id: Option<&str>) -> ReceivedEvents {
        let (gateway, quota) = gateway(calls.clone());
        let last_id = last_id.map(|id| id.parse().unwrap());
        let events = output_events(gateway, quota, task_id(), last_id).map(Ok::<_, std::convert::Infallible>);
        ReceivedEvents {
            body: Sse::new(events).into_response().into_body(),
            last_id: None,
        }
    }

    /// The name and the data of the next event.
    async fn next(&mut self) -> Option<(String, Value)> {
        let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame());
        let frame = frame.await.expect("no event came")?.unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&frame).unwrap();
        let (head, data) = text
            .strip_prefix("event: ")
            .unwrap()
            .split_once("\ndata: ")
            .unwrap();
        let name = match head.split_once("\nid: ") {
            Some((name, id)) => {
                self.last_id = Some(id.to_string());
                name
            }
            None => head,
        };
        Some((name.to_string(), serde_json::from_str(data).unwrap()))
    }

    async fn expect_output(&mut self, expected: Value) {
        assert_eq!(self.next().await, Some(("output".to_string(), expected)));
    }

    async fn expect_status(&mut self, expected: &str) {
        let (name, data) = self.next().await.unwrap();
        assert_eq!(
            (name.as_str(), data["status"].as_str()),
            ("status", Some(expected))
        );
    }
}

fn output(attempt: u32, offset: u64, text: &str) -> Value {
    json!({"attempt": attempt, "step": "execute", "stream": "stdout", "offset": offset, "text": text})
}

#[tokio::test]
async fn output_comes_while_it_is_written_and_the_final_status_last() {
    let calls = Arc::new(FakeCalls::default());
    let (statuses, live) = (calls.next_statuses(), calls.next_output());
    let mut events = ReceivedEvents::of(&calls);
    statuses.send(Ok(status(TaskStatus::Running))).unwrap();
    events.expect_status("running").await;
    // A cut character waits for its rest.
    live.send(Ok(written(1, 0, b"caf\xc3"))).unwrap();
    events.expect_output(output(1, 0, "caf")).await;
    live.send(Ok(written(1, 4, b"\xa9!"))).unwrap();
    events.expect_output(output(1, 3, "é!")).await;
    live.send(Ok(written(1, 6, b"\xff\n"))).unwrap();
    let binary = json!({"attempt": 1, "step": "execute", "stream": "stdout", "offset": 6, "base64": "/wo="});
    events.expect_output(binary).await;
    let stdout = CapturedOutput::small(&b"caf\xc3\xa9!\xff\nend\xc3"[..]);
    calls.set_task(
        TaskStatus::Success,
        1,
        Some(result(stdout, CapturedOutput::small("err"))),
    );
    statuses.send(Ok(status(TaskStatus::Success))).unwrap();
    let built = json!({"attempt": 1, "step": "compile", "stream": "stdout", "offset": 0, "text": "built\n"});
    events.expect_output(built).await;
    events.expect_output(output(1, 8, "end")).await;
    let cut = json!({"attempt": 1, "step": "execute", "stream": "stdout", "offset": 11, "base64": "ww=="});
    events.expect_output(cut).await;
    let err = json!({"attempt": 1, "step": "execute", "stream": "stderr", "offset": 0, "text": "err"});
    events.expect_output(err).await;
    events.expect_status("success").await;
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_new_attempt_begins_again() {
    let calls = Arc::new(FakeCalls::default());
    let (statuses, live) = (calls.next_statuses(), calls.next_output());
    let mut events = ReceivedEvents::of(&calls);
    live.send(Ok(written(1, 0, b"one\xc3"))).unwrap();
    events.expect_output(output(1, 0, "one")).await;
    statuses.send(Ok(status(TaskStatus::Retrying))).unwrap();
    events.expect_status("retrying").await;
    live.send(Ok(written(2, 0, b"two"))).unwrap();
    events.expect_output(output(2, 0, "two")).await;
    // A third attempt has the result, of which nothing was seen.
    let stdout = CapturedOutput::small("three");
    calls.set_task(
        TaskStatus::Success,
        3,
        Some(result(stdout, CapturedOutput::default())),
    );
    statuses.send(Ok(status(TaskStatus::Success))).unwrap();
    let built = json!({"attempt": 3, "step": "compile", "stream": "stdout", "offset": 0, "text": "built\n"});
    events.expect_output(built).await;
    events.expect_output(output(3, 0, "three")).await;
    events.expect_status("success").await;
}

#[tokio::test]
async fn a_long_output_comes_in_many_events() {
    let calls = Arc::new(FakeCalls::default());
    let statuses = calls.next_statuses();
    let whole = vec![b'x'; 200_000];
    let stdout = CapturedOutput {
        head: Bytes::copy_from_slice(&whole[..CapturedOutput::MAX_HEAD]),
        size: whole.len() as u64,
        blob: Some(calls.put(&whole)),
        truncated: false,
    };
    calls.set_task(
        TaskStatus::Success,
        1,
        Some(result(stdout, CapturedOutput::default())),
    );
    statuses.send(Ok(status(TaskStatus::Success))).unwrap();
    let mut events = ReceivedEvents::of(&calls);
    let mut received = 0;
    loop {
        let (name, data) = events.next().await.unwrap();
        if name == "status" {
            break;
        }
        if data["step"] == "execute" {
            assert_eq!(data["offset"], received);
            let length = data["text"].as_str().unwrap().len();
            assert!(length <= MAX_PIECE);
            received += length as u64;
        }
    }
    assert_eq!(received, 200_000);
}

#[tokio::test]
async fn a_judicator_that_stops_is_replaced_and_an_error_is_an_event() {
    let calls = Arc::new(FakeCalls::default());
    let (first, second) = (calls.next_statuses(), calls.next_statuses());
    let mut events = ReceivedEvents::of(&calls);
    first.send(Ok(status(TaskStatus::Running))).unwrap();
    events.expect_status("running").await;
    first.send(Err(CallError::Unavailable("stops".into()))).unwrap();
    // The current status is not repeated.
    second.send(Ok(status(TaskStatus::Running))).unwrap();
    second.send(Ok(status(TaskStatus::Retrying))).unwrap();
    events.expect_status("retrying").await;
    second.send(Err(CallError::NoTask(task_id()))).unwrap();
    let (name, data) = events.next().await.unwrap();
    assert_eq!((name.as_str(), &data["status"]), ("problem", &json!(404)));
    assert_eq!(events.next().await, None);
}

fn stderr(offset: u64, text: &str) -> Value {
    json!({"attempt": 1, "step": "execute", "stream": "stderr", "offset": offset, "text": text})
}

#[tokio::test]
async fn a_lost_connection_continues_in_the_middle_of_the_streams() {
    let calls = Arc::new(FakeCalls::default());
    let live = calls.next_output();
    let mut events = ReceivedEvents::of(&calls);
    // The cut character is received again.
    live.send(Ok(written(1, 0, b"caf\xc3"))).unwrap();
    events.expect_output(output(1, 0, "caf")).await;
    assert_eq!(events.last_id.as_deref(), Some("1.0.0.3.0"));
    drop(events);

    let (statuses, live) = (calls.next_statuses(), calls.next_output());
    let mut events = ReceivedEvents::after(&calls, Some("1.6.0.3.0"));
    // The judicator may begin earlier.
    live.send(Ok(written(1, 0, b"caf\xc3\xa9!"))).unwrap();
    events.expect_output(output(1, 3, "é!")).await;
    assert_eq!(events.last_id.as_deref(), Some("1.6.0.6.0"));
    let request = calls.follow_requests.lock().unwrap().last().cloned().unwrap();
    let offsets: Vec<_> = request.positions.iter().map(|at| at.offset).collect();
    assert_eq!(
        (request.attempt, offsets),
        (Some(AttemptNumber(1)), vec![6, 0, 3, 0])
    );
    let stdout = CapturedOutput::small("café!end");
    let result = result(stdout, CapturedOutput::small("err"));
    calls.set_task(TaskStatus::Success, 1, Some(result));
    statuses.send(Ok(status(TaskStatus::Success))).unwrap();
    events.expect_output(output(1, 6, "end")).await;
    events.expect_output(stderr(0, "err")).await;
    assert_eq!(events.last_id.as_deref(), Some("1.6.0.9.3"));
    events.expect_status("success").await;
    assert_eq!(events.next().await, None);

    // The connection is lost again, now that the task is done.
    for (last_id, rest) in [
        ("1.6.0.7.3", vec![output(1, 7, "nd")]),
        ("1.6.0.9.1", vec![stderr(1, "rr")]),
        ("1.6.0.9.3", vec![]),
        ("1.6.0.99.18446744073709551615", vec![]),
    ] {
        let statuses = calls.next_statuses();
        statuses.send(Ok(status(TaskStatus::Success))).unwrap();
        let mut events = ReceivedEvents::after(&calls, Some(last_id));
        for piece in rest {
            events.expect_output(piece).await;
        }
        events.expect_status("success").await;
        assert_eq!(events.next().await, None, "{last_id}");
    }
}

#[tokio::test]
async fn another_attempt_is_sent_from_its_start() {
    let calls = Arc::new(FakeCalls::default());
    let (statuses, live) = (calls.next_statuses(), calls.next_output());
    let mut events = ReceivedEvents::after(&calls, Some("1.6.0.3.0"));
    live.send(Ok(written(2, 0, b"two"))).unwrap();
    events.expect_output(output(2, 0, "two")).await;
    assert_eq!(events.last_id.as_deref(), Some("2.0.0.3.0"));
    let stdout = CapturedOutput::small("three");
    let third = result(stdout, CapturedOutput::default());
    calls.set_task(TaskStatus::Success, 3, Some(third));
    statuses.send(Ok(status(TaskStatus::Success))).unwrap();
    let built = json!({"attempt": 3, "step": "compile", "stream": "stdout", "offset": 0, "text": "built\n"});
    events.expect_output(built).await;
    events.expect_output(output(3, 0, "three")).await;
    assert_eq!(events.last_id.as_deref(), Some("3.6.0.5.0"));
    events.expect_status("success").await;
}

#[tokio::test]
async fn a_blob_continues_at_the_offset() {
    let calls = Arc::new(FakeCalls::default());
    let statuses = calls.next_statuses();
    let whole: Vec<u8> = (0..200_000u32).map(|number| b'a' + (number % 23) as u8).collect();
    let stdout = CapturedOutput {
        head: Bytes::copy_from_slice(&whole[..CapturedOutput::MAX_HEAD]),
        size: whole.len() as u64,
        blob: Some(calls.put(&whole)),
        truncated: false,
    };
    let result = result(stdout, CapturedOutput::default());
    calls.set_task(TaskStatus::Success, 1, Some(result));
    statuses.send(Ok(status(TaskStatus::Success))).unwrap();
    let mut events = ReceivedEvents::after(&calls, Some("1.6.0.150001.0"));
    let mut received = Vec::new();
    loop {
        let (name, data) = events.next().await.unwrap();
        if name == "status" {
            break;
        }
        assert_eq!(data["offset"], 150_001 + received.len());
        received.extend_from_slice(data["text"].as_str().unwrap().as_bytes());
    }
    assert!(received == whole[150_001..]);
}
