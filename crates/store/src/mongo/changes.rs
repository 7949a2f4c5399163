//! What has changed, in all processes: read from a change stream on the tasks, told to whoever listens here.

mod event;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::doc;
use mongodb::change_stream::event::ResumeToken;
use supervise::{Component, Supervisor};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::event::Event;
use self::stream::News;
use super::base::Base;
use crate::{Change, StoreError};

/// Receivers that fall this far behind have to look for themselves.
const CHANGES: usize = 8192;
/// The server says something at least once a second. After this long without a word it is given up.
const SILENCE: Duration = Duration::from_secs(4);
/// Between two tries to open the stream.
const PAUSE: Duration = Duration::from_millis(200);
/// After so many tries in vain at a place, with a server that answers, the place is given up.
const TRIES: u32 = 5;
/// How long the first opening may take.
const OPENING: Duration = Duration::from_secs(10);

pub(super) struct Changes {
    told: broadcast::Sender<Told>,
    base: Arc<Base>,
    runtime: Handle,
    follower: JoinHandle<()>,
}

/// A change, and when the replica set says it was.
#[derive(Clone, Debug)]
struct Told {
    at: u64,
    change: Change,
}

impl Changes {
    /// When it returns, no later change is missed.
    pub(super) async fn follow(
        base: Arc<Base>,
        supervisor: &Supervisor,
        stop: &CancellationToken,
    ) -> Result<Changes, StoreError> {
        let (told, _) = broadcast::channel(CHANGES);
        let (opened, opening) = oneshot::channel();
        let run = follow(base.clone(), told.clone(), opened);
        let follower = supervisor.spawn(Component::StoreChanges, stop, run);
        let changes = Changes {
            told,
            base,
            runtime: Handle::current(),
            follower,
        };
        match timeout(OPENING, opening).await {
            Ok(Ok(())) => Ok(changes),
            _ => Err(StoreError::Silent {
                step: "follow what changes",
            }),
        }
    }

    /// The stream is behind what this process was told is done. Who begins to listen after an answer hears only
    /// of what is later, so the rest is held back from him.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Change> {
        let (sender, receiver) = broadcast::channel(CHANGES);
        let since = self.base.latest();
        self.runtime.spawn(pass_on(self.told.subscribe(), sender, since));
        receiver
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // The reader behind it ends by itself: nobody takes its events any more.
        self.follower.abort();
    }
}

/// Ends when nobody listens any more, or when the store is closed.
async fn pass_on(mut told: broadcast::Receiver<Told>, listener: broadcast::Sender<Change>, since: u64) {
    use broadcast::error::RecvError;
    loop {
        let next = tokio::select! {
            next = told.recv() => next,
            () = listener.closed() => return,
        };
        let change = match next {
            Ok(Told { at, change }) if at > since => change,
            Ok(_) => continue,
            Err(RecvError::Lagged(_)) => Change::Lost,
            Err(RecvError::Closed) => return,
        };
        // The listener may have gone just now.
        let _ = listener.send(change);
    }
}

/// Runs until it is aborted. Whatever happens to the stream, it is opened again where it ended; if that is not
/// possible, everyone is told that something was missed.
async fn follow(base: Arc<Base>, told: broadcast::Sender<Told>, opened: oneshot::Sender<()>) {
    let mut opened = Some(opened);
    let mut place: Option<ResumeToken> = None;
    let mut in_vain = 0;
    loop {
        let (sender, mut news) = mpsc::channel(1024);
        tokio::spawn(stream::read(base.clone(), place.clone(), sender));
        let mut teller = Teller::new(&told);
        while let Ok(Some(next)) = timeout(SILENCE, news.recv()).await {
            match next {
                News::Opened(at) => {
                    if opened.take().is_none_or(|opened| opened.send(()).is_err()) && place.is_none() {
                        teller.tell(u64::MAX, Change::Lost);
                    }
                    place = at.or(place);
                }
                News::Event(event, at) => {
                    teller.on_event(event);
                    place = at.or(place);
                    in_vain = 0;
                    if news.is_empty() {
                        teller.tell_waiting();
                    }
                }
                News::Idle(at) => {
                    place = at.or(place);
                    in_vain = 0;
                }
                News::HistoryLost => place = None,
            }
        }
        teller.tell_waiting();
        // Whatever is wrong with the place, it is not the server's absence, which passes.
        if answers(&base).await {
            in_vain += 1;
        }
        if in_vain == TRIES {
            tracing::warn!("the stream of changes cannot be read on where it ended; it begins anew");
            (place, in_vain) = (None, 0);
        }
        sleep(PAUSE).await;
    }
}

async fn answers(base: &Base) -> bool {
    let database = base.database.clone();
    // The driver may wait for ever here too.
    let asked = tokio::spawn(async move { database.run_command(doc! { "ping": 1 }).await });
    matches!(timeout(SILENCE, asked).await, Ok(Ok(Ok(_))))
}

struct Teller<'t> {
    told: &'t broadcast::Sender<Told>,
    /// Told as one, when no more events are at hand.
    waiting: usize,
    at: u64,
}

impl<'t> Teller<'t> {
    fn new(told: &'t broadcast::Sender<Told>) -> Teller<'t> {
        Teller {
            told,
            waiting: 0,
            at: 0,
        }
    }

    fn on_event(&mut self, event: Event) {
        if event.at != self.at {
            self.tell_waiting();
            self.at = event.at;
        }
        self.waiting += usize::from(event.waits);
        event
            .changes
            .into_iter()
            .for_each(|change| self.tell(event.at, change));
    }

    fn tell_waiting(&mut self) {
        if self.waiting > 0 {
            self.tell(self.at, Change::Waiting(self.waiting));
            self.waiting = 0;
        }
    }

    fn tell(&self, at: u64, change: Change) {
        // Nobody may be listening.
        let _ = self.told.send(Told { at, change });
    }
}
