//! Registers a judicator and stands for election as the leader.
//!
//! Every sixth of the lease, and whenever the registrations change, a round keeps the lease alive, reads the
//! registrations, and takes the keys that are free. Each keep-alive is a call of its own, because a keep-alive stream
//! does not reconnect after it breaks.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use etcd_client::{Client, Compare, CompareOp, Error, PutOptions, Txn, TxnOp};
use supervise::{ComponentFailure, Supervisor};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::access::with_timeout;
use super::connection::EtcdConnection;
use super::follow::RegistrationFollower;
use super::key_claim::{self, LeaderKey, NameClaim, NameClaimant, RegistrationConflict, RegistrationHistory};
use super::leadership_lease::{self, LeadershipLease};
use super::snapshot::RegistrationRecord;
use super::snapshot::{RegistryEntry, RegistrySnapshot, read_snapshot};
use super::{EtcdAccess, EtcdAccessError, keys};
use crate::Registry;

/// For requests that etcd writes to disk.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

/// The pause before the judicator registers again after its lease has expired.
const RETRY_AFTER_LEASE_LOSS: Duration = Duration::from_millis(50);

/// The longest time between two rounds, however long the lease. A round also finds changes that the watch missed.
const MAX_ROUND_INTERVAL: Duration = Duration::from_secs(5);

/// For deregistering. If it takes longer, the lease expires by itself.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(3);

/// The judicator of this process, as it registers in etcd.
#[derive(Clone, Debug)]
pub struct LocalJudicator {
    /// Must be unique in the cluster.
    pub name: String,
    /// The address of its RPC server. The caller must have bound it: a process that registers the same name with the
    /// same address counts as a restart of the same judicator.
    pub address: String,
    pub version: String,
    pub newer_form: NewerFormSource,
}

/// Tells which form of tasks a judicator has met last that is newer than those it knows. The registration publishes it, so
/// that operators see which node needs an upgrade.
#[derive(Clone)]
pub struct NewerFormSource(Arc<dyn Fn() -> Option<u32> + Send + Sync>);

impl NewerFormSource {
    pub fn new(newer_form: impl Fn() -> Option<u32> + Send + Sync + 'static) -> NewerFormSource {
        NewerFormSource(Arc::new(newer_form))
    }

    fn get(&self) -> Option<u32> {
        (self.0)()
    }
}

impl fmt::Debug for NewerFormSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewerFormSource({:?})", self.get())
    }
}

/// Registers the judicator, stands for election, and follows the registrations.
///
/// This starts one task. On `stop` it ends the leadership, deregisters, and ends, within 3 s. On errors of etcd it tries
/// again. It ends by itself only if the leadership timer fails, and returns that failure. If it is aborted, the
/// leadership ends at once, and the key disappears when the lease expires.
///
/// etcd counts leases in seconds, and its shortest lease is 2 s.
pub fn register(
    access: EtcdAccess,
    me: LocalJudicator,
    lease: Duration,
    stop: CancellationToken,
) -> io::Result<(Registry, JoinHandle<Result<(), ComponentFailure>>)> {
    let supervisor = Supervisor::new();
    let (leadership, leading) = LeadershipLease::new(&supervisor)?;
    let (follower, followed) = RegistrationFollower::new(EtcdConnection::to_members(access.clone()));
    let registration = Registration {
        connection: EtcdConnection::to_members(access),
        record: RegistrationRecord::new(me.address, me.version, SystemTime::now()),
        name: me.name,
        newer_form: me.newer_form,
        wanted: lease,
        lease: None,
        history: RegistrationHistory::NeverRegistered,
        conflict: None,
        leadership,
        snapshot: followed.snapshot,
    };
    let mut failures = supervisor.failures();
    #[expect(clippy::disallowed_methods, reason = "the caller watches the handle")]
    let task = tokio::spawn(async move {
        let run = async { tokio::join!(registration.run(&stop), stop.run_until_cancelled(follower.run())) };
        tokio::select! {
            _ = run => Ok(()),
            // Without the timer this judicator could lead for too long. Dropping `run` ends its leadership.
            failed = failures.wait() => Err(failed),
        }
    });
    let registry = Registry {
        judicators: followed.judicators,
        leading,
    };
    Ok((registry, task))
}

/// The loop that keeps this judicator registered in etcd and stands for election as the leader.
struct Registration {
    connection: EtcdConnection,
    name: String,
    record: RegistrationRecord,
    newer_form: NewerFormSource,
    wanted: Duration,
    lease: Option<EtcdLease>,
    history: RegistrationHistory,
    /// The name conflict that was logged last.
    conflict: Option<RegistrationConflict>,
    leadership: LeadershipLease,
    snapshot: watch::Receiver<RegistrySnapshot>,
}

/// A lease that etcd has granted for this judicator's registration.
#[derive(Clone, Copy)]
struct EtcdLease {
    id: i64,
    /// The time to live that etcd granted, which may differ from the requested one.
    ttl: Duration,
}

impl EtcdLease {
    fn round_interval(self) -> Duration {
        (self.ttl / 6).min(MAX_ROUND_INTERVAL)
    }

    /// For requests that etcd does not write to disk. It is short, so that after an endpoint that hangs there is time to
    /// try another one before the leadership ends.
    fn read_timeout(self) -> Duration {
        (self.ttl / 5).clamp(Duration::from_millis(500), Duration::from_secs(2))
    }
}

/// Why a round of the loop that keeps this judicator registered in etcd failed: the step and its cause.
#[derive(Debug, Error)]
enum RoundError {
    #[error(transparent)]
    Access(#[from] EtcdAccessError),
    #[error("could not get a lease")]
    Grant(#[source] Error),
    #[error("could not keep the lease alive")]
    KeepAlive(#[source] Error),
    #[error("the lease has expired")]
    LeaseEnded,
    #[error("could not read the list of judicators")]
    List(#[source] Error),
    #[error("could not encode the registration")]
    Encode(#[source] serde_json::Error),
    #[error("could not register")]
    Register(#[source] Error),
    #[error("could not revoke the lease")]
    Revoke(#[source] Error),
    #[error("could not stand for election")]
    Stand(#[source] Error),
}

impl Registration {
    async fn run(mut self, stop: &CancellationToken) {
        while let Some(outcome) = stop.run_until_cancelled(self.round()).await {
            let pause = match outcome {
                Ok(pause) => {
                    self.connection.on_answer();
                    pause
                }
                // etcd has answered, so the connection is good.
                Err(RoundError::LeaseEnded) => {
                    tracing::warn!("the lease has expired; registering again");
                    RETRY_AFTER_LEASE_LOSS
                }
                Err(error) => self.connection.on_error(&error),
            };
            let paused = tokio::time::timeout(pause, snapshot_changed(&mut self.snapshot));
            if stop.run_until_cancelled(paused).await.is_none() {
                break;
            }
        }
        self.leadership.end();
        self.deregister().await;
    }

    /// Returns the time until the next round.
    async fn round(&mut self) -> Result<Duration, RoundError> {
        let mut client = self.connection.client().await?;
        self.record.newer_form = self.newer_form.get();
        let sent = Instant::now();
        let lease = self.renew(&mut client).await?;
        let snapshot = read_snapshot(&mut client, lease.read_timeout())
            .await
            .map_err(RoundError::List)?;
        let until = leadership_lease::end_of_leadership(sent, lease.ttl);
        let ours = match self.claim_name(&mut client, lease, &snapshot).await? {
            RegistrationState::Leading => true,
            RegistrationState::Registered => {
                self.stand_for_election(&mut client, lease, snapshot.leader.as_ref())
                    .await?
            }
            RegistrationState::Unregistered => false,
        };
        if ours {
            self.leadership.extend(until);
        } else {
            self.leadership.end();
            self.step_down(lease, &snapshot).await?;
        }
        self.publish_newer_form(&mut client, lease, &snapshot).await?;
        self.connection.refresh_members_if_due().await;
        Ok(lease.round_interval())
    }

    /// Keeps the lease alive, or requests one.
    async fn renew(&mut self, client: &mut Client) -> Result<EtcdLease, RoundError> {
        let Some(lease) = self.lease else {
            let seconds = self
                .wanted
                .as_millis()
                .div_ceil(1000)
                .try_into()
                .unwrap_or(i64::MAX);
            let mut leases = client.lease_client();
            let granted = with_timeout(WRITE_TIMEOUT, leases.grant(seconds, None))
                .await
                .map_err(RoundError::Grant)?;
            let ttl = Duration::from_secs(granted.ttl().unsigned_abs());
            let lease = EtcdLease {
                id: granted.id(),
                ttl,
            };
            self.lease = Some(lease);
            return Ok(lease);
        };
        let mut leases = client.lease_client();
        match with_timeout(lease.read_timeout(), leases.keep_alive(lease.id)).await {
            Ok(_) => Ok(lease),
            // This error means only one thing: etcd has no such lease. Both keys expired with it.
            Err(Error::LeaseKeepAliveError(_)) => {
                self.leadership.end();
                self.lease = None;
                if let RegistrationHistory::Registered { ended_lease } = &mut self.history {
                    // If several leases have expired in a row, the first one held the key.
                    ended_lease.get_or_insert(lease.id);
                }
                Err(RoundError::LeaseEnded)
            }
            Err(error) => Err(RoundError::KeepAlive(error)),
        }
    }

    async fn claim_name(
        &mut self,
        client: &mut Client,
        lease: EtcdLease,
        snapshot: &RegistrySnapshot,
    ) -> Result<RegistrationState, RoundError> {
        let me = NameClaimant {
            address: &self.record.address,
            lease: lease.id,
            history: self.history,
        };
        let mut keys = Vec::new();
        match key_claim::claim_name(snapshot.judicator(&self.name), me) {
            NameClaim::Held => {
                self.on_registered();
                return Ok(RegistrationState::Registered);
            }
            NameClaim::Refused(conflict) => {
                self.log_conflict(conflict);
                return Ok(RegistrationState::Unregistered);
            }
            NameClaim::Free { revision } => keys.push(self.own_key(revision)?),
            // If the earlier process led, this one takes over the leadership.
            NameClaim::Inherited { revision, from } => {
                keys.push(self.own_key(revision)?);
                let led = snapshot.leader.as_ref().filter(|leader| leader.lease == from);
                keys.extend(led.map(|leader| self.leader_key(leader.revision)));
            }
        }
        let leads = keys.len() > 1;
        let taken = write_if_unchanged(client, lease, keys)
            .await
            .map_err(RoundError::Register)?;
        if !taken {
            return Ok(RegistrationState::Unregistered);
        }
        tracing::info!(name = self.name, address = self.record.address, "registered");
        self.on_registered();
        Ok(if leads {
            RegistrationState::Leading
        } else {
            RegistrationState::Registered
        })
    }

    fn on_registered(&mut self) {
        self.history = RegistrationHistory::Registered { ended_lease: None };
        self.conflict = None;
    }

    /// Takes the leader key if it is free. Returns whether this judicator holds it now.
    async fn stand_for_election(
        &self,
        client: &mut Client,
        lease: EtcdLease,
        leader: Option<&RegistryEntry>,
    ) -> Result<bool, RoundError> {
        match key_claim::inspect_leader_key(leader, lease.id) {
            LeaderKey::Ours => Ok(true),
            LeaderKey::Others => Ok(false),
            LeaderKey::Free { revision } => {
                let key = self.leader_key(revision);
                write_if_unchanged(client, lease, vec![key])
                    .await
                    .map_err(RoundError::Stand)
            }
        }
    }

    /// Another process has our name while we hold the leader key. We release the key, or no judicator would lead.
    async fn step_down(&mut self, lease: EtcdLease, snapshot: &RegistrySnapshot) -> Result<(), RoundError> {
        if key_claim::inspect_leader_key(snapshot.leader.as_ref(), lease.id) == LeaderKey::Ours {
            self.revoke(lease).await?;
            self.lease = None;
        }
        Ok(())
    }

    /// Writes the registration again if it was written with another form.
    async fn publish_newer_form(
        &self,
        client: &mut Client,
        lease: EtcdLease,
        snapshot: &RegistrySnapshot,
    ) -> Result<(), RoundError> {
        let own = snapshot
            .judicator(&self.name)
            .filter(|entry| entry.lease == lease.id);
        let Some(own) = own else { return Ok(()) };
        let published = RegistrationRecord::read(&own.value).ok();
        if published.is_some_and(|record| record.newer_form != self.record.newer_form) {
            let key = self.own_key(own.revision)?;
            // If the key has changed meanwhile, the next round does it.
            write_if_unchanged(client, lease, vec![key])
                .await
                .map_err(RoundError::Register)?;
        }
        Ok(())
    }

    fn own_key(&self, revision: i64) -> Result<KeyWrite, RoundError> {
        Ok(KeyWrite {
            name: keys::judicator(&self.name),
            revision,
            value: self.record.write().map_err(RoundError::Encode)?,
        })
    }

    fn leader_key(&self, revision: i64) -> KeyWrite {
        KeyWrite {
            name: keys::LEADER.to_owned(),
            revision,
            value: self.name.clone().into_bytes(),
        }
    }

    /// Logs each conflict once.
    fn log_conflict(&mut self, conflict: RegistrationConflict) {
        if self.conflict.as_ref() == Some(&conflict) {
            return;
        }
        let name = &self.name;
        match &conflict {
            RegistrationConflict::OtherAddress(address) => tracing::error!(
                name,
                address,
                "another judicator uses this name; this one registers when the other is gone; \
                 give each node its own node.name"
            ),
            RegistrationConflict::SameAddress => tracing::error!(
                name,
                address = self.record.address,
                "another judicator uses this name and this address; this one registers when the other is gone; \
                 give each node its own node.name and node.address"
            ),
            RegistrationConflict::Unreadable => tracing::error!(
                name,
                key = keys::judicator(name),
                "the etcd key of this name has an unknown value; this judicator registers when the key is deleted"
            ),
        }
        self.conflict = Some(conflict);
    }

    /// Revokes the lease, which deletes both keys.
    async fn deregister(&mut self) {
        let Some(lease) = self.lease.take() else {
            return;
        };
        let deregistration = async {
            while let Err(error) = self.revoke(lease).await {
                let pause = self.connection.on_error(&error);
                tokio::time::sleep(pause).await;
            }
        };
        match tokio::time::timeout(DEREGISTER_TIMEOUT, deregistration).await {
            Ok(()) => tracing::info!(name = self.name, "deregistered"),
            Err(_) => tracing::warn!(
                name = self.name,
                "could not deregister in time; the registration expires with its lease"
            ),
        }
    }

    async fn revoke(&mut self, lease: EtcdLease) -> Result<(), RoundError> {
        let client = self.connection.client().await?;
        match with_timeout(DEREGISTER_TIMEOUT / 3, client.lease_client().revoke(lease.id)).await {
            Ok(_) => Ok(()),
            Err(Error::GRpcStatus(status)) if status.message().contains("lease not found") => Ok(()),
            Err(error) => Err(RoundError::Revoke(error)),
        }
    }
}

/// Where the judicator stands after it claimed its name in etcd: not registered, registered, or also leading.
enum RegistrationState {
    Unregistered,
    Registered,
    Leading,
}

/// A registration key to write in etcd if its revision is still the expected one.
struct KeyWrite {
    name: String,
    revision: i64,
    value: Vec<u8>,
}

/// Writes all keys, or none if any of them has changed. A key that does not exist has revision 0.
async fn write_if_unchanged(
    client: &mut Client,
    lease: EtcdLease,
    keys: Vec<KeyWrite>,
) -> Result<bool, Error> {
    let unchanged: Vec<_> = keys
        .iter()
        .map(|key| Compare::mod_revision(key.name.as_str(), CompareOp::Equal, key.revision))
        .collect();
    let puts: Vec<_> = keys
        .into_iter()
        .map(|key| TxnOp::put(key.name, key.value, Some(PutOptions::new().with_lease(lease.id))))
        .collect();
    let txn = Txn::new().when(unchanged).and_then(puts);
    Ok(with_timeout(WRITE_TIMEOUT, client.txn(txn)).await?.succeeded())
}

/// Returns when the registrations change: the leader may be gone, or a name may be free.
async fn snapshot_changed(snapshot: &mut watch::Receiver<RegistrySnapshot>) {
    if snapshot.changed().await.is_err() {
        std::future::pending().await
    }
}
