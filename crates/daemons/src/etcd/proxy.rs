//! Runs `etcd grpc-proxy`, and restarts it with new endpoints when the members of the cluster change.

use std::time::Duration;

use boot::{BootConnection, ServiceMessage};
use error_causes::with_causes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::arguments;
use super::client::{connect, root_cause};
use super::cluster_view::{ClusterView, query_cluster, query_status};
use super::decision::{BootstrapRefusal, BootstrapWait};
use super::health_check::{CheckedServer, wait_until_unresponsive};
use super::local_state::{ClusterMembership, EtcdStateDir};
use super::preflight::{find_program, preflight_proxy};
use super::{EtcdDaemonError, EtcdProxyOptions, ProxySeeds};
use crate::server::port::host_port;
use crate::server::{ServerProcess, port};
use crate::status_reporter::StatusReporter;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const START_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How often the member list is read.
const LIST_INTERVAL: Duration = Duration::from_secs(3);
/// Short, because a proxy has no state to save.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs until `stop`. The caller cancels `stop` when boot is gone, and reports the error to boot.
pub async fn run_proxy(
    options: EtcdProxyOptions,
    boot: BootConnection,
    stop: CancellationToken,
) -> Result<(), EtcdDaemonError> {
    preflight_proxy(&options)?;
    let program = find_program(&options.program)?;
    port::check_free(&options.host, options.client_port, "etcd.client_port")?;
    let state_dir = EtcdStateDir::at(&options.data);
    let listen = host_port(&options.host, options.client_port);
    let mut foreign = ForeignEndpoints::default();
    let mut endpoints = tokio::select! {
        found = find_members(&options, &state_dir, &boot, &mut foreign) => found?,
        () = stop.cancelled() => return Ok(()),
    };
    loop {
        let access = options.access(endpoints.clone());
        let args = arguments::proxy(&access, &listen, &state_dir.folder().join("proxy"));
        let wrapper = &options.parent_death_wrapper;
        let mut server = ServerProcess::start("etcd grpc-proxy", &program, args, wrapper)?;
        boot.send(&ServiceMessage::ServerPid(server.pid()));
        let manage = async {
            wait_until_serving(&options, &listen).await?;
            boot.send(&ServiceMessage::Ready);
            let tries = options.tries;
            let limit = Duration::from_secs(tries.into());
            tokio::select! {
                changed = wait_until_members_change(&options, &state_dir, &endpoints, &mut foreign) => changed,
                reason = wait_until_unresponsive(CheckedServer::Proxy, &access, &listen, limit) => {
                    let server = "etcd grpc-proxy";
                    Err(EtcdDaemonError::Unresponsive { server, tries, reason })
                }
            }
        };
        tokio::select! {
            exit = server.wait() => return Err(EtcdDaemonError::Exited { exit }),
            changed = manage => match changed {
                Ok(now) => {
                    tracing::info!(endpoints = ?now, "the members have changed; restarting the proxy");
                    server.stop(STOP_TIMEOUT).await;
                    endpoints = now;
                }
                Err(error) => {
                    server.kill().await;
                    return Err(error);
                }
            },
            () = stop.cancelled() => {
                server.stop(STOP_TIMEOUT).await;
                return Ok(());
            }
        }
    }
}

/// Queries the saved endpoints first: the configured seeds may have been removed from the cluster long ago.
async fn find_members(
    options: &EtcdProxyOptions,
    state_dir: &EtcdStateDir,
    boot: &BootConnection,
    foreign: &mut ForeignEndpoints,
) -> Result<Vec<String>, EtcdDaemonError> {
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    let mut status = StatusReporter::new(boot);
    let (own_cluster, cluster) = loop {
        let own_cluster = state_dir.cluster_id()?;
        let waiting_for = match query_members(options, state_dir, own_cluster).await {
            // The node would belong to the cluster that it chose for ever, so it does not choose.
            Ok(cluster) if own_cluster.is_none() && !cluster.foreign.is_empty() => {
                BootstrapRefusal::TwoClusters.to_string()
            }
            // The proxy itself does not log in. A wrong secret is reported here, and not by every program that uses it.
            Ok(cluster) => match connect(&options.access(Vec::new()), &cluster.at).await {
                Ok(_) => break (own_cluster, cluster),
                Err(error) if error.is_permanent() => return Err(error.into()),
                Err(error) => with_causes(&error),
            },
            Err(wait) => wait.to_string(),
        };
        status.activity(&waiting_for);
        if Instant::now() >= deadline {
            let tries = options.tries;
            return Err(EtcdDaemonError::GaveUp { tries, waiting_for });
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    };
    if own_cluster.is_none() {
        state_dir.write_membership(ClusterMembership {
            cluster: cluster.running.cluster,
            member: None,
        })?;
    }
    state_dir.save_endpoints(&cluster.running.endpoints())?;
    Ok(foreign.update_and_exclude(&cluster))
}

async fn query_members(
    options: &EtcdProxyOptions,
    state_dir: &EtcdStateDir,
    own_cluster: Option<u64>,
) -> Result<ClusterView, BootstrapWait> {
    let mut known = state_dir.endpoints();
    let found = match known.is_empty() {
        true => None,
        false => {
            let access = options.access(known.clone()).with_cluster_id(own_cluster);
            query_cluster(&access).await.ok()
        }
    };
    let cluster = match found {
        Some(cluster) => cluster,
        None => {
            known.extend(seed_addresses(options).await?);
            known.dedup();
            let access = options.access(known.clone()).with_cluster_id(own_cluster);
            query_cluster(&access).await.map_err(BootstrapWait::NoAnswer)?
        }
    };
    let listed = cluster.running.endpoints();
    if own_cluster.is_none() && !cluster.foreign.is_empty() || listed.iter().all(|at| known.contains(at)) {
        return Ok(cluster);
    }
    // The list has members that were not queried yet, and another cluster may answer at their addresses.
    let access = options
        .access(listed)
        .with_cluster_id(Some(cluster.running.cluster));
    query_cluster(&access).await.map_err(BootstrapWait::NoAnswer)
}

/// The endpoints at which members of another etcd cluster answer, which the daemon's etcd proxy must not use. Each has
/// the id of that cluster.
#[derive(Default)]
struct ForeignEndpoints(Vec<(String, u64)>);

impl ForeignEndpoints {
    /// Returns the endpoints of the cluster without the foreign ones. Each is logged once: they may stay for long.
    fn update_and_exclude(&mut self, cluster: &ClusterView) -> Vec<String> {
        for (endpoint, theirs) in &cluster.foreign {
            if !self.0.iter().any(|known| known == &(endpoint.clone(), *theirs)) {
                let ours = cluster.running.cluster;
                tracing::warn!(
                    "etcd at {endpoint} belongs to another cluster ({theirs:x}) than this node ({ours:x}); ignoring it"
                );
            }
        }
        self.0.clone_from(&cluster.foreign);
        let mut endpoints = cluster.running.endpoints();
        endpoints.retain(|at| !cluster.foreign.iter().any(|(foreign, _)| foreign == at));
        endpoints
    }
}

async fn seed_addresses(options: &EtcdProxyOptions) -> Result<Vec<String>, BootstrapWait> {
    match &options.seeds {
        ProxySeeds::Addresses(addresses) => Ok(addresses.clone()),
        ProxySeeds::DnsName { name, client_port } => {
            let resolved = options.resolver.resolve_service(name).await?;
            Ok(resolved
                .iter()
                .map(|ip| host_port(&ip.to_string(), *client_port))
                .collect())
        }
    }
}

async fn wait_until_serving(options: &EtcdProxyOptions, listen: &str) -> Result<(), EtcdDaemonError> {
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    let access = options.access(Vec::new());
    loop {
        let reason = match query_status(&access, listen).await {
            Ok(_) => return Ok(()),
            Err(error) => root_cause(&error),
        };
        if Instant::now() >= deadline {
            let tries = options.tries;
            return Err(EtcdDaemonError::NotServing { tries, reason });
        }
        tokio::time::sleep(START_CHECK_INTERVAL).await;
    }
}

/// Returns the new endpoints. While no member answers, nothing is known to have changed.
async fn wait_until_members_change(
    options: &EtcdProxyOptions,
    state_dir: &EtcdStateDir,
    current: &[String],
    foreign: &mut ForeignEndpoints,
) -> Result<Vec<String>, EtcdDaemonError> {
    let own_cluster = state_dir.cluster_id()?;
    loop {
        tokio::time::sleep(LIST_INTERVAL).await;
        let Ok(cluster) = query_members(options, state_dir, own_cluster).await else {
            continue;
        };
        state_dir.save_endpoints(&cluster.running.endpoints())?;
        let now = foreign.update_and_exclude(&cluster);
        if !now.is_empty() && now != current {
            return Ok(now);
        }
    }
}
