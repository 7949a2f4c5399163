//! What one may take: the key of one's own name, and the lead.

use super::record::Record;
use super::roster::Entry;

/// Who wants it.
#[derive(Clone, Copy)]
pub(super) struct Claimant<'a> {
    pub(super) address: &'a str,
    pub(super) lease: i64,
    pub(super) life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// This process has not been registered yet.
    New,
    /// It was registered; maybe its lease was said to have ended, and it is not registered again yet.
    Known { before: Option<i64> },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Held,
    /// May be taken if its revision is still this one; 0 is that of a key that is not there.
    Open {
        revision: i64,
    },
    /// The same, and what goes with it under this lease: it is our own from an earlier life.
    Inherited {
        revision: i64,
        from: i64,
    },
    Refused(Rival),
}

/// Somebody alive who has the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    At(String),
    /// At our own address, where we are.
    Double,
    /// It says nothing that we understand.
    Stranger,
}

/// Who keeps the key of a name alive has it. A process that was killed and started again finds its own key, alive for
/// the rest of its lease: it knows it by the address, since the port is now its own. But that can only be so at first:
/// one that had the key and finds it with a lease that it never had has a double, and the two must not take it from each
/// other in turns.
pub(super) fn claim(holder: Option<&Entry>, me: Claimant<'_>) -> Claim {
    let Some(holder) = holder else {
        return Claim::Open { revision: 0 };
    };
    let revision = holder.revision;
    if holder.lease == me.lease {
        return Claim::Held;
    }
    // Nobody keeps it alive: somebody put it there by hand.
    if holder.lease == 0 {
        return Claim::Open { revision };
    }
    match Record::read(&holder.value) {
        Ok(record) if record.address != me.address => Claim::Refused(Rival::At(record.address)),
        Ok(_) if me.life.had(holder.lease) => Claim::Inherited {
            revision,
            from: holder.lease,
        },
        Ok(_) => Claim::Refused(Rival::Double),
        Err(_) => Claim::Refused(Rival::Stranger),
    }
}

impl Life {
    /// Whether a lease that has our name and our address can be our own.
    fn had(self, lease: i64) -> bool {
        match self {
            Life::New => true,
            // A leader of etcd that lags behind may call a lease ended that is not.
            Life::Known { before } => before == Some(lease),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lead {
    Ours,
    /// May be taken if its revision is still this one; 0 is that of a key that is not there.
    Open {
        revision: i64,
    },
    Others,
}

/// Not the name in the leader's key decides but the lease, which is ours alone.
pub(super) fn lead(leader: Option<&Entry>, lease: i64) -> Lead {
    match leader {
        None => Lead::Open { revision: 0 },
        Some(leader) if leader.lease == lease => Lead::Ours,
        Some(leader) if leader.lease == 0 => Lead::Open {
            revision: leader.revision,
        },
        Some(_) => Lead::Others,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const MINE: i64 = 1;
    const OTHER: i64 = 2;

    fn at(address: &str, lease: i64) -> Option<Entry> {
        let record = Record::new(address.into(), "1".into(), SystemTime::UNIX_EPOCH);
        entry(record.write().unwrap(), lease)
    }

    fn entry(value: Vec<u8>, lease: i64) -> Option<Entry> {
        Some(Entry {
            key: "/conclave/judicators/me".into(),
            value,
            lease,
            revision: 5,
        })
    }

    #[test]
    fn a_name_is_for_one() {
        fn check(life: Life, holder: Option<Entry>, expected: Claim) {
            let me = Claimant {
                address: "here:1",
                lease: MINE,
                life,
            };
            assert_eq!(claim(holder.as_ref(), me), expected, "{life:?} {holder:?}");
        }
        let inherited = || Claim::Inherited {
            revision: 5,
            from: OTHER,
        };
        let there = || Claim::Refused(Rival::At("there:1".into()));
        let known = Life::Known { before: None };
        for life in [Life::New, known] {
            check(life, None, Claim::Open { revision: 0 });
            check(life, at("here:1", MINE), Claim::Held);
            check(life, at("there:1", OTHER), there());
            check(life, at("there:1", 0), Claim::Open { revision: 5 });
            check(life, at("here:1", 0), Claim::Open { revision: 5 });
            check(life, entry(b"?".to_vec(), 0), Claim::Open { revision: 5 });
            check(life, entry(b"?".to_vec(), OTHER), Claim::Refused(Rival::Stranger));
        }
        check(Life::New, at("here:1", OTHER), inherited());
        check(known, at("here:1", OTHER), Claim::Refused(Rival::Double));
        let before = |lease| Life::Known { before: Some(lease) };
        check(before(OTHER), at("here:1", OTHER), inherited());
        check(before(3), at("here:1", OTHER), Claim::Refused(Rival::Double));
        check(before(OTHER), at("there:1", OTHER), there());
    }

    #[test]
    fn the_lead_is_for_one() {
        fn check(leader: Option<Entry>, expected: Lead) {
            assert_eq!(lead(leader.as_ref(), MINE), expected, "{leader:?}");
        }
        check(None, Lead::Open { revision: 0 });
        check(entry(b"me".to_vec(), MINE), Lead::Ours);
        check(entry(b"me".to_vec(), OTHER), Lead::Others);
        check(entry(b"you".to_vec(), OTHER), Lead::Others);
        check(entry(b"you".to_vec(), 0), Lead::Open { revision: 5 });
    }
}
