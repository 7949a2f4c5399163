//! The judicators of the cluster: registered ones, members of etcd and members of the replica set, one line for each
//! node.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use daemons::etcd::MemberSeen;
use daemons::mongodb::MemberState;
use model::{Health, JudicatorState, PartState, with_causes};
use registry::etcd::{Access, JudicatorSeen};

pub(super) struct ClusterRoster {
    access: Access,
    secret: Option<String>,
}

impl ClusterRoster {
    pub(super) fn new(access: Access, secret: Option<String>) -> ClusterRoster {
        ClusterRoster { access, secret }
    }
}

impl fmt::Debug for ClusterRoster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterRoster({:?})", self.access)
    }
}

#[async_trait]
impl judicator::Roster for ClusterRoster {
    async fn judicators(&self) -> Result<Vec<JudicatorState>, String> {
        let (registered, etcd, mongodb) = tokio::join!(
            registry::etcd::roster(&self.access),
            daemons::etcd::members(&self.access),
            daemons::mongodb::states(&self.access, self.secret.as_deref()),
        );
        let registered = registered.map_err(|error| with_causes(&error))?;
        // What is registered can be told without the rest; a list with holes is better than none.
        let etcd = etcd.unwrap_or_else(|error| {
            tracing::warn!(error = with_causes(&error), "could not list the members of etcd");
            Vec::new()
        });
        let mongodb = mongodb.unwrap_or_else(|error| {
            tracing::warn!(error = with_causes(&error), "could not list the replica set");
            Vec::new()
        });
        Ok(join(registered, etcd, mongodb))
    }
}

/// One for each name that any of the three knows, in the order of names.
fn join(
    registered: Vec<JudicatorSeen>,
    etcd: Vec<MemberSeen>,
    mongodb: Vec<MemberState>,
) -> Vec<JudicatorState> {
    let mut nodes: BTreeMap<String, JudicatorState> = BTreeMap::new();
    for seen in registered {
        let node = entry(&mut nodes, &seen.name);
        node.health = Health::Alive;
        node.address = seen.address;
        node.leader = seen.leads;
        node.version = seen.version;
        node.since = Some(seen.since.into());
    }
    for member in etcd {
        let part = PartState {
            address: member.client,
            state: member.state.as_str().to_string(),
            version: member.version,
            uptime: member.uptime,
        };
        entry(&mut nodes, &member.name).etcd = Some(part);
    }
    for member in mongodb {
        let part = PartState {
            address: member.address,
            state: match (member.state.as_str(), member.votes) {
                // It has the data and is no help to a majority, which whoever plans for a loss has to know.
                ("secondary", 0) => "secondary, no vote".to_string(),
                _ => member.state,
            },
            version: member.version.unwrap_or_default(),
            uptime: member.uptime,
        };
        entry(&mut nodes, &member.name).mongodb = Some(part);
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
        since: None,
        etcd: None,
        mongodb: None,
    })
}
