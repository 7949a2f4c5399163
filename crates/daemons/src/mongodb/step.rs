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
    },
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
    /// The set that our notes say etcd has confirmed.
    pub(crate) confirmed: Option<&'a str>,
    pub(crate) records: &'a Records,
    pub(crate) local: &'a Local,
    pub(crate) user: User,
    pub(crate) holds_claim: bool,
}

pub(crate) fn next(sight: &Sight<'_>) -> Step {
    let records = sight.records;
    let left = records.left.contains_key(sight.incarnation);
    match sight.local {
        Local::In { set, .. } if set != sight.set => Step::Refuse(Why::OtherSet),
        Local::In {
            role: Role::Primary, ..
        } if left => Step::StepDown,
        _ if left => Step::Wait("left the cluster; to be stopped".into()),
        Local::Blank => on_blank(sight),
        Local::In { id, role, .. } => match &records.initiated {
            Some(initiated) if initiated.id != *id => match sight.confirmed {
                None => Step::SetAside,
                Some(_) => Step::Refuse(Why::OtherCluster),
            },
            Some(_) => on_member(*role, sight.user, Step::Tend),
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
        Local::In {
            set: "s".into(),
            id: id.into(),
            role,
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

    fn left(mut records: Records) -> Records {
        let left = Left {
            name: "a".into(),
            address: "h:1".into(),
            gone: false,
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
        // Left.
        check(member("x", Primary), left(initiated("x")), plain, Step::StepDown);
        check(
            member("x", Secondary),
            left(initiated("x")),
            plain,
            wait("left the cluster; to be stopped"),
        );
        check(
            Local::Blank,
            left(Records::default()),
            plain,
            wait("left the cluster; to be stopped"),
        );
        // Data of another set.
        let strange = Local::In {
            set: "t".into(),
            id: "x".into(),
            role: Other,
        };
        check(strange, initiated("x"), plain, Step::Refuse(Why::OtherSet));
    }
}
