use axum::body::Body;
use axum::response::{IntoResponse, Sse};
use bytes::Bytes;
use http_body_util::BodyExt;
use model::{
    CapturedOutput, Outcome, OutcomeReason, OutputEvent, OutputPosition, QueuedBefore, StepName, TaskResult,
    UnixTime, WaitReason,
};
use rpc::TaskEvent;

use super::*;
use crate::fake_calls::{FakeCalls, gateway, task_id};

fn written(attempt: u32, offset: u64, bytes: &'static [u8]) -> OutputEvent {
    OutputEvent::Written {
        attempt: AttemptNumber(attempt),
        at: OutputPosition {
            source: OutputSource::new(StepName::Execute, StreamName::Stdout),
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

fn result(stdout: &'static [u8]) -> TaskResult {
    TaskResult {
        execute: Some(Outcome {
            reason: OutcomeReason::Exited,
            exit_code: Some(3),
            signal: None,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            memory: 0,
            stdout: CapturedOutput::small(stdout),
            stderr: CapturedOutput::default(),
        }),
        ..TaskResult::default()
    }
}

/// The events of a task's page, as a browser receives them.
struct PageEvents(Body);

impl PageEvents {
    fn of(calls: &Arc<FakeCalls>) -> PageEvents {
        let (gateway, quota) = gateway(calls.clone());
        let strip = calls.task.lock().unwrap().as_ref().and_then(CaseStrip::of);
        let events = events(gateway, quota, task_id(), strip).map(Ok::<_, std::convert::Infallible>);
        PageEvents(Sse::new(events).into_response().into_body())
    }

    /// The name and the data of the next event.
    async fn next(&mut self) -> Option<(String, String)> {
        let frame = tokio::time::timeout(Duration::from_secs(30), self.0.frame());
        let frame = frame.await.expect("no event came")?.unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&frame)
            .unwrap()
            .strip_prefix("event: ")
            .unwrap();
        let (name, data) = text.split_once('\n').unwrap();
        let lines = data.lines().filter_map(|line| line.strip_prefix("data:"));
        let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        Some((name.to_string(), lines.join("\n")))
    }

    /// The data of the next event of this name. Others may come before it.
    async fn expect(&mut self, name: &str) -> String {
        loop {
            let (found, data) = self.next().await.expect("the stream goes on");
            if found == name {
                return data;
            }
        }
    }
}

#[tokio::test]
async fn a_page_shows_the_output_and_the_parts_that_change() {
    let calls = Arc::new(FakeCalls::default());
    let (statuses, live) = (calls.next_statuses(), calls.next_output());
    calls.set_task(TaskStatus::Running, 1, None);
    let mut page = PageEvents::of(&calls);
    let first = page.next().await.unwrap();
    assert_eq!(
        first.0, "reset",
        "the browser may show an earlier connection's output"
    );
    statuses.send(Ok(status(TaskStatus::Running))).unwrap();
    let shown = page.expect("status").await;
    assert!(shown.contains("running") && shown.contains("Cancel"), "{shown}");
    // The colour is carried from one event to the next.
    live.send(Ok(written(1, 0, b"\x1b[31m<b>\ncaf\xc3"))).unwrap();
    assert_eq!(
        page.expect("execute-stdout").await,
        "<span class=\"ansi-f1\">&lt;b&gt;</span>\n<span class=\"ansi-f1\">caf</span>"
    );
    live.send(Ok(written(1, 13, b"\xa9"))).unwrap();
    assert_eq!(
        page.expect("execute-stdout").await,
        "<span class=\"ansi-f1\">\u{e9}</span>"
    );
    // Another attempt begins again, without the colour.
    live.send(Ok(written(2, 0, b"again"))).unwrap();
    page.expect("reset").await;
    assert_eq!(page.expect("execute-stdout").await, "again");
    calls.set_task(TaskStatus::RunFailed, 2, Some(result(b"again and out\x1b[3")));
    statuses.send(Ok(status(TaskStatus::RunFailed))).unwrap();
    assert_eq!(page.expect("execute-stdout").await, " and out");
    let shown = page.expect("status").await;
    assert!(
        shown.contains("run failed") && !shown.contains("Cancel"),
        "{shown}"
    );
    let verdict = page.expect("execute-outcome").await;
    assert!(verdict.contains("Exited with 3"), "{verdict}");
    assert!(page.expect("execute-stdout-size").await.contains("16 bytes"));
    let unfinished = page.expect("execute-stdout").await;
    assert!(unfinished.ends_with("[3"), "{unfinished}");
    page.expect("end").await;
    assert_eq!(page.next().await, None);
}

#[tokio::test]
async fn a_page_says_that_the_output_of_a_cancelled_task_is_not_kept() {
    let calls = Arc::new(FakeCalls::default());
    let statuses = calls.next_statuses();
    calls.set_task(TaskStatus::Running, 1, None);
    let mut page = PageEvents::of(&calls);
    statuses.send(Ok(status(TaskStatus::Running))).unwrap();
    page.expect("status").await;
    calls.set_task(TaskStatus::Cancelled, 1, None);
    statuses.send(Ok(status(TaskStatus::Cancelled))).unwrap();
    for stream in ["execute-stdout-size", "execute-stderr-size"] {
        let shown = page.expect(stream).await;
        assert!(shown.contains("data-not-kept"), "{shown}");
    }
    page.expect("end").await;
}

#[tokio::test]
async fn a_page_tells_why_its_task_waits() {
    let calls = Arc::new(FakeCalls::default());
    let statuses = calls.next_statuses();
    calls.set_task(TaskStatus::Pending, 0, None);
    let wait = |tasks| TaskWait {
        status: Some(TaskStatus::Pending),
        reasons: vec![WaitReason::NoExecutor],
        queued_before: Some(QueuedBefore::counted(tasks)),
    };
    *calls.wait.lock().unwrap() = Some(wait(5));
    let mut page = PageEvents::of(&calls);
    statuses.send(Ok(status(TaskStatus::Pending))).unwrap();
    let shown = page.expect("waiting").await;
    assert!(
        shown.contains("No executor is connected") && shown.contains("5 tasks are before it"),
        "{shown}"
    );
    *calls.wait.lock().unwrap() = Some(wait(4));
    let shown = page.expect("waiting").await;
    assert!(shown.contains("4 tasks are before it"), "{shown}");
    // What stays the same is not sent again.
    *calls.wait.lock().unwrap() = Some(wait(3));
    let (name, shown) = page.next().await.unwrap();
    assert!(name == "waiting" && shown.contains("3 tasks"), "{name}: {shown}");
    // An empty part is sent with data: browsers ignore an event without.
    calls.set_task(TaskStatus::Running, 1, None);
    statuses.send(Ok(status(TaskStatus::Running))).unwrap();
    assert_eq!(page.expect("waiting").await, "<!---->");
}

#[tokio::test]
async fn verdicts_of_a_judged_task_are_marks_and_no_output() {
    let calls = Arc::new(FakeCalls::default());
    calls.set_task(TaskStatus::Running, 1, None);
    let judging = crate::pages::task::case_strip::tests::judging(&["first", "second"]);
    calls.task.lock().unwrap().as_mut().unwrap().spec.judging = Some(judging);
    let (statuses, output) = (calls.next_statuses(), calls.next_output());
    let mut page = PageEvents::of(&calls);
    statuses.send(Ok(status(TaskStatus::Running))).unwrap();
    let begun = page.expect(CASES_EVENT).await;
    assert!(begun.contains("0 of 2 cases judged"), "{begun}");
    output
        .send(Ok(written(1, 0, b"1 wrong_answer second\n0 acc")))
        .unwrap();
    let one = page.expect(CASES_EVENT).await;
    assert!(
        one.contains("1 of 2 cases judged") && one.contains("second: wrong answer"),
        "{one}"
    );
    output.send(Ok(written(1, 27, b"epted first\n"))).unwrap();
    loop {
        let (name, data) = page.next().await.expect("the stream goes on");
        assert_ne!(name, "execute-stdout", "{data}");
        if name == CASES_EVENT {
            assert!(data.contains("first: accepted"), "{data}");
            break;
        }
    }
}
