//! What a daemon whose mongod serves has to do next, decided over what it sees.
//!
//! Every step may be the last one before a crash. What the next life sees then leads it on from there:
//!
//! | broke off after | seen next | so |
//! |---|---|---|
//! | `Claim` | a claim that ends with its lease | whoever claims next, when all say that they are in no set |
//! | `Initiate` | a set of one, not confirmed | its node goes on; the others wait for it |
//! | `MakeUser` | the user | `Confirm` |
//! | `Confirm` | the confirmed set | the primary adds the others |
//!
//! A claim cannot hold back a daemon that was paused between claiming and initiating. `Confirm` does: etcd takes the
//! first, and a set that came second was never used for anything. So there is one set, whatever happens.

use super::admin::Role;
use super::admit::Refusal;
use super::diff::Seat;
use super::records::{Incarnation, Records};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing but waiting, for what is said.
    Wait(String),
    /// Claims the right to initiate.
    Claim,
    /// Makes sure that no member is in a set, and initiates one with only itself.
    Initiate,
    /// Makes the user whom judicators log in as.
    MakeUser,
    /// Writes down, for ever, that this set is the cluster's.
    Confirm,
    /// A member like others.
    Serve,
    /// The same, but there is no primary to follow.
    Bide,
    /// The primary: keeps the set as registered.
    Tend,
    /// The primary, but it has left: another is to become primary and remove it.
    StepDown,
    /// Another set was confirmed: this one was never used. Its data is kept under another name.
    SetAside,
    Refuse(Why),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    OtherSet,
    OtherCluster,
    OtherSeat,
    Secret,
}

/// What the local mongod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    /// In no set yet.
    Blank,
    In {
        set: String,
        id: String,
        role: Role,
        has_primary: bool,
        seats: Vec<Seat>,
    },
}

impl Local {
    /// Whether another member could take over from this one. There is one with a vote that is up, or this one would
    /// not be primary.
    fn has_heir(&self, own: &Incarnation) -> bool {
        self.seats()
            .iter()
            .any(|seat| seat.votes > 0 && seat.incarnation.as_ref() != Some(own))
    }

    /// Whether mongod at `address` is taken for other data than it has.
    fn sits_for_another(&self, address: &str, own: &Incarnation) -> bool {
        self.seats()
            .iter()
            .filter(|seat| seat.address == address)
            .any(|seat| seat.incarnation.as_ref().is_some_and(|sitter| sitter != own))
    }

    fn seats(&self) -> &[Seat] {
        match self {
            Local::Blank => &[],
            Local::In { seats, .. } => seats,
        }
    }
}

/// The user whom judicators log in as, where there is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// There, or not needed.
    Fine,
    Missing,
    /// Made for another secret.
    Strange,
}

pub(crate) struct Sight<'a> {
    pub(crate) set: &'a str,
    pub(crate) incarnation: &'a Incarnation,
    pub(crate) address: &'a str,
    /// The set that our notes say etcd has confirmed.
    pub(crate) confirmed: Option<&'a str>,
    pub(crate) records: &'a Records,
    pub(crate) local: &'a Local,
    pub(crate) user: User,
    pub(crate) holds_claim: bool,
}

pub(crate) fn next(sight: &Sight<'_>) -> Step {
    let records = sight.records;
    let left = records.left.get(sight.incarnation);
    match sight.local {
        Local::In { set, .. } if set != sight.set => Step::Refuse(Why::OtherSet),
        local if local.sits_for_another(sight.address, sight.incarnation) => Step::Refuse(Why::OtherSeat),
        Local::In {
            role: Role::Primary, ..
        } if left.is_some() => match sight.local.has_heir(sight.incarnation) {
            true => Step::StepDown,
            // Whoever has the data is given a vote first.
            false => Step::Tend,
        },
        _ if left.is_some_and(|left| !left.gone) && records.initiated.is_some() => {
            Step::Wait("leaving: needed until the replica set has removed it".into())
        }
        _ if left.is_some() => Step::Wait("left the cluster; to be stopped".into()),
        Local::Blank => on_blank(sight),
        Local::In {
            id,
            role,
            has_primary,
            ..
        } => match &records.initiated {
            Some(initiated) if initiated.id != *id => match sight.confirmed {
                None => Step::SetAside,
                Some(_) => Step::Refuse(Why::OtherCluster),
            },
            Some(_) => match on_member(*role, sight.user, Step::Tend) {
                Step::Serve if !has_primary => Step::Bide,
                step => step,
            },
            None if *role == Role::Secondary => Step::Wait("waiting for a primary".into()),
            None => on_member(*role, sight.user, Step::Confirm),
        },
    }
}

fn on_blank(sight: &Sight<'_>) -> Step {
    match (&sight.records.initiated, &sight.records.initiate) {
        (Some(_), _) => Step::Wait("waiting to be added to the replica set".into()),
        (None, _) if sight.holds_claim => Step::Initiate,
        (None, None) => Step::Claim,
        (None, Some(claim)) => Step::Wait(format!("waiting for {} to initiate the replica set", claim.name)),
    }
}

fn on_member(role: Role, user: User, as_primary: Step) -> Step {
    match (role, user) {
        (Role::Other, _) => Step::Wait("waiting until mongod has a place in the set and the data".into()),
        (_, User::Strange) => Step::Refuse(Why::Secret),
        (Role::Primary, User::Missing) => Step::MakeUser,
        (Role::Primary, User::Fine) => as_primary,
        (Role::Secondary, User::Missing) => Step::Wait("waiting for the primary to make the user".into()),
        (Role::Secondary, User::Fine) => Step::Serve,
    }
}

impl Why {
    pub(crate) fn refusal(self, options: &super::Options, found: String) -> Refusal {
        let folder = options.data.clone();
        match self {
            Why::OtherSet => Refusal::OtherSet {
                folder,
                found,
                wanted: options.set.clone(),
            },
            Why::OtherCluster => Refusal::OtherCluster { folder },
            Why::OtherSeat => Refusal::OtherSeat {
                address: options.address(),
                folder,
            },
            Why::Secret => Refusal::Secret {
                address: options.address(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::{Claim, Initiated, Left};
    use super::*;

    fn member(id: &str, role: Role) -> Local {
        among(id, role, &["a1", "b1"])
    }

    fn among(id: &str, role: Role, seats: &[&str]) -> Local {
        let seat = |who: &&str| Seat {
            address: format!("{}:1", &who[..1]),
            name: Some(who[..1].into()),
            incarnation: Some((*who).into()),
            votes: 1,
        };
        Local::In {
            set: "s".into(),
            id: id.into(),
            role,
            has_primary: role != Role::Other,
            seats: seats.iter().map(seat).collect(),
        }
    }

    fn without_primary(local: Local) -> Local {
        match local {
            Local::In {
                set, id, role, seats, ..
            } => Local::In {
                set,
                id,
                role,
                seats,
                has_primary: false,
            },
            Local::Blank => Local::Blank,
        }
    }

    fn initiated(id: &str) -> Records {
        let initiated = Initiated {
            set: "s".into(),
            by: "b".into(),
            id: id.into(),
        };
        Records {
            initiated: Some(initiated),
            ..Records::default()
        }
    }

    fn claimed() -> Records {
        let claim = Claim {
            name: "b".into(),
            incarnation: "b1".into(),
        };
        Records {
            initiate: Some(claim),
            ..Records::default()
        }
    }

    fn left(mut records: Records, gone: bool) -> Records {
        let left = Left {
            name: "a".into(),
            address: "a:1".into(),
            gone,
        };
        records.left.insert("a1".into(), left);
        records
    }

    #[test]
    fn what_is_seen_decides() {
        use Role::{Other, Primary, Secondary};
        let wait = |text: &str| Step::Wait(text.into());
        let check = |local: Local, records: Records, rest: (User, Option<&str>, bool), expected: Step| {
            let (user, confirmed, holds_claim) = rest;
            let sight = Sight {
                set: "s",
                incarnation: &"a1".into(),
                address: "a:1",
                confirmed,
                records: &records,
                local: &local,
                user,
                holds_claim,
            };
            assert_eq!(
                next(&sight),
                expected,
                "{local:?} {records:?} {user:?} {confirmed:?} {holds_claim}"
            );
        };
        let plain = (User::Fine, None, false);
        let holding = (User::Fine, None, true);
        // Before there is a set.
        check(Local::Blank, Records::default(), plain, Step::Claim);
        check(
            Local::Blank,
            claimed(),
            plain,
            wait("waiting for b to initiate the replica set"),
        );
        check(Local::Blank, claimed(), holding, Step::Initiate);
        check(
            Local::Blank,
            initiated("x"),
            plain,
            wait("waiting to be added to the replica set"),
        );
        check(
            Local::Blank,
            initiated("x"),
            holding,
            wait("waiting to be added to the replica set"),
        );
        // Initiated by this node, perhaps in an earlier life, and not yet confirmed.
        check(
            member("x", Other),
            claimed(),
            holding,
            wait("waiting until mongod has a place in the set and the data"),
        );
        check(
            member("x", Primary),
            claimed(),
            (User::Missing, None, true),
            Step::MakeUser,
        );
        check(member("x", Primary), Records::default(), plain, Step::Confirm);
        check(
            member("x", Secondary),
            Records::default(),
            plain,
            wait("waiting for a primary"),
        );
        // Somebody else's set came first.
        check(member("y", Primary), initiated("x"), plain, Step::SetAside);
        check(
            member("y", Primary),
            initiated("x"),
            (User::Fine, Some("y"), false),
            Step::Refuse(Why::OtherCluster),
        );
        // In the set.
        check(member("x", Primary), initiated("x"), plain, Step::Tend);
        check(member("x", Secondary), initiated("x"), plain, Step::Serve);
        check(
            without_primary(member("x", Secondary)),
            initiated("x"),
            plain,
            Step::Bide,
        );
        check(
            member("x", Primary),
            initiated("x"),
            (User::Missing, None, false),
            Step::MakeUser,
        );
        check(
            member("x", Secondary),
            initiated("x"),
            (User::Missing, None, false),
            wait("waiting for the primary to make the user"),
        );
        check(
            member("x", Secondary),
            initiated("x"),
            (User::Strange, None, false),
            Step::Refuse(Why::Secret),
        );
        // Leaving: another takes over, if another can.
        let leaving = || left(initiated("x"), false);
        check(member("x", Primary), leaving(), plain, Step::StepDown);
        check(among("x", Primary, &["a1"]), leaving(), plain, Step::Tend);
        let needed = "leaving: needed until the replica set has removed it";
        check(member("x", Secondary), leaving(), plain, wait(needed));
        // Left.
        let to_be_stopped = || wait("left the cluster; to be stopped");
        check(
            among("x", Other, &["b1"]),
            left(initiated("x"), true),
            plain,
            to_be_stopped(),
        );
        check(
            Local::Blank,
            left(Records::default(), false),
            plain,
            to_be_stopped(),
        );
        // The seat of what was at this address before.
        for role in [Primary, Secondary, Other] {
            check(
                among("x", role, &["a0", "b1"]),
                initiated("x"),
                plain,
                Step::Refuse(Why::OtherSeat),
            );
        }
        // Data of another set.
        let strange = Local::In {
            set: "t".into(),
            id: "x".into(),
            role: Other,
            has_primary: false,
            seats: Vec::new(),
        };
        check(strange, initiated("x"), plain, Step::Refuse(Why::OtherSet));
    }
}
