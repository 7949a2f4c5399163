//! How nodes come to found a cluster together.

use super::*;

#[test]
fn founders_promise_when_all_propose_the_same_and_found_when_all_have_promised() {
    for start in [members(), discover(Some(3))] {
        let list = match start {
            Start::Members(_) => all_three(),
            _ => vec![Founder::new("", A), Founder::new("", B), Founder::new("", C)],
        };
        let new = Case::of(start.clone());
        let promised = Case::of(start).on_disk(founding(Stage::Promised));
        let a = |stage| proposes("a", list.clone(), stage);
        let b = |stage| proposes("b", list.clone(), stage);
        let with = |case: &Case, a: Answer, b: Answer| case.clone().heard(A, a).heard(B, b);
        let yes = Some(Stage::Promised);

        assert_eq!(
            with(&new, a(None), b(None)).plan(),
            Plan::Promise(charter(all_three()))
        );
        assert_eq!(
            with(&new, a(yes), b(None)).plan(),
            Plan::Promise(charter(all_three()))
        );
        assert_eq!(
            with(&new, a(yes), b(yes)).plan(),
            Plan::Promise(charter(all_three()))
        );
        with(&new, a(None), silent()).waits("10.0.0.2:2380 (refused)");
        with(&new, a(None), proposes("b", Vec::new(), None)).waits("would found with nobody yet");

        with(&promised, a(None), b(yes)).waits("waiting until all have promised");
        with(&promised, a(yes), silent()).waits("10.0.0.2:2380 (refused)");
        with(&promised, a(yes), silent()).waits("start them with new data folders, and without that one");
        assert_eq!(
            with(&promised, a(yes), b(yes)).plan(),
            Plan::FoundWith(charter(all_three()))
        );
        assert_eq!(
            with(&promised, a(yes), b(Some(Stage::Decided))).plan(),
            Plan::FoundWith(charter(all_three()))
        );
    }
}

#[test]
fn nobody_founds_before_those_who_still_propose_have_heard_its_promise() {
    let yes = Some(Stage::Promised);
    let promised = Case::of(members()).on_disk(founding(Stage::Promised));
    assert_eq!(promised.shown().heard, [""; 0]);
    let deaf = Answer::Proposes(Proposal {
        heard: vec![B.to_string()],
        ..proposal("a", charter(all_three()), yes)
    });
    let heard = promised
        .clone()
        .heard(A, deaf)
        .heard(B, proposes("b", all_three(), yes));
    heard.waits("have heard each other");
    assert_eq!(heard.shown().heard, [A, B]);
    // One that promised and fell silent may have founded: it is not waited for.
    let gone = || Answer::Promised(proposal("a", charter(all_three()), yes));
    let two = promised
        .clone()
        .heard(A, gone())
        .heard(B, proposes("b", all_three(), yes));
    assert_eq!(two.plan(), Plan::FoundWith(charter(all_three())));
    assert_eq!(two.shown().heard, [A, B]);
    promised
        .heard(A, gone())
        .heard(B, silent())
        .waits("10.0.0.2:2380 (refused)");
    // It binds those who have not promised yet, too.
    let new = Case::of(discover(Some(3)))
        .heard(A, gone())
        .heard(B, proposes("b", all_three(), None));
    assert_eq!(new.plan(), Plan::Promise(charter(all_three())));
}

#[test]
fn a_promise_is_kept_whatever_dns_says_later() {
    // A fourth node appeared that sorts before this one.
    let moved = |case: Case| Case {
        proposal: Ok(unnamed(&[A, B, D])),
        ..case
    };
    let promised = moved(Case::of(discover(Some(3))).on_disk(founding(Stage::Promised)));
    assert_eq!(promised.shown().charter.founders, all_three());
    assert_eq!(promised.shown().stage, Some(Stage::Promised));
    let all = promised
        .clone()
        .heard(A, proposes("a", all_three(), Some(Stage::Promised)))
        .heard(B, proposes("b", all_three(), Some(Stage::Promised)))
        .heard(D, proposes("d", unnamed(&[A, B, D]), None));
    assert_eq!(all.plan(), Plan::FoundWith(charter(all_three())));
    // A cluster in which neither this node nor those it promised to have part.
    promised
        .heard(D, runs(&[served(9, "d", D)]))
        .waits("this node promised to found");
}

#[test]
fn what_another_has_promised_goes_before_what_is_seen_here() {
    let fresh = Case {
        proposal: Ok(unnamed(&[B, C, D])),
        ..Case::of(discover(Some(3)))
    };
    assert_eq!(fresh.shown().charter.founders, unnamed(&[B, C, D]));
    let heard = fresh
        .clone()
        .heard(A, proposes("a", all_three(), Some(Stage::Promised)))
        .heard(B, proposes("b", all_three(), None));
    assert_eq!(heard.shown().charter.founders, all_three());
    assert_eq!(heard.shown().stage, None);
    assert_eq!(heard.plan(), Plan::Promise(charter(all_three())));
    // A promise in which this node has no part is none of its business.
    let others = vec![Founder::new("a", A), Founder::new("b", B), Founder::new("d", D)];
    let without = fresh.heard(A, proposes("a", others, Some(Stage::Promised)));
    assert_eq!(without.shown().charter.founders, unnamed(&[B, C, D]));
}

#[test]
fn lists_that_differ_are_shown_side_by_side() {
    let other = vec![Founder::new("a", A), Founder::new("x", B), Founder::new("c", C)];
    Case::of(members())
        .heard(A, proposes("a", all_three(), None))
        .heard(B, proposes("x", other, None))
        .waits("10.0.0.2:2380 would found with a=10.0.0.1:2380,x=10.0.0.2:2380,c=10.0.0.3:2380, this node with a=");
}

#[test]
fn two_nodes_of_one_name_are_refused() {
    let case = Case::of(discover(Some(3)))
        .heard(A, proposes("a", unnamed(&[A, B, C]), None))
        .heard(B, proposes("a", unnamed(&[A, B, C]), None));
    let refusal = Refusal::SameName {
        name: "a".into(),
        one: A.into(),
        other: B.into(),
    };
    assert_eq!(case.plan(), Plan::Refuse(refusal));
}

#[test]
fn founders_promise_only_what_all_know_the_token_of() {
    let proposes_as = |name: &str, token: &str, stage| {
        let charter = Charter {
            token: token.into(),
            ..charter(all_three())
        };
        Answer::Proposes(proposal(name, charter, stage))
    };
    let heard = |a: Answer, b: Answer| Case::of(members()).heard(A, a).heard(B, b);
    let wait = "waiting until all know the cluster's token";
    // This node takes it from the first, and the second is behind.
    let behind = heard(proposes_as("a", "t", None), proposes_as("b", "", None));
    behind.waits(wait);
    assert_eq!(behind.shown().charter, charter(all_three()));
    heard(proposes_as("a", "", None), proposes_as("b", "", None)).waits(wait);
    // The first was started anew, with another token, after the second had promised: that binds.
    let again = heard(
        proposes_as("a", "u", None),
        proposes_as("b", "t", Some(Stage::Promised)),
    );
    again.waits(wait);
    assert_eq!(again.shown().charter, charter(all_three()));
    let promised = again.on_disk(founding(Stage::Promised));
    promised.waits(wait);
    // Where this node is the first, the token is its own.
    let first = Case {
        proposal: Ok(unnamed(&[C, D])),
        ..Case::of(discover(Some(2)))
    };
    assert_eq!(first.shown().charter.token, "own");
}
