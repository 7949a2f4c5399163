//! The members and how they are.

use std::time::Duration;

use futures::future::join_all;
use registry::etcd::Access;

use super::dial::DialError;
use super::look::{health, look};
use super::plan::Listed;
use super::uptime::uptime;
use crate::election::outlast;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSeen {
    pub id: u64,
    /// The node's name; empty for one that has not started yet.
    pub name: String,
    /// `host:port` for peers.
    pub peer: String,
    /// `host:port` for clients; empty for one that has not started yet.
    pub client: String,
    pub state: MemberState,
    /// Empty for one that does not answer.
    pub version: String,
    /// For how long it has been running, where it says so.
    pub uptime: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    Leader,
    Follower,
    Learner,
    Unreachable,
    Unstarted,
}

impl MemberState {
    pub fn as_str(self) -> &'static str {
        match self {
            MemberState::Leader => "leader",
            MemberState::Follower => "follower",
            MemberState::Learner => "learner",
            MemberState::Unreachable => "unreachable",
            MemberState::Unstarted => "unstarted",
        }
    }
}

/// In order of their names.
pub async fn members(access: &Access) -> Result<Vec<MemberSeen>, DialError> {
    let cluster = look(access).await.map_err(|silent| nobody(access, &silent))?;
    let asked = cluster.running.members.iter().map(|member| seen(access, member));
    let mut members = join_all(asked).await;
    members.sort_by(|one, other| (&one.name, &one.peer).cmp(&(&other.name, &other.peer)));
    Ok(members)
}

/// For whoever is about to change something: while etcd elects a leader, nobody speaks for it.
pub async fn members_after_election(access: &Access) -> Result<Vec<MemberSeen>, DialError> {
    // Each address has a reason of its own for its silence; whether any of them lasts, time tells.
    outlast(|_| false, async || members(access).await).await
}

/// Where full members answer.
pub(crate) fn serving(members: &[MemberSeen]) -> Vec<String> {
    let serves = |member: &&MemberSeen| matches!(member.state, MemberState::Leader | MemberState::Follower);
    members
        .iter()
        .filter(serves)
        .map(|member| member.client.clone())
        .collect()
}

fn nobody(access: &Access, silent: &[(String, String)]) -> DialError {
    let whys: Vec<String> = silent.iter().map(|(at, why)| format!("{at}: {why}")).collect();
    DialError::Connect {
        at: access.endpoints.join(", "),
        source: std::io::Error::other(whys.join("; ")),
    }
}

async fn seen(access: &Access, member: &Listed) -> MemberSeen {
    let mut seen = MemberSeen {
        id: member.id,
        name: member.name.clone(),
        peer: member.peer.clone(),
        client: String::new(),
        state: MemberState::Unstarted,
        version: String::new(),
        uptime: None,
    };
    let Some(client) = &member.client else {
        return seen;
    };
    seen.client.clone_from(client);
    seen.state = MemberState::Unreachable;
    let Ok((health, _)) = health(access, client).await else {
        return seen;
    };
    // Whoever answers at an address that was once its own need not be the member.
    if health.member != member.id {
        return seen;
    }
    seen.state = match health.leader == member.id {
        _ if health.learner => MemberState::Learner,
        true => MemberState::Leader,
        false => MemberState::Follower,
    };
    seen.version = health.version;
    seen.uptime = uptime(access, client).await;
    seen
}
