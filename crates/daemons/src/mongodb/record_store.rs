//! Reads, conditionally writes and watches the replica set's records in etcd.

use std::time::{Duration, Instant};

use etcd_client::{
    Client, Compare, CompareOp, GetOptions, LeaseKeepAliveStream, LeaseKeeper, PutOptions, Txn, TxnOp,
    WatchOptions,
};
use registry::etcd::{EtcdAccess, EtcdAccessError};
use serde::Serialize;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::records::{
    EtcdEntry, INITIATE, INITIATED, Incarnation, InitiatedRecord, InitiationClaim, LeftRecord, MemberRecord,
    ObservedSet, PREFIX, RecordError, ReplicaSetRecords, SET, left_key, member_key,
};
use crate::etcd::is_login_refused;

/// An etcd that does not answer within this time has no majority, or hangs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A watch can miss changes, so the records are also read again after this time.
const REREAD_INTERVAL: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Why the mongod daemon could not read or write the replica set's records in etcd.
#[derive(Debug, Error)]
pub enum RecordStoreError {
    #[error(transparent)]
    Access(#[from] EtcdAccessError),
    #[error("etcd refused the request")]
    Refused(#[from] etcd_client::Error),
    #[error("the request to etcd timed out after {REQUEST_TIMEOUT:?}")]
    Timeout,
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl RecordStoreError {
    /// Whether a retry a moment later would fail in the same way.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            RecordStoreError::Access(EtcdAccessError::Connect { source, .. })
            | RecordStoreError::Refused(source) => is_login_refused(source),
            RecordStoreError::Access(_) | RecordStoreError::Record(_) => true,
            RecordStoreError::Timeout => false,
        }
    }
}

/// The mongod daemon's client for the replica set's records in etcd. It reconnects after a failure, because tokens
/// expire and members change their addresses.
pub(crate) struct RecordStore {
    access: EtcdAccess,
    client: Option<Client>,
}

/// The claim of this node to initiate the replica set: an etcd lease that is renewed until this is dropped. It also
/// ends when a renewal fails.
pub(crate) struct InitiationLease {
    lease: i64,
    ttl: Duration,
    /// When the last successful renewal was requested; the lease expires `ttl` after that.
    renewed: watch::Receiver<Instant>,
    _renewing: AbortOnDropHandle<()>,
}

impl RecordStore {
    pub(crate) fn new(access: &EtcdAccess) -> RecordStore {
        RecordStore {
            access: access.clone(),
            client: None,
        }
    }

    pub(crate) async fn read(&mut self) -> Result<ReplicaSetRecords, RecordStoreError> {
        Ok(self.read_with_revision().await?.0)
    }

    async fn read_with_revision(&mut self) -> Result<(ReplicaSetRecords, i64), RecordStoreError> {
        let mut client = self.client().await?;
        let options = GetOptions::new().with_prefix();
        let response = self.with_timeout(client.get(PREFIX, Some(options))).await?;
        let mut records = ReplicaSetRecords::default();
        let mut revision = 0;
        if let Some(header) = response.header() {
            records.cluster = header.cluster_id();
            revision = header.revision();
        }
        for kv in response.kvs() {
            records.add_entry(EtcdEntry {
                key: kv.key_str()?,
                value: kv.value(),
                mod_revision: kv.mod_revision(),
            })?;
        }
        Ok((records, revision))
    }

    /// Writes `members/NAME` if it has not changed since `seen`, and marks the incarnation that was registered there as
    /// left. Returns false if the record has changed.
    pub(crate) async fn register(
        &mut self,
        name: &str,
        member: &MemberRecord,
        seen: &ReplicaSetRecords,
    ) -> Result<bool, RecordStoreError> {
        let mut puts = vec![TxnOp::put(member_key(name), json(member), None)];
        if let Some(before) = seen.members.get(name)
            && before.incarnation != member.incarnation
        {
            puts.push(put_left(name, before));
        }
        self.write_if(vec![unchanged(name, seen)], puts).await
    }

    /// Deletes the registration and marks its incarnation as left, in one transaction. Returns false if any
    /// registration has changed since `seen`: another member, on which this one relies, may be about to leave as
    /// well.
    pub(crate) async fn deregister(
        &mut self,
        name: &str,
        seen: &ReplicaSetRecords,
    ) -> Result<bool, RecordStoreError> {
        let Some(member) = seen.members.get(name) else {
            return Ok(true);
        };
        let ops = vec![TxnOp::delete(member_key(name), None), put_left(name, member)];
        let all = seen.members.keys().map(|name| unchanged(name, seen));
        self.write_if(all.collect(), ops).await
    }

    /// Marks an incarnation that is not registered as left, unless it is marked already.
    pub(crate) async fn mark_left(
        &mut self,
        incarnation: &Incarnation,
        left: &LeftRecord,
    ) -> Result<(), RecordStoreError> {
        let key = left_key(incarnation);
        let put = TxnOp::put(key.clone(), json(left), None);
        self.write_if(vec![absent(&key)], vec![put]).await.map(drop)
    }

    pub(crate) async fn mark_removed(
        &mut self,
        incarnation: &Incarnation,
        left: &LeftRecord,
    ) -> Result<(), RecordStoreError> {
        let left = LeftRecord {
            removed: true,
            ..left.clone()
        };
        let put = TxnOp::put(left_key(incarnation), json(&left), None);
        self.write_if(Vec::new(), vec![put]).await.map(drop)
    }

    pub(crate) async fn publish(&mut self, set: &ObservedSet) -> Result<(), RecordStoreError> {
        let put = TxnOp::put(SET, json(set), None);
        self.write_if(Vec::new(), vec![put]).await.map(drop)
    }

    /// Records, once and for ever, which replica set is the cluster's. Returns false if one was recorded before.
    pub(crate) async fn confirm(&mut self, initiated: &InitiatedRecord) -> Result<bool, RecordStoreError> {
        let put = TxnOp::put(INITIATED, json(initiated), None);
        self.write_if(vec![absent(INITIATED)], vec![put]).await
    }

    /// Returns `None` if another node holds the claim, or if a set was confirmed.
    pub(crate) async fn claim(
        &mut self,
        claim: &InitiationClaim,
        ttl: Duration,
    ) -> Result<Option<InitiationLease>, RecordStoreError> {
        let seconds = i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX);
        let mut client = self.client().await?;
        let requested = Instant::now();
        let lease = self.with_timeout(client.lease_grant(seconds, None)).await?.id();
        let (keeper, answers) = self.with_timeout(client.lease_keep_alive(lease)).await?;
        let (sender, renewed) = watch::channel(requested);
        #[expect(
            clippy::disallowed_methods,
            reason = "the lease owns the task and watches its renewals"
        )]
        let held = InitiationLease {
            lease,
            ttl,
            renewed,
            _renewing: AbortOnDropHandle::new(tokio::spawn(renew(keeper, answers, ttl, sender))),
        };
        let put = TxnOp::put(
            INITIATE,
            json(claim),
            Some(PutOptions::new().with_lease(held.lease)),
        );
        if self
            .write_if(vec![absent(INITIATE), absent(INITIATED)], vec![put])
            .await?
        {
            return Ok(Some(held));
        }
        self.release(held).await;
        Ok(None)
    }

    /// Lets other nodes claim at once. A failure does no harm: the lease expires.
    pub(crate) async fn release(&mut self, held: InitiationLease) {
        let revoked = async {
            let mut client = self.client().await?;
            self.with_timeout(client.lease_revoke(held.lease)).await
        };
        if let Err(error) = revoked.await {
            tracing::debug!(%error, "could not revoke the claim to initiate; it expires by itself");
        }
    }

    /// Returns whether the conditions held and the operations were executed.
    async fn write_if(&mut self, when: Vec<Compare>, ops: Vec<TxnOp>) -> Result<bool, RecordStoreError> {
        let mut client = self.client().await?;
        let txn = Txn::new().when(when).and_then(ops);
        Ok(self.with_timeout(client.txn(txn)).await?.succeeded())
    }

    async fn client(&mut self) -> Result<Client, RecordStoreError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = tokio::time::timeout(REQUEST_TIMEOUT, self.access.connect())
            .await
            .map_err(|_| RecordStoreError::Timeout)??;
        Ok(self.client.insert(client).clone())
    }

    /// After a failure, the next request goes to the next endpoint: a member that is cut off from the others still
    /// accepts connections.
    async fn with_timeout<T>(
        &mut self,
        response: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, RecordStoreError> {
        match tokio::time::timeout(REQUEST_TIMEOUT, response).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                self.switch_endpoint();
                Err(RecordStoreError::Refused(error))
            }
            Err(_) => {
                self.switch_endpoint();
                Err(RecordStoreError::Timeout)
            }
        }
    }

    fn switch_endpoint(&mut self) {
        self.client = None;
        if !self.access.endpoints.is_empty() {
            self.access.endpoints.rotate_left(1);
        }
    }
}

impl InitiationLease {
    /// True only while at least a third of the lease's time is left, in which the caller can initiate the set.
    pub(crate) fn is_held(&self) -> bool {
        self.renewed.borrow().elapsed() < self.ttl * 2 / 3
    }
}

async fn renew(
    mut keeper: LeaseKeeper,
    mut answers: LeaseKeepAliveStream,
    ttl: Duration,
    renewed: watch::Sender<Instant>,
) {
    loop {
        tokio::time::sleep(ttl / 5).await;
        let requested = Instant::now();
        let answer = async {
            keeper.keep_alive().await?;
            answers.message().await
        };
        match answer.await {
            Ok(Some(answer)) if answer.ttl() > 0 => {
                renewed.send_replace(requested);
            }
            // The lease has expired or the connection is lost. The claim expires, and the daemon claims again.
            _ => return,
        }
    }
}

/// Sends the records after each change, until the receiver is dropped. The receiver only learns that something has
/// changed: before it acts, it reads the records again.
pub(crate) fn watch_records(access: &EtcdAccess) -> watch::Receiver<ReplicaSetRecords> {
    let (sender, receiver) = watch::channel(ReplicaSetRecords::default());
    let access = access.clone();
    #[expect(clippy::disallowed_methods, reason = "ends with its receiver")]
    tokio::spawn(async move {
        let mut store = RecordStore::new(&access);
        tokio::select! {
            () = sender.closed() => {}
            () = async {
                loop {
                    if let Err(error) = send_and_wait_for_change(&mut store, &sender).await {
                        tracing::debug!(%error, "could not watch the records in etcd; retrying");
                        tokio::time::sleep(RETRY_INTERVAL).await;
                    }
                }
            } => {}
        }
    });
    receiver
}

async fn send_and_wait_for_change(
    store: &mut RecordStore,
    sender: &watch::Sender<ReplicaSetRecords>,
) -> Result<(), RecordStoreError> {
    let (records, revision) = store.read_with_revision().await?;
    sender.send_if_modified(|known| {
        let changed = *known != records;
        *known = records;
        changed
    });
    let options = WatchOptions::new()
        .with_prefix()
        .with_start_revision(revision + 1);
    let mut client = store.client().await?;
    let mut changes = store.with_timeout(client.watch(PREFIX, Some(options))).await?;
    let changed = async {
        // The first message has no events: it only confirms the watch.
        while changes
            .message()
            .await?
            .is_some_and(|message| message.events().is_empty())
        {}
        Ok::<(), etcd_client::Error>(())
    };
    match tokio::time::timeout(REREAD_INTERVAL, changed).await {
        Ok(result) => Ok(result?),
        Err(_) => Ok(()),
    }
}

fn put_left(name: &str, member: &MemberRecord) -> TxnOp {
    let left = LeftRecord {
        name: name.to_string(),
        address: member.address.clone(),
        removed: false,
    };
    TxnOp::put(left_key(&member.incarnation), json(&left), None)
}

fn unchanged(name: &str, seen: &ReplicaSetRecords) -> Compare {
    let revision = seen.member_revisions.get(name).copied().unwrap_or_default();
    Compare::mod_revision(member_key(name), CompareOp::Equal, revision)
}

fn absent(key: &str) -> Compare {
    Compare::create_revision(key, CompareOp::Equal, 0)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Cannot fail: the records hold only text, numbers and lists.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use etcd_client::Error;

    use super::super::start_check::tests::options;
    use super::*;

    #[tokio::test]
    async fn after_a_failed_request_the_next_endpoint_is_used() {
        let endpoints = |store: &RecordStore| store.access.endpoints.join(" ");
        let access = options()
            .etcd
            .with_endpoints(["a", "b", "c"].map(str::to_string).to_vec());
        let mut store = RecordStore::new(&access);
        store.with_timeout(ready(Ok(()))).await.unwrap();
        assert_eq!(endpoints(&store), "a b c");
        let refused = || ready(Err::<(), Error>(Error::InvalidArgs("no leader".into())));
        store.with_timeout(refused()).await.unwrap_err();
        assert_eq!(endpoints(&store), "b c a");
        store.access.endpoints.clear();
        store.with_timeout(refused()).await.unwrap_err();
    }
}
