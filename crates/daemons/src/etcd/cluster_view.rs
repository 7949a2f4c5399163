//! Asks the members of a running cluster for their status and their member list.

use etcd_client::Client;
use futures::future::join_all;
use registry::etcd::{EtcdAccess, EtcdAccessError};

use super::client::{EtcdRequestError, connect_anonymously, request, root_cause};
use super::decision::{ListedMember, RunningCluster};

/// An etcd cluster as its most up-to-date member describes it to the etcd daemon.
pub(crate) struct ClusterView {
    pub(crate) running: RunningCluster,
    /// The endpoint of the member that described it.
    pub(crate) at: String,
    /// The client address of the leader.
    pub(crate) leader: Option<String>,
    /// Endpoints at which a member of another cluster answered, with the id of that cluster.
    pub(crate) foreign: Vec<(String, u64)>,
}

/// What an etcd member answers to etcd's status request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdMemberStatus {
    pub(crate) cluster: u64,
    pub(crate) member: u64,
    /// The member id of the leader; 0 if there is none.
    pub(crate) leader: u64,
    /// How far the member has applied the raft log.
    pub(crate) applied_index: u64,
    pub(crate) learner: bool,
    pub(crate) version: String,
}

/// Asks all endpoints at once, without a login, and takes the list of the member whose applied index is highest: a
/// member that is cut off from the others may have an old list. If `access` names a cluster, members of other clusters
/// are left out. The error says for each endpoint why it was no use.
pub(crate) async fn query_cluster(access: &EtcdAccess) -> Result<ClusterView, Vec<(String, String)>> {
    let queries = access
        .endpoints
        .iter()
        .map(|at| async move { (at, query_status(access, at).await) });
    let mut failed = Vec::new();
    let mut usable = Vec::new();
    let mut foreign = Vec::new();
    for (at, answer) in join_all(queries).await {
        if let Err(EtcdRequestError::Access(EtcdAccessError::AnotherCluster { theirs, .. })) = &answer {
            foreign.push((at.clone(), *theirs));
        }
        match answer {
            Ok((status, _)) if status.leader == 0 => failed.push((at.clone(), "has no leader".to_string())),
            Ok((status, _)) if status.learner => failed.push((at.clone(), "is still a learner".to_string())),
            Ok((status, client)) => usable.push((status, at, client)),
            Err(error) => failed.push((at.clone(), root_cause(&error))),
        }
    }
    usable.sort_by_key(|(status, ..)| std::cmp::Reverse(status.applied_index));
    let clusters: Vec<(String, u64)> = usable
        .iter()
        .map(|(status, at, _)| (at.to_string(), status.cluster))
        .collect();
    for (status, at, mut client) in usable {
        match request(at, "list its members", client.member_list()).await {
            Ok(list) => {
                let members: Vec<ListedMember> = list.members().iter().map(listed_member).collect();
                let leader = members.iter().find(|member| member.id == status.leader);
                let of_another = |(_, cluster): &(String, u64)| *cluster != status.cluster;
                foreign.extend(clusters.into_iter().filter(of_another));
                return Ok(ClusterView {
                    at: at.clone(),
                    leader: leader.and_then(|leader| leader.client.clone()),
                    foreign,
                    running: RunningCluster {
                        cluster: status.cluster,
                        members,
                    },
                });
            }
            Err(error) => failed.push((at.clone(), root_cause(&error))),
        }
    }
    Err(failed)
}

pub(crate) async fn query_status(
    access: &EtcdAccess,
    at: &str,
) -> Result<(EtcdMemberStatus, Client), EtcdRequestError> {
    let mut client = connect_anonymously(access, at).await?;
    let response = request(at, "report its status", client.status()).await?;
    let header = response.header();
    let status = EtcdMemberStatus {
        cluster: header.map_or(0, |header| header.cluster_id()),
        member: header.map_or(0, |header| header.member_id()),
        leader: response.leader(),
        applied_index: response.raft_applied_index(),
        learner: response.is_learner(),
        version: response.version().to_string(),
    };
    Ok((status, client))
}

pub(crate) fn listed_member(member: &etcd_client::Member) -> ListedMember {
    ListedMember {
        id: member.id(),
        name: member.name().to_string(),
        peer: member
            .peer_urls()
            .first()
            .map_or_else(String::new, |url| host_port_of_url(url)),
        client: member.client_urls().first().map(|url| host_port_of_url(url)),
        learner: member.is_learner(),
    }
}

pub(crate) fn host_port_of_url(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.trim_end_matches('/').to_string()
}

impl RunningCluster {
    /// The client addresses of all full members, sorted. Learners serve no clients.
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
