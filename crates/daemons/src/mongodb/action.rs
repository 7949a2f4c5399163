//! Decides what a daemon whose mongod serves does next, from what it observes. Pure: no I/O.
//!
//! The daemon may crash after every action. What it observes after its restart then leads to the right next action:
//!
//! | crash after | observed next | consequence |
//! |---|---|---|
//! | `ClaimInitiation` | a claim that expires with its lease | the next daemon claims, once no member is in a set |
//! | `Initiate` | a set with one member, not confirmed | its node continues; the others wait for it |
//! | `CreateUser` | the user | `ConfirmSet` |
//! | `ConfirmSet` | the confirmed set | the primary adds the others |
//!
//! A claim cannot stop a daemon that was paused between claiming and initiating, so two sets may be initiated. etcd
//! accepts only the first confirmation, and a set is not used before it is confirmed. So exactly one set is ever used.

use super::MongodDaemonOptions;
use super::admin::MemberRole;
use super::config_change::ConfigMember;
use super::records::{Incarnation, ReplicaSetRecords};
use super::start_check::MongodStartRefusal;

/// What the mongod daemon does next for this node's membership in the replica set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAction {
    /// Wait; the text says what for.
    Wait(String),
    /// Claim, in etcd, the right to initiate the replica set.
    ClaimInitiation,
    /// Check that no member is in a replica set, and initiate one with only this member.
    Initiate,
    /// Create the user that judicators log in as.
    CreateUser,
    /// Record in etcd, for ever, that this replica set is the cluster's.
    ConfirmSet,
    /// Report that the member is ready. It is a secondary.
    ServeAsSecondary,
    /// Like `ServeAsSecondary`, but report that the set has no primary.
    ServeWithoutPrimary,
    /// The member is the primary: change the set's config to what is registered.
    ReconcileAsPrimary,
    /// The member is the primary and leaves the cluster: another member has to become primary and remove it.
    StepDown,
    /// Another node's set was confirmed, so this node's set was never used: move its data aside.
    SetDataAside,
    /// End the daemon with this error.
    Refuse(MongodStartRefusal),
}

/// The replication state of the mongod on this node, as its daemon observes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalMongod {
    /// It is in no replica set yet.
    Uninitiated,
    InSet {
        set: String,
        id: String,
        role: MemberRole,
        has_primary: bool,
        entries: Vec<ConfigMember>,
    },
}

impl LocalMongod {
    /// Whether another member could become primary in the place of this one, which is primary. One of the voters is up,
    /// or this member would not be primary.
    fn has_other_voter(&self, own: &Incarnation) -> bool {
        self.entries()
            .iter()
            .any(|entry| entry.votes > 0 && entry.incarnation.as_ref() != Some(own))
    }

    /// Whether the config entry at `address` belongs to another incarnation, so that the set takes this mongod for a
    /// member whose data it does not have.
    fn has_entry_of_another(&self, address: &str, own: &Incarnation) -> bool {
        self.entries()
            .iter()
            .filter(|entry| entry.address == address)
            .any(|entry| entry.incarnation.as_ref().is_some_and(|other| other != own))
    }

    fn entries(&self) -> &[ConfigMember] {
        match self {
            LocalMongod::Uninitiated => &[],
            LocalMongod::InSet { entries, .. } => entries,
        }
    }
}

/// The MongoDB user that judicators log in as: whether it exists, and was created with this node's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginUser {
    /// The user exists, or is not needed because there is no secret.
    Ready,
    Missing,
    /// The user was created with another secret.
    OtherSecret,
}

/// What the mongod daemon observed: everything that its next action depends on.
pub(crate) struct MemberObservation<'a> {
    pub(crate) options: &'a MongodDaemonOptions,
    pub(crate) incarnation: &'a Incarnation,
    /// The id of the replica set that etcd has confirmed, by this node's state file.
    pub(crate) confirmed: Option<&'a str>,
    pub(crate) records: &'a ReplicaSetRecords,
    pub(crate) local: &'a LocalMongod,
    pub(crate) user: LoginUser,
    pub(crate) holds_claim: bool,
}

pub(crate) fn next_action(observed: &MemberObservation<'_>) -> MemberAction {
    let MemberObservation {
        options,
        incarnation,
        records,
        ..
    } = observed;
    let left = records.left.get(incarnation);
    match observed.local {
        LocalMongod::InSet { set, .. } if *set != options.set => {
            MemberAction::Refuse(MongodStartRefusal::OtherSet {
                folder: options.data.clone(),
                found: set.clone(),
                wanted: options.set.clone(),
            })
        }
        local if local.has_entry_of_another(&options.address(), incarnation) => {
            MemberAction::Refuse(MongodStartRefusal::EntryOfAnother {
                address: options.address(),
                folder: options.data.clone(),
            })
        }
        LocalMongod::InSet {
            role: MemberRole::Primary,
            ..
        } if left.is_some() => match observed.local.has_other_voter(incarnation) {
            true => MemberAction::StepDown,
            // First a member that has the data needs a vote.
            false => MemberAction::ReconcileAsPrimary,
        },
        _ if left.is_some_and(|left| !left.removed) && records.initiated.is_some() => {
            MemberAction::Wait("leaving: waiting until the replica set has removed this member".into())
        }
        _ if left.is_some() => MemberAction::Wait("left the cluster; waiting to be stopped".into()),
        LocalMongod::Uninitiated => action_before_initiation(observed),
        LocalMongod::InSet {
            id,
            role,
            has_primary,
            ..
        } => match &records.initiated {
            Some(initiated) if initiated.id != *id => match observed.confirmed {
                None => MemberAction::SetDataAside,
                Some(_) => MemberAction::Refuse(MongodStartRefusal::OtherCluster {
                    folder: options.data.clone(),
                }),
            },
            Some(_) => match action_in_set(observed, *role, MemberAction::ReconcileAsPrimary) {
                MemberAction::ServeAsSecondary if !has_primary => MemberAction::ServeWithoutPrimary,
                action => action,
            },
            None if *role == MemberRole::Secondary => MemberAction::Wait("waiting for a primary".into()),
            None => action_in_set(observed, *role, MemberAction::ConfirmSet),
        },
    }
}

fn action_before_initiation(observed: &MemberObservation<'_>) -> MemberAction {
    match (&observed.records.initiated, &observed.records.initiate) {
        (Some(_), _) => MemberAction::Wait("waiting to be added to the replica set".into()),
        (None, _) if observed.holds_claim => MemberAction::Initiate,
        (None, None) => MemberAction::ClaimInitiation,
        (None, Some(claim)) => {
            MemberAction::Wait(format!("waiting for {} to initiate the replica set", claim.name))
        }
    }
}

fn action_in_set(
    observed: &MemberObservation<'_>,
    role: MemberRole,
    as_primary: MemberAction,
) -> MemberAction {
    match (role, observed.user) {
        (MemberRole::Other, _) => {
            MemberAction::Wait("waiting until mongod is a member of the set and has the data".into())
        }
        (_, LoginUser::OtherSecret) => MemberAction::Refuse(MongodStartRefusal::Secret {
            address: observed.options.address(),
        }),
        (MemberRole::Primary, LoginUser::Missing) => MemberAction::CreateUser,
        (MemberRole::Primary, LoginUser::Ready) => as_primary,
        (MemberRole::Secondary, LoginUser::Missing) => {
            MemberAction::Wait("waiting for the primary to create the user".into())
        }
        (MemberRole::Secondary, LoginUser::Ready) => MemberAction::ServeAsSecondary,
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::{InitiatedRecord, InitiationClaim, LeftRecord};
    use super::super::start_check::tests::options;
    use super::*;

    fn member(id: &str, role: MemberRole) -> LocalMongod {
        member_among(id, role, &["a1", "b1"])
    }

    fn member_among(id: &str, role: MemberRole, incarnations: &[&str]) -> LocalMongod {
        let entry = |incarnation: &&str| ConfigMember {
            address: format!("{}:1", &incarnation[..1]),
            name: Some(incarnation[..1].into()),
            incarnation: Some((*incarnation).into()),
            votes: 1,
        };
        LocalMongod::InSet {
            set: "s".into(),
            id: id.into(),
            role,
            has_primary: role != MemberRole::Other,
            entries: incarnations.iter().map(entry).collect(),
        }
    }

    fn without_primary(mut local: LocalMongod) -> LocalMongod {
        if let LocalMongod::InSet { has_primary, .. } = &mut local {
            *has_primary = false;
        }
        local
    }

    fn initiated(id: &str) -> ReplicaSetRecords {
        let initiated = InitiatedRecord {
            set: "s".into(),
            by: "b".into(),
            id: id.into(),
        };
        ReplicaSetRecords {
            initiated: Some(initiated),
            ..ReplicaSetRecords::default()
        }
    }

    fn claimed() -> ReplicaSetRecords {
        let claim = InitiationClaim {
            name: "b".into(),
            incarnation: "b1".into(),
        };
        ReplicaSetRecords {
            initiate: Some(claim),
            ..ReplicaSetRecords::default()
        }
    }

    fn left(mut records: ReplicaSetRecords, removed: bool) -> ReplicaSetRecords {
        let left = LeftRecord {
            name: "a".into(),
            address: "a:1".into(),
            removed,
        };
        records.left.insert("a1".into(), left);
        records
    }

    #[test]
    fn the_observation_decides_the_next_action() {
        use MemberRole::{Other, Primary, Secondary};
        let options = MongodDaemonOptions {
            host: "a".into(),
            ..options()
        };
        let folder = || options.data.clone();
        let wait = |text: &str| MemberAction::Wait(text.into());
        let check = |local: LocalMongod,
                     records: ReplicaSetRecords,
                     rest: (LoginUser, Option<&str>, bool),
                     expected| {
            let (user, confirmed, holds_claim) = rest;
            let observed = MemberObservation {
                options: &options,
                incarnation: &"a1".into(),
                confirmed,
                records: &records,
                local: &local,
                user,
                holds_claim,
            };
            assert_eq!(
                next_action(&observed),
                expected,
                "{local:?} {records:?} {user:?} {confirmed:?} {holds_claim}"
            );
        };
        let plain = (LoginUser::Ready, None, false);
        let holding = (LoginUser::Ready, None, true);
        // Before there is a set.
        check(
            LocalMongod::Uninitiated,
            ReplicaSetRecords::default(),
            plain,
            MemberAction::ClaimInitiation,
        );
        check(
            LocalMongod::Uninitiated,
            claimed(),
            plain,
            wait("waiting for b to initiate the replica set"),
        );
        check(
            LocalMongod::Uninitiated,
            claimed(),
            holding,
            MemberAction::Initiate,
        );
        check(
            LocalMongod::Uninitiated,
            initiated("x"),
            plain,
            wait("waiting to be added to the replica set"),
        );
        check(
            LocalMongod::Uninitiated,
            initiated("x"),
            holding,
            wait("waiting to be added to the replica set"),
        );
        // Initiated by this node, perhaps before a restart, and not yet confirmed.
        check(
            member("x", Other),
            claimed(),
            holding,
            wait("waiting until mongod is a member of the set and has the data"),
        );
        check(
            member("x", Primary),
            claimed(),
            (LoginUser::Missing, None, true),
            MemberAction::CreateUser,
        );
        check(
            member("x", Primary),
            ReplicaSetRecords::default(),
            plain,
            MemberAction::ConfirmSet,
        );
        check(
            member("x", Secondary),
            ReplicaSetRecords::default(),
            plain,
            wait("waiting for a primary"),
        );
        // The set of another node was confirmed first.
        check(
            member("y", Primary),
            initiated("x"),
            plain,
            MemberAction::SetDataAside,
        );
        check(
            member("y", Primary),
            initiated("x"),
            (LoginUser::Ready, Some("y"), false),
            MemberAction::Refuse(MongodStartRefusal::OtherCluster { folder: folder() }),
        );
        // In the set.
        check(
            member("x", Primary),
            initiated("x"),
            plain,
            MemberAction::ReconcileAsPrimary,
        );
        check(
            member("x", Secondary),
            initiated("x"),
            plain,
            MemberAction::ServeAsSecondary,
        );
        check(
            without_primary(member("x", Secondary)),
            initiated("x"),
            plain,
            MemberAction::ServeWithoutPrimary,
        );
        check(
            member("x", Primary),
            initiated("x"),
            (LoginUser::Missing, None, false),
            MemberAction::CreateUser,
        );
        check(
            member("x", Secondary),
            initiated("x"),
            (LoginUser::Missing, None, false),
            wait("waiting for the primary to create the user"),
        );
        check(
            member("x", Secondary),
            initiated("x"),
            (LoginUser::OtherSecret, None, false),
            MemberAction::Refuse(MongodStartRefusal::Secret {
                address: "a:1".into(),
            }),
        );
        // Leaving: another member becomes primary, if one can.
        let leaving = || left(initiated("x"), false);
        check(member("x", Primary), leaving(), plain, MemberAction::StepDown);
        check(
            member_among("x", Primary, &["a1"]),
            leaving(),
            plain,
            MemberAction::ReconcileAsPrimary,
        );
        check(
            member("x", Secondary),
            leaving(),
            plain,
            wait("leaving: waiting until the replica set has removed this member"),
        );
        // Left.
        let to_be_stopped = || wait("left the cluster; waiting to be stopped");
        check(
            member_among("x", Other, &["b1"]),
            left(initiated("x"), true),
            plain,
            to_be_stopped(),
        );
        check(
            LocalMongod::Uninitiated,
            left(ReplicaSetRecords::default(), false),
            plain,
            to_be_stopped(),
        );
        // The config entry at this address belongs to an earlier incarnation.
        for role in [Primary, Secondary, Other] {
            check(
                member_among("x", role, &["a0", "b1"]),
                initiated("x"),
                plain,
                MemberAction::Refuse(MongodStartRefusal::EntryOfAnother {
                    address: "a:1".into(),
                    folder: folder(),
                }),
            );
        }
        // Data of another set.
        let other_set = LocalMongod::InSet {
            set: "t".into(),
            id: "x".into(),
            role: Other,
            has_primary: false,
            entries: Vec::new(),
        };
        check(
            other_set,
            initiated("x"),
            plain,
            MemberAction::Refuse(MongodStartRefusal::OtherSet {
                folder: folder(),
                found: "t".into(),
                wanted: "s".into(),
            }),
        );
    }
}
