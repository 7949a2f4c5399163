//! How nodes found a cluster together.

use super::*;

#[test]
fn founders_promise_when_all_propose_the_same_and_found_when_all_have_promised() {
    for mode in [members(), discover(Some(3))] {
        let list = match mode {
            BootstrapMode::Members(_) => all_three(),
            _ => vec![
                NamedPeer::new("", A),
                NamedPeer::new("", B),
                NamedPeer::new("", C),
            ],
        };
        let new = DecisionCase::of(mode.clone());
        let promised = DecisionCase::of(mode).with_state(founding(FoundingStage::Promised));
        let a = |stage| proposing("a", list.clone(), stage);
        let b = |stage| proposing("b", list.clone(), stage);
        let with = |case: &DecisionCase, a: PeerObservation, b: PeerObservation| {
            case.clone().observing(A, a).observing(B, b)
        };
        let yes = Some(FoundingStage::Promised);

        for (a_stage, b_stage) in [(None, None), (yes, None), (yes, yes)] {
            assert_eq!(
                with(&new, a(a_stage), b(b_stage)).decide(),
                BootstrapDecision::Promise(initial_cluster(all_three()))
            );
        }
        with(&new, a(None), unreachable()).waits_for("10.0.0.2:2380 (refused)");
        with(&new, a(None), proposing("b", Vec::new(), None))
            .waits_for("proposes to found a cluster with no founders yet");

        with(&promised, a(None), b(yes)).waits_for("waiting until all of them have promised");
        with(&promised, a(yes), unreachable()).waits_for("10.0.0.2:2380 (refused)");
        with(&promised, a(yes), unreachable())
            .waits_for("start them with new data folders, without that one");
        for b_stage in [yes, Some(FoundingStage::Decided)] {
            assert_eq!(
                with(&promised, a(yes), b(b_stage)).decide(),
                BootstrapDecision::Found(initial_cluster(all_three()))
            );
        }
    }
}

#[test]
fn a_node_founds_only_when_all_that_still_propose_have_seen_its_promise() {
    let yes = Some(FoundingStage::Promised);
    let promised = DecisionCase::of(members()).with_state(founding(FoundingStage::Promised));
    assert_eq!(promised.own_proposal().promises_seen, [""; 0]);
    let has_not_seen_ours = PeerObservation::Proposing(FoundingProposal {
        promises_seen: vec![B.to_string()],
        ..proposal("a", initial_cluster(all_three()), yes)
    });
    let observing = promised
        .clone()
        .observing(A, has_not_seen_ours)
        .observing(B, proposing("b", all_three(), yes));
    observing.waits_for("have seen each other's promise");
    assert_eq!(observing.own_proposal().promises_seen, [A, B]);
    // A node that promised and no longer answers may have founded already: this node does not wait for it.
    let gone = || PeerObservation::PromisedEarlier(proposal("a", initial_cluster(all_three()), yes));
    let two = promised
        .clone()
        .observing(A, gone())
        .observing(B, proposing("b", all_three(), yes));
    assert_eq!(
        two.decide(),
        BootstrapDecision::Found(initial_cluster(all_three()))
    );
    assert_eq!(two.own_proposal().promises_seen, [A, B]);
    promised
        .observing(A, gone())
        .observing(B, unreachable())
        .waits_for("10.0.0.2:2380 (refused)");
    // Such a promise also binds nodes that have not promised yet.
    let new = DecisionCase::of(discover(Some(3)))
        .observing(A, gone())
        .observing(B, proposing("b", all_three(), None));
    assert_eq!(
        new.decide(),
        BootstrapDecision::Promise(initial_cluster(all_three()))
    );
}

#[test]
fn a_promise_is_kept_whatever_dns_says_later() {
    // The DNS name now also resolves to a fourth node.
    let changed = |case: DecisionCase| DecisionCase {
        founders: Ok(unnamed(&[A, B, D])),
        ..case
    };
    let promised = changed(DecisionCase::of(discover(Some(3))).with_state(founding(FoundingStage::Promised)));
    assert_eq!(promised.own_proposal().cluster.founders, all_three());
    assert_eq!(promised.own_proposal().stage, Some(FoundingStage::Promised));
    let all = promised
        .clone()
        .observing(A, proposing("a", all_three(), Some(FoundingStage::Promised)))
        .observing(B, proposing("b", all_three(), Some(FoundingStage::Promised)))
        .observing(D, proposing("d", unnamed(&[A, B, D]), None));
    assert_eq!(
        all.decide(),
        BootstrapDecision::Found(initial_cluster(all_three()))
    );
    // A running cluster that has none of the founders as a member.
    promised
        .observing(D, running(&[served(9, "d", D)]))
        .waits_for("this node promised to found");
}

#[test]
fn the_promise_of_another_founder_takes_precedence_over_own_dns_results() {
    let fresh = DecisionCase {
        founders: Ok(unnamed(&[B, C, D])),
        ..DecisionCase::of(discover(Some(3)))
    };
    assert_eq!(fresh.own_proposal().cluster.founders, unnamed(&[B, C, D]));
    let observing = fresh
        .clone()
        .observing(A, proposing("a", all_three(), Some(FoundingStage::Promised)))
        .observing(B, proposing("b", all_three(), None));
    assert_eq!(observing.own_proposal().cluster.founders, all_three());
    assert_eq!(observing.own_proposal().stage, None);
    assert_eq!(
        observing.decide(),
        BootstrapDecision::Promise(initial_cluster(all_three()))
    );
    // A promise that does not include this node does not bind it.
    let others = vec![
        NamedPeer::new("a", A),
        NamedPeer::new("b", B),
        NamedPeer::new("d", D),
    ];
    let without = fresh.observing(A, proposing("a", others, Some(FoundingStage::Promised)));
    assert_eq!(without.own_proposal().cluster.founders, unnamed(&[B, C, D]));
}

#[test]
fn founders_that_disagree_are_shown_both_lists() {
    let other = vec![
        NamedPeer::new("a", A),
        NamedPeer::new("x", B),
        NamedPeer::new("c", C),
    ];
    DecisionCase::of(members())
        .observing(A, proposing("a", all_three(), None))
        .observing(B, proposing("x", other, None))
        .waits_for(
            "10.0.0.2:2380 proposes to found a cluster with a=10.0.0.1:2380,x=10.0.0.2:2380,c=10.0.0.3:2380, \
             this node with a=",
        );
}

#[test]
fn two_founders_with_one_name_are_refused() {
    let case = DecisionCase::of(discover(Some(3)))
        .observing(A, proposing("a", unnamed(&[A, B, C]), None))
        .observing(B, proposing("a", unnamed(&[A, B, C]), None));
    let refusal = BootstrapRefusal::SameName {
        name: "a".into(),
        one: A.into(),
        other: B.into(),
    };
    assert_eq!(case.decide(), BootstrapDecision::Refuse(refusal));
}

#[test]
fn founders_promise_only_a_cluster_whose_token_all_of_them_know() {
    let proposing_with = |name: &str, token: &str, stage| {
        let cluster = InitialCluster {
            token: token.into(),
            ..initial_cluster(all_three())
        };
        PeerObservation::Proposing(proposal(name, cluster, stage))
    };
    let observing =
        |a: PeerObservation, b: PeerObservation| DecisionCase::of(members()).observing(A, a).observing(B, b);
    let wait = "waiting until all of them know the cluster's token";
    // This node takes the token from the first founder; the second does not know it yet.
    let behind = observing(proposing_with("a", "t", None), proposing_with("b", "", None));
    behind.waits_for(wait);
    assert_eq!(behind.own_proposal().cluster, initial_cluster(all_three()));
    observing(proposing_with("a", "", None), proposing_with("b", "", None)).waits_for(wait);
    // The first founder was restarted, with another token, after the second had promised. The promise binds.
    let restarted = observing(
        proposing_with("a", "u", None),
        proposing_with("b", "t", Some(FoundingStage::Promised)),
    );
    restarted.waits_for(wait);
    assert_eq!(restarted.own_proposal().cluster, initial_cluster(all_three()));
    let promised = restarted.with_state(founding(FoundingStage::Promised));
    promised.waits_for(wait);
    // If this node is the first founder, it creates the token.
    let first = DecisionCase {
        founders: Ok(unnamed(&[C, D])),
        ..DecisionCase::of(discover(Some(2)))
    };
    assert_eq!(first.own_proposal().cluster.token, "own");
}
