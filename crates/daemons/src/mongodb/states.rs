//! The members of the replica set as they are registered, and as they are.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use registry::etcd::Access;

use super::MongodbError;
use super::admin::{Mongod, SeatStatus};
use super::diff::Seat;
use super::etcd::Etcd;

/// A node that is registered for the replica set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub name: String,
    pub address: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberState {
    pub name: String,
    pub address: String,
    /// As MongoDB names it, in lower case (primary, secondary, startup2, recovering, removed, ...); `unreachable`
    /// where nobody reaches it, `waiting` where it is not in the set yet.
    pub state: String,
    pub votes: i64,
    /// None where it did not answer us.
    pub version: Option<String>,
    /// For how long its mongod has been seen running.
    pub uptime: Option<Duration>,
}

/// In the order of their names.
pub async fn members(access: &Access) -> Result<Vec<Registered>, MongodbError> {
    let records = Etcd::new(access).read().await?;
    let registered = |(name, member): (String, super::records::Member)| Registered {
        name,
        address: member.address,
    };
    Ok(records.members.into_iter().map(registered).collect())
}

/// Registered members and those in the set's config, in the order of their names.
pub async fn states(access: &Access, secret: Option<&str>) -> Result<Vec<MemberState>, MongodbError> {
    let registered = members(access).await?;
    let asked = registered.iter().map(|member| ask(&member.address, secret));
    let answers: Vec<Answer> = join_all(asked).await;
    // The primary knows best; any member knows something.
    let set = answers
        .iter()
        .filter_map(|answer| answer.set.as_ref())
        .max_by_key(|(_, status)| status.iter().any(|seat| seat.state == "primary"));
    let (seats, status): (&[Seat], &[SeatStatus]) = match set {
        Some((seats, status)) => (seats, status),
        None => (&[], &[]),
    };
    let mut all: BTreeMap<String, MemberState> = BTreeMap::new();
    for (member, answer) in registered.into_iter().zip(&answers) {
        let state = match answer.version {
            Some(_) => "waiting",
            None => "unreachable",
        };
        all.insert(
            member.address.clone(),
            MemberState {
                name: member.name,
                address: member.address,
                state: state.to_string(),
                votes: 0,
                version: answer.version.clone(),
                uptime: None,
            },
        );
    }
    for seat in seats {
        let entry = all.entry(seat.address.clone()).or_insert_with(|| MemberState {
            name: seat.name.clone().unwrap_or_else(|| seat.address.clone()),
            address: seat.address.clone(),
            state: "unknown".to_string(),
            votes: 0,
            version: None,
            uptime: None,
        });
        entry.votes = seat.votes;
        if let Some(seen) = status.iter().find(|seen| seen.address == seat.address) {
            entry.state = seen.state.clone();
            entry.uptime = Some(seen.uptime).filter(|uptime| !uptime.is_zero());
        }
    }
    let mut all: Vec<MemberState> = all.into_values().collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

#[derive(Default)]
struct Answer {
    version: Option<String>,
    set: Option<(Vec<Seat>, Vec<SeatStatus>)>,
}

async fn ask(address: &str, secret: Option<&str>) -> Answer {
    let Ok(mongod) = Mongod::at(address, secret) else {
        return Answer::default();
    };
    // One after the other: whoever does not answer the first will not answer the second.
    let Ok(version) = mongod.version().await else {
        return Answer::default();
    };
    let set = match (mongod.config().await, mongod.status().await) {
        (Ok(Some(config)), Ok(status)) => Some((config.seats(), status)),
        _ => None,
    };
    Answer {
        version: Some(version),
        set,
    }
}
