//! Decides how a member is started, from the state on disk and the observed peers. Pure: no I/O.
//!
//! Founding is the dangerous step: two clusters that were founded from one list of nodes could never be merged. So no
//! node decides alone to found a cluster with others:
//!
//! 1. Each founder shows its *proposal* on its peer port: the list of founders that it would found a cluster with.
//! 2. When all founders propose the same list, each *promises* it: it writes the promise to disk, and keeps it
//!    whatever DNS says later.
//! 3. When all founders have promised, each *decides*, writes that to disk, and starts etcd.
//!
//! So of two lists that share a node at most one can be founded. A node that finds a founder's etcd already running,
//! with a member list that holds a place for it, takes that place: the founder has seen its promise.
//!
//! A node decides only when all founders that still show a proposal have seen its promise, and a promise that was
//! seen still counts when its node no longer answers. So if a founder dies after it has decided, the others can
//! continue.
//!
//! The list of founders carries a token, which the first founder of the list creates. If the same nodes found a
//! cluster again, with new data folders, it is another cluster with other member ids.
//!
//! A place in the member list is free until its member has published its client address. From then on a node without
//! data cannot take the place, even if it has the same name, and has to join as a new member.

mod join;
mod messages;

pub(crate) use join::{JoinStep, Liveness, next_join_step};
pub(crate) use messages::{BootstrapRefusal, BootstrapWait};

use serde::{Deserialize, Serialize};

use super::BootstrapMode;
use super::local_state::{EtcdLocalState, FoundingStage};

/// The name and the peer address of an etcd member, as in etcd's `--initial-cluster`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct NamedPeer {
    /// Empty if only the address is known yet.
    pub(crate) name: String,
    /// `host:port` for peers.
    pub(crate) peer: String,
}

impl NamedPeer {
    pub(crate) fn new(name: &str, peer: &str) -> NamedPeer {
        NamedPeer {
            name: name.to_string(),
            peer: peer.to_string(),
        }
    }
}

/// An etcd cluster that is to be founded: the values of `--initial-cluster` and `--initial-cluster-token`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InitialCluster {
    /// Empty while too few of them are known.
    pub(crate) founders: Vec<NamedPeer>,
    /// Distinguishes it from other clusters of the same founders. Empty until the first founder has shown it.
    pub(crate) token: String,
}

/// What another node answered on its etcd peer port during the etcd bootstrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerObservation {
    /// No usable answer, and why.
    Unreachable(String),
    /// It has not started its etcd, and shows this proposal.
    Proposing(FoundingProposal),
    /// It does not answer now, but showed this promise earlier, which still binds it.
    PromisedEarlier(FoundingProposal),
    /// It runs etcd, and this is its member list.
    Running(RunningCluster),
}

/// What a node that has not started its etcd proposes to the other founders of a new etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundingProposal {
    /// The name of the proposing node.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) cluster: InitialCluster,
    /// `None` before it has promised; until then it may propose something else.
    pub(crate) stage: Option<FoundingStage>,
    /// The peer addresses of the nodes whose promises it has seen.
    #[serde(rename = "heard")]
    pub(crate) promises_seen: Vec<String>,
}

/// The id and the member list of a running etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningCluster {
    pub(crate) cluster: u64,
    pub(crate) members: Vec<ListedMember>,
}

/// A member in the member list of a running etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedMember {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) peer: String,
    /// Its client address. `None` until it has served for the first time.
    pub(crate) client: Option<String>,
    pub(crate) learner: bool,
}

/// Everything that the etcd bootstrap decides on: this node's options and state files, and the other nodes' answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BootstrapInputs<'a> {
    pub(crate) own: &'a NamedPeer,
    pub(crate) mode: &'a BootstrapMode,
    pub(crate) state: &'a EtcdLocalState,
    /// The founders of the cluster that this node would found, itself included; or why they are not known.
    pub(crate) founders: &'a Result<Vec<NamedPeer>, BootstrapWait>,
    /// The token for a cluster whose first founder is this node.
    pub(crate) token: &'a str,
    /// What the other nodes answered, by the address that was asked.
    pub(crate) peers: &'a [(String, PeerObservation)],
}

/// How the etcd daemon starts etcd, or what it does before it can start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BootstrapDecision {
    /// Start etcd with the data that it has; the data names its cluster.
    StartWithData,
    /// Start etcd as a member of this new cluster: all other founders have promised, or there are none.
    Found(InitialCluster),
    /// Write a promise for this cluster to disk, show it, and observe again: all others propose the same.
    Promise(InitialCluster),
    /// Join the running cluster whose members have these client addresses.
    Join(Vec<String>),
    Wait(BootstrapWait),
    Refuse(BootstrapRefusal),
}

/// Why the node cannot start, whatever the other nodes answer.
pub(crate) fn refusal_by_local_state(
    mode: &BootstrapMode,
    state: &EtcdLocalState,
) -> Option<BootstrapRefusal> {
    let queries_no_peers = matches!(mode, BootstrapMode::Unspecified | BootstrapMode::First);
    match (state.membership, &state.founding) {
        _ if state.left => Some(BootstrapRefusal::Left),
        _ if state.has_data || !queries_no_peers => None,
        (Some(membership), _) => Some(BootstrapRefusal::DataLost {
            cluster: membership.cluster,
        }),
        (None, None) if *mode == BootstrapMode::Unspecified => Some(BootstrapRefusal::Unspecified),
        _ => None,
    }
}

pub(crate) fn decide(inputs: BootstrapInputs<'_>) -> BootstrapDecision {
    let state = inputs.state;
    if let Some(refusal) = refusal_by_local_state(inputs.mode, state) {
        return BootstrapDecision::Refuse(refusal);
    }
    let running: Vec<&RunningCluster> = inputs
        .peers
        .iter()
        .filter_map(|(_, observation)| match observation {
            PeerObservation::Running(running) => Some(running),
            _ => None,
        })
        .collect();
    let foreign = state
        .membership
        .and_then(|membership| running.iter().find(|other| other.cluster != membership.cluster));
    match (state.membership, foreign) {
        (Some(membership), Some(other)) => BootstrapDecision::Refuse(BootstrapRefusal::AnotherCluster {
            ours: membership.cluster,
            theirs: other.cluster,
        }),
        _ if state.has_data => BootstrapDecision::StartWithData,
        _ => match running.first() {
            Some(first) if running.iter().any(|other| other.cluster != first.cluster) => {
                BootstrapDecision::Refuse(BootstrapRefusal::TwoClusters)
            }
            Some(_) => decide_with_running_cluster(inputs, &running),
            None => decide_without_running_cluster(inputs),
        },
    }
}

/// At least one of the other nodes runs etcd; all that do are in the same cluster.
fn decide_with_running_cluster(
    inputs: BootstrapInputs<'_>,
    running: &[&RunningCluster],
) -> BootstrapDecision {
    let BootstrapInputs { own, mode, state, .. } = inputs;
    let promised = state.founding.as_ref().map(|founding| &founding.cluster);
    let free_place = running.iter().find(|cluster| {
        let place = cluster.members.iter().find(|member| member.peer == own.peer);
        place.is_some_and(|place| place.client.is_none() && !place.learner)
    });
    // A node without its promise does not know the token and cannot take the place; it joins as a new member instead.
    if mode.founds_with_others()
        && let (None, Some(cluster), Some(promised)) = (state.membership, free_place, promised)
    {
        let founders: Vec<NamedPeer> = cluster
            .members
            .iter()
            .map(|member| match member.peer == own.peer {
                true => own.clone(),
                false => NamedPeer::new(&member.name, &member.peer),
            })
            .collect();
        return match same_founders(&promised.founders, &founders) {
            true => BootstrapDecision::Found(InitialCluster {
                founders,
                token: promised.token.clone(),
            }),
            false => BootstrapDecision::Wait(BootstrapWait::promised_others(&promised.founders, &founders)),
        };
    }
    let listed = || running.iter().flat_map(|cluster| &cluster.members);
    // A promise binds until its cluster runs: the other founders may found it while this node sees another cluster.
    if let (Some(promised), None) = (promised, state.membership)
        && !listed().any(|member| {
            promised
                .founders
                .iter()
                .any(|founder| founder.peer == member.peer)
        })
    {
        let theirs: Vec<NamedPeer> = listed()
            .map(|member| NamedPeer::new(&member.name, &member.peer))
            .collect();
        return BootstrapDecision::Wait(BootstrapWait::promised_others(&promised.founders, &theirs));
    }
    let mut clients: Vec<String> = listed()
        .filter(|member| member.peer != own.peer && !member.learner)
        .filter_map(|member| member.client.clone())
        .collect();
    clients.sort();
    clients.dedup();
    if clients.is_empty() {
        return BootstrapDecision::Wait(BootstrapWait::Forming(
            listed().map(|member| member.peer.clone()).collect(),
        ));
    }
    BootstrapDecision::Join(clients)
}

/// None of the nodes that this node can reach runs etcd.
fn decide_without_running_cluster(inputs: BootstrapInputs<'_>) -> BootstrapDecision {
    let BootstrapInputs { own, mode, state, .. } = inputs;
    let no_answer = || BootstrapWait::no_answer(inputs.peers);
    if state.membership.is_some() {
        return BootstrapDecision::Wait(BootstrapWait::DataLost(Box::new(no_answer())));
    }
    match (&state.founding, mode) {
        (Some(founding), _) if founding.stage == FoundingStage::Decided => {
            BootstrapDecision::Found(founding.cluster.clone())
        }
        (Some(founding), _) => match decide_with_founders(inputs, &founding.cluster) {
            BootstrapDecision::Wait(wait) => {
                BootstrapDecision::Wait(BootstrapWait::promised(&founding.cluster.founders, wait))
            }
            decision => decision,
        },
        (None, BootstrapMode::Unspecified) => BootstrapDecision::Refuse(BootstrapRefusal::Unspecified),
        (None, BootstrapMode::First) => BootstrapDecision::Found(InitialCluster {
            founders: vec![own.clone()],
            token: inputs.token.to_string(),
        }),
        (None, BootstrapMode::Join(_) | BootstrapMode::Discover { expect: None, .. }) => {
            BootstrapDecision::Wait(match inputs.founders {
                Err(wait) => wait.clone(),
                Ok(_) => no_answer(),
            })
        }
        (None, BootstrapMode::Members(_) | BootstrapMode::Discover { expect: Some(_), .. }) => {
            match intended_cluster(inputs) {
                Ok(cluster) => decide_with_founders(inputs, &cluster),
                Err(wait) => BootstrapDecision::Wait(wait.clone()),
            }
        }
    }
}

/// What this node shows to the other founders while it waits.
pub(crate) fn own_proposal(inputs: BootstrapInputs<'_>) -> FoundingProposal {
    FoundingProposal {
        name: inputs.own.name.clone(),
        cluster: intended_cluster(inputs).unwrap_or_else(|_| InitialCluster {
            founders: Vec::new(),
            token: String::new(),
        }),
        stage: inputs.state.founding.as_ref().map(|founding| founding.stage),
        promises_seen: inputs
            .peers
            .iter()
            .filter(|(_, observation)| promise_of(observation).is_some())
            .map(|(peer, _)| peer.clone())
            .collect(),
    }
}

fn promise_of(observation: &PeerObservation) -> Option<&FoundingProposal> {
    match observation {
        PeerObservation::Proposing(theirs) if theirs.stage.is_some() => Some(theirs),
        PeerObservation::PromisedEarlier(theirs) => Some(theirs),
        _ => None,
    }
}

/// The cluster that this node wants to found: the one that it has promised; otherwise the one that another founder has
/// promised, since that can no longer change; otherwise the one of the founders that it knows.
fn intended_cluster(inputs: BootstrapInputs<'_>) -> Result<InitialCluster, &BootstrapWait> {
    if let Some(founding) = &inputs.state.founding {
        return Ok(founding.cluster.clone());
    }
    let mut promises = inputs
        .peers
        .iter()
        .filter_map(|(_, observation)| promise_of(observation));
    if let Some(promise) = promises.find(|theirs| includes_peer(&theirs.cluster.founders, inputs.own)) {
        return Ok(promise.cluster.clone());
    }
    let founders = inputs.founders.as_ref()?;
    Ok(InitialCluster {
        founders: founders.clone(),
        token: cluster_token(inputs, founders).unwrap_or_default().to_string(),
    })
}

/// The token that the first founder, in order of addresses, shows.
fn cluster_token<'a>(inputs: BootstrapInputs<'a>, founders: &[NamedPeer]) -> Option<&'a str> {
    let first = founders.iter().map(|founder| &founder.peer).min()?;
    if *first == inputs.own.peer {
        return Some(inputs.token);
    }
    inputs
        .peers
        .iter()
        .find_map(|(peer, observation)| match observation {
            PeerObservation::Proposing(theirs)
                if peer == first && same_founders(&theirs.cluster.founders, founders) =>
            {
                Some(theirs.cluster.token.as_str())
            }
            _ => None,
        })
}

/// Compares what the founders of `cluster` propose and have promised, and decides what this node does next.
fn decide_with_founders(inputs: BootstrapInputs<'_>, cluster: &InitialCluster) -> BootstrapDecision {
    let InitialCluster { founders, token } = cluster;
    let BootstrapInputs {
        own, state, peers, ..
    } = inputs;
    if !includes_peer(founders, own) {
        return BootstrapDecision::Wait(BootstrapWait::NotAmongFounders(founders.to_vec()));
    }
    let mut named = Vec::new();
    let mut all_promised = true;
    let mut all_know_token = !token.is_empty();
    for founder in founders {
        if founder.peer == own.peer {
            named.push(own.clone());
            continue;
        }
        let observation = peers.iter().find(|(peer, _)| *peer == founder.peer);
        match observation.map(|(_, observation)| observation) {
            Some(PeerObservation::Proposing(theirs)) if same_founders(&theirs.cluster.founders, founders) => {
                all_know_token &= theirs.cluster.token == *token;
                all_promised &= theirs.stage.is_some() && theirs.promises_seen.contains(&own.peer);
                named.push(NamedPeer::new(&theirs.name, &founder.peer));
            }
            Some(PeerObservation::PromisedEarlier(theirs))
                if same_founders(&theirs.cluster.founders, founders) =>
            {
                all_know_token &= theirs.cluster.token == *token;
                named.push(NamedPeer::new(&theirs.name, &founder.peer));
            }
            Some(PeerObservation::Proposing(theirs) | PeerObservation::PromisedEarlier(theirs)) => {
                return BootstrapDecision::Wait(BootstrapWait::Disagreement {
                    peer: founder.peer.clone(),
                    theirs: theirs.cluster.founders.clone(),
                    ours: founders.to_vec(),
                });
            }
            Some(PeerObservation::Unreachable(reason)) => {
                return BootstrapDecision::Wait(BootstrapWait::NoAnswer(vec![(
                    founder.peer.clone(),
                    reason.clone(),
                )]));
            }
            Some(PeerObservation::Running(_)) | None => {
                return BootstrapDecision::Wait(BootstrapWait::NoAnswer(vec![(
                    founder.peer.clone(),
                    "not asked yet".into(),
                )]));
            }
        }
    }
    for (index, founder) in named.iter().enumerate() {
        if let Some(twin) = named[..index].iter().find(|other| other.name == founder.name) {
            return BootstrapDecision::Refuse(BootstrapRefusal::SameName {
                name: founder.name.clone(),
                one: twin.peer.clone(),
                other: founder.peer.clone(),
            });
        }
    }
    let cluster = InitialCluster {
        founders: named,
        token: token.clone(),
    };
    match &state.founding {
        _ if !all_know_token => BootstrapDecision::Wait(BootstrapWait::Token),
        Some(_) if all_promised => BootstrapDecision::Found(cluster),
        Some(_) => BootstrapDecision::Wait(BootstrapWait::Promises),
        // A single founder needs no promise.
        None if cluster.founders.len() == 1 => BootstrapDecision::Found(cluster),
        None => BootstrapDecision::Promise(cluster),
    }
}

/// Whether both lists hold the same nodes. A name that is not known yet matches every name.
fn same_founders(one: &[NamedPeer], other: &[NamedPeer]) -> bool {
    let matches = |founder: &NamedPeer| {
        other.iter().any(|theirs| {
            theirs.peer == founder.peer
                && (theirs.name == founder.name || theirs.name.is_empty() || founder.name.is_empty())
        })
    };
    one.len() == other.len() && one.iter().all(matches)
}

fn includes_peer(founders: &[NamedPeer], peer: &NamedPeer) -> bool {
    founders.iter().any(|founder| founder.peer == peer.peer)
}

#[cfg(test)]
mod tests;
