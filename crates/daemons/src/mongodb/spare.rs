//! Whether the replica set can do without one of its members, decided over what is seen of them.
//!
//! mongod takes no config whose voters are not there in their majority. A node that is marked as left while that is
//! so would be neither in the cluster nor out of the set.

use super::states::MemberState;
use super::{MongodbError, Options};

/// `states` is of a set that was confirmed.
pub(crate) fn can_spare(options: &Options, states: &[MemberState]) -> Result<(), MongodbError> {
    let own = options.address();
    let others: Vec<&MemberState> = states
        .iter()
        .filter(|member| member.name != options.name && member.address != own)
        .collect();
    let voters: Vec<&MemberState> = others.iter().copied().filter(|member| member.votes > 0).collect();
    let down: Vec<&MemberState> = voters
        .iter()
        .copied()
        .filter(|member| !has_data(member))
        .collect();
    // One that has the data gets a vote before the only one that has one goes.
    let needed = if voters.is_empty() { &others } else { &voters };
    if !needed.iter().any(|member| has_data(member)) {
        return Err(MongodbError::NoOther {
            name: options.name.clone(),
        });
    }
    if down.len() * 2 < voters.len().max(1) {
        return Ok(());
    }
    Err(MongodbError::Needed {
        name: options.name.clone(),
        voters: voters.len(),
        down: down.into_iter().map(told).collect(),
    })
}

/// And answers us: what the others think of one that went down a moment ago may be older.
fn has_data(member: &MemberState) -> bool {
    matches!(&*member.state, "primary" | "secondary") && member.version.is_some()
}

fn told(member: &MemberState) -> String {
    match member.version {
        Some(_) => format!("{} ({})", member.name, member.state),
        None => format!("{} (unreachable)", member.name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::admit::tests::options;
    use super::*;

    /// `b+P` is node b with a vote, the primary; `-` has no vote; S, D, ? for a secondary, one that is down, and one
    /// that is said to be a secondary but does not answer.
    fn states(text: &str) -> Vec<MemberState> {
        text.split_whitespace()
            .map(|word| {
                let (name, rest) = word.split_at(1);
                let state = match &rest[1..] {
                    "P" => "primary",
                    "S" | "?" => "secondary",
                    "C" => "startup2",
                    _ => "unreachable",
                };
                MemberState {
                    name: name.into(),
                    address: format!("{name}:1"),
                    state: state.into(),
                    votes: i64::from(rest.starts_with('+')),
                    version: (!rest.ends_with(['D', '?'])).then(|| "6.0".into()),
                    uptime: None,
                }
            })
            .collect()
    }

    #[test]
    fn the_rest_has_to_be_a_majority_of_itself() {
        // Node a leaves.
        let check = |set: &str, expected: &str| {
            let told =
                can_spare(&options(), &states(set)).map_or_else(|error| error.to_string(), |()| "ok".into());
            assert!(told.contains(expected), "{set}: {told} is not about {expected}");
        };
        check("a+P b+S c+S", "ok");
        check("a+S b+P", "ok");
        check("a+S b+P c+D", "c (unreachable)");
        check("a+S b+P c+C", "c (startup2)");
        check("a+S b+P c+?", "c (unreachable)");
        check("a+D b+P c+S", "ok");
        check("a+S b+P c+S d+D", "ok");
        check("a+S b+P c+S d+D e+D", "d (unreachable), e (unreachable)");
        // Whoever has no vote is not asked.
        check("a+S b+P c-D", "ok");
        check("a-S b+P c+D", "c (unreachable)");
        // It is given one first, if it has the data.
        check("a+P b-S", "ok");
        check("a+P b-C", "no other member");
        check("a+P b-D c-S", "ok");
        check("a+P", "no other member");
        check("", "no other member");
        check("a+D b+D c+D", "no other member");
    }
}
