//! Follows who is registered: a list, a watch from there on, and another list now and then.
//!
//! A watch can miss, and it can hang: through a proxy it does when what is behind the proxy hangs, and no error ever
//! comes. So the list is read again from time to time. It finds what the watch did not tell, and it is a call with a
//! time limit, so it also finds that nobody is there any more. Whatever goes wrong, what was known last stays.

use std::collections::HashSet;
use std::time::Duration;

use etcd_client::{WatchOptions, WatchStream};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::access::within;
use super::line::Line;
use super::roster::{Change, READ, Roster, list};
use super::{Access, AccessError, keys};
use crate::Registry;

/// A list of a handful of keys costs etcd next to nothing; this long may a missed event go unnoticed.
const RELIST: Duration = Duration::from_secs(10);

/// For executors and gateways: who is registered, for as long as the stop has not come. Empty until etcd has answered
/// for the first time. Leads never.
///
/// One task is started. It never ends by itself: on every error it tries again. Told to stop, it ends at once. If it
/// panics, the list stays as it was last, so whoever starts it has to look at its end.
pub fn follow(access: Access, stop: CancellationToken) -> (Registry, JoinHandle<()>) {
    let (follower, followed) = Follower::new(Line::fixed(access));
    let task = tokio::spawn(async move {
        stop.run_until_cancelled(follower.run()).await;
    });
    let registry = Registry {
        judicators: followed.judicators,
        leading: watch::channel(false).1,
    };
    (registry, task)
}

pub(super) struct Follower {
    line: Line,
    judicators: watch::Sender<Vec<String>>,
    roster: watch::Sender<Roster>,
    /// Name and revision of what could not be read and was complained about.
    complained: HashSet<(String, i64)>,
}

/// What a follower tells.
pub(super) struct Followed {
    pub(super) judicators: watch::Receiver<Vec<String>>,
    pub(super) roster: watch::Receiver<Roster>,
}

#[derive(Debug, Error)]
enum FollowError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("could not read the list of judicators")]
    List(#[source] etcd_client::Error),
    #[error("could not watch the judicators")]
    Watch(#[source] etcd_client::Error),
    #[error("the watch of the judicators was ended by etcd: {reason}")]
    Cancelled { reason: String },
    #[error("the watch of the judicators ended")]
    Ended,
}

impl Follower {
    pub(super) fn new(line: Line) -> (Follower, Followed) {
        let (judicators, addresses) = watch::channel(Vec::new());
        let (roster, rosters) = watch::channel(Roster::default());
        let follower = Follower {
            line,
            judicators,
            roster,
            complained: HashSet::new(),
        };
        let followed = Followed {
            judicators: addresses,
            roster: rosters,
        };
        (follower, followed)
    }

    /// Never returns; may be dropped at any time.
    pub(super) async fn run(mut self) {
        loop {
            if let Err(error) = self.follow().await {
                let pause = self.line.on_error(&error);
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Until there is an error, or until the watch has missed something and a new one is due.
    async fn follow(&mut self) -> Result<(), FollowError> {
        let mut client = self.line.client().await?;
        let listed = list(&mut client, READ).await.map_err(FollowError::List)?;
        let (from, to) = keys::range();
        let options = WatchOptions::new()
            .with_range(to)
            .with_start_revision(listed.revision + 1);
        self.tell(listed);
        self.line.on_answer();
        self.line.refresh_if_due().await;
        let mut watch = within(READ, client.watch(from, Some(options)))
            .await
            .map_err(FollowError::Watch)?;
        loop {
            match tokio::time::timeout(RELIST, next(&mut watch)).await {
                Ok(changes) => {
                    let mut roster = self.roster.borrow().clone();
                    roster.merge(changes?);
                    self.tell(roster);
                }
                Err(_quiet) => {
                    let listed = list(&mut client, READ).await.map_err(FollowError::List)?;
                    let missed = !listed.agrees(&self.roster.borrow());
                    self.line.refresh_if_due().await;
                    if missed {
                        tracing::debug!("the watch of the judicators missed something");
                        self.tell(listed);
                        return Ok(());
                    }
                }
            }
        }
    }

    fn tell(&mut self, roster: Roster) {
        self.complain(&roster);
        let addresses = roster.addresses();
        self.judicators.send_if_modified(|told| {
            let changed = *told != addresses;
            *told = addresses;
            changed
        });
        self.roster.send_if_modified(|told| {
            let changed = !told.agrees(&roster);
            *told = roster;
            changed
        });
    }

    /// Once for each value that makes no sense.
    fn complain(&mut self, roster: &Roster) {
        let mut complained = HashSet::new();
        for (name, revision, wrong) in roster.unreadable() {
            let about = (name.to_owned(), revision);
            if !self.complained.contains(&about) {
                let key = keys::judicator(name);
                tracing::warn!(%key, %wrong, "what etcd has about this judicator makes no sense: left out");
            }
            complained.insert(about);
        }
        self.complained = complained;
    }
}

async fn next(watch: &mut WatchStream) -> Result<Vec<Change>, FollowError> {
    let told = watch.message().await.map_err(FollowError::Watch)?;
    let told = told.ok_or(FollowError::Ended)?;
    // Also where the history from our revision on is gone, or our login is no longer good.
    if told.canceled() {
        let reason = match told.compact_revision() {
            0 => told.cancel_reason().to_owned(),
            revision => format!("history before {revision} is gone"),
        };
        return Err(FollowError::Cancelled { reason });
    }
    Ok(told.events().iter().filter_map(Change::of).collect())
}
