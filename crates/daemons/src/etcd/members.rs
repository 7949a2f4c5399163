//! Lists the members of the cluster with the state of each.

use std::time::Duration;

use futures::future::join_all;
use registry::etcd::EtcdAccess;

use super::client::EtcdRequestError;
use super::cluster_view::{query_cluster, query_status};
use super::decision::ListedMember;
use super::uptime::query_uptime;
use crate::election_retry::retry_during_election;

/// A member of the etcd cluster, and what it answers when it is asked for its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    pub id: u64,
    /// The node's name; empty for a member that has never started.
    pub name: String,
    /// Its peer address, `host:port`.
    pub peer: String,
    /// Its client address, `host:port`; empty for a member that has never started.
    pub client: String,
    pub state: EtcdMemberState,
    /// Empty if the member does not answer.
    pub version: String,
    /// `None` if the member does not report it.
    pub uptime: Option<Duration>,
    /// The last entry of the cluster's log that the member has applied; `None` if it does not answer.
    pub applied_index: Option<u64>,
}

/// What a member of the etcd cluster is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdMemberState {
    Leader,
    Follower,
    Learner,
    Unreachable,
    /// Added to the cluster, but never started.
    Unstarted,
}

impl EtcdMemberState {
    pub fn as_str(self) -> &'static str {
        match self {
            EtcdMemberState::Leader => "leader",
            EtcdMemberState::Follower => "follower",
            EtcdMemberState::Learner => "learner",
            EtcdMemberState::Unreachable => "unreachable",
            EtcdMemberState::Unstarted => "unstarted",
        }
    }

    /// Whether it is a full member that answers.
    pub(crate) fn is_serving(self) -> bool {
        matches!(self, EtcdMemberState::Leader | EtcdMemberState::Follower)
    }
}

impl EtcdMember {
    /// For messages: a member that has never started has no name.
    pub(crate) fn name_or_peer(&self) -> String {
        match self.name.is_empty() {
            true => self.peer.clone(),
            false => self.name.clone(),
        }
    }
}

/// Sorted by name.
pub async fn list_members(access: &EtcdAccess) -> Result<Vec<EtcdMember>, EtcdRequestError> {
    let cluster = query_cluster(access)
        .await
        .map_err(|failed| no_endpoint_usable(access, &failed))?;
    let queries = cluster
        .running
        .members
        .iter()
        .map(|member| query_member(access, member));
    let mut members = join_all(queries).await;
    members.sort_by(|one, other| (&one.name, &one.peer).cmp(&(&other.name, &other.peer)));
    Ok(members)
}

/// Like [`list_members`], but waits while etcd elects a leader, because no member can answer meanwhile.
pub async fn list_members_after_election(access: &EtcdAccess) -> Result<Vec<EtcdMember>, EtcdRequestError> {
    // The reasons differ from endpoint to endpoint, so none of them is known to be permanent.
    retry_during_election(|_| false, async || list_members(access).await).await
}

/// How many entries of the log the member lacks that the leader has applied. The members were asked one after the other, so a
/// few are no lag.
pub fn entries_behind_leader(member: &EtcdMember, members: &[EtcdMember]) -> Option<u64> {
    let leader = members.iter().find(|one| one.state == EtcdMemberState::Leader)?;
    Some(leader.applied_index?.saturating_sub(member.applied_index?))
}

/// The client addresses of all full members that answer.
pub(crate) fn serving_addresses(members: &[EtcdMember]) -> Vec<String> {
    members
        .iter()
        .filter(|member| member.state.is_serving())
        .map(|member| member.client.clone())
        .collect()
}

fn no_endpoint_usable(access: &EtcdAccess, failed: &[(String, String)]) -> EtcdRequestError {
    let reasons: Vec<String> = failed
        .iter()
        .map(|(at, reason)| format!("{at}: {reason}"))
        .collect();
    EtcdRequestError::Connect {
        at: access.endpoints.join(", "),
        source: std::io::Error::other(reasons.join("; ")),
    }
}

async fn query_member(access: &EtcdAccess, listed: &ListedMember) -> EtcdMember {
    let mut member = EtcdMember {
        id: listed.id,
        name: listed.name.clone(),
        peer: listed.peer.clone(),
        client: String::new(),
        state: EtcdMemberState::Unstarted,
        version: String::new(),
        uptime: None,
        applied_index: None,
    };
    let Some(client) = &listed.client else {
        return member;
    };
    member.client.clone_from(client);
    member.state = EtcdMemberState::Unreachable;
    let Ok((status, _)) = query_status(access, client).await else {
        return member;
    };
    // Another member may have been given this member's old address.
    if status.member != listed.id {
        return member;
    }
    member.state = match status.leader == listed.id {
        _ if status.learner => EtcdMemberState::Learner,
        true => EtcdMemberState::Leader,
        false => EtcdMemberState::Follower,
    };
    member.applied_index = Some(status.applied_index);
    member.version = status.version;
    member.uptime = query_uptime(access, client).await;
    member
}
