//! Leaving for good, and removing one that is gone.

use std::time::Duration;

use registry::etcd::Access;
use tokio::net::TcpStream;

use super::admin::Mongod;
use super::etcd::{Etcd, follow};
use super::notes::{self, Notes};
use super::records::{Incarnation, Records};
use super::{MongodbError, Options};

const PROBE: Duration = Duration::from_secs(2);

/// How far it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The replica set is rid of it.
    Done,
    /// Everything is said; the set's primary removes it as soon as there is one that can.
    Pending,
}

/// To be called on the node that leaves, while its daemon runs. Waits, up to `patience`, until the replica set is
/// rid of it; stopping the daemon is left to the caller. Saying it twice is saying it once. Data is kept, but never
/// served again.
pub async fn leave(options: &Options, patience: Duration) -> Result<Departure, MongodbError> {
    let Some(note) = Notes::read(&options.data)?.member else {
        return Ok(Departure::Done);
    };
    let mut etcd = Etcd::new(&options.etcd);
    let name = &options.name;
    loop {
        let records = etcd.read().await?;
        if records
            .members
            .get(name)
            .is_none_or(|member| member.incarnation != note.incarnation)
        {
            break;
        }
        refuse_if_last(&records, name)?;
        refuse_if_only_one_with_data(options, &records).await?;
        if etcd.deregister(name, &records).await? {
            break;
        }
    }
    notes::write_left(&options.data)?;
    await_gone(&options.etcd, &note.incarnation, patience).await
}

/// To be called anywhere, for a node that will not come back. One that answers is not removed: it has to leave.
pub async fn remove(access: &Access, name: &str, patience: Duration) -> Result<Departure, MongodbError> {
    let mut etcd = Etcd::new(access);
    loop {
        let records = etcd.read().await?;
        let Some(member) = records.members.get(name) else {
            return match records.left.iter().rfind(|(_, left)| left.name == name) {
                Some((incarnation, _)) => await_gone(access, incarnation, patience).await,
                None => Err(MongodbError::NoSuchNode {
                    name: name.to_string(),
                    known: records.members.keys().cloned().collect(),
                }),
            };
        };
        refuse_if_last(&records, name)?;
        if let Ok(Ok(_)) = tokio::time::timeout(PROBE, TcpStream::connect(&member.address)).await {
            return Err(MongodbError::StillThere {
                name: name.to_string(),
                address: member.address.clone(),
            });
        }
        if etcd.deregister(name, &records).await? {
            return await_gone(access, &member.incarnation, patience).await;
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

/// Others may be registered and yet have nothing. Where our own mongod does not answer, it cannot be asked, and
/// has nothing to give away that it has not given before.
async fn refuse_if_only_one_with_data(options: &Options, records: &Records) -> Result<(), MongodbError> {
    let own = options.address();
    if records.initiated.is_none() {
        return Ok(());
    }
    let Ok(status) = Mongod::at(&own, options.secret.as_deref())?.status().await else {
        return Ok(());
    };
    let has_data = |state: &str| matches!(state, "primary" | "secondary");
    let mut others = status.iter().filter(|seat| seat.address != own);
    match others.any(|seat| has_data(&seat.state)) {
        true => Ok(()),
        false => Err(MongodbError::NoOther {
            name: options.name.clone(),
        }),
    }
}

async fn await_gone(
    access: &Access,
    incarnation: &Incarnation,
    patience: Duration,
) -> Result<Departure, MongodbError> {
    let mut etcd = Etcd::new(access);
    let mut changes = follow(access);
    let gone = async {
        loop {
            let records = etcd.read().await?;
            // Without a confirmed set there is none to be rid of it.
            let is_there = records.left.get(incarnation).is_some_and(|left| !left.gone);
            if records.initiated.is_none() || !is_there {
                return Ok(Departure::Done);
            }
            let _ = tokio::time::timeout(Duration::from_secs(1), changes.changed()).await;
        }
    };
    tokio::time::timeout(patience, gone)
        .await
        .unwrap_or(Ok(Departure::Pending))
}
