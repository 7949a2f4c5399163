//! Leaves the cluster for good.

use registry::etcd::Access;

use super::expel::expel;
use super::members::{MemberSeen, MemberState, members_after_election, serving};
use super::notes::Notes;
use super::options::address;
use super::{EtcdError, Options};

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The member is removed; the node's data stays where it is, and will not be started again.
    Left,
    /// It had left before.
    LeftBefore,
    /// It is the only member, and stays: a cluster of none keeps nothing.
    Last,
}

/// Changes nothing: whether `leave` would go through as things are.
pub async fn may_leave(options: &Options) -> Result<(), EtcdError> {
    look_around(options).await.map(drop)
}

/// May be called while the daemon runs (its etcd then ends by itself) or when it has stopped. In a cluster of two it
/// has to run, for both have to agree.
pub async fn leave(options: &Options) -> Result<Departure, EtcdError> {
    match look_around(options).await? {
        Prospect::LeftBefore => return Ok(Departure::LeftBefore),
        Prospect::Last => return Ok(Departure::Last),
        Prospect::Gone => {}
        Prospect::Member { id, others } => expel(&others, id).await?,
    }
    Notes::at(&options.data).leaves(LEFT)?;
    Ok(Departure::Left)
}

/// What a leave would come to.
enum Prospect {
    LeftBefore,
    Last,
    /// It is a member no more, and has not noticed.
    Gone,
    Member {
        id: u64,
        /// Through these: one that removes itself may be gone before it can answer.
        others: Access,
    },
}

async fn look_around(options: &Options) -> Result<Prospect, EtcdError> {
    let notes = Notes::at(&options.data);
    let disk = notes.read()?;
    if disk.left {
        return Ok(Prospect::LeftBefore);
    }
    let endpoints = notes.endpoints();
    if endpoints.is_empty() {
        return Err(EtcdError::NothingToLeave);
    }
    let cluster = disk.served.map(|served| served.cluster);
    let access = |endpoints| options.access(endpoints).of(cluster);
    let all = match members_after_election(&access(endpoints.clone())).await {
        Ok(all) => all,
        Err(error) => {
            tracing::debug!("{error}");
            return Err(EtcdError::NobodyElse { tried: endpoints });
        }
    };
    let host = notes.address()?.unwrap_or_else(|| options.host.clone());
    let peer = address(&host, options.peer_port);
    let member = disk.served.and_then(|served| served.member);
    let is_own = |other: &&MemberSeen| member.map_or(other.peer == peer, |id| other.id == id);
    let Some(own) = all.iter().find(is_own) else {
        return Ok(Prospect::Gone);
    };
    if all.len() == 1 {
        return Ok(Prospect::Last);
    }
    check_quorum(&options.name, own, &all)?;
    let mut others = serving(&all);
    others.retain(|client| *client != own.client);
    Ok(Prospect::Member {
        id: own.id,
        others: access(others),
    })
}

const LEFT: &str = "This node left its cluster. To join again, start it with a new data folder.\n";

/// Those that remain have to be able to decide, and all of today's have to agree to it.
fn check_quorum(name: &str, own: &MemberSeen, all: &[MemberSeen]) -> Result<(), EtcdError> {
    let votes = |member: &&MemberSeen| member.state != MemberState::Learner;
    let answers = |member: &&MemberSeen| matches!(member.state, MemberState::Leader | MemberState::Follower);
    let others = || all.iter().filter(|member| member.id != own.id).filter(votes);
    let alive = others().filter(answers).count();
    let voters = others().count();
    let now_alive = alive + usize::from(answers(&own));
    let now_voters = voters + usize::from(votes(&own));
    if alive > voters / 2 && now_alive > now_voters / 2 {
        return Ok(());
    }
    let mut missing: Vec<String> = others()
        .filter(|member| !answers(member))
        .map(|member| match member.name.is_empty() {
            true => member.peer.clone(),
            false => member.name.clone(),
        })
        .collect();
    if missing.is_empty() {
        missing.push(format!("{name}: it has to run while it leaves"));
    }
    Err(EtcdError::QuorumLost {
        name: name.to_string(),
        alive,
        voters,
        missing,
    })
}
