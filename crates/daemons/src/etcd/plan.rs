//! How a member is to be started: decided over what is on disk and what the others answered.
//!
//! Founding is the dangerous step: two clusters out of one list of nodes would never merge again. So no node founds
//! alone what others have part in. Each shows its *proposal* on its port for peers. When all founders propose the
//! same list, each *promises* it, durably, and from then on stands by it whatever DNS says. When all have promised,
//! each founds. Two lists that share a node can therefore not both be founded. A node that finds a founder running
//! already with a list that holds a place for it takes that place: the founder has seen its promise.
//!
//! A node founds only when all others that still propose have *heard* its promise, and a promise that was heard counts
//! also while its node is silent. So whoever founds and dies leaves others who know enough to go on without it.
//!
//! With the list goes a token, made anew by the node that is the first of it: the same nodes that found again found
//! another cluster, in which nobody is taken for what it was in the earlier one.
//!
//! A place is free until its member has published where it serves clients. After that a node without data is not the
//! member that it was, whatever its name, and has to join as a new one.

mod join;
mod words;

pub(crate) use join::{Joining, Standing, next_step};
pub(crate) use words::{Refusal, Waiting};

use serde::{Deserialize, Serialize};

use super::Start;
use super::notes::{OnDisk, Stage};

/// A node among the first of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Founder {
    /// Empty where only the address is known as yet.
    pub(crate) name: String,
    /// `host:port` for peers.
    pub(crate) peer: String,
}

impl Founder {
    pub(crate) fn new(name: &str, peer: &str) -> Founder {
        Founder {
            name: name.to_string(),
            peer: peer.to_string(),
        }
    }
}

/// A cluster to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Charter {
    /// Empty while not enough of them are seen.
    pub(crate) founders: Vec<Founder>,
    /// Tells it from any other of the same founders. Empty while the first of them has not told it.
    pub(crate) token: String,
}

/// What stands behind an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing that could be understood, and why.
    Silent(String),
    /// A node like this one, which has not started its etcd.
    Proposes(Proposal),
    /// Nothing now, but a promise earlier: that binds, whatever has become of the node.
    Promised(Proposal),
    /// An etcd.
    Runs(Running),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proposal {
    /// Of the node that proposes.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) charter: Charter,
    /// `None` while it may still change its mind.
    pub(crate) stage: Option<Stage>,
    /// Whose promises it has heard, by their addresses.
    pub(crate) heard: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) cluster: u64,
    pub(crate) members: Vec<Listed>,
}

/// A member as the cluster's own list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) peer: String,
    /// Where it serves clients. `None` until it has served for the first time.
    pub(crate) client: Option<String>,
    pub(crate) learner: bool,
}

/// All that a decision rests on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) me: &'a Founder,
    pub(crate) start: &'a Start,
    pub(crate) disk: &'a OnDisk,
    /// Whom this node would found a cluster with, itself included; or why it does not know.
    pub(crate) proposal: &'a Result<Vec<Founder>, Waiting>,
    /// For a cluster of which it is the first founder.
    pub(crate) token: &'a str,
    /// From others, by the address that was asked.
    pub(crate) answers: &'a [(String, Answer)],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// etcd has data: whatever else was said, it knows its cluster.
    Run,
    /// All others agree, or there are none.
    FoundWith(Charter),
    /// All others propose this: to be written down, shown, and asked again.
    Promise(Charter),
    /// A cluster lives; these are its members' addresses for clients.
    Join(Vec<String>),
    Wait(Waiting),
    Refuse(Refusal),
}

/// What cannot go on whatever the others say.
pub(crate) fn hopeless(start: &Start, disk: &OnDisk) -> Option<Refusal> {
    let asks_nobody = matches!(start, Start::Unsaid | Start::First);
    match (disk.served, &disk.founding) {
        _ if disk.left => Some(Refusal::Left),
        _ if disk.data || !asks_nobody => None,
        (Some(served), _) => Some(Refusal::DataGone {
            cluster: served.cluster,
        }),
        (None, None) if *start == Start::Unsaid => Some(Refusal::Unsaid),
        _ => None,
    }
}

pub(crate) fn plan(situation: Situation<'_>) -> Plan {
    let disk = situation.disk;
    if let Some(refusal) = hopeless(situation.start, disk) {
        return Plan::Refuse(refusal);
    }
    let running: Vec<&Running> = situation
        .answers
        .iter()
        .filter_map(|(_, answer)| match answer {
            Answer::Runs(running) => Some(running),
            _ => None,
        })
        .collect();
    let strange = disk
        .served
        .and_then(|served| running.iter().find(|other| other.cluster != served.cluster));
    match (disk.served, strange) {
        (Some(served), Some(other)) => Plan::Refuse(Refusal::AnotherCluster {
            ours: served.cluster,
            theirs: other.cluster,
        }),
        _ if disk.data => Plan::Run,
        _ => match running.first() {
            Some(first) if running.iter().any(|other| other.cluster != first.cluster) => {
                Plan::Refuse(Refusal::TwoClusters)
            }
            Some(_) => with_cluster(situation, &running),
            None => without_cluster(situation),
        },
    }
}

/// Somebody runs etcd.
fn with_cluster(situation: Situation<'_>, running: &[&Running]) -> Plan {
    let Situation { me, start, disk, .. } = situation;
    let promised = disk.founding.as_ref().map(|founding| &founding.charter);
    let founds = matches!(start, Start::Members(_) | Start::Discover { expect: Some(_), .. });
    let free_place = running.iter().find(|cluster| {
        let place = cluster.members.iter().find(|member| member.peer == me.peer);
        place.is_some_and(|place| place.client.is_none() && !place.learner)
    });
    // Without its promise it does not know the token, and the place is not to be had: it is removed, and made anew.
    if let (true, None, Some(cluster), Some(promised)) = (founds, disk.served, free_place, promised) {
        let founders: Vec<Founder> = cluster
            .members
            .iter()
            .map(|member| match member.peer == me.peer {
                true => me.clone(),
                false => Founder::new(&member.name, &member.peer),
            })
            .collect();
        return match same(&promised.founders, &founders) {
            true => Plan::FoundWith(Charter {
                founders,
                token: promised.token.clone(),
            }),
            false => Plan::Wait(Waiting::promised_others(&promised.founders, &founders)),
        };
    }
    let listed = || running.iter().flat_map(|cluster| &cluster.members);
    // A promise binds until its cluster is there: the others may found while this node looks elsewhere.
    if let (Some(promised), None) = (promised, disk.served)
        && !listed().any(|member| {
            promised
                .founders
                .iter()
                .any(|founder| founder.peer == member.peer)
        })
    {
        let theirs: Vec<Founder> = listed()
            .map(|member| Founder::new(&member.name, &member.peer))
            .collect();
        return Plan::Wait(Waiting::promised_others(&promised.founders, &theirs));
    }
    let mut clients: Vec<String> = listed()
        .filter(|member| member.peer != me.peer && !member.learner)
        .filter_map(|member| member.client.clone())
        .collect();
    clients.sort();
    clients.dedup();
    if clients.is_empty() {
        return Plan::Wait(Waiting::Forming(
            listed().map(|member| member.peer.clone()).collect(),
        ));
    }
    Plan::Join(clients)
}

/// Nobody runs etcd, as far as is seen from here.
fn without_cluster(situation: Situation<'_>) -> Plan {
    let Situation { me, start, disk, .. } = situation;
    let silent = || Waiting::silent(situation.answers);
    if disk.served.is_some() {
        return Plan::Wait(Waiting::DataGone(Box::new(silent())));
    }
    match (&disk.founding, start) {
        (Some(founding), _) if founding.stage == Stage::Decided => Plan::FoundWith(founding.charter.clone()),
        (Some(founding), _) => match agree(situation, &founding.charter) {
            Plan::Wait(waiting) => Plan::Wait(Waiting::promised(&founding.charter.founders, waiting)),
            plan => plan,
        },
        (None, Start::Unsaid) => Plan::Refuse(Refusal::Unsaid),
        (None, Start::First) => Plan::FoundWith(Charter {
            founders: vec![me.clone()],
            token: situation.token.to_string(),
        }),
        (None, Start::Join(_) | Start::Discover { expect: None, .. }) => {
            Plan::Wait(match situation.proposal {
                Err(waiting) => waiting.clone(),
                Ok(_) => silent(),
            })
        }
        (None, Start::Members(_) | Start::Discover { expect: Some(_), .. }) => match target(situation) {
            Ok(charter) => agree(situation, &charter),
            Err(waiting) => Plan::Wait(waiting.clone()),
        },
    }
}

/// What this node tells the other founders as long as it waits.
pub(crate) fn shown(situation: Situation<'_>) -> Proposal {
    Proposal {
        name: situation.me.name.clone(),
        charter: target(situation).unwrap_or_else(|_| Charter {
            founders: Vec::new(),
            token: String::new(),
        }),
        stage: situation.disk.founding.as_ref().map(|founding| founding.stage),
        heard: situation
            .answers
            .iter()
            .filter(|(_, answer)| promise_in(answer).is_some())
            .map(|(peer, _)| peer.clone())
            .collect(),
    }
}

fn promise_in(answer: &Answer) -> Option<&Proposal> {
    match answer {
        Answer::Proposes(theirs) if theirs.stage.is_some() => Some(theirs),
        Answer::Promised(theirs) => Some(theirs),
        _ => None,
    }
}

/// The cluster that this node stands for: what it has promised; else what another has, for that can no longer be
/// changed; else what it sees itself.
fn target(situation: Situation<'_>) -> Result<Charter, &Waiting> {
    if let Some(founding) = &situation.disk.founding {
        return Ok(founding.charter.clone());
    }
    let mut promises = situation
        .answers
        .iter()
        .filter_map(|(_, answer)| promise_in(answer));
    if let Some(promise) = promises.find(|theirs| has(&theirs.charter.founders, situation.me)) {
        return Ok(promise.charter.clone());
    }
    let founders = situation.proposal.as_ref()?;
    Ok(Charter {
        founders: founders.clone(),
        token: token(situation, founders).unwrap_or_default().to_string(),
    })
}

/// As the first founder in order of their addresses tells it.
fn token<'a>(situation: Situation<'a>, founders: &[Founder]) -> Option<&'a str> {
    let first = founders.iter().map(|founder| &founder.peer).min()?;
    if *first == situation.me.peer {
        return Some(situation.token);
    }
    situation.answers.iter().find_map(|(peer, answer)| match answer {
        Answer::Proposes(theirs) if peer == first && same(&theirs.charter.founders, founders) => {
            Some(theirs.charter.token.as_str())
        }
        _ => None,
    })
}

/// Where the founders stand with this cluster, and what this node does next.
fn agree(situation: Situation<'_>, charter: &Charter) -> Plan {
    let Charter { founders, token } = charter;
    let Situation {
        me, disk, answers, ..
    } = situation;
    if !has(founders, me) {
        return Plan::Wait(Waiting::NotAmongFounders(founders.to_vec()));
    }
    let mut named = Vec::new();
    let mut all_promised = true;
    let mut all_know = !token.is_empty();
    for founder in founders {
        if founder.peer == me.peer {
            named.push(me.clone());
            continue;
        }
        let answer = answers.iter().find(|(peer, _)| *peer == founder.peer);
        match answer.map(|(_, answer)| answer) {
            Some(Answer::Proposes(theirs)) if same(&theirs.charter.founders, founders) => {
                all_know &= theirs.charter.token == *token;
                all_promised &= theirs.stage.is_some() && theirs.heard.contains(&me.peer);
                named.push(Founder::new(&theirs.name, &founder.peer));
            }
            Some(Answer::Promised(theirs)) if same(&theirs.charter.founders, founders) => {
                all_know &= theirs.charter.token == *token;
                named.push(Founder::new(&theirs.name, &founder.peer));
            }
            Some(Answer::Proposes(theirs) | Answer::Promised(theirs)) => {
                return Plan::Wait(Waiting::Disagrees {
                    peer: founder.peer.clone(),
                    theirs: theirs.charter.founders.clone(),
                    ours: founders.to_vec(),
                });
            }
            Some(Answer::Silent(why)) => {
                return Plan::Wait(Waiting::Silent(vec![(founder.peer.clone(), why.clone())]));
            }
            Some(Answer::Runs(_)) | None => {
                return Plan::Wait(Waiting::Silent(vec![(
                    founder.peer.clone(),
                    "not asked yet".into(),
                )]));
            }
        }
    }
    for (at, founder) in named.iter().enumerate() {
        if let Some(twin) = named[..at].iter().find(|other| other.name == founder.name) {
            return Plan::Refuse(Refusal::SameName {
                name: founder.name.clone(),
                one: twin.peer.clone(),
                other: founder.peer.clone(),
            });
        }
    }
    let charter = Charter {
        founders: named,
        token: token.clone(),
    };
    match &disk.founding {
        _ if !all_know => Plan::Wait(Waiting::Token),
        Some(_) if all_promised => Plan::FoundWith(charter),
        Some(_) => Plan::Wait(Waiting::Promises),
        // Alone there is nobody to promise it to.
        None if charter.founders.len() == 1 => Plan::FoundWith(charter),
        None => Plan::Promise(charter),
    }
}

/// The same nodes. A name that is not known yet differs from none.
fn same(one: &[Founder], other: &[Founder]) -> bool {
    let matches = |founder: &Founder| {
        other.iter().any(|theirs| {
            theirs.peer == founder.peer
                && (theirs.name == founder.name || theirs.name.is_empty() || founder.name.is_empty())
        })
    };
    one.len() == other.len() && one.iter().all(matches)
}

fn has(founders: &[Founder], me: &Founder) -> bool {
    founders.iter().any(|founder| founder.peer == me.peer)
}

#[cfg(test)]
mod tests;
