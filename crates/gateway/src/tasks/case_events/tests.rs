use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Sse};
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use model::{OutputEvent, OutputPosition, TaskStatus, UnixTime};
use rpc::TaskEvent;
use serde_json::Value;

use super::*;
use crate::fake_calls::{FakeCalls, gateway, task_id};
use crate::fake_judging::{judged_task, judging};

const COMPILE_STDOUT: OutputSource = OutputSource::new(StepName::Compile, StreamName::Stdout);

fn written(attempt: u32, (source, offset): (OutputSource, u64), text: &'static str) -> OutputEvent {
    OutputEvent::Written {
        attempt: AttemptNumber(attempt),
        at: OutputPosition { source, offset },
        bytes: Bytes::from_static(text.as_bytes()),
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

/// The events of a judged task as a client receives them.
struct FollowedCases(Body);

impl FollowedCases {
    fn of(calls: &Arc<FakeCalls>, output: CompileStepOutput) -> FollowedCases {
        let (gateway, quota) = gateway(calls.clone());
        let events = case_events(gateway, quota, task_id(), output).map(Ok::<_, std::convert::Infallible>);
        FollowedCases(Sse::new(events).into_response().into_body())
    }

    /// The name of the next event, and what matters of its data.
    async fn next(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(Duration::from_secs(10), self.0.frame());
        let frame = frame.await.expect("no event came")?.unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&frame).unwrap();
        let (head, data) = text.split_once("\ndata: ").unwrap();
        let name = head.strip_prefix("event: ").unwrap().lines().next().unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        let field = |field: &str| data[field].as_str().unwrap_or_default().to_string();
        Some(match name {
            "case" => format!("case {} {} {}", data["index"], field("name"), field("verdict")),
            "output" => format!("output {}", field("text")),
            "status" => format!("status {}", field("status")),
            other => panic!("{other}: {data}"),
        })
    }

    async fn expect(&mut self, expected: &[&str]) {
        for expected in expected {
            assert_eq!(self.next().await.as_deref(), Some(*expected));
        }
    }
}

fn finish(calls: &FakeCalls, verdicts: &[Verdict]) -> TaskEvent {
    let task = judged_task(judging(), verdicts);
    let end = status(task.status);
    *calls.task.lock().unwrap() = Some(task);
    end
}

#[tokio::test]
async fn verdicts_come_one_by_one_and_the_final_status_last() {
    let calls = Arc::new(FakeCalls::default());
    let (statuses, live) = (calls.next_statuses(), calls.next_output());
    let mut events = FollowedCases::of(&calls, CompileStepOutput::Without);
    statuses.send(Ok(status(TaskStatus::Running))).unwrap();
    events.expect(&["status running"]).await;
    live.send(Ok(written(1, (COMPILE_STDOUT, 0), "built\n"))).unwrap();
    // A line may come in pieces, and what is no mark is left out.
    live.send(Ok(written(1, (MARKS, 0), "0 acce"))).unwrap();
    live.send(Ok(written(1, (MARKS, 6), "pted sample\nno mark\n")))
        .unwrap();
    events.expect(&["case 0 sample accepted"]).await;
    let end = finish(&calls, &[Verdict::Accepted, Verdict::WrongAnswer]);
    statuses.send(Ok(end)).unwrap();
    // Verdicts that were not streamed are those of the result.
    events
        .expect(&["case 1 secret wrong_answer", "status run_failed"])
        .await;
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_verdict_that_changes_is_sent_again() {
    let calls = Arc::new(FakeCalls::default());
    let (statuses, live) = (calls.next_statuses(), calls.next_output());
    let mut events = FollowedCases::of(&calls, CompileStepOutput::Without);
    let marks = "1 accepted secret\n0 time_limit sample\n";
    live.send(Ok(written(1, (MARKS, 0), marks))).unwrap();
    events
        .expect(&["case 1 secret accepted", "case 0 sample time_limit"])
        .await;
    // The executor is lost, and another one judges the task anew.
    live.send(Ok(written(2, (MARKS, 0), "0 wrong_answer sample\n")))
        .unwrap();
    events.expect(&["case 0 sample wrong_answer"]).await;
    let end = finish(&calls, &[Verdict::WrongAnswer, Verdict::Skipped]);
    statuses.send(Ok(end)).unwrap();
    events
        .expect(&["case 1 secret skipped", "status run_failed"])
        .await;
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn with_output_the_compile_step_is_followed_too() {
    let calls = Arc::new(FakeCalls::default());
    let (_statuses, live) = (calls.next_statuses(), calls.next_output());
    let mut events = FollowedCases::of(&calls, CompileStepOutput::After(None));
    live.send(Ok(written(1, (COMPILE_STDOUT, 0), "built\n"))).unwrap();
    live.send(Ok(written(1, (MARKS, 0), "0 accepted sample\n")))
        .unwrap();
    events.expect(&["output built\n", "case 0 sample accepted"]).await;
}

#[test]
fn marks_are_read_from_pieces_of_lines() {
    let check = |pieces: &[&str], expected: &[(usize, Verdict)]| {
        let mut reader = MarkReader::default();
        let marks = pieces.iter().flat_map(|piece| reader.push(piece.as_bytes()));
        let found: Vec<_> = marks.map(|mark| (mark.index, mark.verdict)).collect();
        assert_eq!(found, expected, "{pieces:?}");
    };
    check(&[], &[]);
    check(&["0 accepted a"], &[]);
    check(
        &["0 accepted a b\n1 wrong", "_answer c\n"],
        &[(0, Verdict::Accepted), (1, Verdict::WrongAnswer)],
    );
    check(&["7 unheard_of a\n", "99999999 accepted a\n"], &[]);
    let long = format!("0 accepted {}\n1 accepted a\n", "x".repeat(2 * MAX_LINE));
    check(&[&long], &[(1, Verdict::Accepted)]);
}
