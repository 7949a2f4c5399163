//! Every situation that a node can find itself in before its etcd runs.

mod founding;

use super::super::notes::{Founding, Served};
use super::*;

const A: &str = "10.0.0.1:2380";
const B: &str = "10.0.0.2:2380";
const C: &str = "10.0.0.3:2380";
const D: &str = "10.0.0.4:2380";

/// This node is always `c`.
#[derive(Clone)]
struct Case {
    start: Start,
    disk: OnDisk,
    proposal: Result<Vec<Founder>, Waiting>,
    answers: Vec<(String, Answer)>,
}

impl Case {
    fn of(start: Start) -> Case {
        let proposal = match &start {
            Start::Members(members) => Ok(members
                .iter()
                .map(|(name, peer)| Founder::new(name, peer))
                .collect()),
            Start::Discover { expect: Some(_), .. } => Ok(unnamed(&[A, B, C])),
            _ => Ok(Vec::new()),
        };
        Case {
            start,
            disk: OnDisk::default(),
            proposal,
            answers: Vec::new(),
        }
    }

    fn heard(mut self, at: &str, answer: Answer) -> Case {
        self.answers.push((at.to_string(), answer));
        self
    }

    fn on_disk(mut self, disk: OnDisk) -> Case {
        self.disk = disk;
        self
    }

    fn situation<'a>(&'a self, me: &'a Founder) -> Situation<'a> {
        Situation {
            me,
            start: &self.start,
            disk: &self.disk,
            proposal: &self.proposal,
            token: "own",
            answers: &self.answers,
        }
    }

    fn plan(&self) -> Plan {
        plan(self.situation(&Founder::new("c", C)))
    }

    fn shown(&self) -> Proposal {
        shown(self.situation(&Founder::new("c", C)))
    }

    #[track_caller]
    fn waits(&self, words: &str) {
        match self.plan() {
            Plan::Wait(waiting) => assert!(waiting.to_string().contains(words), "{waiting}"),
            other => panic!("{other:?}"),
        }
    }
}

fn unnamed(peers: &[&str]) -> Vec<Founder> {
    peers
        .iter()
        .map(|peer| Founder::new(if *peer == C { "c" } else { "" }, peer))
        .collect()
}

fn all_three() -> Vec<Founder> {
    vec![Founder::new("a", A), Founder::new("b", B), Founder::new("c", C)]
}

fn members() -> Start {
    let pairs = all_three()
        .into_iter()
        .map(|founder| (founder.name, founder.peer));
    Start::Members(pairs.collect())
}

fn discover(expect: Option<u32>) -> Start {
    let name = "judicators".to_string();
    Start::Discover { name, expect }
}

fn join() -> Start {
    Start::Join(vec!["10.0.0.1:2379".into()])
}

fn silent() -> Answer {
    Answer::Silent("refused".into())
}

/// With a stage, it has heard this node too.
fn proposes(name: &str, founders: Vec<Founder>, stage: Option<Stage>) -> Answer {
    Answer::Proposes(proposal(name, charter(founders), stage))
}

fn proposal(name: &str, charter: Charter, stage: Option<Stage>) -> Proposal {
    Proposal {
        name: name.into(),
        charter,
        stage,
        heard: stage.map(|_| C.to_string()).into_iter().collect(),
    }
}

/// As `a` tells it.
fn charter(founders: Vec<Founder>) -> Charter {
    let token = "t".into();
    Charter { founders, token }
}

fn listed(id: u64, name: &str, peer: &str) -> Listed {
    Listed {
        id,
        name: name.into(),
        peer: peer.into(),
        client: None,
        learner: false,
    }
}

/// A member that has served.
fn served(id: u64, name: &str, peer: &str) -> Listed {
    Listed {
        client: Some(peer.replace("2380", "2379")),
        ..listed(id, name, peer)
    }
}

fn runs(members: &[Listed]) -> Answer {
    Answer::Runs(Running {
        cluster: 7,
        members: members.to_vec(),
    })
}

fn belonged_to(cluster: u64) -> OnDisk {
    OnDisk {
        served: Some(Served {
            cluster,
            member: None,
        }),
        ..OnDisk::default()
    }
}

fn founding(stage: Stage) -> OnDisk {
    OnDisk {
        founding: Some(Founding {
            charter: charter(all_three()),
            stage,
        }),
        ..OnDisk::default()
    }
}

fn clients(of: &[&str]) -> Plan {
    Plan::Join(of.iter().map(|peer| peer.replace("2380", "2379")).collect())
}

fn every_start() -> Vec<Start> {
    vec![
        Start::Unsaid,
        Start::First,
        members(),
        discover(Some(3)),
        discover(None),
        join(),
    ]
}

#[test]
fn with_data_it_runs_whatever_was_said() {
    for start in every_start() {
        let data = OnDisk {
            data: true,
            ..belonged_to(7)
        };
        let case = Case::of(start).on_disk(data);
        assert_eq!(case.plan(), Plan::Run);
        let others = runs(&[served(1, "a", A)]);
        assert_eq!(case.clone().heard(A, others).plan(), Plan::Run);
        assert_eq!(case.heard(A, silent()).plan(), Plan::Run);
    }
}

#[test]
fn who_left_does_not_start_again() {
    for start in every_start() {
        for data in [true, false] {
            let left = OnDisk {
                left: true,
                data,
                ..belonged_to(7)
            };
            assert_eq!(
                Case::of(start.clone()).on_disk(left).plan(),
                Plan::Refuse(Refusal::Left)
            );
        }
    }
}

#[test]
fn another_cluster_is_refused_with_and_without_data() {
    for start in [members(), discover(Some(3)), discover(None), join()] {
        for data in [true, false] {
            let disk = OnDisk {
                data,
                ..belonged_to(8)
            };
            let case = Case::of(start.clone())
                .on_disk(disk)
                .heard(A, runs(&[served(1, "a", A)]));
            assert_eq!(
                case.plan(),
                Plan::Refuse(Refusal::AnotherCluster { ours: 8, theirs: 7 })
            );
        }
    }
}

#[test]
fn one_who_lost_its_data_never_founds() {
    for start in [Start::Unsaid, Start::First] {
        let case = Case::of(start).on_disk(belonged_to(7));
        assert_eq!(case.plan(), Plan::Refuse(Refusal::DataGone { cluster: 7 }));
    }
    for start in [members(), discover(Some(3)), discover(None), join()] {
        let case = Case::of(start).on_disk(belonged_to(7));
        case.clone()
            .heard(A, silent())
            .waits("comes back as a new member");
        // Not even when all the others are about to found, or have kept a place.
        let founders = case
            .clone()
            .heard(A, proposes("a", all_three(), Some(Stage::Promised)))
            .heard(B, proposes("b", all_three(), Some(Stage::Promised)));
        founders.waits("comes back as a new member");
        let place_kept = runs(&[served(1, "a", A), served(2, "b", B), listed(3, "c", C)]);
        assert_eq!(case.heard(A, place_kept).plan(), clients(&[A, B]));
    }
}

#[test]
fn without_data_and_others_it_depends_on_what_was_said() {
    assert_eq!(Case::of(Start::Unsaid).plan(), Plan::Refuse(Refusal::Unsaid));
    let alone = Charter {
        founders: vec![Founder::new("c", C)],
        token: "own".into(),
    };
    assert_eq!(Case::of(Start::First).plan(), Plan::FoundWith(alone.clone()));
    assert_eq!(
        Case::of(Start::Members(vec![("c".into(), C.into())])).plan(),
        Plan::FoundWith(alone)
    );
    Case::of(join())
        .heard("10.0.0.1:2379", silent())
        .waits("10.0.0.1:2379 (refused)");
    Case::of(discover(None)).waits("no other node is known yet");
    for start in [discover(None), discover(Some(3))] {
        let unresolved = Case {
            proposal: Err(Waiting::Unresolved {
                name: "judicators".into(),
                why: "unknown".into(),
            }),
            ..Case::of(start)
        };
        unresolved.waits("the DNS name judicators does not resolve");
    }
}

#[test]
fn what_is_decided_is_done_after_a_crash_also_alone() {
    for start in [members(), discover(Some(3)), Start::Unsaid] {
        let case = Case::of(start).on_disk(founding(Stage::Decided));
        assert_eq!(case.plan(), Plan::FoundWith(charter(all_three())));
        let gone = case.heard(A, silent()).heard(B, silent());
        assert_eq!(gone.plan(), Plan::FoundWith(charter(all_three())));
    }
}

#[test]
fn a_founder_that_runs_has_decided_for_all_and_its_free_place_is_taken() {
    for start in [members(), discover(Some(3))] {
        let forming = runs(&[listed(1, "a", A), listed(2, "b", B), listed(3, "c", C)]);
        let case = Case::of(start);
        let promised = case.clone().on_disk(founding(Stage::Promised));
        let heard = promised.clone().heard(A, forming.clone()).heard(B, silent());
        assert_eq!(heard.plan(), Plan::FoundWith(charter(all_three())));
        // One that lost its promise knows the token no more.
        case.clone().heard(A, forming).waits("is forming");
        // The others serve already, as two of three.
        let serving = runs(&[served(1, "a", A), served(2, "b", B), listed(3, "c", C)]);
        let heard = promised.heard(A, serving.clone());
        assert_eq!(heard.plan(), Plan::FoundWith(charter(all_three())));
        assert_eq!(case.clone().heard(A, serving).plan(), clients(&[A, B]));
        // It has served before: whoever has no data now is another.
        let was_there = runs(&[served(1, "a", A), served(2, "b", B), served(3, "c", C)]);
        assert_eq!(case.clone().heard(A, was_there).plan(), clients(&[A, B]));
        // Added as a learner, and never started.
        let learner = Listed {
            learner: true,
            ..listed(3, "", C)
        };
        let added = runs(&[served(1, "a", A), served(2, "b", B), learner]);
        assert_eq!(case.clone().heard(A, added).plan(), clients(&[A, B]));
        // No place for it yet, and nobody to ask for one.
        let without = runs(&[listed(1, "a", A), listed(2, "b", B)]);
        case.heard(A, without).waits("is forming");
    }
}

#[test]
fn a_cluster_that_lives_is_joined() {
    let cluster = runs(&[served(1, "a", A), served(2, "b", B)]);
    for start in [members(), discover(Some(3)), discover(None), join()] {
        let case = Case::of(start).heard(A, cluster.clone()).heard(B, silent());
        assert_eq!(case.plan(), clients(&[A, B]));
    }
    // One who was told to join does not take a founder's place: it is removed and made anew.
    let place = runs(&[served(1, "a", A), listed(3, "c", C)]);
    assert_eq!(Case::of(join()).heard(A, place).plan(), clients(&[A]));
    let other = Answer::Runs(Running {
        cluster: 8,
        members: vec![served(4, "d", D)],
    });
    let two = Case::of(join()).heard(A, cluster).heard(D, other);
    assert_eq!(two.plan(), Plan::Refuse(Refusal::TwoClusters));
}

#[test]
fn those_who_are_not_among_the_founders_wait_for_them() {
    let late = Case {
        proposal: Ok(unnamed(&[A, B, D])),
        ..Case::of(discover(Some(3)))
    };
    late.waits("this node joins when they serve");
}
