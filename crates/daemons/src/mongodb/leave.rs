//! Leaving for good, and removing one that is gone.

use std::time::Duration;

use registry::etcd::Access;
use tokio::net::TcpStream;

use super::etcd::{Etcd, follow};
use super::notes::{self, MemberNote, Notes};
use super::records::{Incarnation, Records};
use super::spare::can_spare;
use super::states::states;
use super::{MongodbError, Options};
use crate::election::outlast;

/// One that is alive may be too busy to answer the first time.
const PROBES: u32 = 3;
const PROBE: Duration = Duration::from_secs(2);
const BETWEEN_PROBES: Duration = Duration::from_millis(1500);

/// How far it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The replica set is rid of it.
    Done,
    /// Everything is said; the set's primary removes it as soon as there is one that can.
    Pending,
}

/// Whether [`leave`] would go on. Changes nothing, so that it can be asked before anything else is changed.
pub async fn may_leave(options: &Options) -> Result<(), MongodbError> {
    let Some(note) = Notes::read(&options.data)?.member else {
        return Ok(());
    };
    let mut etcd = Etcd::new(&options.etcd);
    outlast(lasts, async || {
        permission(options, &note, &mut etcd).await.map(drop)
    })
    .await
}

/// To be called on the node that leaves, while its daemon runs. Waits until the replica set is rid of it; stopping
/// the daemon is left to the caller. Saying it twice is saying it once. Data is kept, but never served again.
///
/// If the set is not rid of it within `patience`, that is the error [`MongodbError::StillMember`]: the set may need
/// its vote to be rid of it, so it is not to be stopped. It is never [`Departure::Pending`].
pub async fn leave(options: &Options, patience: Duration) -> Result<Departure, MongodbError> {
    let Some(note) = Notes::read(&options.data)?.member else {
        return Ok(Departure::Done);
    };
    let mut etcd = Etcd::new(&options.etcd);
    outlast(lasts, async || {
        while let Some(records) = permission(options, &note, &mut etcd).await? {
            if etcd.deregister(&options.name, &records).await? {
                break;
            }
        }
        Ok(())
    })
    .await?;
    match await_gone(&options.etcd, &note.incarnation, patience).await {
        Departure::Done => {
            notes::write_left(&options.data)?;
            Ok(Departure::Done)
        }
        Departure::Pending => Err(MongodbError::StillMember {
            name: options.name.clone(),
        }),
    }
}

/// To be called anywhere, for a node that will not come back. One that answers is not removed: it has to leave.
pub async fn remove(access: &Access, name: &str, patience: Duration) -> Result<Departure, MongodbError> {
    let mut etcd = Etcd::new(access);
    let removed = outlast(lasts, async || mark_removed(&mut etcd, name).await).await?;
    Ok(await_gone(access, &removed, patience).await)
}

/// Who has been removed by that, now or before.
async fn mark_removed(etcd: &mut Etcd, name: &str) -> Result<Incarnation, MongodbError> {
    loop {
        let records = etcd.read().await?;
        let Some(member) = records.members.get(name) else {
            let before = records.left.iter().rfind(|(_, left)| left.name == name);
            return match before {
                Some((incarnation, _)) => Ok(incarnation.clone()),
                None => Err(MongodbError::NoSuchNode {
                    name: name.to_string(),
                    known: records.members.keys().cloned().collect(),
                }),
            };
        };
        refuse_if_last(&records, name)?;
        if answers(&member.address).await {
            return Err(MongodbError::StillThere {
                name: name.to_string(),
                address: member.address.clone(),
            });
        }
        if etcd.deregister(name, &records).await? {
            return Ok(member.incarnation.clone());
        }
    }
}

/// Whether it is no use to wait for etcd to elect a leader.
fn lasts(error: &MongodbError) -> bool {
    match error {
        MongodbError::Etcd(error) => error.lasts(),
        _ => true,
    }
}

/// To leave as things are in these records. None if it was said before.
async fn permission(
    options: &Options,
    note: &MemberNote,
    etcd: &mut Etcd,
) -> Result<Option<Records>, MongodbError> {
    loop {
        let records = etcd.read().await?;
        if !is_registered(options, note, &records) {
            return Ok(None);
        }
        match refuse_if_needed(options, &records).await {
            Ok(()) => return Ok(Some(records)),
            // Another has left since they were read, and was missed for that: who is refused is told what is so now.
            Err(_) if etcd.read().await?.members != records.members => {}
            Err(refused) => return Err(refused),
        }
    }
}

fn refuse_if_last(records: &Records, name: &str) -> Result<(), MongodbError> {
    match records.members.keys().any(|other| other != name) {
        true => Ok(()),
        false => Err(MongodbError::LastMember {
            name: name.to_string(),
        }),
    }
}

/// Others may be registered and yet have nothing, or not be there.
async fn refuse_if_needed(options: &Options, records: &Records) -> Result<(), MongodbError> {
    refuse_if_last(records, &options.name)?;
    if records.initiated.is_none() {
        return Ok(());
    }
    let seen = states(&options.etcd, options.secret.as_deref()).await?;
    can_spare(options, &seen)
}

fn is_registered(options: &Options, note: &MemberNote, records: &Records) -> bool {
    let member = records.members.get(&options.name);
    member.is_some_and(|member| member.incarnation == note.incarnation)
}

async fn answers(address: &str) -> bool {
    for turn in 0..PROBES {
        if turn > 0 {
            tokio::time::sleep(BETWEEN_PROBES).await;
        }
        if let Ok(Ok(_)) = tokio::time::timeout(PROBE, TcpStream::connect(address)).await {
            return true;
        }
    }
    false
}

async fn await_gone(access: &Access, incarnation: &Incarnation, patience: Duration) -> Departure {
    let mut etcd = Etcd::new(access);
    let mut changes = follow(access);
    let gone = async {
        // An etcd that cannot be asked now may be asked later.
        while etcd
            .read()
            .await
            .map_or(true, |records| is_there(&records, incarnation))
        {
            let _ = tokio::time::timeout(Duration::from_secs(1), changes.changed()).await;
        }
    };
    match tokio::time::timeout(patience, gone).await {
        Ok(()) => Departure::Done,
        Err(_) => Departure::Pending,
    }
}

/// Without a confirmed set there is none to be rid of it.
fn is_there(records: &Records, incarnation: &Incarnation) -> bool {
    records.initiated.is_some() && records.left.get(incarnation).is_some_and(|left| !left.gone)
}
