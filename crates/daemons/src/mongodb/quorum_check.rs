//! Decides whether the replica set keeps its majority without this node's member. Pure: no I/O.
//!
//! mongod accepts no config without the agreement of a majority of its voters. If a node were marked as left while
//! there is no such majority, it would be out of the cluster's registry and still in the set.

use super::members::ReplicaSetMember;
use super::{MongodDaemonOptions, MongodbDaemonError};

/// `members` are those of a confirmed set.
pub(crate) fn check_quorum_without_self(
    options: &MongodDaemonOptions,
    members: &[ReplicaSetMember],
) -> Result<(), MongodbDaemonError> {
    let own = options.address();
    let others: Vec<&ReplicaSetMember> = members
        .iter()
        .filter(|member| member.name != options.name && member.address != own)
        .collect();
    let voters: Vec<&ReplicaSetMember> = others.iter().copied().filter(|member| member.votes > 0).collect();
    let unavailable: Vec<&ReplicaSetMember> = voters
        .iter()
        .copied()
        .filter(|member| !is_available(member))
        .collect();
    // If this node is the only voter, a member without a vote is enough: it is given one before this node is removed.
    let candidates = if voters.is_empty() { &others } else { &voters };
    if !candidates.iter().any(|member| is_available(member)) {
        return Err(MongodbDaemonError::NoOtherMember {
            name: options.name.clone(),
        });
    }
    if unavailable.len() * 2 < voters.len().max(1) {
        return Ok(());
    }
    Err(MongodbDaemonError::NeededForMajority {
        name: options.name.clone(),
        voters: voters.len(),
        unavailable: unavailable.into_iter().map(describe).collect(),
    })
}

/// Whether the member has the data and answers this node: if it went down a moment ago, the others may still report
/// it as a secondary.
fn is_available(member: &ReplicaSetMember) -> bool {
    matches!(&*member.state, "primary" | "secondary") && member.version.is_some()
}

fn describe(member: &ReplicaSetMember) -> String {
    match member.version {
        Some(_) => format!("{} ({})", member.name, member.state),
        None => format!("{} (unreachable)", member.name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::start_check::tests::options;
    use super::*;

    /// `b+P` is the node b with a vote, the primary; `-` has no vote. S is a secondary, C still copies data, D is down,
    /// and ? is reported as a secondary but does not answer.
    fn members(text: &str) -> Vec<ReplicaSetMember> {
        text.split_whitespace()
            .map(|word| {
                let (name, rest) = word.split_at(1);
                let state = match &rest[1..] {
                    "P" => "primary",
                    "S" | "?" => "secondary",
                    "C" => "startup2",
                    _ => "unreachable",
                };
                ReplicaSetMember {
                    name: name.into(),
                    address: format!("{name}:1"),
                    state: state.into(),
                    votes: i64::from(rest.starts_with('+')),
                    version: (!rest.ends_with(['D', '?'])).then(|| "6.0".into()),
                    uptime: None,
                    lag: None,
                }
            })
            .collect()
    }

    #[test]
    fn the_remaining_voters_have_to_have_a_majority() {
        // The node a leaves.
        let check = |set: &str, expected: &str| {
            let message = check_quorum_without_self(&options(), &members(set))
                .map_or_else(|error| error.to_string(), |()| "ok".into());
            assert!(
                message.contains(expected),
                "{set}: {message} does not contain {expected}"
            );
        };
        check("a+P b+S c+S", "ok");
        check("a+S b+P", "ok");
        check("a+S b+P c+D", "c (unreachable)");
        check("a+S b+P c+C", "c (startup2)");
        check("a+S b+P c+?", "c (unreachable)");
        check("a+D b+P c+S", "ok");
        check("a+S b+P c+S d+D", "ok");
        check("a+S b+P c+S d+D e+D", "d (unreachable), e (unreachable)");
        // A member without a vote does not count.
        check("a+S b+P c-D", "ok");
        check("a-S b+P c+D", "c (unreachable)");
        // It is given a vote first, if it has the data.
        check("a+P b-S", "ok");
        check("a+P b-C", "no other member");
        check("a+P b-D c-S", "ok");
        check("a+P", "no other member");
        check("", "no other member");
        check("a+D b+D c+D", "no other member");
    }
}
