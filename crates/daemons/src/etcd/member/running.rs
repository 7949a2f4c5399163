//! Manages a running member: waits until it serves, promotes it to a full member, enables authentication, and keeps its
//! state files up to date.

use std::time::Duration;

use tokio::time::Instant;

use super::super::arguments::EtcdMemberAddress;
use super::super::auth::ensure_auth_enabled;
use super::super::client::{EtcdRequestError, connect, request, root_cause};
use super::super::cluster_view::{EtcdMemberStatus, query_cluster, query_status};
use super::super::decision::{BootstrapWait, PeerObservation};
use super::super::health_check::{CheckedServer, wait_until_unresponsive};
use super::super::local_state::{ClusterMembership, EtcdStateDir};
use super::super::peer::{PeerTlsConnector, query_peer};
use super::super::{EtcdDaemonError, EtcdMemberOptions};
use crate::server::port::host_port;
use crate::status_reporter::StatusReporter;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// A member that starts alone serves within a few tenths of a second.
const FIRST_RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How often the member list is read; the member answers from its own memory.
const LIST_INTERVAL: Duration = Duration::from_secs(5);

/// Returns only if something failed.
pub(super) async fn manage_running_member(
    options: &EtcdMemberOptions,
    address: &EtcdMemberAddress,
    state_dir: &EtcdStateDir,
    status: &mut StatusReporter,
) -> EtcdDaemonError {
    if let Err(error) = bring_into_service(options, address, state_dir, status).await {
        return error;
    }
    let own = host_port(&address.host, options.client_port);
    let access = options.access(Vec::new());
    let tries = options.tries;
    let limit = Duration::from_secs(tries.into());
    tokio::select! {
        error = keep_endpoints_current(options, state_dir, &own) => error,
        reason = wait_until_unresponsive(CheckedServer::Member, &access, &own, limit) => {
            let server = "etcd";
            EtcdDaemonError::Unresponsive { server, tries, reason }
        }
    }
}

async fn bring_into_service(
    options: &EtcdMemberOptions,
    address: &EtcdMemberAddress,
    state_dir: &EtcdStateDir,
    status: &mut StatusReporter,
) -> Result<(), EtcdDaemonError> {
    let own = host_port(&address.host, options.client_port);
    let member = wait_until_serving(options, address, &own, status).await?;
    state_dir.write_membership(ClusterMembership {
        cluster: member.cluster,
        member: Some(member.member),
    })?;
    if member.learner {
        promote_learner(options, address, state_dir, &member, status).await?;
    }
    if let Some(login) = &options.login {
        let deadline = Instant::now() + Duration::from_secs(options.tries.into());
        let access = options.access(vec![own.clone()]);
        while let Err(error) = ensure_auth_enabled(&access, login, &own).await {
            if error.is_permanent() || Instant::now() >= deadline {
                return Err(error.into());
            }
            tracing::info!(
                "could not enable authentication yet; retrying: {}",
                root_cause(&error)
            );
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
    update_peer_address(options, address, &own, member.member).await;
    save_endpoints(options, state_dir, &own).await?;
    status.ready();
    Ok(())
}

/// A member without a leader serves no requests, so this also waits until a majority of the members has started.
async fn wait_until_serving(
    options: &EtcdMemberOptions,
    address: &EtcdMemberAddress,
    own: &str,
    status: &mut StatusReporter,
) -> Result<EtcdMemberStatus, EtcdDaemonError> {
    let started = Instant::now();
    let deadline = started + Duration::from_secs(options.tries.into());
    let access = options.access(Vec::new());
    loop {
        let reason = match query_status(&access, own).await {
            Ok((member, _)) if member.leader != 0 => return Ok(member),
            Ok(_) => "it has no leader".to_string(),
            Err(error) => root_cause(&error),
        };
        if Instant::now() >= deadline {
            return Err(EtcdDaemonError::NotServing {
                tries: options.tries,
                reason: unreachable_peers(options, address).await.unwrap_or(reason),
            });
        }
        if started.elapsed() < RETRY_INTERVAL * 2 {
            tokio::time::sleep(FIRST_RETRY_INTERVAL).await;
            continue;
        }
        let reason = unreachable_peers(options, address).await.unwrap_or(reason);
        status.activity(&format!("etcd does not serve yet: {reason}"));
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Names the members that do not answer on their peer ports. `None` if all answer, or if this member's own list cannot
/// be read.
async fn unreachable_peers(options: &EtcdMemberOptions, address: &EtcdMemberAddress) -> Option<String> {
    let tls = options.tls.as_ref().map(PeerTlsConnector::new).transpose().ok()?;
    let own = host_port(&address.host, options.peer_port);
    let PeerObservation::Running(cluster) = query_peer(&own, tls.as_ref()).await else {
        return None;
    };
    let mut unreachable = Vec::new();
    for member in cluster.members.iter().filter(|member| member.peer != own) {
        if let PeerObservation::Unreachable(reason) = query_peer(&member.peer, tls.as_ref()).await {
            unreachable.push(format!("{} at {} ({reason})", member.name, member.peer));
        }
    }
    if unreachable.is_empty() {
        return None;
    }
    Some(format!(
        "of its {} members these do not answer: {}",
        cluster.members.len(),
        unreachable.join(", ")
    ))
}

/// Asks the other members for the promotion: a learner does not accept such a request.
async fn promote_learner(
    options: &EtcdMemberOptions,
    address: &EtcdMemberAddress,
    state_dir: &EtcdStateDir,
    own: &EtcdMemberStatus,
    status: &mut StatusReporter,
) -> Result<(), EtcdDaemonError> {
    let member = own.member;
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    status.activity("catching up with the cluster");
    loop {
        // Read again each time: a learner learns the client addresses of the others only as it catches up.
        let access = options
            .access(known_client_addresses(options, address, state_dir).await)
            .with_cluster_id(Some(own.cluster));
        let waiting_for = match query_cluster(&access).await {
            Err(failed) => BootstrapWait::NoAnswer(failed).to_string(),
            Ok(cluster) => {
                let listed = cluster.running.members.iter().find(|listed| listed.id == member);
                match listed {
                    None => return Err(EtcdDaemonError::Removed),
                    Some(listed) if !listed.learner => return Ok(()),
                    Some(_) => {}
                }
                // A follower would forward the request to the leader without the login, and the leader would refuse it.
                let at = cluster.leader.as_ref().unwrap_or(&cluster.at);
                let promoted = match connect(&access, at).await {
                    Ok(mut client) => request(at, "promote this node", client.member_promote(member)).await,
                    Err(error) => Err(error),
                };
                match promoted {
                    Ok(_) => {
                        tracing::info!("promoted to a full member");
                        return Ok(());
                    }
                    Err(error) if error.is_permanent() => return Err(error.into()),
                    Err(error) => root_cause(&error),
                }
            }
        };
        if Instant::now() >= deadline {
            let tries = options.tries;
            return Err(EtcdDaemonError::GaveUp { tries, waiting_for });
        }
        tracing::info!("not promoted yet; retrying: {waiting_for}");
        tokio::time::sleep(FIRST_RETRY_INTERVAL).await;
    }
}

/// Updates this member's peer address in the member list if it has changed. The member also serves with the old one,
/// only nodes that start next do not find it; so a failure is logged, and the next start tries again.
async fn update_peer_address(
    options: &EtcdMemberOptions,
    address: &EtcdMemberAddress,
    own: &str,
    member: u64,
) {
    let access = options.access(vec![own.to_string()]);
    let peer = host_port(&address.host, options.peer_port);
    let update = async {
        let Ok(cluster) = query_cluster(&access).await else {
            return Ok(());
        };
        let listed = cluster.running.members.iter().find(|listed| listed.id == member);
        if listed.is_none_or(|listed| listed.peer == peer) {
            return Ok(());
        }
        tracing::info!(peer, "updating this member's peer address");
        let mut client = connect(&access, own).await?;
        let url = format!("{}://{peer}", access.scheme());
        request(own, "change a member", client.member_update(member, [url]))
            .await
            .map(drop)
    };
    let result: Result<(), EtcdRequestError> = update.await;
    if let Err(error) = result {
        let error = root_cause(&error);
        tracing::warn!(
            peer,
            error,
            "could not update this member's peer address; the next start retries"
        );
    }
}

/// The client addresses in the state file and in this member's own list.
async fn known_client_addresses(
    options: &EtcdMemberOptions,
    address: &EtcdMemberAddress,
    state_dir: &EtcdStateDir,
) -> Vec<String> {
    let mut clients = state_dir.endpoints();
    let tls = options.tls.as_ref().map(PeerTlsConnector::new).transpose();
    let own = host_port(&address.host, options.peer_port);
    if let Ok(tls) = tls
        && let PeerObservation::Running(cluster) = query_peer(&own, tls.as_ref()).await
    {
        clients.extend(cluster.endpoints());
    }
    clients.sort();
    clients.dedup();
    clients
}

/// Returns only if a state file cannot be read or written.
async fn keep_endpoints_current(
    options: &EtcdMemberOptions,
    state_dir: &EtcdStateDir,
    own: &str,
) -> EtcdDaemonError {
    loop {
        tokio::time::sleep(LIST_INTERVAL).await;
        if let Err(error) = save_endpoints(options, state_dir, own).await {
            return error;
        }
    }
}

/// If no member answers, the saved endpoints stay as they are.
async fn save_endpoints(
    options: &EtcdMemberOptions,
    state_dir: &EtcdStateDir,
    own: &str,
) -> Result<(), EtcdDaemonError> {
    let mut endpoints = vec![own.to_string()];
    endpoints.extend(state_dir.endpoints().into_iter().filter(|known| known != own));
    let access = options.access(endpoints).with_cluster_id(state_dir.cluster_id()?);
    if let Ok(cluster) = query_cluster(&access).await {
        state_dir.save_endpoints(&cluster.running.endpoints())?;
    }
    Ok(())
}
