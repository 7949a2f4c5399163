//! Leaves the cluster for good.

use registry::etcd::EtcdAccess;

use super::local_state::EtcdStateDir;
use super::members::{EtcdMember, EtcdMemberState, list_members_after_election, serving_addresses};
use super::remove::remove_by_id;
use super::{EtcdDaemonError, EtcdMemberOptions};
use crate::server::port::host_port;

/// How a node's attempt to leave the etcd cluster ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveClusterResult {
    /// The member is removed. The node's data stays where it is, and etcd does not start with it again.
    Left,
    /// The node had left before.
    AlreadyLeft,
    /// The node has the only member, which stays: without it the cluster's data would be lost.
    LastMember,
}

/// Checks whether [`leave`] would succeed now. Changes nothing.
pub async fn check_can_leave(options: &EtcdMemberOptions) -> Result<(), EtcdDaemonError> {
    plan_leave(options).await.map(drop)
}

/// Removes this node's member. The daemon may be running (its etcd then ends by itself) or stopped. In a cluster of two
/// members it has to be running, because both have to agree to the change.
pub async fn leave(options: &EtcdMemberOptions) -> Result<LeaveClusterResult, EtcdDaemonError> {
    match plan_leave(options).await? {
        LeavePlan::AlreadyLeft => return Ok(LeaveClusterResult::AlreadyLeft),
        LeavePlan::LastMember => return Ok(LeaveClusterResult::LastMember),
        LeavePlan::AlreadyRemoved => {}
        LeavePlan::Remove { id, others } => remove_by_id(&others, id).await?,
    }
    EtcdStateDir::at(&options.data).write_left()?;
    Ok(LeaveClusterResult::Left)
}

/// What has to be done for a node to leave the etcd cluster.
enum LeavePlan {
    AlreadyLeft,
    LastMember,
    /// The member was removed from elsewhere, and the node has not noticed yet.
    AlreadyRemoved,
    Remove {
        id: u64,
        /// The other members remove it: a member that removes itself may end before it answers.
        others: EtcdAccess,
    },
}

async fn plan_leave(options: &EtcdMemberOptions) -> Result<LeavePlan, EtcdDaemonError> {
    let state_dir = EtcdStateDir::at(&options.data);
    let state = state_dir.read()?;
    if state.left {
        return Ok(LeavePlan::AlreadyLeft);
    }
    let endpoints = state_dir.endpoints();
    if endpoints.is_empty() {
        return Err(EtcdDaemonError::NothingToLeave);
    }
    let cluster = state.membership.map(|membership| membership.cluster);
    let access = |endpoints| options.access(endpoints).with_cluster_id(cluster);
    let all = match list_members_after_election(&access(endpoints.clone())).await {
        Ok(all) => all,
        Err(error) => {
            tracing::debug!("could not list the members: {error}");
            return Err(EtcdDaemonError::NoOtherMember { tried: endpoints });
        }
    };
    let host = state_dir.address()?.unwrap_or_else(|| options.host.clone());
    let peer = host_port(&host, options.peer_port);
    let own_id = state.membership.and_then(|membership| membership.member);
    let is_own = |member: &&EtcdMember| own_id.map_or(member.peer == peer, |id| member.id == id);
    let Some(own) = all.iter().find(is_own) else {
        return Ok(LeavePlan::AlreadyRemoved);
    };
    if all.len() == 1 {
        return Ok(LeavePlan::LastMember);
    }
    check_quorum(&options.name, own, &all)?;
    let mut others = serving_addresses(&all);
    others.retain(|client| *client != own.client);
    Ok(LeavePlan::Remove {
        id: own.id,
        others: access(others),
    })
}

/// There has to be a majority now, to agree to the change, and a majority of the remaining members afterwards.
fn check_quorum(name: &str, own: &EtcdMember, all: &[EtcdMember]) -> Result<(), EtcdDaemonError> {
    let votes = |member: &&EtcdMember| member.state != EtcdMemberState::Learner;
    let others = || all.iter().filter(|member| member.id != own.id).filter(votes);
    let alive = others().filter(|member| member.state.is_serving()).count();
    let voters = others().count();
    let alive_now = alive + usize::from(own.state.is_serving());
    let voters_now = voters + usize::from(votes(&own));
    if alive > voters / 2 && alive_now > voters_now / 2 {
        return Ok(());
    }
    let mut missing: Vec<String> = others()
        .filter(|member| !member.state.is_serving())
        .map(EtcdMember::name_or_peer)
        .collect();
    if missing.is_empty() {
        missing.push(format!("{name}: it has to run while it leaves"));
    }
    Err(EtcdDaemonError::QuorumLost {
        name: name.to_string(),
        alive,
        voters,
        missing,
    })
}
