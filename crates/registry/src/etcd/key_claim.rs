//! Decides whether a judicator may write a key: the key of its own name, and the leader key.

use super::snapshot::{RegistrationRecord, RegistryEntry};

/// The judicator that wants to register under its name in etcd.
#[derive(Clone, Copy)]
pub(super) struct NameClaimant<'a> {
    pub(super) address: &'a str,
    pub(super) lease: i64,
    pub(super) history: RegistrationHistory,
}

/// Whether this process has registered its judicator in etcd before, and with which lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistrationHistory {
    NeverRegistered,
    /// `ended_lease` is the lease that held the key, if etcd has reported its end and the process has not registered
    /// again since.
    Registered {
        ended_lease: Option<i64>,
    },
}

/// What a judicator that wants to register may do with the etcd key of its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NameClaim {
    /// The claimant holds the key already.
    Held,
    /// The claimant may take the key if its revision is still this one. A key that does not exist has revision 0.
    Free {
        revision: i64,
    },
    /// The same, for a key that an earlier process of this judicator left behind. The claimant also takes over the
    /// leader key if that has the lease `from`.
    Inherited {
        revision: i64,
        from: i64,
    },
    Refused(RegistrationConflict),
}

/// Who else holds the etcd key of this judicator's name with a live lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RegistrationConflict {
    /// A judicator at this other address.
    OtherAddress(String),
    /// A second process with our own address.
    SameAddress,
    /// The value of the key is not a registration.
    Unreadable,
}

/// A name belongs to the process that keeps its key alive.
///
/// A process that was killed and started again finds its own key, which lives until the old lease expires. It
/// recognises the key by the address, because the process has bound that port now. This applies only before its first
/// registration: a process that held the key and finds it with a lease that it never had competes with a second process
/// of the same configuration, and the two must not take the key from each other in turns.
pub(super) fn claim_name(holder: Option<&RegistryEntry>, claimant: NameClaimant<'_>) -> NameClaim {
    let Some(holder) = holder else {
        return NameClaim::Free { revision: 0 };
    };
    let revision = holder.revision;
    if holder.lease == claimant.lease {
        return NameClaim::Held;
    }
    // No lease keeps the key alive: a person wrote it.
    if holder.lease == 0 {
        return NameClaim::Free { revision };
    }
    match RegistrationRecord::read(&holder.value) {
        Ok(record) if record.address != claimant.address => {
            NameClaim::Refused(RegistrationConflict::OtherAddress(record.address))
        }
        Ok(_) if claimant.history.may_own(holder.lease) => NameClaim::Inherited {
            revision,
            from: holder.lease,
        },
        Ok(_) => NameClaim::Refused(RegistrationConflict::SameAddress),
        Err(_) => NameClaim::Refused(RegistrationConflict::Unreadable),
    }
}

impl RegistrationHistory {
    /// Whether this judicator may own a lease that carries its name and its address.
    fn may_own(self, lease: i64) -> bool {
        match self {
            RegistrationHistory::NeverRegistered => true,
            // An etcd leader that lags behind may report the end of a lease that is still alive.
            RegistrationHistory::Registered { ended_lease } => ended_lease == Some(lease),
        }
    }
}

/// Whether the etcd key of the leading judicator is held by this judicator, is free, or is held by another.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LeaderKey {
    Ours,
    /// May be taken if its revision is still this one. A key that does not exist has revision 0.
    Free {
        revision: i64,
    },
    Others,
}

/// The lease of the leader key decides, not the name in its value: only the lease is certain to be ours.
pub(super) fn inspect_leader_key(leader: Option<&RegistryEntry>, lease: i64) -> LeaderKey {
    match leader {
        None => LeaderKey::Free { revision: 0 },
        Some(leader) if leader.lease == lease => LeaderKey::Ours,
        Some(leader) if leader.lease == 0 => LeaderKey::Free {
            revision: leader.revision,
        },
        Some(_) => LeaderKey::Others,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const MINE: i64 = 1;
    const OTHER: i64 = 2;

    fn at(address: &str, lease: i64) -> Option<RegistryEntry> {
        let record = RegistrationRecord::new(address.into(), "1".into(), SystemTime::UNIX_EPOCH);
        entry(record.write().unwrap(), lease)
    }

    fn entry(value: Vec<u8>, lease: i64) -> Option<RegistryEntry> {
        Some(RegistryEntry {
            key: "/conclave/judicators/me".into(),
            value,
            lease,
            revision: 5,
        })
    }

    #[test]
    fn a_name_belongs_to_one_live_process() {
        fn check(history: RegistrationHistory, holder: Option<RegistryEntry>, expected: NameClaim) {
            let claimant = NameClaimant {
                address: "here:1",
                lease: MINE,
                history,
            };
            assert_eq!(
                claim_name(holder.as_ref(), claimant),
                expected,
                "{history:?} {holder:?}"
            );
        }
        let inherited = || NameClaim::Inherited {
            revision: 5,
            from: OTHER,
        };
        let there = || NameClaim::Refused(RegistrationConflict::OtherAddress("there:1".into()));
        let same_address = || NameClaim::Refused(RegistrationConflict::SameAddress);
        let never = RegistrationHistory::NeverRegistered;
        let registered = |ended_lease| RegistrationHistory::Registered { ended_lease };
        for history in [never, registered(None)] {
            check(history, None, NameClaim::Free { revision: 0 });
            check(history, at("here:1", MINE), NameClaim::Held);
            check(history, at("there:1", OTHER), there());
            check(history, at("there:1", 0), NameClaim::Free { revision: 5 });
            check(history, at("here:1", 0), NameClaim::Free { revision: 5 });
            check(history, entry(b"?".to_vec(), 0), NameClaim::Free { revision: 5 });
            let unreadable = NameClaim::Refused(RegistrationConflict::Unreadable);
            check(history, entry(b"?".to_vec(), OTHER), unreadable);
        }
        check(never, at("here:1", OTHER), inherited());
        check(registered(None), at("here:1", OTHER), same_address());
        check(registered(Some(OTHER)), at("here:1", OTHER), inherited());
        check(registered(Some(3)), at("here:1", OTHER), same_address());
        check(registered(Some(OTHER)), at("there:1", OTHER), there());
    }

    #[test]
    fn the_leader_key_belongs_to_one_lease() {
        fn check(leader: Option<RegistryEntry>, expected: LeaderKey) {
            assert_eq!(inspect_leader_key(leader.as_ref(), MINE), expected, "{leader:?}");
        }
        check(None, LeaderKey::Free { revision: 0 });
        check(entry(b"me".to_vec(), MINE), LeaderKey::Ours);
        check(entry(b"me".to_vec(), OTHER), LeaderKey::Others);
        check(entry(b"you".to_vec(), OTHER), LeaderKey::Others);
        check(entry(b"you".to_vec(), 0), LeaderKey::Free { revision: 5 });
    }
}
