//! Takes a node out of the replica set for good: this one, or one that is lost.

use std::time::Duration;

use registry::etcd::EtcdAccess;
use tokio::net::TcpStream;

use super::local_state::{self, MemberStateFile, MongodLocalState};
use super::members::replica_set_members;
use super::quorum_check::check_quorum_without_self;
use super::record_store::{RecordStore, watch_records};
use super::records::{Incarnation, ReplicaSetRecords};
use super::{MongodDaemonOptions, MongodbDaemonError};
use crate::election_retry::retry_during_election;

/// A live mongod may be too busy to answer the first probe.
const PROBES: u32 = 3;
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const PROBE_INTERVAL: Duration = Duration::from_millis(1500);
const REREAD_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the replica set has already removed a member that was taken out of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaSetRemoval {
    /// The set's config no longer has the member.
    Complete,
    /// The member is marked as left in etcd; the primary removes it as soon as a majority agrees.
    Pending,
}

/// Checks whether [`leave`] would be allowed now. Changes nothing.
pub async fn check_can_leave(options: &MongodDaemonOptions) -> Result<(), MongodbDaemonError> {
    let Some(member) = MongodLocalState::read(&options.data)?.member else {
        return Ok(());
    };
    let mut store = RecordStore::new(&options.etcd);
    retry_during_election(is_permanent, async || {
        records_if_allowed(options, &member, &mut store).await.map(drop)
    })
    .await
}

/// Takes this node out of the replica set, and returns when the set's config no longer has it. The daemon has to be
/// running meanwhile; the caller stops it afterwards. May be repeated. The data is kept, but never served again.
///
/// If the set has not removed the member within `timeout`, the error is [`MongodbDaemonError::StillMember`]. The daemon
/// must not be stopped then: the set may need this member's vote to remove it.
pub async fn leave(options: &MongodDaemonOptions, timeout: Duration) -> Result<(), MongodbDaemonError> {
    let Some(member) = MongodLocalState::read(&options.data)?.member else {
        return Ok(());
    };
    let mut store = RecordStore::new(&options.etcd);
    retry_during_election(is_permanent, async || {
        while let Some(records) = records_if_allowed(options, &member, &mut store).await? {
            if store.deregister(&options.name, &records).await? {
                break;
            }
        }
        Ok(())
    })
    .await?;
    match wait_until_removed(&options.etcd, &member.incarnation, timeout).await {
        ReplicaSetRemoval::Complete => Ok(local_state::write_left(&options.data)?),
        ReplicaSetRemoval::Pending => Err(MongodbDaemonError::StillMember {
            name: options.name.clone(),
        }),
    }
}

/// Removes a node that will not come back. A node whose mongod answers is not removed: it has to leave.
pub async fn remove_member(
    access: &EtcdAccess,
    name: &str,
    timeout: Duration,
) -> Result<ReplicaSetRemoval, MongodbDaemonError> {
    let mut store = RecordStore::new(access);
    let removed = retry_during_election(is_permanent, async || mark_as_left(&mut store, name).await).await?;
    Ok(wait_until_removed(access, &removed, timeout).await)
}

/// Returns the incarnation that was marked, now or by an earlier call.
async fn mark_as_left(store: &mut RecordStore, name: &str) -> Result<Incarnation, MongodbDaemonError> {
    loop {
        let records = store.read().await?;
        let Some(member) = records.members.get(name) else {
            let earlier = records.left.iter().rfind(|(_, left)| left.name == name);
            return match earlier {
                Some((incarnation, _)) => Ok(incarnation.clone()),
                None => Err(MongodbDaemonError::NoSuchMember {
                    name: name.to_string(),
                    known: records.members.keys().cloned().collect(),
                }),
            };
        };
        refuse_if_last(&records, name)?;
        if is_answering(&member.address).await {
            return Err(MongodbDaemonError::StillAlive {
                name: name.to_string(),
                address: member.address.clone(),
            });
        }
        if store.deregister(name, &records).await? {
            return Ok(member.incarnation.clone());
        }
    }
}

fn is_permanent(error: &MongodbDaemonError) -> bool {
    match error {
        MongodbDaemonError::Etcd(error) => error.is_permanent(),
        _ => true,
    }
}

/// Returns the records on which the permission to leave is based, or `None` if the node has deregistered already.
async fn records_if_allowed(
    options: &MongodDaemonOptions,
    member: &MemberStateFile,
    store: &mut RecordStore,
) -> Result<Option<ReplicaSetRecords>, MongodbDaemonError> {
    loop {
        let records = store.read().await?;
        if !is_registered(options, member, &records) {
            return Ok(None);
        }
        match refuse_if_needed(options, &records).await {
            Ok(()) => return Ok(Some(records)),
            // Another node has left since the records were read, and was counted as missing: check again.
            Err(_) if store.read().await?.members != records.members => {}
            Err(refused) => return Err(refused),
        }
    }
}

fn refuse_if_last(records: &ReplicaSetRecords, name: &str) -> Result<(), MongodbDaemonError> {
    match records.members.keys().any(|other| other != name) {
        true => Ok(()),
        false => Err(MongodbDaemonError::LastMember {
            name: name.to_string(),
        }),
    }
}

/// Other registered members may be down or have no data yet, so their states are checked.
async fn refuse_if_needed(
    options: &MongodDaemonOptions,
    records: &ReplicaSetRecords,
) -> Result<(), MongodbDaemonError> {
    refuse_if_last(records, &options.name)?;
    if records.initiated.is_none() {
        return Ok(());
    }
    let members = replica_set_members(&options.etcd, options.secret.as_deref()).await?;
    check_quorum_without_self(options, &members)
}

fn is_registered(
    options: &MongodDaemonOptions,
    member: &MemberStateFile,
    records: &ReplicaSetRecords,
) -> bool {
    let registered = records.members.get(&options.name);
    registered.is_some_and(|registered| registered.incarnation == member.incarnation)
}

async fn is_answering(address: &str) -> bool {
    for probe in 0..PROBES {
        if probe > 0 {
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
        if let Ok(Ok(_)) = tokio::time::timeout(PROBE_TIMEOUT, TcpStream::connect(address)).await {
            return true;
        }
    }
    false
}

async fn wait_until_removed(
    access: &EtcdAccess,
    incarnation: &Incarnation,
    timeout: Duration,
) -> ReplicaSetRemoval {
    let mut store = RecordStore::new(access);
    let mut changes = watch_records(access);
    let removed = async {
        // If etcd does not answer now, it may answer later.
        while store
            .read()
            .await
            .map_or(true, |records| is_still_in_set(&records, incarnation))
        {
            let _ = tokio::time::timeout(REREAD_INTERVAL, changes.changed()).await;
        }
    };
    match tokio::time::timeout(timeout, removed).await {
        Ok(()) => ReplicaSetRemoval::Complete,
        Err(_) => ReplicaSetRemoval::Pending,
    }
}

/// Without a confirmed set, there is no set that could have the member.
fn is_still_in_set(records: &ReplicaSetRecords, incarnation: &Incarnation) -> bool {
    records.initiated.is_some() && records.left.get(incarnation).is_some_and(|left| !left.removed)
}
