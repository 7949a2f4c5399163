//! Why a node waits or refuses to start, in words for the operator.

use std::fmt;

use thiserror::Error;

use super::{NamedPeer, PeerObservation};

/// Why a node cannot start etcd until the operator changes something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BootstrapRefusal {
    #[error(
        "this node left the cluster for good; to join again, start it with a new data folder and --join or --discover"
    )]
    Left,
    #[error(
        "the data folder belongs to another cluster ({ours:x}) than the one that answers ({theirs:x}); \
         give another --data or the right --join"
    )]
    AnotherCluster { ours: u64, theirs: u64 },
    #[error(
        "the addresses given lead to two different clusters; name only members of the one that this node belongs to"
    )]
    TwoClusters,
    #[error(
        "this node has no data yet, and no option says how it gets into a cluster; start it once with --first (found a \
         cluster), --members NAME=HOST:PORT,... (found one together with others), --discover NAME --bootstrap-expect N \
         (the same, by DNS), or --join HOST:PORT or --discover NAME (join a running cluster)"
    )]
    Unspecified,
    #[error(
        "this node belonged to the cluster {cluster:x}, but its etcd data is gone: it must not found a new cluster; \
         start it with --join HOST:PORT of a member, and it comes back as a new member"
    )]
    DataLost { cluster: u64 },
    #[error(
        "the nodes at {one} and {other} are both called {name}; give one of them another name with --name"
    )]
    SameName {
        name: String,
        one: String,
        other: String,
    },
    #[error("a live node at {peer} is already called {name}; give this one another name with --name")]
    NameTaken { name: String, peer: String },
    #[error(
        "the live member {name} has this node's address {peer}; give this one its own with --address or etcd.peer_port"
    )]
    AddressTaken { name: String, peer: String },
    #[error(
        "this node is at {ours}, where the others ({theirs}, ...) cannot reach it; give its own address with --address"
    )]
    Loopback { ours: String, theirs: String },
}

/// What a node waits for before it can start etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BootstrapWait {
    /// An answer from these addresses; each with the reason why there is none.
    NoAnswer(Vec<(String, String)>),
    /// The DNS name does not resolve.
    Unresolved { name: String, reason: String },
    /// The DNS name resolves to fewer addresses than founders are expected.
    TooFewAddresses {
        name: String,
        resolved: Vec<String>,
        expect: u32,
    },
    /// The DNS name does not resolve to any address of this machine.
    OwnAddressNotResolved {
        name: String,
        resolved: Vec<String>,
        host: String,
    },
    /// Another founder proposes other founders than this node does.
    Disagreement {
        peer: String,
        theirs: Vec<NamedPeer>,
        ours: Vec<NamedPeer>,
    },
    /// All founders have to know the cluster's token.
    Token,
    /// All founders have to promise.
    Promises,
    /// Others found the cluster, and this node joins it later.
    NotAmongFounders(Vec<NamedPeer>),
    /// A cluster of these peers runs, but none of its members serves clients yet.
    Forming(Vec<String>),
    /// The cluster that runs is not the one that this node promised to found.
    PromisedOthers { promised: String, running: String },
    /// The inner reason, for a node that has given a promise.
    Promised {
        promised: String,
        wait: Box<BootstrapWait>,
    },
    /// The inner reason, for a node whose data is lost and that can only join its cluster again.
    DataLost(Box<BootstrapWait>),
}

impl BootstrapWait {
    pub(crate) fn no_answer(peers: &[(String, PeerObservation)]) -> BootstrapWait {
        let reasons = peers.iter().map(|(at, observation)| match observation {
            PeerObservation::Unreachable(reason) => (at.clone(), reason.clone()),
            PeerObservation::Proposing(_) => (at.clone(), "has not started etcd either".to_string()),
            PeerObservation::PromisedEarlier(_) => {
                (at.clone(), "gave its promise, and does not answer".to_string())
            }
            PeerObservation::Running(_) => (at.clone(), "runs etcd".to_string()),
        });
        BootstrapWait::NoAnswer(reasons.collect())
    }

    pub(super) fn promised(promised: &[NamedPeer], wait: BootstrapWait) -> BootstrapWait {
        BootstrapWait::Promised {
            promised: list(promised),
            wait: Box::new(wait),
        }
    }

    pub(super) fn promised_others(promised: &[NamedPeer], running: &[NamedPeer]) -> BootstrapWait {
        BootstrapWait::PromisedOthers {
            promised: list(promised),
            running: list(running),
        }
    }
}

impl fmt::Display for BootstrapWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootstrapWait::NoAnswer(at) if at.is_empty() => f.write_str("no other node is known yet"),
            BootstrapWait::NoAnswer(at) => {
                let each: Vec<String> = at.iter().map(|(at, reason)| format!("{at} ({reason})")).collect();
                write!(
                    f,
                    "waiting for an answer from {}; check that it runs and can be reached from here, or correct --join, \
                     --members or --discover",
                    each.join(", ")
                )
            }
            BootstrapWait::Unresolved { name, reason } => write!(
                f,
                "the DNS name {name} does not resolve ({reason}); correct etcd.discover (--discover) or the DNS"
            ),
            BootstrapWait::TooFewAddresses {
                name,
                resolved,
                expect,
            } => {
                let resolved = match resolved.is_empty() {
                    true => "none".to_string(),
                    false => resolved.join(", "),
                };
                write!(
                    f,
                    "waiting until {name} resolves to {expect} addresses; it resolves to: {resolved}"
                )
            }
            BootstrapWait::OwnAddressNotResolved {
                name,
                resolved,
                host,
            } => write!(
                f,
                "{name} resolves to {}, and neither {host} nor another address of this machine is among them; \
                 correct node.address (--address) or the DNS",
                resolved.join(", ")
            ),
            BootstrapWait::Disagreement { peer, theirs, ours } => write!(
                f,
                "{peer} proposes to found a cluster with {}, this node with {}; both lists have to be the same",
                list(theirs),
                list(ours)
            ),
            BootstrapWait::Token => {
                f.write_str("all founders agree; waiting until all of them know the cluster's token")
            }
            BootstrapWait::Promises => f.write_str(
                "all founders agree; waiting until all of them have promised and have seen each other's promise",
            ),
            BootstrapWait::NotAmongFounders(founders) => write!(
                f,
                "{} found the cluster; this node joins it when it serves",
                list(founders)
            ),
            BootstrapWait::Forming(peers) => write!(
                f,
                "the cluster of {} is forming; this node joins it when it serves (if this node is one of its founders \
                 and has lost its data folder, start all founders with new data folders)",
                peers.join(", ")
            ),
            BootstrapWait::PromisedOthers { promised, running } => write!(
                f,
                "this node promised to found a cluster with {promised}, but a cluster of {running} is running; if that \
                 is the right one, start this node with a new data folder"
            ),
            BootstrapWait::Promised { promised, wait } => write!(
                f,
                "{wait}; this node promised to found a cluster with {promised} and no others (the promise is in \
                 etcd/founding in its data folder); if one of them never starts and none of the others serves, stop \
                 them all and start them with new data folders, without that one"
            ),
            BootstrapWait::DataLost(wait) => write!(
                f,
                "this node's etcd data is gone, so it comes back as a new member of its cluster; {wait}"
            ),
        }
    }
}

fn list(founders: &[NamedPeer]) -> String {
    if founders.is_empty() {
        return "no founders yet".to_string();
    }
    let each: Vec<String> = founders
        .iter()
        .map(|founder| match founder.name.is_empty() {
            true => founder.peer.clone(),
            false => format!("{}={}", founder.name, founder.peer),
        })
        .collect();
    each.join(",")
}
