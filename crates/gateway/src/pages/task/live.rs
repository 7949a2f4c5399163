//! The live events of a task's page: its parts as HTML when they change, and its output as HTML to append.

mod marks;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use futures::stream::{self, BoxStream, StreamExt};
use maud::{Markup, html};
use model::{AttemptNumber, OutputSource, StepName, StreamName, Task, TaskId, TaskStatus, TaskWait};
use tokio::time::{Instant, sleep_until};

use self::marks::LiveMarks;
use super::case_strip::{CASES_EVENT, CaseStrip, KnownVerdicts};
use super::steps::StepView;
use super::{LiveView, kept, parts, waiting};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::pages::ansi::AnsiConverter;
use crate::pages::live::{END_EVENT, MAX_STREAM_TIME, SentParts, every, part_event};
use crate::pages::output_view::{event_name, size, size_event_name};
use crate::params::TaskPath;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::run_in_own_task;
use crate::tasks::{FeedItem, MAX_JUDICATOR_LAG, OutputPiece, TaskFeed, sse_response};

/// How often the reason is read why a task waits.
const WAIT_INTERVAL: Duration = Duration::from_secs(2);

/// Marks of cases that come within this time are sent together. Many marks are sent less often.
const MARKS_PAUSE: Duration = Duration::from_millis(150);
const MAX_MARKS_PAUSE: Duration = Duration::from_secs(2);

/// The event that empties the outputs: what follows is their beginning.
const RESET_EVENT: &str = "reset";

pub(crate) async fn live_task(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Response, RequestError> {
    let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
    let strip = CaseStrip::of(&caller.check_owner(loaded)?.task);
    let stop = gateway.stop.clone();
    let events = events(gateway, quota, id, strip)
        .take_until(tokio::time::sleep(MAX_STREAM_TIME))
        .take_until(stop.cancelled_owned());
    Ok(sse_response(events.boxed()))
}

/// What wakes the stream of a task's page.
enum Wake {
    Fed(Option<Result<FeedItem, RequestError>>),
    /// The task may still wait, and another reason may have become true.
    Tick,
    /// Verdicts that have come are to be shown.
    MarksDue,
}

/// The page of a task in one browser.
struct LiveTask {
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    id: TaskId,
    wakes: BoxStream<'static, Wake>,
    sent: SentParts,
    converters: BTreeMap<OutputSource, AnsiConverter>,
    /// The attempt whose output is shown.
    attempt: Option<AttemptNumber>,
    status: Option<TaskStatus>,
    /// The cases of the task, if it is judged.
    strip: Option<CaseStrip>,
    marks: LiveMarks,
    /// When new verdicts are sent.
    marks_due: Option<Instant>,
    queue: VecDeque<Event>,
    ended: bool,
}

fn events(
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    id: TaskId,
    strip: Option<CaseStrip>,
) -> BoxStream<'static, Event> {
    let feed = TaskFeed::new(gateway.clone(), quota.clone(), id, None);
    let feed = stream::unfold(Some(feed), |feed| async {
        let mut feed = feed?;
        let item = feed.next().await;
        let rest = item.is_some().then_some(feed);
        Some((Wake::Fed(item), rest))
    });
    let ticks = every(WAIT_INTERVAL).map(|()| Wake::Tick);
    let live = LiveTask {
        gateway,
        quota,
        id,
        wakes: stream::select(feed, ticks).boxed(),
        sent: SentParts::default(),
        converters: BTreeMap::new(),
        attempt: None,
        status: None,
        strip,
        marks: LiveMarks::default(),
        marks_due: None,
        // The browser may show the output of an earlier connection.
        queue: VecDeque::from([reset_event()]),
        ended: false,
    };
    stream::unfold(live, |mut live| async move {
        loop {
            if let Some(event) = live.queue.pop_front() {
                return Some((event, live));
            }
            if live.ended {
                return None;
            }
            let wake = live.next_wake().await?;
            live.on_wake(wake).await;
        }
    })
    .boxed()
}

fn reset_event() -> Event {
    Event::default().event(RESET_EVENT).data("reset")
}

impl LiveTask {
    async fn next_wake(&mut self) -> Option<Wake> {
        let Some(due) = self.marks_due else {
            return self.wakes.next().await;
        };
        tokio::select! {
            wake = self.wakes.next() => wake,
            () = sleep_until(due) => Some(Wake::MarksDue),
        }
    }

    async fn on_wake(&mut self, wake: Wake) {
        match wake {
            Wake::Fed(Some(Ok(FeedItem::Output(piece)))) => self.on_output(&piece),
            Wake::Fed(Some(Ok(FeedItem::Status(event)))) => {
                self.status = Some(event.status);
                self.refresh(event.status).await;
                if event.status.is_done() {
                    self.end();
                }
            }
            // The browser connects again.
            Wake::Fed(Some(Err(_)) | None) => self.ended = true,
            Wake::Tick => {
                if let Some(TaskStatus::Pending | TaskStatus::Retrying) = self.status {
                    self.refresh_waiting().await;
                }
            }
            Wake::MarksDue => self.send_marks(),
        }
    }

    fn on_output(&mut self, piece: &OutputPiece) {
        if self.attempt != Some(piece.attempt) {
            if self.attempt.is_some() {
                self.queue.push_back(reset_event());
            }
            self.attempt = Some(piece.attempt);
            self.converters.clear();
            self.marks = LiveMarks::default();
        }
        // The output of a judged task is not that of its program, but a line for each case that is judged.
        if let Some(strip) = &self.strip
            && piece.source.step == StepName::Execute
        {
            if piece.source.stream == StreamName::Stdout && self.marks.push(&piece.bytes) {
                let pause = MARKS_PAUSE.mul_f64(1.0 + strip.len() as f64 / 100.0);
                let due = Instant::now() + pause.min(MAX_MARKS_PAUSE);
                self.marks_due.get_or_insert(due);
            }
            return;
        }
        let html = self
            .converters
            .entry(piece.source)
            .or_default()
            .push(&piece.bytes);
        self.push_output(piece.source, &html);
    }

    fn send_marks(&mut self) {
        self.marks_due = None;
        let (Some(strip), Some(status)) = (&self.strip, self.status) else {
            return;
        };
        let known = KnownVerdicts {
            marks: &self.marks.verdicts,
            judgement: None,
            status,
        };
        let html = strip.show(known).into_string();
        self.send_if_changed(CASES_EVENT, html);
    }

    fn push_output(&mut self, source: OutputSource, html: &str) {
        if !html.is_empty() {
            self.queue
                .push_back(Event::default().event(event_name(source)).data(html));
        }
    }

    /// Sends the parts of the page that have changed.
    async fn refresh(&mut self, status: TaskStatus) {
        let wait = match status {
            TaskStatus::Pending | TaskStatus::Retrying => self.read_wait().await,
            _ => None,
        };
        // The judicator that answers may be behind the one that has sent the event.
        let lag = match status.is_done() {
            true => MAX_JUDICATOR_LAG,
            false => Duration::ZERO,
        };
        let render = move |task: &Task| rendered(task, wait.as_ref());
        let loaded = self
            .gateway
            .load_for_body(&self.quota, (self.id, lag), render)
            .await;
        // On an error the page keeps what it shows, until the next change.
        for (name, html) in loaded.unwrap_or_default() {
            self.send_if_changed(name, html);
        }
        if !status.is_done() {
            self.send_marks();
        }
    }

    async fn refresh_waiting(&mut self) {
        let Some(wait) = self.read_wait().await else {
            return;
        };
        let render = move |task: &Task| waiting(task, Some(&wait)).into_string();
        let which = (self.id, Duration::ZERO);
        if let Ok(html) = self.gateway.load_for_body(&self.quota, which, render).await {
            self.send_if_changed("waiting", html);
        }
    }

    /// Not by a shared reference, because the wakes cannot be shared between threads.
    async fn read_wait(&mut self) -> Option<TaskWait> {
        let (gateway, quota, id) = (self.gateway.clone(), self.quota.clone(), self.id);
        let read = run_in_own_task(async move {
            let _permit = gateway.acquire_load_permit(&quota).await.ok()?;
            gateway.calls.waiting(id).await.ok()
        });
        read.await.flatten()
    }

    fn send_if_changed(&mut self, name: &'static str, html: String) {
        if self.sent.differs(name, &html) {
            self.queue.push_back(part_event(name, &html));
            self.sent.record(name, &html);
        }
    }

    fn end(&mut self) {
        for (source, mut converter) in std::mem::take(&mut self.converters) {
            let html = converter.finish();
            self.push_output(source, &html);
        }
        self.queue
            .push_back(Event::default().event(END_EVENT).data("end"));
        self.ended = true;
    }
}

/// The HTML of all parts of the page that change, by the names of their events.
fn rendered(task: &Task, wait: Option<&TaskWait>) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&'static str, Markup)> = parts(task, wait, LiveView::Page);
    for step in StepView::of(task) {
        all.push((step.outcome_event(), step.outcome_part(task)));
        for stream in [StreamName::Stdout, StreamName::Stderr] {
            let source = OutputSource {
                step: step.name,
                stream,
            };
            if let Some(captured) = step.captured(stream) {
                all.push((size_event_name(source), html! { span { (size(captured)) } }));
            } else if task.status.is_done() {
                // The style sheet hides the links to it.
                all.push((
                    size_event_name(source),
                    html! { span data-not-kept { "nothing is kept" } },
                ));
            }
        }
    }
    if let Some(strip) = CaseStrip::of(task).filter(|_| task.status.is_done()) {
        all.push((CASES_EVENT, strip.of_task(task)));
    }
    all.push(("files", kept(task)));
    all.into_iter()
        .map(|(name, part)| (name, part.into_string()))
        .collect()
}

#[cfg(test)]
mod tests;
