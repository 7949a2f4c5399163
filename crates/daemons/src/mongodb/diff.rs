//! How the replica set differs from what is registered: the next single change, decided over values.

use std::fmt;

use super::records::{Incarnation, Records};

/// MongoDB's own limits.
const MOST_VOTERS: usize = 7;
const MOST_SEATS: usize = 50;

/// A member in the replica set's config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) address: String,
    pub(crate) name: Option<String>,
    /// None where somebody added it by hand.
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) votes: i64,
}

/// One change of the config: mongod takes no more than one that touches votes, and one at a time is easy to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Remove(Seat),
    Move {
        from: String,
        to: String,
    },
    /// Gives a seat the name and incarnation that are registered for its address.
    Name(Seat),
    /// Without a vote, whatever room there is: a member that is not there yet, or still copies data, must not count
    /// towards the majority.
    Add(Seat),
    /// Gives it a vote, now that it has the data.
    Promote(Seat),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Remove(seat) => write!(f, "remove {}", seat.address),
            Change::Move { from, to } => write!(f, "move {from} to {to}"),
            Change::Name(seat) => write!(f, "name {}", seat.address),
            Change::Add(seat) => write!(f, "add {}", seat.address),
            Change::Promote(seat) => write!(f, "give a vote to {}", seat.address),
        }
    }
}

/// What the primary's daemon looks at.
pub(crate) struct View<'a> {
    pub(crate) seats: &'a [Seat],
    pub(crate) records: &'a Records,
    /// Addresses of those that have the data and follow.
    pub(crate) secondaries: &'a [String],
    /// Of the primary itself.
    pub(crate) own: &'a Incarnation,
}

/// What can be done for now, the most urgent first. One of them, and then another look: where mongod refuses one, it
/// may still take the next.
///
/// Whoever is merely absent from the registry stays: only one that is marked as left goes, and the primary never
/// removes itself.
pub(crate) fn changes(view: &View<'_>) -> Vec<Change> {
    let mut changes = removed(view);
    changes.extend(moved(view));
    changes.extend(named(view));
    changes.extend(added(view));
    changes.extend(promoted(view));
    changes
}

/// Whether there is something that will be possible later, without the registry changing before.
pub(crate) fn is_waiting(view: &View<'_>) -> bool {
    has_room_to_vote(view)
        && view
            .seats
            .iter()
            .any(|seat| seat.votes == 0 && seat.incarnation.is_some())
}

/// Those that are not there go first: whoever is there may be needed for the majority that agrees to it.
fn removed(view: &View<'_>) -> Vec<Change> {
    let has_left = |incarnation: &Incarnation| {
        incarnation != view.own
            && view.records.left.contains_key(incarnation)
            && !is_registered(view, incarnation)
    };
    let mut seats: Vec<&Seat> = view
        .seats
        .iter()
        .filter(|seat| seat.incarnation.as_ref().is_some_and(has_left))
        .collect();
    seats.sort_by_key(|seat| view.secondaries.contains(&seat.address));
    seats
        .into_iter()
        .map(|seat| Change::Remove(seat.clone()))
        .collect()
}

fn moved(view: &View<'_>) -> Option<Change> {
    view.seats.iter().find_map(|seat| {
        let incarnation = seat.incarnation.as_ref()?;
        let member = view
            .records
            .members
            .values()
            .find(|member| member.incarnation == *incarnation)?;
        (member.address != seat.address && is_free(view, &member.address)).then(|| Change::Move {
            from: seat.address.clone(),
            to: member.address.clone(),
        })
    })
}

fn named(view: &View<'_>) -> Option<Change> {
    let unnamed = |seat: &&Seat| seat.incarnation.is_none();
    view.seats.iter().filter(unnamed).find_map(|seat| {
        let (name, member) = view
            .records
            .members
            .iter()
            .find(|(_, member)| member.address == seat.address)?;
        Some(Change::Name(Seat {
            name: Some(name.clone()),
            incarnation: Some(member.incarnation.clone()),
            ..seat.clone()
        }))
    })
}

fn added(view: &View<'_>) -> Option<Change> {
    if view.seats.len() >= MOST_SEATS {
        return None;
    }
    let (name, member) = view.records.members.iter().find(|(_, member)| {
        // Who has left comes back as another, or not at all.
        !view.records.left.contains_key(&member.incarnation)
            && !view
                .seats
                .iter()
                .any(|seat| seat.incarnation.as_ref() == Some(&member.incarnation))
            && is_free(view, &member.address)
    })?;
    Some(Change::Add(Seat {
        address: member.address.clone(),
        name: Some(name.clone()),
        incarnation: Some(member.incarnation.clone()),
        votes: 0,
    }))
}

fn promoted(view: &View<'_>) -> Option<Change> {
    if !has_room_to_vote(view) {
        return None;
    }
    let is_ready = |seat: &&Seat| {
        // One without an incarnation was put there by somebody who may want it without a vote.
        seat.votes == 0 && seat.incarnation.is_some() && view.secondaries.contains(&seat.address)
    };
    view.seats.iter().find(is_ready).cloned().map(Change::Promote)
}

fn has_room_to_vote(view: &View<'_>) -> bool {
    view.seats.iter().filter(|seat| seat.votes > 0).count() < MOST_VOTERS
}

fn is_registered(view: &View<'_>, incarnation: &Incarnation) -> bool {
    view.records
        .members
        .values()
        .any(|member| member.incarnation == *incarnation)
}

fn is_free(view: &View<'_>, address: &str) -> bool {
    !view.seats.iter().any(|seat| seat.address == address)
}

#[cfg(test)]
mod tests {
    use super::super::records::{Left, Member};
    use super::*;

    /// `a1:v` is node a in its first incarnation with a vote, `a1:-` without; `?:v` at the end has no tags.
    fn seats(text: &str) -> Vec<Seat> {
        text.split_whitespace()
            .map(|word| {
                let (who, vote) = word.split_once(':').unwrap();
                let tagged = !who.ends_with('?');
                let name = who[..1].to_string();
                Seat {
                    address: format!("{name}:1"),
                    incarnation: tagged.then(|| who.into()),
                    name: tagged.then_some(name),
                    votes: i64::from(vote == "v"),
                }
            })
            .collect()
    }

    fn records(members: &str, left: &str) -> Records {
        let mut records = Records::default();
        for word in members.split_whitespace() {
            let (who, port) = word.split_once('@').unwrap_or((word, "1"));
            let name = who[..1].to_string();
            let member = Member {
                address: format!("{name}:{port}"),
                incarnation: who.into(),
            };
            records.members.insert(name, member);
        }
        for who in left.split_whitespace() {
            let name = who[..1].to_string();
            let address = format!("{name}:1");
            let gone = false;
            records.left.insert(who.into(), Left { name, address, gone });
        }
        records
    }

    fn told(change: Option<&Change>) -> String {
        let who = |seat: &Seat| {
            seat.incarnation
                .as_ref()
                .map_or("?".into(), Incarnation::to_string)
        };
        match change {
            None => "-".into(),
            Some(Change::Remove(seat)) => format!("remove {}", who(seat)),
            Some(Change::Move { from, to }) => format!("move {from} {to}"),
            Some(Change::Name(seat)) => format!("name {}", who(seat)),
            Some(Change::Add(seat)) => format!("add {}", who(seat)),
            Some(Change::Promote(seat)) => format!("promote {}", who(seat)),
        }
    }

    #[test]
    fn one_change_at_a_time() {
        // (seats, registered, left, secondaries) -> the next change, with a1 as primary
        let check = |set: &str, members: &str, left: &str, secondaries: &str, expected: &str| {
            let secondaries: Vec<String> = secondaries
                .split_whitespace()
                .map(|name| format!("{name}:1"))
                .collect();
            let view = View {
                seats: &seats(set),
                records: &records(members, left),
                secondaries: &secondaries,
                own: &"a1".into(),
            };
            assert_eq!(
                told(changes(&view).first()),
                expected,
                "{set} | {members} | {left} | {secondaries:?}"
            );
        };
        // As it should be.
        check("a1:v b1:v c1:v", "a1 b1 c1", "", "b c", "-");
        check("a1:v", "a1", "", "", "-");
        // The missing are added one by one, without a vote; all of them before the first gets one.
        check("a1:v", "a1 b1 c1", "", "", "add b1");
        check("a1:v b1:-", "a1 b1 c1", "", "b", "add c1");
        check("a1:v b1:- c1:-", "a1 b1 c1", "", "", "-");
        check("a1:v b1:- c1:-", "a1 b1 c1", "", "c", "promote c1");
        check("a1:v b1:- c1:v", "a1 b1 c1", "", "b c", "promote b1");
        // Down, or simply not registered: nobody is removed for that.
        check("a1:v b1:v c1:v", "a1 b1 c1", "", "", "-");
        check("a1:v b1:v c1:v", "", "", "b c", "-");
        check("a1:v b1:v c1:v", "a1", "", "b c", "-");
        // Left: removed, but never by itself.
        check("a1:v b1:v c1:v", "a1 b1", "c1", "b c", "remove c1");
        check("a1:v b1:v c1:v", "b1 c1", "a1", "b c", "-");
        check("a1:v b1:v", "a1 b1", "c1", "b", "-");
        // One that is down goes before one that is there.
        check("a1:v b1:v c1:v", "a1", "b1 c1", "b", "remove c1");
        check("a1:v b1:v c1:v", "a1", "b1 c1", "c", "remove b1");
        // Marked as left and registered all the same: whoever wrote that, it is no reason to remove or to add.
        check("a1:v b1:v c1:v", "a1 b1 c1", "c1", "b c", "-");
        check("a1:v b1:v", "a1 b1 c1", "c1", "b", "-");
        // A lost folder: the old one goes first, then the new one comes, at the same address.
        check("a1:v b1:v c1:v", "a1 b1 c2", "c1", "b", "remove c1");
        check("a1:v b1:v", "a1 b1 c2", "c1", "b", "add c2");
        // The same, but nobody marked the old one: the address is taken.
        check("a1:v b1:v c1:v", "a1 b1 c2", "", "b", "-");
        // Another address.
        check("a1:v b1:v c1:v", "a1 b1 c1@2", "", "b c", "move c:1 c:2");
        // Put there by hand.
        check("a1:v b?:v", "a1 b1", "", "b", "name b1");
        check("a1:v x?:v y?:-", "a1", "", "x y", "-");
        // The eighth has no vote until one with a vote has left.
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
    fn what_is_refused_leaves_something_to_try() {
        let view = View {
            seats: &seats("a1:v b1:v c1:v e1:-"),
            records: &records("a1 d1 e1", "b1 c1"),
            secondaries: &["b:1".into(), "e:1".into()],
            own: &"a1".into(),
        };
        let all: Vec<String> = changes(&view).iter().map(|change| told(Some(change))).collect();
        assert_eq!(all, ["remove c1", "remove b1", "add d1", "promote e1"]);
    }

    #[test]
    fn it_is_worth_looking_again_while_somebody_could_be_given_a_vote() {
        let check = |set: &str, expected: bool| {
            let view = View {
                seats: &seats(set),
                records: &records("a1 b1", ""),
                secondaries: &[],
                own: &"a1".into(),
            };
            assert_eq!(is_waiting(&view), expected, "{set}");
        };
        check("a1:v b1:-", true);
        check("a1:v b1:v", false);
        check("a1:v b?:-", false);
        check("a1:v b1:v c1:v d1:v e1:v f1:v g1:v h1:-", false);
    }
}
