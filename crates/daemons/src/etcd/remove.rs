//! Removes members from the cluster: one that leaves, or one whose node is lost.

use std::time::Duration;

use registry::etcd::EtcdAccess;
use tokio::time::Instant;

use super::EtcdDaemonError;
use super::client::{EtcdRequestError, connect, request};
use super::members::{EtcdMember, EtcdMemberState, list_members_after_election, serving_addresses};

/// How often in a row a member must not answer before it is taken for lost.
const PROBES: u32 = 3;
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// etcd refuses changes until its members have been connected for five seconds, and while it elects a leader.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(15);
const RETRY_INTERVAL: Duration = Duration::from_millis(300);

/// Removes the member of a lost node. `name` is the node's name or its peer address: a member that never started has no
/// name.
pub async fn remove_member(access: &EtcdAccess, name: &str) -> Result<(), EtcdDaemonError> {
    for _ in 1..PROBES {
        let members = list_members_after_election(access).await?;
        if find_removable(&members, name)?.state == EtcdMemberState::Unstarted {
            break;
        }
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
    let members = list_members_after_election(access).await?;
    let lost = find_removable(&members, name)?;
    remove_by_id(&access.with_endpoints(serving_addresses(&members)), lost.id).await
}

fn find_removable<'a>(members: &'a [EtcdMember], name: &str) -> Result<&'a EtcdMember, EtcdDaemonError> {
    let found = members
        .iter()
        .find(|member| member.name == name || member.peer == name);
    let found = found.ok_or_else(|| EtcdDaemonError::NoSuchMember {
        name: name.to_string(),
        known: members.iter().map(EtcdMember::name_or_peer).collect(),
    })?;
    match found.state {
        EtcdMemberState::Leader | EtcdMemberState::Follower | EtcdMemberState::Learner => {
            Err(EtcdDaemonError::Alive {
                name: name.to_string(),
                client: found.client.clone(),
            })
        }
        EtcdMemberState::Unreachable | EtcdMemberState::Unstarted if members.len() == 1 => {
            Err(EtcdDaemonError::OnlyMember {
                name: name.to_string(),
            })
        }
        EtcdMemberState::Unreachable | EtcdMemberState::Unstarted => Ok(found),
    }
}

/// Asks the endpoints in turn until one of them has removed the member, or the member is no longer in the list.
pub(crate) async fn remove_by_id(access: &EtcdAccess, id: u64) -> Result<(), EtcdDaemonError> {
    let deadline = Instant::now() + REMOVE_TIMEOUT;
    loop {
        let mut failure = None;
        for at in &access.endpoints {
            match request_removal(access, at, id).await {
                Err(error) if error.is_permanent() => return Err(error.into()),
                Err(error) => failure = Some(error),
                Ok(()) => return Ok(()),
            }
        }
        match failure {
            None => return Err(EtcdDaemonError::NoOtherMember { tried: Vec::new() }),
            Some(error) if Instant::now() >= deadline => return Err(error.into()),
            Some(error) => tracing::info!("could not remove the member yet; retrying: {error}"),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Asks one endpoint. A member that is no longer in the list counts as removed.
pub(super) async fn request_removal(access: &EtcdAccess, at: &str, id: u64) -> Result<(), EtcdRequestError> {
    let mut client = connect(access, at).await?;
    match request(at, "remove a member", client.member_remove(id)).await {
        Err(error) if !error.message_contains("member not found") => Err(error),
        _ => Ok(()),
    }
}
