use model::{
    AttemptNumber, Outcome, OutcomeReason, QueuedBefore, StepCommand, TaskId, TaskResult, TaskSpec, UnixTime,
    UserName, WaitReason,
};

use super::*;

/// A task of ada with one command.
pub(in crate::pages) fn task(status: TaskStatus) -> Task {
    let user = UserName::new("ada").unwrap();
    Task {
        id: TaskId(uuid::Uuid::from_u128(7)),
        spec: TaskSpec::new(user, StepCommand::Shell("true".into())),
        status,
        executor: None,
        session: None,
        attempt: AttemptNumber(1),
        add_time: UnixTime(0),
        start_time: None,
        report_time: None,
        finish_time: None,
        ran_on: vec![],
        result: None,
        trouble: None,
    }
}

fn outcome() -> Outcome {
    Outcome {
        reason: OutcomeReason::Exited,
        exit_code: Some(0),
        signal: None,
        wall: std::time::Duration::from_millis(12),
        cpu: std::time::Duration::from_millis(10),
        memory: 1 << 20,
        stdout: model::CapturedOutput::small("hello\n"),
        stderr: model::CapturedOutput::default(),
    }
}

#[test]
fn a_running_task_is_followed_and_a_done_one_is_not() {
    let shown = |task: &Task, view| live_part(task, None, view).into_string();
    let running = shown(&task(TaskStatus::Running), LiveView::Page);
    let id = task(TaskStatus::Running).id;
    for expected in [
        format!("sse-connect=\"/live/tasks/{id}\""),
        format!("action=\"/tasks/{id}/cancel\""),
        "sse-swap=\"reset\"".into(),
        "sse-swap=\"timeline\"".into(),
        "sse-swap=\"execute-stdout\"".into(),
        "It runs.".into(),
    ] {
        assert!(running.contains(&expected), "{expected}: {running}");
    }
    let fragment = shown(&task(TaskStatus::Running), LiveView::Fragment);
    assert!(
        fragment.contains("sse-connect") && fragment.contains("Cancel"),
        "{fragment}"
    );
    assert!(
        !fragment.contains("timeline") && !fragment.contains("<html"),
        "{fragment}"
    );
    let mut done = task(TaskStatus::Success);
    done.result = Some(TaskResult {
        execute: Some(outcome()),
        ..TaskResult::default()
    });
    let done = shown(&done, LiveView::Page);
    assert!(
        !done.contains("sse-connect") && !done.contains("Cancel"),
        "{done}"
    );
    assert!(
        done.contains(">\nhello\n</pre>") && done.contains("Succeeded: it exited with 0"),
        "{done}"
    );
    assert!(done.contains("Run again edited"), "{done}");
}

#[test]
fn a_waiting_task_says_why() {
    let wait = TaskWait {
        status: Some(TaskStatus::Pending),
        reasons: vec![WaitReason::SlotsBusy {
            executors: 1,
            slots: 4,
        }],
        queued_before: Some(QueuedBefore::counted(3)),
    };
    let shown = live_part(&task(TaskStatus::Pending), Some(&wait), LiveView::Page).into_string();
    assert!(
        shown.contains(
            "All 4 slots of the executor that could run it are busy. 3 tasks are before it in the queue."
        ),
        "{shown}"
    );
    assert!(shown.contains("It has not begun."), "{shown}");
}

#[test]
fn what_a_task_names_is_text() {
    let hostile = "</pre><script>alert(1)</script>\u{202e}\u{1b}[31m\r";
    let mut task = task(TaskStatus::RunFailed);
    task.trouble = Some(hostile.into());
    task.spec.execute.command = StepCommand::Argv(vec![hostile.into()]);
    task.spec.execute.args = vec![hostile.into()];
    task.spec.execute.env = [(hostile.to_string(), hostile.to_string())].into();
    task.spec.execute.input = model::Content::Inline(hostile.as_bytes().to_vec().into());
    task.result = Some(TaskResult {
        execute: Some(Outcome {
            stdout: model::CapturedOutput::small(hostile),
            ..outcome()
        }),
        ..TaskResult::default()
    });
    let shown = html! {
        (live_part(&task, None, LiveView::Page)) (facts(&task)) (files::given_files(&task))
    }
    .into_string();
    assert!(
        !shown.contains("<script") && shown.contains("&lt;script&gt;"),
        "{shown}"
    );
    assert!(
        !shown.contains('\u{202e}') && !shown.contains('\u{1b}') && !shown.contains('\r'),
        "{shown}"
    );
}

#[test]
fn a_step_without_an_outcome_says_whether_the_task_had_begun() {
    let check = |status: TaskStatus, has_begun: bool, expected: &str| {
        let mut task = task(status);
        task.ran_on = has_begun
            .then(|| model::AttemptRecord {
                executor: model::ExecutorName::new("lab-1").unwrap(),
                attempt: AttemptNumber(1),
                start_time: UnixTime(1),
                end: None,
            })
            .into_iter()
            .collect();
        let shown = live_part(&task, None, LiveView::Page).into_string();
        assert!(shown.contains(expected), "{status} {has_begun}: {shown}");
    };
    check(TaskStatus::Cancelled, false, "It did not run.");
    check(TaskStatus::Cancelled, true, "cancelled after it had begun");
    check(TaskStatus::SystemError, false, "It did not run.");
    check(TaskStatus::SystemError, true, "No attempt came to a result.");
    check(TaskStatus::CompileFailed, true, "It did not run.");
}
