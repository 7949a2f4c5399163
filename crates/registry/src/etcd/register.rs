//! Registers a judicator, and stands for leader.
//!
//! A round every sixth of the lease, and whenever the list changes: keep the lease alive, read the list, take what is free. Each keep-alive is a call
//! of its own: a stream of them does not come back by itself once it is broken.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use etcd_client::{Client, Compare, CompareOp, Error, PutOptions, Txn, TxnOp};
use supervise::{ComponentFailed, Supervisor};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::access::within;
use super::claim::{self, Claim, Claimant, Lead, Life, Rival};
use super::follow::Follower;
use super::line::Line;
use super::record::Record;
use super::reign::{self, Reign};
use super::roster::{Entry, Roster, list};
use super::{Access, AccessError, keys};
use crate::Registry;

/// For what etcd has to write to its disks.
const WRITE: Duration = Duration::from_secs(3);

/// Before trying again where nothing stands in the way.
const BREATH: Duration = Duration::from_millis(50);

/// Long leases are not left alone for long: a round also finds what was missed.
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);

/// For saying goodbye. After that the lease ends by itself.
const GOODBYE: Duration = Duration::from_secs(3);

/// The judicator that registers.
#[derive(Clone, Debug)]
pub struct Me {
    /// Unique in the cluster.
    pub name: String,
    /// Where it serves RPC. It has to be bound by now: who comes to the same name with the same address is taken for
    /// the same judicator, in a later life.
    pub address: String,
    pub version: String,
}

/// Registers, stands for leader, and follows who is registered.
///
/// One task is started. It ends by itself only with the component that failed: on every other error it tries again. Told to stop, it leads no longer,
/// deregisters, and ends; that takes 3 s at most. If it is dropped or aborted, this judicator leads no longer,
/// and its key goes when the lease ends.
///
/// etcd counts leases in seconds, and has a shortest one of its own (2 s).
pub fn register(
    access: Access,
    me: Me,
    lease: Duration,
    stop: CancellationToken,
) -> io::Result<(Registry, JoinHandle<Result<(), ComponentFailed>>)> {
    let supervisor = Supervisor::new();
    let (reign, leading) = Reign::new(&supervisor)?;
    let (follower, followed) = Follower::new(Line::to_members(access.clone()));
    let registration = Registration {
        line: Line::to_members(access),
        record: Record::new(me.address, me.version, SystemTime::now()),
        name: me.name,
        wanted: lease,
        lease: None,
        life: Life::New,
        rival: None,
        reign,
        roster: followed.roster,
    };
    let mut failures = supervisor.failures();
    let task = tokio::spawn(async move {
        let run = async { tokio::join!(registration.run(&stop), stop.run_until_cancelled(follower.run())) };
        tokio::select! {
            _ = run => Ok(()),
            // Without its timer a judicator might lead for too long; dropping the rest ends that.
            failed = failures.wait() => Err(failed),
        }
    });
    let registry = Registry {
        judicators: followed.judicators,
        leading,
    };
    Ok((registry, task))
}

struct Registration {
    line: Line,
    name: String,
    record: Record,
    wanted: Duration,
    lease: Option<Lease>,
    life: Life,
    /// Who has our name, and was complained about.
    rival: Option<Rival>,
    reign: Reign,
    roster: watch::Receiver<Roster>,
}

#[derive(Clone, Copy)]
struct Lease {
    id: i64,
    /// What etcd granted.
    lasts: Duration,
}

impl Lease {
    fn interval(self) -> Duration {
        (self.lasts / 6).min(LONGEST_INTERVAL)
    }

    /// For what etcd need not write. An address that hangs must leave time to try another before the reign ends.
    fn patience(self) -> Duration {
        (self.lasts / 5).clamp(Duration::from_millis(500), Duration::from_secs(2))
    }
}

#[derive(Debug, Error)]
enum RoundError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("could not get a lease")]
    Grant(#[source] Error),
    #[error("could not keep the lease alive")]
    KeepAlive(#[source] Error),
    #[error("the lease had ended")]
    LeaseEnded,
    #[error("could not read the list of judicators")]
    List(#[source] Error),
    #[error("could not write what is to be registered")]
    Record(#[source] serde_json::Error),
    #[error("could not register")]
    Register(#[source] Error),
    #[error("could not end the lease")]
    Revoke(#[source] Error),
    #[error("could not stand for leader")]
    Stand(#[source] Error),
}

impl Registration {
    async fn run(mut self, stop: &CancellationToken) {
        while let Some(turn) = stop.run_until_cancelled(self.round()).await {
            let pause = match turn {
                Ok(pause) => {
                    self.line.on_answer();
                    pause
                }
                // etcd has answered: nothing is wrong with the line.
                Err(RoundError::LeaseEnded) => {
                    tracing::warn!("the lease had ended: registering anew");
                    BREATH
                }
                Err(error) => self.line.on_error(&error),
            };
            let paused = tokio::time::timeout(pause, something_happened(&mut self.roster));
            if stop.run_until_cancelled(paused).await.is_none() {
                break;
            }
        }
        self.reign.end();
        self.deregister().await;
    }

    /// Gives the time until the next.
    async fn round(&mut self) -> Result<Duration, RoundError> {
        let mut client = self.line.client().await?;
        let sent = Instant::now();
        let lease = self.renew(&mut client).await?;
        let roster = list(&mut client, lease.patience())
            .await
            .map_err(RoundError::List)?;
        let until = reign::ends(sent, lease.lasts);
        let ours = match self.claim(&mut client, lease, &roster).await? {
            Standing::Leads => true,
            Standing::Registered => self.stand(&mut client, lease, roster.leader.as_ref()).await?,
            Standing::Unregistered => false,
        };
        if ours {
            self.reign.extend(until);
        } else {
            self.reign.end();
            self.step_down(lease, &roster).await?;
        }
        self.line.refresh_if_due().await;
        Ok(lease.interval())
    }

    async fn renew(&mut self, client: &mut Client) -> Result<Lease, RoundError> {
        let Some(lease) = self.lease else {
            let seconds = self
                .wanted
                .as_millis()
                .div_ceil(1000)
                .try_into()
                .unwrap_or(i64::MAX);
            let mut leases = client.lease_client();
            let granted = within(WRITE, leases.grant(seconds, None))
                .await
                .map_err(RoundError::Grant)?;
            let lasts = Duration::from_secs(granted.ttl().unsigned_abs());
            let lease = Lease {
                id: granted.id(),
                lasts,
            };
            self.lease = Some(lease);
            return Ok(lease);
        };
        let mut leases = client.lease_client();
        match within(lease.patience(), leases.keep_alive(lease.id)).await {
            Ok(_) => Ok(lease),
            // The one thing that is said in this way: etcd has no such lease. Both keys went with it.
            Err(Error::LeaseKeepAliveError(_)) => {
                self.reign.end();
                self.lease = None;
                if let Life::Known { before } = &mut self.life {
                    // The first of them had the key, if several have ended since.
                    before.get_or_insert(lease.id);
                }
                Err(RoundError::LeaseEnded)
            }
            Err(error) => Err(RoundError::KeepAlive(error)),
        }
    }

    async fn claim(
        &mut self,
        client: &mut Client,
        lease: Lease,
        roster: &Roster,
    ) -> Result<Standing, RoundError> {
        let me = Claimant {
            address: &self.record.address,
            lease: lease.id,
            life: self.life,
        };
        let mut keys = Vec::new();
        match claim::claim(roster.judicator(&self.name), me) {
            Claim::Held => {
                self.on_registered();
                return Ok(Standing::Registered);
            }
            Claim::Refused(rival) => {
                self.complain(rival);
                return Ok(Standing::Unregistered);
            }
            Claim::Open { revision } => keys.push(self.mine(revision)?),
            // What the earlier life led, this one goes on to lead.
            Claim::Inherited { revision, from } => {
                keys.push(self.mine(revision)?);
                let led = roster.leader.as_ref().filter(|leader| leader.lease == from);
                keys.extend(led.map(|leader| self.leader(leader.revision)));
            }
        }
        let leads = keys.len() > 1;
        let taken = take(client, lease, keys).await.map_err(RoundError::Register)?;
        if !taken {
            return Ok(Standing::Unregistered);
        }
        tracing::info!(name = self.name, address = self.record.address, "registered");
        self.on_registered();
        Ok(if leads {
            Standing::Leads
        } else {
            Standing::Registered
        })
    }

    fn on_registered(&mut self) {
        self.life = Life::Known { before: None };
        self.rival = None;
    }

    /// Whether the lead is ours now.
    async fn stand(
        &self,
        client: &mut Client,
        lease: Lease,
        leader: Option<&Entry>,
    ) -> Result<bool, RoundError> {
        match claim::lead(leader, lease.id) {
            Lead::Ours => Ok(true),
            Lead::Others => Ok(false),
            Lead::Open { revision } => {
                let key = self.leader(revision);
                take(client, lease, vec![key]).await.map_err(RoundError::Stand)
            }
        }
    }

    /// Somebody has our name while we hold the lead: it has to be given up, or nobody would lead.
    async fn step_down(&mut self, lease: Lease, roster: &Roster) -> Result<(), RoundError> {
        if claim::lead(roster.leader.as_ref(), lease.id) == Lead::Ours {
            self.revoke(lease).await?;
            self.lease = None;
        }
        Ok(())
    }

    fn mine(&self, revision: i64) -> Result<Key, RoundError> {
        Ok(Key {
            name: keys::judicator(&self.name),
            revision,
            value: self.record.write().map_err(RoundError::Record)?,
        })
    }

    fn leader(&self, revision: i64) -> Key {
        Key {
            name: keys::LEADER.to_owned(),
            revision,
            value: self.name.clone().into_bytes(),
        }
    }

    /// Once for each rival.
    fn complain(&mut self, rival: Rival) {
        if self.rival.as_ref() == Some(&rival) {
            return;
        }
        let name = &self.name;
        match &rival {
            Rival::At(address) => tracing::error!(
                name,
                address,
                "another judicator has this name: this one is not registered until that one is gone; \
                 give each node its own node.name"
            ),
            Rival::Double => tracing::error!(
                name,
                address = self.record.address,
                "another judicator has registered with this name and this address: this one is not registered until \
                 that one is gone; give each node its own node.name and node.address"
            ),
            Rival::Stranger => tracing::error!(
                name,
                key = keys::judicator(name),
                "the key of this name is held by something unknown: this judicator is not registered until it is gone"
            ),
        }
        self.rival = Some(rival);
    }

    /// Ends the lease, and with it everything that is held.
    async fn deregister(&mut self) {
        let Some(lease) = self.lease.take() else {
            return;
        };
        let goodbye = async {
            while let Err(error) = self.revoke(lease).await {
                let pause = self.line.on_error(&error);
                tokio::time::sleep(pause).await;
            }
        };
        match tokio::time::timeout(GOODBYE, goodbye).await {
            Ok(()) => tracing::info!(name = self.name, "deregistered"),
            Err(_) => tracing::warn!(
                name = self.name,
                "could not deregister in time: the registration ends with its lease"
            ),
        }
    }

    async fn revoke(&mut self, lease: Lease) -> Result<(), RoundError> {
        let client = self.line.client().await?;
        match within(GOODBYE / 3, client.lease_client().revoke(lease.id)).await {
            Ok(_) => Ok(()),
            Err(Error::GRpcStatus(status)) if status.message().contains("lease not found") => Ok(()),
            Err(error) => Err(RoundError::Revoke(error)),
        }
    }
}

enum Standing {
    Unregistered,
    Registered,
    Leads,
}

/// Something to be taken, if it is still as it was seen.
struct Key {
    name: String,
    revision: i64,
    value: Vec<u8>,
}

/// Takes all of them, or none if somebody was quicker. The revision of a key that is not there is 0.
async fn take(client: &mut Client, lease: Lease, keys: Vec<Key>) -> Result<bool, Error> {
    let unchanged: Vec<_> = keys
        .iter()
        .map(|key| Compare::mod_revision(key.name.as_str(), CompareOp::Equal, key.revision))
        .collect();
    let puts: Vec<_> = keys
        .into_iter()
        .map(|key| TxnOp::put(key.name, key.value, Some(PutOptions::new().with_lease(lease.id))))
        .collect();
    let txn = Txn::new().when(unchanged).and_then(puts);
    Ok(within(WRITE, client.txn(txn)).await?.succeeded())
}

/// The list has changed: a leader may be gone, a name may be free.
async fn something_happened(roster: &mut watch::Receiver<Roster>) {
    if roster.changed().await.is_err() {
        std::future::pending().await
    }
}
