//! Decides the next change of the replica set's config: how it differs from what is registered. Pure: no I/O.

use std::fmt;

use super::records::{Incarnation, ReplicaSetRecords};

/// MongoDB's own limits.
const MAX_VOTERS: usize = 7;
const MAX_MEMBERS: usize = 50;

/// An entry of the `members` list in the replica set's config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigMember {
    pub(crate) address: String,
    pub(crate) name: Option<String>,
    /// `None` if an operator added it by hand.
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) votes: i64,
}

/// One change of the replica set's config that the daemon of the primary makes with `replSetReconfig`. mongod accepts
/// at most one change of votes at a time, and single changes are easy to follow in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigChange {
    Remove(ConfigMember),
    /// Changes the address of a member.
    Move {
        from: String,
        to: String,
    },
    /// Tags a member with the name and the incarnation that are registered for its address.
    Tag(ConfigMember),
    /// Adds a member without a vote: a member that is down or still copies data must not count for the majority.
    Add(ConfigMember),
    /// Gives a vote to a member that has the data.
    Promote(ConfigMember),
}

impl fmt::Display for ConfigChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigChange::Remove(entry) => write!(f, "remove {}", entry.address),
            ConfigChange::Move { from, to } => write!(f, "change the address {from} to {to}"),
            ConfigChange::Tag(entry) => write!(f, "tag {}", entry.address),
            ConfigChange::Add(entry) => write!(f, "add {}", entry.address),
            ConfigChange::Promote(entry) => write!(f, "give a vote to {}", entry.address),
        }
    }
}

/// What the daemon of the primary knows of the replica set, to decide the next change of its config.
pub(crate) struct PrimaryView<'a> {
    pub(crate) entries: &'a [ConfigMember],
    pub(crate) records: &'a ReplicaSetRecords,
    /// The addresses of the secondaries: they have the data and replicate.
    pub(crate) secondaries: &'a [String],
    /// The incarnation of the primary itself.
    pub(crate) own: &'a Incarnation,
}

/// The changes that are possible now, the most urgent first. After one of them is applied, the set has to be observed
/// again; if mongod refuses one, it may still accept the next.
///
/// A member that is only missing in the registry stays: only members that are marked as left are removed, and the
/// primary never removes itself.
pub(crate) fn pending_changes(view: &PrimaryView<'_>) -> Vec<ConfigChange> {
    let mut changes = removals(view);
    changes.extend(move_to_registered_address(view));
    changes.extend(tag_untagged(view));
    changes.extend(add_registered(view));
    changes.extend(promote_ready(view));
    changes
}

/// Whether there is a member without a vote that could be given one later, without a change of the registry.
pub(crate) fn has_member_to_promote(view: &PrimaryView<'_>) -> bool {
    may_have_more_voters(view)
        && view
            .entries
            .iter()
            .any(|entry| entry.votes == 0 && entry.incarnation.is_some())
}

/// Members that are down are removed first: those that are up may be needed for the majority that agrees to it.
fn removals(view: &PrimaryView<'_>) -> Vec<ConfigChange> {
    let has_left = |incarnation: &Incarnation| {
        incarnation != view.own
            && view.records.left.contains_key(incarnation)
            && !is_registered(view, incarnation)
    };
    let mut entries: Vec<&ConfigMember> = view
        .entries
        .iter()
        .filter(|entry| entry.incarnation.as_ref().is_some_and(has_left))
        .collect();
    entries.sort_by_key(|entry| view.secondaries.contains(&entry.address));
    entries.into_iter().cloned().map(ConfigChange::Remove).collect()
}

fn move_to_registered_address(view: &PrimaryView<'_>) -> Option<ConfigChange> {
    view.entries.iter().find_map(|entry| {
        let incarnation = entry.incarnation.as_ref()?;
        let member = view
            .records
            .members
            .values()
            .find(|member| member.incarnation == *incarnation)?;
        let can_move = member.address != entry.address && is_free(view, &member.address);
        can_move.then(|| ConfigChange::Move {
            from: entry.address.clone(),
            to: member.address.clone(),
        })
    })
}

fn tag_untagged(view: &PrimaryView<'_>) -> Option<ConfigChange> {
    let is_untagged = |entry: &&ConfigMember| entry.incarnation.is_none();
    view.entries.iter().filter(is_untagged).find_map(|entry| {
        let (name, member) = view
            .records
            .members
            .iter()
            .find(|(_, member)| member.address == entry.address)?;
        Some(ConfigChange::Tag(ConfigMember {
            name: Some(name.clone()),
            incarnation: Some(member.incarnation.clone()),
            ..entry.clone()
        }))
    })
}

fn add_registered(view: &PrimaryView<'_>) -> Option<ConfigChange> {
    if view.entries.len() >= MAX_MEMBERS {
        return None;
    }
    let (name, member) = view.records.members.iter().find(|(_, member)| {
        // An incarnation that left is never added again.
        !view.records.left.contains_key(&member.incarnation)
            && !view
                .entries
                .iter()
                .any(|entry| entry.incarnation.as_ref() == Some(&member.incarnation))
            && is_free(view, &member.address)
    })?;
    Some(ConfigChange::Add(ConfigMember {
        address: member.address.clone(),
        name: Some(name.clone()),
        incarnation: Some(member.incarnation.clone()),
        votes: 0,
    }))
}

fn promote_ready(view: &PrimaryView<'_>) -> Option<ConfigChange> {
    if !may_have_more_voters(view) {
        return None;
    }
    let is_ready = |entry: &&ConfigMember| {
        // A member without an incarnation was added by hand, perhaps on purpose without a vote.
        entry.votes == 0 && entry.incarnation.is_some() && view.secondaries.contains(&entry.address)
    };
    view.entries
        .iter()
        .find(is_ready)
        .cloned()
        .map(ConfigChange::Promote)
}

fn may_have_more_voters(view: &PrimaryView<'_>) -> bool {
    view.entries.iter().filter(|entry| entry.votes > 0).count() < MAX_VOTERS
}

fn is_registered(view: &PrimaryView<'_>, incarnation: &Incarnation) -> bool {
    view.records
        .members
        .values()
        .any(|member| member.incarnation == *incarnation)
}

fn is_free(view: &PrimaryView<'_>, address: &str) -> bool {
    !view.entries.iter().any(|entry| entry.address == address)
}

#[cfg(test)]
mod tests {
    use super::super::records::{LeftRecord, MemberRecord};
    use super::*;

    /// `a1:v` is the node a in its first incarnation with a vote, `a1:-` without; `a?:v` has no tags.
    fn entries(text: &str) -> Vec<ConfigMember> {
        text.split_whitespace()
            .map(|word| {
                let (incarnation, vote) = word.split_once(':').unwrap();
                let is_tagged = !incarnation.ends_with('?');
                let name = incarnation[..1].to_string();
                ConfigMember {
                    address: format!("{name}:1"),
                    incarnation: is_tagged.then(|| incarnation.into()),
                    name: is_tagged.then_some(name),
                    votes: i64::from(vote == "v"),
                }
            })
            .collect()
    }

    fn records(members: &str, left: &str) -> ReplicaSetRecords {
        let mut records = ReplicaSetRecords::default();
        for word in members.split_whitespace() {
            let (incarnation, port) = word.split_once('@').unwrap_or((word, "1"));
            let name = incarnation[..1].to_string();
            let member = MemberRecord {
                address: format!("{name}:{port}"),
                incarnation: incarnation.into(),
            };
            records.members.insert(name, member);
        }
        for incarnation in left.split_whitespace() {
            let name = incarnation[..1].to_string();
            let address = format!("{name}:1");
            let left = LeftRecord {
                name,
                address,
                removed: false,
            };
            records.left.insert(incarnation.into(), left);
        }
        records
    }

    fn describe(change: Option<&ConfigChange>) -> String {
        let incarnation = |entry: &ConfigMember| {
            entry
                .incarnation
                .as_ref()
                .map_or("?".into(), Incarnation::to_string)
        };
        match change {
            None => "-".into(),
            Some(ConfigChange::Remove(entry)) => format!("remove {}", incarnation(entry)),
            Some(ConfigChange::Move { from, to }) => format!("move {from} {to}"),
            Some(ConfigChange::Tag(entry)) => format!("tag {}", incarnation(entry)),
            Some(ConfigChange::Add(entry)) => format!("add {}", incarnation(entry)),
            Some(ConfigChange::Promote(entry)) => format!("promote {}", incarnation(entry)),
        }
    }

    #[test]
    fn the_next_change_brings_the_config_closer_to_the_registry() {
        // (config, registered, left, secondaries) -> the next change, with a1 as primary
        let check = |set: &str, members: &str, left: &str, secondaries: &str, expected: &str| {
            let secondaries: Vec<String> = secondaries
                .split_whitespace()
                .map(|name| format!("{name}:1"))
                .collect();
            let view = PrimaryView {
                entries: &entries(set),
                records: &records(members, left),
                secondaries: &secondaries,
                own: &"a1".into(),
            };
            assert_eq!(
                describe(pending_changes(&view).first()),
                expected,
                "{set} | {members} | {left} | {secondaries:?}"
            );
        };
        // Nothing differs.
        check("a1:v b1:v c1:v", "a1 b1 c1", "", "b c", "-");
        check("a1:v", "a1", "", "", "-");
        // Missing members are added one by one, without a vote; all of them before the first gets one.
        check("a1:v", "a1 b1 c1", "", "", "add b1");
        check("a1:v b1:-", "a1 b1 c1", "", "b", "add c1");
        check("a1:v b1:- c1:-", "a1 b1 c1", "", "", "-");
        check("a1:v b1:- c1:-", "a1 b1 c1", "", "c", "promote c1");
        check("a1:v b1:- c1:v", "a1 b1 c1", "", "b c", "promote b1");
        // A member that is only down or not registered is not removed.
        check("a1:v b1:v c1:v", "a1 b1 c1", "", "", "-");
        check("a1:v b1:v c1:v", "", "", "b c", "-");
        check("a1:v b1:v c1:v", "a1", "", "b c", "-");
        // A member that left is removed, but never by itself.
        check("a1:v b1:v c1:v", "a1 b1", "c1", "b c", "remove c1");
        check("a1:v b1:v c1:v", "b1 c1", "a1", "b c", "-");
        check("a1:v b1:v", "a1 b1", "c1", "b", "-");
        // A member that is down is removed before one that is up.
        check("a1:v b1:v c1:v", "a1", "b1 c1", "b", "remove c1");
        check("a1:v b1:v c1:v", "a1", "b1 c1", "c", "remove b1");
        // Marked as left and registered at the same time: neither removed nor added.
        check("a1:v b1:v c1:v", "a1 b1 c1", "c1", "b c", "-");
        check("a1:v b1:v", "a1 b1 c1", "c1", "b", "-");
        // A lost data folder: the old incarnation is removed, then the new one is added at the same address.
        check("a1:v b1:v c1:v", "a1 b1 c2", "c1", "b", "remove c1");
        check("a1:v b1:v", "a1 b1 c2", "c1", "b", "add c2");
        // The same, but the old incarnation is not marked as left: the address is taken.
        check("a1:v b1:v c1:v", "a1 b1 c2", "", "b", "-");
        // The member has another address now.
        check("a1:v b1:v c1:v", "a1 b1 c1@2", "", "b c", "move c:1 c:2");
        // Added by hand.
        check("a1:v b?:v", "a1 b1", "", "b", "tag b1");
        check("a1:v x?:v y?:-", "a1", "", "x y", "-");
        // The eighth member gets no vote until a voter has left.
        let seven = "a1:v b1:v c1:v d1:v e1:v f1:v g1:v";
        let all = "a1 b1 c1 d1 e1 f1 g1 h1";
        check(seven, all, "", "b c d e f g", "add h1");
        check(&format!("{seven} h1:-"), all, "", "b c d e f g h", "-");
        check(
            &format!("{seven} h1:-"),
            "a1 b1 d1 e1 f1 g1 h1",
            "c1",
            "h",
            "remove c1",
        );
        check(
            "a1:v b1:v d1:v e1:v f1:v g1:v h1:-",
            "a1 b1 d1 e1 f1 g1 h1",
            "c1",
            "h",
            "promote h1",
        );
        check(
            "a1:v b1:v d1:v e1:v f1:v g1:v h1:-",
            "a1 b1 d1 e1 f1 g1 h1",
            "c1",
            "b",
            "-",
        );
        check(
            "a1:v b1:v d1:v e1:v f1:v g1:v h1:v i1:-",
            "a1 b1 d1 e1 f1 g1 h1 i1",
            "c1",
            "i",
            "-",
        );
    }

    #[test]
    fn all_possible_changes_are_listed_in_case_mongod_refuses_one() {
        let view = PrimaryView {
            entries: &entries("a1:v b1:v c1:v e1:-"),
            records: &records("a1 d1 e1", "b1 c1"),
            secondaries: &["b:1".into(), "e:1".into()],
            own: &"a1".into(),
        };
        let all: Vec<String> = pending_changes(&view)
            .iter()
            .map(|change| describe(Some(change)))
            .collect();
        assert_eq!(all, ["remove c1", "remove b1", "add d1", "promote e1"]);
    }

    #[test]
    fn a_member_without_a_vote_may_be_promoted_later() {
        let check = |set: &str, expected: bool| {
            let view = PrimaryView {
                entries: &entries(set),
                records: &records("a1 b1", ""),
                secondaries: &[],
                own: &"a1".into(),
            };
            assert_eq!(has_member_to_promote(&view), expected, "{set}");
        };
        check("a1:v b1:-", true);
        check("a1:v b1:v", false);
        check("a1:v b?:-", false);
        check("a1:v b1:v c1:v d1:v e1:v f1:v g1:v h1:-", false);
    }
}
