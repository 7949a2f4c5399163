//! The way into a living cluster, a step at a time.

use super::{Founder, Listed, Refusal};

/// Whether a member answers clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Alive,
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Joining {
    /// This member is what is left of an earlier life.
    Remove(u64),
    Add,
    Refuse(Refusal),
}

/// A node without data is none of the members, whatever they are called.
pub(crate) fn next_step(me: &Founder, members: &[(Listed, Standing)]) -> Joining {
    let mut remains = None;
    for (member, standing) in members {
        let at_our_address = member.peer == me.peer;
        match standing {
            _ if !at_our_address && member.name != me.name => {}
            Standing::Dead => remains = Some(member.id),
            Standing::Alive if at_our_address => {
                return Joining::Refuse(Refusal::AddressTaken {
                    name: member.name.clone(),
                    peer: member.peer.clone(),
                });
            }
            Standing::Alive => {
                return Joining::Refuse(Refusal::NameTaken {
                    name: member.name.clone(),
                    peer: member.peer.clone(),
                });
            }
        }
    }
    match remains {
        Some(id) => Joining::Remove(id),
        None => Joining::Add,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remains_go_first_and_the_living_are_respected() {
        let member = |id: u64, name: &str, peer: &str, standing| {
            let listed = Listed {
                id,
                name: name.to_string(),
                peer: peer.to_string(),
                client: None,
                learner: false,
            };
            (listed, standing)
        };
        let check = |members: &[(Listed, Standing)], step: Joining| {
            assert_eq!(next_step(&Founder::new("c", "10.0.0.3:2380"), members), step);
        };
        let a = || member(1, "a", "10.0.0.1:2380", Standing::Alive);
        use Standing::{Alive, Dead};
        check(&[a()], Joining::Add);
        check(&[a(), member(2, "b", "10.0.0.2:2380", Dead)], Joining::Add);
        // The same name, the same address, both, or an address without a name: added once and never started.
        check(&[a(), member(3, "c", "10.0.0.9:2380", Dead)], Joining::Remove(3));
        check(&[a(), member(3, "x", "10.0.0.3:2380", Dead)], Joining::Remove(3));
        check(&[a(), member(3, "c", "10.0.0.3:2380", Dead)], Joining::Remove(3));
        check(&[a(), member(3, "", "10.0.0.3:2380", Dead)], Joining::Remove(3));
        check(
            &[member(3, "c", "10.0.0.9:2380", Alive)],
            Joining::Refuse(Refusal::NameTaken {
                name: "c".into(),
                peer: "10.0.0.9:2380".into(),
            }),
        );
        // Nothing is removed where something else is in the way.
        check(
            &[
                member(4, "c", "10.0.0.8:2380", Dead),
                member(3, "x", "10.0.0.3:2380", Alive),
            ],
            Joining::Refuse(Refusal::AddressTaken {
                name: "x".into(),
                peer: "10.0.0.3:2380".into(),
            }),
        );
    }
}
