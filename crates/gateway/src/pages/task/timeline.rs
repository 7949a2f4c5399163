//! What happened to a task, in order.

use maud::{Markup, html};
use model::{AttemptRecord, RecordedEnd, Task, TaskStatus};

use crate::pages::components::UserText;
use crate::pages::format;

pub(super) fn timeline(task: &Task) -> Markup {
    html! {
        ol class="timeline" {
            li {
                (format::time(task.add_time)) " "
                span { "Added by " (UserText(task.spec.user.as_str())) }
            }
            @if let Some(first) = task.ran_on.first() && first.attempt.0 > 1 {
                li { span class="dim" { "Earlier attempts did not begin, or are not listed any more" } }
            }
            @for record in &task.ran_on { (attempt(record)) }
            (current_attempt(task))
            @if let Some(time) = task.finish_time {
                li class=(end_class(task.status)) {
                    (format::time(time)) " "
                    span { "Finished: " (format::words(task.status.as_str())) }
                    " " span class="dim" { (format::duration(time.since(task.add_time))) " after it was added" }
                }
            }
        }
    }
}

fn end_class(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Success => "good",
        TaskStatus::Cancelled => "wait",
        _ => "bad",
    }
}

fn attempt(record: &AttemptRecord) -> Markup {
    let (class, how) = match record.end {
        None => ("busy", "it runs"),
        Some((_, RecordedEnd::Finished)) => ("good", "finished, with the result"),
        Some((_, RecordedEnd::Lost)) => ("bad", "lost: the executor died, went silent or hung"),
        Some((_, RecordedEnd::GivenBack)) => ("wait", "given back by the executor before it had a result"),
        Some((_, RecordedEnd::Broken)) => ("bad", "broken: the executor could not run it"),
        Some((_, RecordedEnd::Cancelled)) => ("wait", "cancelled"),
    };
    let executor = record.executor.as_str();
    html! {
        li class=(class) {
            (format::time(record.start_time)) " "
            span { "Attempt " (record.attempt) " on " a href={ "/executors/" (format::encode(executor)) } { (executor) } ": " (how) }
            @if let Some((end, _)) = record.end {
                " " span class="dim" { "after " (format::duration(end.since(record.start_time))) }
            }
        }
    }
}

/// An attempt that an executor has and that has not begun.
fn current_attempt(task: &Task) -> Markup {
    let is_listed = task.ran_on.iter().any(|record| record.attempt == task.attempt);
    html! {
        @if let Some(executor) = &task.executor && !task.status.is_done() && !is_listed {
            li class="busy" {
                @if let Some(start) = task.start_time { (format::time(start)) " " }
                span { "Attempt " (task.attempt) " was given to " a href={ "/executors/" (format::encode(executor.as_str())) } { (executor) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{AttemptNumber, ExecutorName, UnixTime};

    use super::*;
    use crate::pages::task::tests::task;

    fn record(attempt: u32, end: Option<RecordedEnd>) -> AttemptRecord {
        AttemptRecord {
            executor: ExecutorName::new("lab-1").unwrap(),
            attempt: AttemptNumber(attempt),
            start_time: UnixTime(1_000_000),
            end: end.map(|end| (UnixTime(3_000_000), end)),
        }
    }

    #[test]
    fn the_timeline_lists_every_attempt_and_its_end() {
        let mut done = task(TaskStatus::Success);
        done.finish_time = Some(UnixTime(5_000_000));
        done.ran_on = vec![
            record(1, Some(RecordedEnd::Lost)),
            record(2, Some(RecordedEnd::Finished)),
        ];
        let shown = timeline(&done).into_string();
        for text in [
            "Added by <bdi>ada</bdi>",
            "Attempt 1 on <a href=\"/executors/lab%2D1\">lab-1</a>: lost",
            "Attempt 2 on",
            "after 2 s",
            "Finished: success",
        ] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert!(!shown.contains("Earlier attempts"), "{shown}");
    }

    #[test]
    fn an_attempt_that_has_not_begun_is_listed() {
        let mut held = task(TaskStatus::Retrying);
        held.attempt = AttemptNumber(4);
        held.executor = Some(ExecutorName::new("lab-1").unwrap());
        held.ran_on = vec![record(3, Some(RecordedEnd::Broken))];
        let shown = timeline(&held).into_string();
        assert!(shown.contains("Earlier attempts"), "{shown}");
        assert!(shown.contains("Attempt 4 was given to"), "{shown}");
        held.ran_on.push(record(4, None));
        let shown = timeline(&held).into_string();
        assert!(
            !shown.contains("was given to") && shown.contains("it runs"),
            "{shown}"
        );
    }
}
