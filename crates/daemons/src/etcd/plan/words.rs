//! What the operator is told about a decision.

use std::fmt;

use thiserror::Error;

use super::{Answer, Founder};

/// It can never go on like this.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
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
        "this node has no data yet, and nothing says how it comes to a cluster; start it once with --first (a new \
         cluster), --members NAME=HOST:PORT,... (a new one, together with others), --discover NAME --bootstrap-expect \
         N (the same, by DNS), or --join HOST:PORT or --discover NAME (a cluster that lives)"
    )]
    Unsaid,
    #[error(
        "this node belonged to the cluster {cluster:x}, but its etcd data is gone: it must not found a cluster anew; \
         start it with --join HOST:PORT of a member, and it comes back as a new member"
    )]
    DataGone { cluster: u64 },
    #[error(
        "the nodes at {one} and {other} are both called {name}; give one of them another name with --name"
    )]
    SameName {
        name: String,
        one: String,
        other: String,
    },
    #[error("a live node at {peer} is called {name} already; give this one another name with --name")]
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

/// It goes on as soon as this changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Addresses that did not answer, and why.
    Silent(Vec<(String, String)>),
    Unresolved {
        name: String,
        why: String,
    },
    TooFew {
        name: String,
        seen: Vec<String>,
        expect: u32,
    },
    NotListed {
        name: String,
        seen: Vec<String>,
        host: String,
    },
    Disagrees {
        peer: String,
        theirs: Vec<Founder>,
        ours: Vec<Founder>,
    },
    Token,
    Promises,
    NotAmongFounders(Vec<Founder>),
    Forming(Vec<String>),
    PromisedOthers {
        promised: String,
        running: String,
    },
    Promised {
        promised: String,
        waiting: Box<Waiting>,
    },
    DataGone(Box<Waiting>),
}

impl Waiting {
    pub(crate) fn silent(answers: &[(String, Answer)]) -> Waiting {
        let silent = answers.iter().map(|(at, answer)| match answer {
            Answer::Silent(why) => (at.clone(), why.clone()),
            Answer::Proposes(_) => (at.clone(), "has not started either".to_string()),
            Answer::Promised(_) => (at.clone(), "promised, and does not answer".to_string()),
            Answer::Runs(_) => (at.clone(), "runs".to_string()),
        });
        Waiting::Silent(silent.collect())
    }

    pub(super) fn promised(promised: &[Founder], waiting: Waiting) -> Waiting {
        Waiting::Promised {
            promised: list(promised),
            waiting: Box::new(waiting),
        }
    }

    pub(super) fn promised_others(promised: &[Founder], running: &[Founder]) -> Waiting {
        Waiting::PromisedOthers {
            promised: list(promised),
            running: list(running),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiting::Silent(at) if at.is_empty() => f.write_str("no other node is known yet"),
            Waiting::Silent(at) => {
                let each: Vec<String> = at.iter().map(|(at, why)| format!("{at} ({why})")).collect();
                write!(
                    f,
                    "waiting for an answer from {}; see that it runs and can be reached from here, or correct --join, \
                     --members or --discover",
                    each.join(", ")
                )
            }
            Waiting::Unresolved { name, why } => write!(
                f,
                "the DNS name {name} does not resolve ({why}); correct etcd.discover (--discover) or the DNS"
            ),
            Waiting::TooFew { name, seen, expect } => write!(
                f,
                "waiting for {expect} addresses behind {name}; seen: {}",
                if seen.is_empty() {
                    "none".to_string()
                } else {
                    seen.join(", ")
                }
            ),
            Waiting::NotListed { name, seen, host } => write!(
                f,
                "{name} stands for {}, and neither {host} nor another address of this machine is among them; \
                 correct node.address (--address) or the DNS",
                seen.join(", ")
            ),
            Waiting::Disagrees { peer, theirs, ours } => write!(
                f,
                "{peer} would found with {}, this node with {}; they have to be the same",
                list(theirs),
                list(ours)
            ),
            Waiting::Token => f.write_str("all founders agree; waiting until all know the cluster's token"),
            Waiting::Promises => {
                f.write_str("all founders agree; waiting until all have promised and have heard each other")
            }
            Waiting::NotAmongFounders(founders) => write!(
                f,
                "{} found the cluster; this node joins when they serve",
                list(founders)
            ),
            Waiting::Forming(peers) => write!(
                f,
                "the cluster of {} is forming; this node joins when it serves (if this is one of its founders, and has \
                 lost its data folder, start all of them with new ones)",
                peers.join(", ")
            ),
            Waiting::PromisedOthers { promised, running } => write!(
                f,
                "this node promised to found a cluster with {promised}, but one of {running} runs; if that is the \
                 right one, start this node with a new data folder"
            ),
            Waiting::Promised { promised, waiting } => write!(
                f,
                "{waiting}; this node promised to found a cluster with {promised} and no others (the promise is in \
                 etcd/founding in its data folder); if one of them never comes and none of the others serves, stop \
                 them all and start them with new data folders, and without that one"
            ),
            Waiting::DataGone(waiting) => write!(
                f,
                "this node's etcd data is gone, so it comes back as a new member of its cluster; {waiting}"
            ),
        }
    }
}

fn list(founders: &[Founder]) -> String {
    if founders.is_empty() {
        return "nobody yet".to_string();
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
