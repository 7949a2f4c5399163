//! The replica set's records in etcd: read, changed under conditions, watched.

use std::time::{Duration, Instant};

use etcd_client::{
    Client, Compare, CompareOp, GetOptions, LeaseKeepAliveStream, LeaseKeeper, PutOptions, Txn, TxnOp,
    WatchOptions,
};
use registry::etcd::{Access, AccessError};
use serde::Serialize;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::records::{
    Claim, Entry, INITIATE, INITIATED, Incarnation, Initiated, Left, Member, PREFIX, RecordError, Records,
    SET, SetSeen, left_key, member_key,
};
use crate::etcd::refuses_login;

/// An etcd that does not answer within this has no majority, or hangs.
const PATIENCE: Duration = Duration::from_secs(5);
/// Watches can miss: what is watched is also read anew, this often.
const REREAD: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(500);

#[derive(Debug, Error)]
pub enum EtcdError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("etcd refused")]
    Refused(#[from] etcd_client::Error),
    #[error("etcd did not answer within {PATIENCE:?}")]
    Silent,
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl EtcdError {
    /// Whether the same will not go well a moment later either, by what etcd says or is.
    pub(crate) fn lasts(&self) -> bool {
        match self {
            EtcdError::Access(AccessError::Connect { source, .. }) | EtcdError::Refused(source) => {
                refuses_login(source)
            }
            EtcdError::Access(_) | EtcdError::Record(_) => true,
            EtcdError::Silent => false,
        }
    }
}

/// A connection that is made anew after it failed: tokens expire, members move.
pub(crate) struct Etcd {
    access: Access,
    client: Option<Client>,
}

/// The right to initiate the set, renewed until it is dropped or lost.
pub(crate) struct Held {
    lease: i64,
    ttl: Duration,
    /// When it was last asked for with success: its end is counted from then.
    renewed: watch::Receiver<Instant>,
    _renewing: AbortOnDropHandle<()>,
}

impl Etcd {
    pub(crate) fn new(access: &Access) -> Etcd {
        Etcd {
            access: access.clone(),
            client: None,
        }
    }

    pub(crate) async fn read(&mut self) -> Result<Records, EtcdError> {
        Ok(self.read_at().await?.0)
    }

    /// With the revision that it is true for.
    async fn read_at(&mut self) -> Result<(Records, i64), EtcdError> {
        let mut client = self.client().await?;
        let options = GetOptions::new().with_prefix();
        let answer = self.within(client.get(PREFIX, Some(options))).await?;
        let mut records = Records::default();
        let mut revision = 0;
        if let Some(header) = answer.header() {
            records.cluster = header.cluster_id();
            revision = header.revision();
        }
        for kv in answer.kvs() {
            records.take_up(Entry {
                key: kv.key_str()?,
                value: kv.value(),
                mod_revision: kv.mod_revision(),
            })?;
        }
        Ok((records, revision))
    }

    /// Writes `members/NAME` if it is as it was in `seen`, and marks whoever stood there before as left. False if
    /// somebody else was quicker.
    pub(crate) async fn register(
        &mut self,
        name: &str,
        member: &Member,
        seen: &Records,
    ) -> Result<bool, EtcdError> {
        let mut puts = vec![TxnOp::put(member_key(name), json(member), None)];
        if let Some(before) = seen.members.get(name)
            && before.incarnation != member.incarnation
        {
            puts.push(mark_left(name, before));
        }
        self.write(vec![unchanged(name, seen)], puts).await
    }

    /// The registration goes, the mark comes, at once. False if any registration has changed meanwhile: the others
    /// that this one relies on may be about to leave, too.
    pub(crate) async fn deregister(&mut self, name: &str, seen: &Records) -> Result<bool, EtcdError> {
        let Some(member) = seen.members.get(name) else {
            return Ok(true);
        };
        let ops = vec![TxnOp::delete(member_key(name), None), mark_left(name, member)];
        let all = seen.members.keys().map(|name| unchanged(name, seen));
        self.write(all.collect(), ops).await
    }

    /// For a seat that nobody is registered for. One that is marked already stays as it is.
    pub(crate) async fn mark_left(
        &mut self,
        incarnation: &Incarnation,
        left: &Left,
    ) -> Result<(), EtcdError> {
        let key = left_key(incarnation);
        let put = TxnOp::put(key.clone(), json(left), None);
        self.write(vec![absent(&key)], vec![put]).await.map(|_| ())
    }

    pub(crate) async fn mark_gone(
        &mut self,
        incarnation: &Incarnation,
        left: &Left,
    ) -> Result<(), EtcdError> {
        let left = Left {
            gone: true,
            ..left.clone()
        };
        let put = TxnOp::put(left_key(incarnation), json(&left), None);
        self.write(Vec::new(), vec![put]).await.map(|_| ())
    }

    pub(crate) async fn publish(&mut self, set: &SetSeen) -> Result<(), EtcdError> {
        let put = TxnOp::put(SET, json(set), None);
        self.write(Vec::new(), vec![put]).await.map(|_| ())
    }

    /// Decides, once and for ever, which set is the cluster's. False if that was decided before.
    pub(crate) async fn confirm(&mut self, initiated: &Initiated) -> Result<bool, EtcdError> {
        let put = TxnOp::put(INITIATED, json(initiated), None);
        self.write(vec![absent(INITIATED)], vec![put]).await
    }

    /// `None` if somebody else has the claim, or the set is there.
    pub(crate) async fn claim(&mut self, claim: &Claim, ttl: Duration) -> Result<Option<Held>, EtcdError> {
        let seconds = i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX);
        let mut client = self.client().await?;
        let asked = Instant::now();
        let lease = self.within(client.lease_grant(seconds, None)).await?.id();
        let (keeper, answers) = self.within(client.lease_keep_alive(lease)).await?;
        let (sender, renewed) = watch::channel(asked);
        let held = Held {
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
            .write(vec![absent(INITIATE), absent(INITIATED)], vec![put])
            .await?
        {
            return Ok(Some(held));
        }
        self.release(held).await;
        Ok(None)
    }

    /// Lets others claim at once. A failure is no harm: the lease ends by itself.
    pub(crate) async fn release(&mut self, held: Held) {
        let revoked = async {
            let mut client = self.client().await?;
            self.within(client.lease_revoke(held.lease)).await
        };
        if let Err(error) = revoked.await {
            tracing::debug!(%error, "the claim to initiate ends by itself");
        }
    }

    async fn write(&mut self, when: Vec<Compare>, ops: Vec<TxnOp>) -> Result<bool, EtcdError> {
        let mut client = self.client().await?;
        let txn = Txn::new().when(when).and_then(ops);
        Ok(self.within(client.txn(txn)).await?.succeeded())
    }

    async fn client(&mut self) -> Result<Client, EtcdError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = tokio::time::timeout(PATIENCE, self.access.connect())
            .await
            .map_err(|_| EtcdError::Silent)??;
        Ok(self.client.insert(client).clone())
    }

    /// A connection that failed is not used again: the next goes to another address, if there is one. An etcd that
    /// is cut off from the others still answers whoever connects.
    async fn within<T>(
        &mut self,
        call: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, EtcdError> {
        match tokio::time::timeout(PATIENCE, call).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                self.hang_up();
                Err(EtcdError::Refused(error))
            }
            Err(_) => {
                self.hang_up();
                Err(EtcdError::Silent)
            }
        }
    }

    fn hang_up(&mut self) {
        self.client = None;
        put_first_last(&mut self.access.endpoints);
    }
}

impl Held {
    /// False when the claim may be another's by now. The rest of the time is left for what the claim is for.
    pub(crate) fn is_ours(&self) -> bool {
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
        let asked = Instant::now();
        let answer = async {
            keeper.keep_alive().await?;
            answers.message().await
        };
        match answer.await {
            Ok(Some(answer)) if answer.ttl() > 0 => {
                renewed.send_replace(asked);
            }
            // It ended, or the line did: the claim runs out, and is made anew.
            _ => return,
        }
    }
}

/// Tells every change of the records until the receiver is gone. What it tells is a reason to look; whoever acts
/// reads anew.
pub(crate) fn follow(access: &Access) -> watch::Receiver<Records> {
    let (sender, receiver) = watch::channel(Records::default());
    let access = access.clone();
    tokio::spawn(async move {
        let mut etcd = Etcd::new(&access);
        tokio::select! {
            () = sender.closed() => {}
            () = async {
                loop {
                    if let Err(error) = follow_once(&mut etcd, &sender).await {
                        tracing::debug!(%error, "the records in etcd cannot be followed for now");
                        tokio::time::sleep(RETRY).await;
                    }
                }
            } => {}
        }
    });
    receiver
}

async fn follow_once(etcd: &mut Etcd, sender: &watch::Sender<Records>) -> Result<(), EtcdError> {
    let (records, revision) = etcd.read_at().await?;
    sender.send_if_modified(|known| {
        let changed = *known != records;
        *known = records;
        changed
    });
    let options = WatchOptions::new()
        .with_prefix()
        .with_start_revision(revision + 1);
    let mut client = etcd.client().await?;
    let mut changes = etcd.within(client.watch(PREFIX, Some(options))).await?;
    let happened = async {
        // The first message only says that the watch is there.
        while changes
            .message()
            .await?
            .is_some_and(|message| message.events().is_empty())
        {}
        Ok::<(), etcd_client::Error>(())
    };
    match tokio::time::timeout(REREAD, happened).await {
        Ok(done) => Ok(done?),
        Err(_) => Ok(()),
    }
}

fn put_first_last(endpoints: &mut [String]) {
    if !endpoints.is_empty() {
        endpoints.rotate_left(1);
    }
}

fn mark_left(name: &str, member: &Member) -> TxnOp {
    let left = Left {
        name: name.to_string(),
        address: member.address.clone(),
        gone: false,
    };
    TxnOp::put(left_key(&member.incarnation), json(&left), None)
}

fn unchanged(name: &str, seen: &Records) -> Compare {
    let revision = seen.written.get(name).copied().unwrap_or_default();
    Compare::mod_revision(member_key(name), CompareOp::Equal, revision)
}

fn absent(key: &str) -> Compare {
    Compare::create_revision(key, CompareOp::Equal, 0)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Plain structs of text, numbers and lists: there is nothing in them that JSON cannot say.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use etcd_client::Error;

    use super::super::admit::tests::options;
    use super::*;

    #[tokio::test]
    async fn after_an_error_another_address_comes_first() {
        let endpoints = |etcd: &Etcd| etcd.access.endpoints.join(" ");
        let access = options().etcd.at(["a", "b", "c"].map(str::to_string).to_vec());
        let mut etcd = Etcd::new(&access);
        etcd.within(ready(Ok(()))).await.unwrap();
        assert_eq!(endpoints(&etcd), "a b c");
        let refused = || ready(Err::<(), Error>(Error::InvalidArgs("no leader".into())));
        etcd.within(refused()).await.unwrap_err();
        assert_eq!(endpoints(&etcd), "b c a");
        etcd.access.endpoints.clear();
        etcd.within(refused()).await.unwrap_err();
    }
}
