//! The next step on the way into a running cluster.

use super::{BootstrapRefusal, ListedMember, NamedPeer};

/// Whether a member of the etcd cluster that this node joins answers. A member with this node's name or address that
/// does not answer is left from before the node lost its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    Answering,
    NotAnswering,
}

/// What a node without data does next to join a running etcd cluster: remove its former member, add itself, or give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JoinStep {
    /// Remove this member: it is the one that the node had before it lost its data.
    Remove(u64),
    /// Add the node as a new member.
    Add,
    Refuse(BootstrapRefusal),
}

/// A node without data is never one of the listed members, even if it has the same name or address as one.
pub(crate) fn next_join_step(own: &NamedPeer, members: &[(ListedMember, Liveness)]) -> JoinStep {
    let mut stale = None;
    for (member, liveness) in members {
        let at_our_address = member.peer == own.peer;
        match liveness {
            _ if !at_our_address && member.name != own.name => {}
            Liveness::NotAnswering => stale = Some(member.id),
            Liveness::Answering if at_our_address => {
                return JoinStep::Refuse(BootstrapRefusal::AddressTaken {
                    name: member.name.clone(),
                    peer: member.peer.clone(),
                });
            }
            Liveness::Answering => {
                return JoinStep::Refuse(BootstrapRefusal::NameTaken {
                    name: member.name.clone(),
                    peer: member.peer.clone(),
                });
            }
        }
    }
    match stale {
        Some(id) => JoinStep::Remove(id),
        None => JoinStep::Add,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_members_are_removed_first_and_live_ones_are_never_removed() {
        use Liveness::{Answering, NotAnswering};
        let member = |id: u64, name: &str, peer: &str, liveness| {
            let listed = ListedMember {
                id,
                name: name.to_string(),
                peer: peer.to_string(),
                client: None,
                learner: false,
            };
            (listed, liveness)
        };
        let check = |members: &[(ListedMember, Liveness)], step: JoinStep| {
            assert_eq!(
                next_join_step(&NamedPeer::new("c", "10.0.0.3:2380"), members),
                step
            );
        };
        let a = || member(1, "a", "10.0.0.1:2380", Answering);
        check(&[a()], JoinStep::Add);
        check(
            &[a(), member(2, "b", "10.0.0.2:2380", NotAnswering)],
            JoinStep::Add,
        );
        // The same name, the same address, both, or an address without a name: added once and never started.
        for (name, peer) in [
            ("c", "10.0.0.9:2380"),
            ("x", "10.0.0.3:2380"),
            ("c", "10.0.0.3:2380"),
            ("", "10.0.0.3:2380"),
        ] {
            check(&[a(), member(3, name, peer, NotAnswering)], JoinStep::Remove(3));
        }
        check(
            &[member(3, "c", "10.0.0.9:2380", Answering)],
            JoinStep::Refuse(BootstrapRefusal::NameTaken {
                name: "c".into(),
                peer: "10.0.0.9:2380".into(),
            }),
        );
        // Nothing is removed if a live member prevents the join anyway.
        check(
            &[
                member(4, "c", "10.0.0.8:2380", NotAnswering),
                member(3, "x", "10.0.0.3:2380", Answering),
            ],
            JoinStep::Refuse(BootstrapRefusal::AddressTaken {
                name: "x".into(),
                peer: "10.0.0.3:2380".into(),
            }),
        );
    }
}
