//! What the cluster says about itself.

use etcd_client::Client;
use futures::future::join_all;
use registry::etcd::{Access, AccessError};

use super::dial::{DialError, call, cause, dial_anonymously};
use super::plan::{Listed, Running};

/// A cluster, as the member that knows most tells it.
pub(crate) struct Cluster {
    pub(crate) running: Running,
    /// The member that told it.
    pub(crate) at: String,
    /// Where its leader serves clients.
    pub(crate) leader: Option<String>,
    /// Addresses at which another cluster answered, and which.
    pub(crate) strange: Vec<(String, u64)>,
}

/// How a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) cluster: u64,
    pub(crate) member: u64,
    /// 0 where there is none.
    pub(crate) leader: u64,
    pub(crate) applied: u64,
    pub(crate) learner: bool,
    pub(crate) version: String,
}

/// Asks all at once and believes the one that has got furthest: one that is cut off would tell an old list. Nobody is
/// logged in for this. Where only one cluster will do, others are left out. On failure, who did not answer and why.
pub(crate) async fn look(access: &Access) -> Result<Cluster, Vec<(String, String)>> {
    let asked = access
        .endpoints
        .iter()
        .map(|at| async move { (at, health(access, at).await) });
    let mut silent = Vec::new();
    let mut well = Vec::new();
    let mut strange = Vec::new();
    for (at, answer) in join_all(asked).await {
        if let Err(DialError::Access(AccessError::AnotherCluster { theirs, .. })) = &answer {
            strange.push((at.clone(), *theirs));
        }
        match answer {
            Ok((health, _)) if health.leader == 0 => silent.push((at.clone(), "has no leader".to_string())),
            Ok((health, _)) if health.learner => silent.push((at.clone(), "is still learning".to_string())),
            Ok((health, client)) => well.push((health, at, client)),
            Err(error) => silent.push((at.clone(), cause(&error))),
        }
    }
    well.sort_by_key(|(health, ..)| std::cmp::Reverse(health.applied));
    let clusters: Vec<(String, u64)> = well
        .iter()
        .map(|(health, at, _)| (at.to_string(), health.cluster))
        .collect();
    for (health, at, mut client) in well {
        match call(at, "list its members", client.member_list()).await {
            Ok(list) => {
                let members: Vec<Listed> = list.members().iter().map(listed).collect();
                let leader = members.iter().find(|member| member.id == health.leader);
                strange.extend(
                    clusters
                        .into_iter()
                        .filter(|(_, theirs)| *theirs != health.cluster),
                );
                return Ok(Cluster {
                    at: at.clone(),
                    leader: leader.and_then(|leader| leader.client.clone()),
                    strange,
                    running: Running {
                        cluster: health.cluster,
                        members,
                    },
                });
            }
            Err(error) => silent.push((at.clone(), cause(&error))),
        }
    }
    Err(silent)
}

pub(crate) async fn health(access: &Access, at: &str) -> Result<(Health, Client), DialError> {
    let mut client = dial_anonymously(access, at).await?;
    let status = call(at, "tell its status", client.status()).await?;
    let header = status.header();
    let health = Health {
        cluster: header.map_or(0, |header| header.cluster_id()),
        member: header.map_or(0, |header| header.member_id()),
        leader: status.leader(),
        applied: status.raft_applied_index(),
        learner: status.is_learner(),
        version: status.version().to_string(),
    };
    Ok((health, client))
}

pub(crate) fn listed(member: &etcd_client::Member) -> Listed {
    Listed {
        id: member.id(),
        name: member.name().to_string(),
        peer: member
            .peer_urls()
            .first()
            .map_or_else(String::new, |url| place_in(url)),
        client: member.client_urls().first().map(|url| place_in(url)),
        learner: member.is_learner(),
    }
}

/// `host:port` of a URL.
pub(crate) fn place_in(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.trim_end_matches('/').to_string()
}

impl Running {
    /// Where clients are served, in order. Learners serve none.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        let mut endpoints: Vec<String> = self
            .members
            .iter()
            .filter(|member| !member.learner)
            .filter_map(|member| member.client.clone())
            .collect();
        endpoints.sort();
        endpoints
    }
}
