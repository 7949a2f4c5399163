//! Follows the registrations: reads the list, watches for changes, and reads the list again from time to time.
//!
//! A watch can miss events, and it can hang without an error: through a proxy it does so when the server behind the
//! proxy hangs. Reading the list again finds missed events. It also has a time limit, so it detects that etcd no longer
//! answers. On every failure the last known list stays.

use std::collections::HashSet;
use std::time::Duration;

use etcd_client::{WatchOptions, WatchStream};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::access::with_timeout;
use super::connection::EtcdConnection;
use super::snapshot::{READ_TIMEOUT, RegistrySnapshot, WatchEvent, read_snapshot};
use super::{EtcdAccess, EtcdAccessError, keys};
use crate::Registry;

/// How long a missed event may go unnoticed. Reading a handful of keys costs etcd next to nothing.
const RELIST_INTERVAL: Duration = Duration::from_secs(10);

/// Follows the registered judicators, for executors and gateways, until `stop`. The list is empty until etcd has
/// answered for the first time. `leading` is always false.
///
/// This starts one task. On every error the task tries again, so it ends only on `stop`, and then at once. If it panics,
/// the list no longer changes, so the caller must watch the task.
pub fn follow(access: EtcdAccess, stop: CancellationToken) -> (Registry, JoinHandle<()>) {
    let (follower, followed) = RegistrationFollower::new(EtcdConnection::fixed(access));
    #[expect(clippy::disallowed_methods, reason = "the caller watches the handle")]
    let task = tokio::spawn(async move {
        stop.run_until_cancelled(follower.run()).await;
    });
    let registry = Registry {
        judicators: followed.judicators,
        leading: watch::channel(false).1,
    };
    (registry, task)
}

/// The loop that follows which judicators are registered in etcd and which one leads, and publishes it.
pub(super) struct RegistrationFollower {
    connection: EtcdConnection,
    judicators: watch::Sender<Vec<String>>,
    snapshot: watch::Sender<RegistrySnapshot>,
    /// Name and revision of each unreadable value that has been logged.
    logged: HashSet<(String, i64)>,
}

/// What a node keeps learning from etcd: the addresses of the judicators, and their registrations.
pub(super) struct FollowedRegistry {
    pub(super) judicators: watch::Receiver<Vec<String>>,
    pub(super) snapshot: watch::Receiver<RegistrySnapshot>,
}

/// Why following the registrations of judicators in etcd was interrupted.
#[derive(Debug, Error)]
enum FollowError {
    #[error(transparent)]
    Access(#[from] EtcdAccessError),
    #[error("could not read the list of judicators")]
    List(#[source] etcd_client::Error),
    #[error("could not watch the judicators")]
    Watch(#[source] etcd_client::Error),
    #[error("etcd cancelled the watch of the judicators: {reason}")]
    Cancelled { reason: String },
    #[error("the watch stream of the judicators ended")]
    Ended,
}

impl RegistrationFollower {
    pub(super) fn new(connection: EtcdConnection) -> (RegistrationFollower, FollowedRegistry) {
        let (judicators, addresses) = watch::channel(Vec::new());
        let (snapshot, snapshots) = watch::channel(RegistrySnapshot::default());
        let follower = RegistrationFollower {
            connection,
            judicators,
            snapshot,
            logged: HashSet::new(),
        };
        let followed = FollowedRegistry {
            judicators: addresses,
            snapshot: snapshots,
        };
        (follower, followed)
    }

    /// Never returns. Dropping the future at any time is safe.
    pub(super) async fn run(mut self) {
        loop {
            if let Err(error) = self.follow_until_interrupted().await {
                let pause = self.connection.on_error(&error);
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Returns on an error, or when the watch has missed an event and a new watch is needed.
    async fn follow_until_interrupted(&mut self) -> Result<(), FollowError> {
        let mut client = self.connection.client().await?;
        let listed = read_snapshot(&mut client, READ_TIMEOUT)
            .await
            .map_err(FollowError::List)?;
        let (from, to) = keys::range();
        let options = WatchOptions::new()
            .with_range(to)
            .with_start_revision(listed.revision + 1);
        self.publish(listed);
        self.connection.on_answer();
        self.connection.refresh_members_if_due().await;
        let mut watch = with_timeout(READ_TIMEOUT, client.watch(from, Some(options)))
            .await
            .map_err(FollowError::Watch)?;
        loop {
            match tokio::time::timeout(RELIST_INTERVAL, next_events(&mut watch)).await {
                Ok(events) => {
                    let mut snapshot = self.snapshot.borrow().clone();
                    snapshot.merge(events?);
                    self.publish(snapshot);
                }
                Err(_no_event) => {
                    let listed = read_snapshot(&mut client, READ_TIMEOUT)
                        .await
                        .map_err(FollowError::List)?;
                    let missed = !listed.has_same_entries(&self.snapshot.borrow());
                    self.connection.refresh_members_if_due().await;
                    if missed {
                        tracing::debug!("the watch of the judicators missed an event; watching again");
                        self.publish(listed);
                        return Ok(());
                    }
                }
            }
        }
    }

    fn publish(&mut self, snapshot: RegistrySnapshot) {
        self.log_unreadable(&snapshot);
        let addresses = snapshot.addresses();
        self.judicators.send_if_modified(|published| {
            let changed = *published != addresses;
            *published = addresses;
            changed
        });
        self.snapshot.send_if_modified(|published| {
            let changed = !published.has_same_entries(&snapshot);
            *published = snapshot;
            changed
        });
    }

    /// Logs each unreadable value once.
    fn log_unreadable(&mut self, snapshot: &RegistrySnapshot) {
        let mut unreadable = HashSet::new();
        for (name, revision, error) in snapshot.unreadable() {
            let value = (name.to_owned(), revision);
            if !self.logged.contains(&value) {
                let key = keys::judicator(name);
                tracing::warn!(%key, %error, "could not parse a judicator's registration; ignoring it");
            }
            unreadable.insert(value);
        }
        self.logged = unreadable;
    }
}

async fn next_events(watch: &mut WatchStream) -> Result<Vec<WatchEvent>, FollowError> {
    let response = watch.message().await.map_err(FollowError::Watch)?;
    let response = response.ok_or(FollowError::Ended)?;
    // etcd cancels a watch when our start revision has been compacted, or when our login is no longer valid.
    if response.canceled() {
        let reason = match response.compact_revision() {
            0 => response.cancel_reason().to_owned(),
            revision => format!("revisions before {revision} have been compacted"),
        };
        return Err(FollowError::Cancelled { reason });
    }
    Ok(response.events().iter().filter_map(WatchEvent::of).collect())
}
