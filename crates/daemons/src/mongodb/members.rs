//! Lists the members of the replica set as registered in etcd, and with their states.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use registry::etcd::EtcdAccess;

use super::MongodbDaemonError;
use super::admin::{MongodClient, SetMemberStatus};
use super::config_change::ConfigMember;
use super::record_store::RecordStore;
use super::records::MemberRecord;

/// The name and address of a mongod that is registered in etcd, with which clients connect to the replica set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredMongod {
    pub name: String,
    pub address: String,
}

/// A node that is registered for the replica set or is in its config, and what is known of its mongod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSetMember {
    pub name: String,
    pub address: String,
    /// MongoDB's name of the state in lower case (primary, secondary, startup2, recovering, removed, ...), or
    /// `catching up` for a secondary that has nothing of the term in which the set last committed;
    /// `unreachable` if no member reaches it, `waiting` if it is not in the set's config yet.
    pub state: String,
    pub votes: i64,
    /// `None` if it did not answer.
    pub version: Option<String>,
    pub uptime: Option<Duration>,
    /// The time between the member's last write and the primary's last one; `None` if unknown.
    pub lag: Option<Duration>,
}

/// Sorted by name.
pub async fn registered_members(access: &EtcdAccess) -> Result<Vec<RegisteredMongod>, MongodbDaemonError> {
    let records = RecordStore::new(access).read().await?;
    let registered = |(name, member): (String, MemberRecord)| RegisteredMongod {
        name,
        address: member.address,
    };
    Ok(records.members.into_iter().map(registered).collect())
}

/// The registered members and the members in the set's config, sorted by name.
pub async fn replica_set_members(
    access: &EtcdAccess,
    secret: Option<&str>,
) -> Result<Vec<ReplicaSetMember>, MongodbDaemonError> {
    let registered = registered_members(access).await?;
    let queries = registered
        .iter()
        .map(|member| query_mongod(&member.address, secret));
    let replies: Vec<MongodReply> = join_all(queries).await;
    // A member that sees a primary knows more than one that does not.
    let view = replies
        .iter()
        .filter_map(|reply| reply.view.as_ref())
        .max_by_key(|view| view.status.iter().any(|member| member.state == "primary"));
    let mut members: BTreeMap<String, ReplicaSetMember> = BTreeMap::new();
    for (member, reply) in registered.into_iter().zip(&replies) {
        let state = match reply.version {
            Some(_) => "waiting",
            None => "unreachable",
        };
        members.insert(
            member.address.clone(),
            ReplicaSetMember {
                name: member.name,
                address: member.address,
                state: state.to_string(),
                votes: 0,
                version: reply.version.clone(),
                uptime: None,
                lag: None,
            },
        );
    }
    for entry in view.iter().flat_map(|view| &view.entries) {
        let member = members
            .entry(entry.address.clone())
            .or_insert_with(|| ReplicaSetMember {
                name: entry.name.clone().unwrap_or_else(|| entry.address.clone()),
                address: entry.address.clone(),
                state: "unknown".to_string(),
                votes: 0,
                version: None,
                uptime: None,
                lag: None,
            });
        member.votes = entry.votes;
        let mut status = view.iter().flat_map(|view| &view.status);
        if let Some(status) = status.find(|status| status.address == entry.address) {
            member.state = status.state.clone();
            member.uptime = Some(status.uptime).filter(|uptime| !uptime.is_zero());
            member.lag = view.and_then(|view| lag_behind_primary(status, &view.status));
        }
    }
    let mut members: Vec<ReplicaSetMember> = members.into_values().collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(members)
}

/// Both times are of the same primary's clock. They are in whole seconds, and a set without load writes every 10 seconds.
fn lag_behind_primary(member: &SetMemberStatus, all: &[SetMemberStatus]) -> Option<Duration> {
    let primary = all.iter().find(|member| member.state == "primary")?;
    let behind = primary.last_write?.saturating_sub(member.last_write?);
    Some(Duration::from_secs(behind.into()))
}

/// What one mongod answered when the members of the replica set were listed.
#[derive(Default)]
struct MongodReply {
    version: Option<String>,
    /// `None` if it is in no set, or did not answer.
    view: Option<SetView>,
}

/// The config and the status of the replica set as one of its members sees them, to list the members.
struct SetView {
    entries: Vec<ConfigMember>,
    status: Vec<SetMemberStatus>,
}

async fn query_mongod(address: &str, secret: Option<&str>) -> MongodReply {
    let Ok(mongod) = MongodClient::at(address, secret) else {
        return MongodReply::default();
    };
    // In sequence: a mongod that does not answer the first request will not answer the others.
    let Ok(version) = mongod.version().await else {
        return MongodReply::default();
    };
    let view = match (mongod.config().await, mongod.status().await) {
        (Ok(Some(config)), Ok(status)) => Some(SetView {
            entries: config.entries(),
            status,
        }),
        _ => None,
    };
    MongodReply {
        version: Some(version),
        view,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_the_time_between_the_last_writes() {
        let member = |state: &str, last_write| SetMemberStatus {
            address: format!("{state}:1"),
            state: state.to_string(),
            uptime: Duration::from_secs(1),
            last_write,
        };
        let check = |of: &str, members: &[SetMemberStatus], expected: Option<u64>| {
            let found = members.iter().find(|member| member.state == of).unwrap();
            let lag = lag_behind_primary(found, members);
            assert_eq!(lag, expected.map(Duration::from_secs), "{members:?}");
        };
        let late = [member("primary", Some(107)), member("secondary", Some(100))];
        check("secondary", &late, Some(7));
        check("primary", &late, Some(0));
        let ahead = [member("primary", Some(100)), member("secondary", Some(101))];
        check("secondary", &ahead, Some(0));
        check("secondary", &[member("secondary", Some(100))], None);
        check(
            "unreachable",
            &[member("primary", Some(1)), member("unreachable", None)],
            None,
        );
    }
}
