//! Joins a running cluster: removes the stale member of this node, if there is one, and adds the node as a learner.

use std::time::Duration;

use etcd_client::MemberAddOptions;
use registry::etcd::EtcdAccess;
use tokio::time::Instant;

use super::arguments::EtcdMemberAddress;
use super::client::{EtcdRequestError, connect, request, root_cause};
use super::cluster_view::{ClusterView, listed_member, query_cluster, query_status};
use super::decision::{
    BootstrapRefusal, BootstrapWait, JoinStep, ListedMember, Liveness, NamedPeer, next_join_step,
};
use super::local_state::{ClusterMembership, EtcdStateDir};
use super::preflight::is_loopback;
use super::remove::request_removal;
use super::{EtcdDaemonError, EtcdMemberOptions, PreJoinFailure};
use crate::server::port::host_port;
use crate::status_reporter::StatusReporter;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often in a row a member with this node's name must not answer before it is taken for dead: a single missed
/// answer proves nothing.
const PROBES: u32 = 3;

/// Returns the members to start etcd with, this node included.
pub(crate) async fn join(
    options: &EtcdMemberOptions,
    address: &EtcdMemberAddress,
    state_dir: &EtcdStateDir,
    clients: &[String],
    status: &mut StatusReporter,
) -> Result<Vec<NamedPeer>, EtcdDaemonError> {
    let context = JoinContext {
        options,
        own: NamedPeer::new(&options.name, &host_port(&address.host, options.peer_port)),
        address,
        state_dir,
        access: options.access(clients.to_vec()),
    };
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    let mut missed_probes = 0;
    loop {
        let waiting_for = match context.attempt(&mut missed_probes).await? {
            JoinProgress::Added(members) => return Ok(members),
            JoinProgress::StepDone => continue,
            JoinProgress::Wait(waiting_for) => waiting_for,
        };
        status.activity(&waiting_for);
        if Instant::now() >= deadline {
            return Err(EtcdDaemonError::GaveUp {
                tries: options.tries,
                waiting_for,
            });
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// The outcome of one attempt to join a running etcd cluster.
enum JoinProgress {
    /// The node is in the member list, which is this.
    Added(Vec<NamedPeer>),
    /// A step is done, and the next one needs a new view of the cluster.
    StepDone,
    /// What the node waits for, in words for the operator.
    Wait(String),
}

/// What every attempt to join a running etcd cluster needs: this node, and access to the cluster.
struct JoinContext<'a> {
    options: &'a EtcdMemberOptions,
    own: NamedPeer,
    address: &'a EtcdMemberAddress,
    state_dir: &'a EtcdStateDir,
    access: EtcdAccess,
}

impl JoinContext<'_> {
    async fn attempt(&self, missed_probes: &mut u32) -> Result<JoinProgress, EtcdDaemonError> {
        let cluster = match query_cluster(&self.access).await {
            Ok(cluster) => cluster,
            Err(failed) => return Ok(JoinProgress::Wait(BootstrapWait::NoAnswer(failed).to_string())),
        };
        self.check_cluster(&cluster)?;
        match self.step(&cluster, missed_probes).await {
            Err(EtcdDaemonError::Request(error)) if !error.is_permanent() => {
                Ok(JoinProgress::Wait(explain(&error, &cluster)))
            }
            result => result,
        }
    }

    /// Checked before the cluster is changed.
    fn check_cluster(&self, cluster: &ClusterView) -> Result<(), EtcdDaemonError> {
        let theirs = cluster.running.cluster;
        if let Some(ours) = self.state_dir.cluster_id()?
            && ours != theirs
        {
            return Err(BootstrapRefusal::AnotherCluster { ours, theirs }.into());
        }
        if !self.address.ip.is_loopback() {
            return Ok(());
        }
        let mut members = cluster.running.members.iter();
        match members.find(|member| !is_loopback(&member.peer)) {
            Some(other) => Err(BootstrapRefusal::Loopback {
                ours: self.own.peer.clone(),
                theirs: other.peer.clone(),
            }
            .into()),
            None => Ok(()),
        }
    }

    async fn step(
        &self,
        cluster: &ClusterView,
        missed_probes: &mut u32,
    ) -> Result<JoinProgress, EtcdDaemonError> {
        let JoinContext { own, access, .. } = self;
        // If the secret is wrong, the error of this login says so most clearly.
        connect(access, &cluster.at).await?;
        let through = access.with_endpoints(vec![cluster.at.clone()]);
        match self.options.pre_join_check.run(through).await {
            Ok(()) => {}
            Err(PreJoinFailure::Permanent(reason)) => return Err(EtcdDaemonError::PreJoinCheck { reason }),
            Err(PreJoinFailure::Temporary(reason)) => return Ok(JoinProgress::Wait(reason)),
        }
        match next_join_step(own, &probe_related_members(own, access, cluster).await) {
            JoinStep::Refuse(refusal) => Err(refusal.into()),
            JoinStep::Remove(id) => {
                let stale = cluster.running.members.iter().find(|member| member.id == id);
                if stale.is_some_and(|member| member.peer != own.peer) && *missed_probes < PROBES {
                    *missed_probes += 1;
                    return Ok(JoinProgress::Wait(format!(
                        "the member {} at another address does not answer; probing it again before it is removed",
                        own.name
                    )));
                }
                let member = format!("{id:x}");
                tracing::info!(
                    member,
                    "removing the member that this node had before it lost its data"
                );
                request_removal(access, &cluster.at, id).await?;
                Ok(JoinProgress::StepDone)
            }
            JoinStep::Add => self.add(cluster).await,
        }
    }

    async fn add(&self, cluster: &ClusterView) -> Result<JoinProgress, EtcdDaemonError> {
        let JoinContext { own, access, .. } = self;
        let mut client = connect(access, &cluster.at).await?;
        let peer_url = format!("{}://{}", access.scheme(), own.peer);
        let learner = MemberAddOptions::new().with_is_learner();
        let added = request(
            &cluster.at,
            "add a member",
            client.member_add([peer_url], Some(learner)),
        )
        .await?;
        // From here on this node belongs to that cluster and to no other.
        self.state_dir.write_membership(ClusterMembership {
            cluster: cluster.running.cluster,
            member: None,
        })?;
        self.state_dir.save_endpoints(&cluster.running.endpoints())?;
        let members = added
            .member_list()
            .iter()
            .map(listed_member)
            .map(|member| match member {
                itself if itself.peer == own.peer => own.clone(),
                // etcd requires a name for every member, but compares only the addresses.
                unstarted if unstarted.name.is_empty() => {
                    NamedPeer::new(&format!("unstarted-{:x}", unstarted.id), &unstarted.peer)
                }
                other => NamedPeer::new(&other.name, &other.peer),
            });
        let members: Vec<NamedPeer> = members.collect();
        tracing::info!(?members, "added to the cluster as a learner");
        Ok(JoinProgress::Added(members))
    }
}

/// Probes only members that have this node's name or address: one of them may be left from before it lost its data.
async fn probe_related_members(
    own: &NamedPeer,
    access: &EtcdAccess,
    cluster: &ClusterView,
) -> Vec<(ListedMember, Liveness)> {
    let mut probed = Vec::new();
    for member in &cluster.running.members {
        let related = member.name == own.name || member.peer == own.peer;
        let liveness = match &member.client {
            Some(client) if related => match query_status(access, client).await {
                // Another member may have been given this member's old address.
                Ok((status, _)) if status.member == member.id => Liveness::Answering,
                _ => Liveness::NotAnswering,
            },
            Some(_) => Liveness::Answering,
            None => Liveness::NotAnswering,
        };
        probed.push((member.clone(), liveness));
    }
    probed
}

/// etcd's own message, with advice for the operator.
fn explain(error: &EtcdRequestError, cluster: &ClusterView) -> String {
    let cause = root_cause(error);
    if error.message_contains("too many learner") {
        let learner = cluster.running.members.iter().find(|member| member.learner);
        let peer = learner.map_or("another node", |member| &member.peer);
        return format!(
            "{peer} is joining, and only one node can join at a time; if it never completes, `conclave remove {peer}`"
        );
    }
    if error.message_contains("unhealthy cluster") || error.message_contains("not enough started members") {
        return format!(
            "the cluster accepts no new member while one of its members does not answer ({cause}); bring that member \
             back, or `conclave remove` it"
        );
    }
    format!("the request to etcd at {} failed: {cause}", cluster.at)
}
