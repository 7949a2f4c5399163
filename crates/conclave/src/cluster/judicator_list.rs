//! Lists the judicators of a cluster. Each entry joins the registration in etcd with the node's etcd member and its
//! member of the replica set.

use std::collections::BTreeMap;

use daemons::etcd::{EtcdMember, entries_behind_leader};
use daemons::mongodb::ReplicaSetMember;
use error_causes::with_causes;
use model::{ClusterMemberState, Health, JudicatorState, MemberLag, TaskForm};
use registry::etcd::{EtcdAccess, RegisteredJudicator};

/// Reads the three sources at once. Fails only if etcd does not answer for the registrations.
pub(super) async fn list_cluster_judicators(
    access: &EtcdAccess,
    mongodb_secret: Option<&str>,
) -> Result<Vec<JudicatorState>, String> {
    let (registered, etcd, mongodb) = tokio::join!(
        registry::etcd::list_judicators(access),
        daemons::etcd::list_members(access),
        daemons::mongodb::replica_set_members(access, mongodb_secret),
    );
    let registered = registered.map_err(|error| with_causes(&error))?;
    // The registration is the essential part. Without the state of etcd or MongoDB the list is still useful.
    let etcd = etcd.unwrap_or_else(|error| {
        tracing::warn!(error = with_causes(&error), "could not list the etcd members");
        Vec::new()
    });
    let mongodb = mongodb.unwrap_or_else(|error| {
        tracing::warn!(
            error = with_causes(&error),
            "could not list the members of the replica set"
        );
        Vec::new()
    });
    Ok(join(registered, etcd, mongodb))
}

/// One entry for each node name in any of the three lists, sorted by name.
fn join(
    registered: Vec<RegisteredJudicator>,
    etcd: Vec<EtcdMember>,
    mongodb: Vec<ReplicaSetMember>,
) -> Vec<JudicatorState> {
    let mut nodes: BTreeMap<String, JudicatorState> = BTreeMap::new();
    for judicator in registered {
        let node = entry(&mut nodes, &judicator.name);
        node.health = Health::Alive;
        node.address = judicator.address;
        node.leader = judicator.leads;
        node.version = judicator.version;
        node.newer_form = judicator.newer_form.map(TaskForm);
        node.since = Some(judicator.since.into());
    }
    let lags: Vec<_> = etcd
        .iter()
        .map(|member| entries_behind_leader(member, &etcd))
        .collect();
    for (member, lag) in etcd.into_iter().zip(lags) {
        let state = ClusterMemberState {
            address: member.client,
            state: member.state.as_str().to_string(),
            version: member.version,
            uptime: member.uptime,
            lag: lag.map(MemberLag::Entries),
        };
        entry(&mut nodes, &member.name).etcd = Some(state);
    }
    for member in mongodb {
        let state = ClusterMemberState {
            address: member.address,
            state: match (member.state.as_str(), member.votes) {
                // A secondary without a vote has the data but does not count for a majority, so operators must see it.
                ("secondary", 0) => "secondary, no vote".to_string(),
                _ => member.state,
            },
            version: member.version.unwrap_or_default(),
            uptime: member.uptime,
            lag: member.lag.map(MemberLag::Time),
        };
        entry(&mut nodes, &member.name).mongodb = Some(state);
    }
    nodes.into_values().collect()
}

fn entry<'a>(nodes: &'a mut BTreeMap<String, JudicatorState>, name: &str) -> &'a mut JudicatorState {
    nodes.entry(name.to_string()).or_insert_with(|| JudicatorState {
        name: name.to_string(),
        address: String::new(),
        health: Health::Gone,
        leader: false,
        store: "mongodb".to_string(),
        version: String::new(),
        // Each judicator knows only its own.
        newer_form: None,
        since: None,
        etcd: None,
        mongodb: None,
    })
}
