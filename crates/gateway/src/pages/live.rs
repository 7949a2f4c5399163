//! Pages that change while they are shown: named parts of a page as server-sent events.
//!
//! In the page, an element with `sse-connect` holds the connection, and elements with `sse-swap` show the parts.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use axum::response::sse::Event;
use futures::stream::{self, BoxStream, StreamExt};
use maud::Markup;
use rpc::ChangeStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::gateway::Gateway;
use crate::quota_pool::QuotaPool;
use crate::request_error::RequestError;
use crate::request_limits::counted_size;
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota};
use crate::tasks::sse_response;

/// After this time the stream ends, and the browser opens another one with fresh credentials.
pub(super) const MAX_STREAM_TIME: Duration = Duration::from_secs(15 * 60);

/// The interval in which pages are read again while no judicator says when tasks change.
const SLOW_INTERVAL: Duration = Duration::from_secs(5);
/// A tick may be lost, so pages are read again after this time without one.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// The pause before an interrupted stream of changes is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);
/// After a page was rendered it rests this many times as long as that took, so that many live pages leave time for others.
const REST: u32 = 9;

/// The event after which the browser closes the stream, because nothing more will change.
pub(super) const END_EVENT: &str = "end";

/// The state of a page at one moment.
pub(super) struct LiveParts {
    /// The name of each part and its HTML, which consists of elements.
    pub(super) parts: Vec<(&'static str, Markup)>,
    /// Whether nothing will change any more.
    pub(super) ended: bool,
}

/// Renders the parts at each tick, and sends those that have changed. A tick may be late or missing, and the first is
/// immediate. An error skips a tick: the page keeps what it shows. While many pages are live, each waits for its turn.
pub(super) fn live_response<R, F>(
    gateway: Arc<Gateway>,
    quota: RequestQuota,
    turns: Arc<QuotaPool>,
    ticks: BoxStream<'static, ()>,
    render: R,
) -> Response
where
    R: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Result<LiveParts, RequestError>> + Send,
{
    let stop = gateway.stop.clone();
    let deadline = Instant::now() + MAX_STREAM_TIME;
    let state = LiveStream {
        quota,
        turns,
        ticks: stream::once(async {}).chain(ticks).boxed(),
        sent: SentParts::default(),
        ended: false,
        rests_until: Instant::now(),
    };
    let render = Arc::new(render);
    let events = stream::unfold(state, move |mut state| {
        let render = render.clone();
        async move {
            if state.ended {
                return None;
            }
            state.ticks.next().await?;
            sleep_until(state.rests_until).await;
            let begun = Instant::now();
            let events = state.changes(render()).await;
            state.rests_until = Instant::now() + begun.elapsed() * REST;
            Some((stream::iter(events), state))
        }
    });
    let events = events
        .flatten()
        .take_until(sleep_until(deadline))
        .take_until(stop.cancelled_owned());
    sse_response(events.boxed())
}

/// What a browser shows, by the name of the part. Only hashes: many large pages may be open at once.
#[derive(Default)]
pub(super) struct SentParts(HashMap<&'static str, u64>);

impl SentParts {
    /// Whether the browser shows something else.
    pub(super) fn differs(&self, name: &str, html: &str) -> bool {
        self.0.get(name) != Some(&hash(html))
    }

    pub(super) fn record(&mut self, name: &'static str, html: &str) {
        self.0.insert(name, hash(html));
    }
}

/// A stream of changed parts of one page.
struct LiveStream {
    quota: RequestQuota,
    /// Permits for rendering.
    turns: Arc<QuotaPool>,
    ticks: BoxStream<'static, ()>,
    sent: SentParts,
    ended: bool,
    rests_until: Instant,
}

impl LiveStream {
    async fn changes(
        &mut self,
        rendered: impl Future<Output = Result<LiveParts, RequestError>>,
    ) -> Vec<Event> {
        let turn = self.turns.acquire_within(QUOTA_WAIT_TIMEOUT, self.quota.key(), 1);
        let Ok(_turn) = turn.await else {
            return vec![];
        };
        let Ok(LiveParts { parts, ended }) = rendered.await else {
            return vec![];
        };
        let parts = parts
            .into_iter()
            .map(|(name, markup)| (name, markup.into_string()));
        let changed: Vec<_> = parts
            .filter(|(name, html)| self.sent.differs(name, html))
            .collect();
        // They stay in memory while the browser does not read them.
        let size = changed.iter().map(|(_, html)| html.len() as u64).sum();
        let charge = self
            .quota
            .set_charge_within(QUOTA_WAIT_TIMEOUT, counted_size(size));
        if charge.await.is_err() {
            return vec![];
        }
        self.ended = ended;
        let mut events = vec![];
        for (name, html) in changed {
            events.push(part_event(name, &html));
            self.sent.record(name, &html);
        }
        if ended {
            events.push(Event::default().event(END_EVENT).data("end"));
        }
        events
    }
}

fn hash(html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    html.hash(&mut hasher);
    hasher.finish()
}

/// Ticks when tasks have changed. If no judicator can say when, because all are of an earlier version, ticks in a slow
/// interval.
pub(super) fn task_changes(gateway: Arc<Gateway>) -> BoxStream<'static, ()> {
    let ticks = stream::unfold((gateway, None::<ChangeStream>), |(gateway, changes)| async {
        let Some(mut changes) = changes else {
            return Some(match gateway.calls.changes().await {
                // What has changed meanwhile is read now.
                Ok(changes) => ((), (gateway, Some(changes))),
                Err(_) => {
                    sleep(SLOW_INTERVAL).await;
                    ((), (gateway, None))
                }
            });
        };
        match timeout(LONGEST_SILENCE, changes.next()).await {
            Ok(Some(Ok(()))) | Err(_) => Some(((), (gateway, Some(changes)))),
            Ok(Some(Err(_)) | None) => {
                sleep(REOPEN_PAUSE).await;
                Some(((), (gateway, None)))
            }
        }
    });
    ticks.boxed()
}

/// The event that shows a part of a page.
pub(super) fn part_event(name: &str, html: &str) -> Event {
    // An event cannot contain carriage returns, and browsers ignore one without data.
    let data = match html {
        "" => "<!---->".to_string(),
        html => html.replace('\r', "&#13;"),
    };
    Event::default().event(name).data(data)
}

/// Ticks in a fixed interval, for what has no events of its own.
pub(super) fn every(interval: Duration) -> BoxStream<'static, ()> {
    let ticks = tokio::time::interval_at(Instant::now() + interval, interval);
    stream::unfold(ticks, |mut ticks| async {
        ticks.tick().await;
        Some(((), ticks))
    })
    .boxed()
}
