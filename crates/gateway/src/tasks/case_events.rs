//! The events of a judged task: its statuses, and the verdicts on its cases as they come.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use api::CaseEvent;
use axum::response::sse::Event;
use futures::Stream;
use futures::stream;
use model::{AttemptNumber, CaseMark, Judging, OutputSource, StepName, StreamName, Task, TaskId, Verdict};

use super::events::{problem_event, sse_event, status_event};
use super::get::MAX_JUDICATOR_LAG;
use super::output_event_id::OutputEventId;
use super::output_events::{FeedItem, OutputPiece, TaskFeed};
use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// Longer than any mark: the name of a case has a bounded length.
const MAX_LINE: usize = 1 << 10;

/// The live stdout of a judged task is not that of its program: it has a line for each case that has ended.
const MARKS: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stdout);

/// Whether a client that follows a judged task gets the output of its compile step, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompileStepOutput {
    Without,
    After(Option<OutputEventId>),
}

/// The statuses of a judged task and the verdicts on its cases until it is done. Each case has an event when it ends, and
/// another one only if its verdict has changed: in a new attempt, or because an earlier case was not accepted. Verdicts have no
/// ids, so a client that reconnects gets them all again.
pub(super) fn case_events(
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    id: TaskId,
    output: CompileStepOutput,
) -> impl Stream<Item = Event> + Send + 'static {
    let last_id = match output {
        CompileStepOutput::Without => None,
        CompileStepOutput::After(last_id) => last_id,
    };
    let feed = CaseFeed {
        feed: TaskFeed::new(gateway.clone(), quota.clone(), id, last_id),
        gateway,
        quota,
        id,
        output,
        attempt: None,
        marks: MarkReader::default(),
        sent: BTreeMap::new(),
        queue: VecDeque::new(),
    };
    stream::unfold(feed, |mut feed| async move {
        let event = feed.next().await?;
        Some((event, feed))
    })
}

/// The events of a judged task for one client.
struct CaseFeed {
    feed: TaskFeed,
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    id: TaskId,
    output: CompileStepOutput,
    /// The attempt whose marks were sent.
    attempt: Option<AttemptNumber>,
    marks: MarkReader,
    /// The verdicts that were sent, by the place of the case.
    sent: BTreeMap<usize, Verdict>,
    /// Events that are not sent yet.
    queue: VecDeque<Event>,
}

impl CaseFeed {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            match self.feed.next().await? {
                Ok(FeedItem::Output(piece)) => self.on_output(piece),
                Ok(FeedItem::Status(status)) => {
                    if status.status.is_done() {
                        match self.marks_of_result().await {
                            Ok(marks) => self.push_marks(marks),
                            Err(error) => self.queue.push_back(problem_event(&error)),
                        }
                    }
                    self.queue.push_back(status_event(status));
                }
                Err(error) => return Some(problem_event(&error)),
            }
        }
    }

    fn on_output(&mut self, piece: OutputPiece) {
        if self.attempt != Some(piece.attempt) {
            self.attempt = Some(piece.attempt);
            self.marks = MarkReader::default();
            self.sent.clear();
        }
        if piece.source == MARKS {
            let marks = self.marks.push(&piece.bytes);
            self.push_marks(marks);
        } else if self.output != CompileStepOutput::Without {
            self.queue.push_back(piece.event());
        }
    }

    fn push_marks(&mut self, marks: Vec<CaseMark>) {
        for mark in marks {
            if self.sent.insert(mark.index, mark.verdict) != Some(mark.verdict) {
                self.queue.push_back(sse_event("case", &CaseEvent::from(mark)));
            }
        }
    }

    /// The verdicts on all cases when the task is done. Some may not have been streamed.
    async fn marks_of_result(&mut self) -> Result<Vec<CaseMark>, RequestError> {
        let which = (self.id, MAX_JUDICATOR_LAG);
        self.gateway
            .load_for_body(&self.quota, which, marks_of_task)
            .await
    }
}

fn marks_of_task(task: &Task) -> Vec<CaseMark> {
    let judging = task.spec.judging.as_ref();
    let judgement = task.result.as_ref().and_then(|result| result.judgement.as_ref());
    let both = judging.zip(judgement);
    both.map_or_else(Vec::new, |(judging, judgement)| {
        CaseMark::of_judgement(judging, judgement).collect()
    })
}

/// Reads marks of cases from the pieces of a task's live stdout. A line that is no mark is left out: a newer executor may send
/// what this gateway does not know.
#[derive(Debug, Default)]
struct MarkReader {
    /// A line whose end has not come yet.
    line: Vec<u8>,
}

impl MarkReader {
    fn push(&mut self, bytes: &[u8]) -> Vec<CaseMark> {
        let mut marks = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    let mark = std::str::from_utf8(&line).ok().and_then(|line| line.parse().ok());
                    marks.extend(mark.filter(|mark: &CaseMark| mark.index < Judging::MAX_CASES));
                }
                _ if self.line.len() < MAX_LINE => self.line.push(*byte),
                _ => {}
            }
        }
        marks
    }
}

#[cfg(test)]
mod tests;
