//! Every situation that a node can be in before its etcd runs.

mod founding;

use super::super::local_state::{ClusterMembership, FoundingRecord};
use super::*;

const A: &str = "10.0.0.1:2380";
const B: &str = "10.0.0.2:2380";
const C: &str = "10.0.0.3:2380";
const D: &str = "10.0.0.4:2380";

/// A test case of the decision how to start etcd: its inputs on the node `c`.
#[derive(Clone)]
struct DecisionCase {
    mode: BootstrapMode,
    state: EtcdLocalState,
    founders: Result<Vec<NamedPeer>, BootstrapWait>,
    peers: Vec<(String, PeerObservation)>,
}

impl DecisionCase {
    fn of(mode: BootstrapMode) -> DecisionCase {
        let founders = match &mode {
            BootstrapMode::Members(members) => Ok(members
                .iter()
                .map(|(name, peer)| NamedPeer::new(name, peer))
                .collect()),
            BootstrapMode::Discover { expect: Some(_), .. } => Ok(unnamed(&[A, B, C])),
            _ => Ok(Vec::new()),
        };
        DecisionCase {
            mode,
            state: EtcdLocalState::default(),
            founders,
            peers: Vec::new(),
        }
    }

    fn observing(mut self, at: &str, observation: PeerObservation) -> DecisionCase {
        self.peers.push((at.to_string(), observation));
        self
    }

    fn with_state(mut self, state: EtcdLocalState) -> DecisionCase {
        self.state = state;
        self
    }

    fn inputs<'a>(&'a self, own: &'a NamedPeer) -> BootstrapInputs<'a> {
        BootstrapInputs {
            own,
            mode: &self.mode,
            state: &self.state,
            founders: &self.founders,
            token: "own",
            peers: &self.peers,
        }
    }

    fn decide(&self) -> BootstrapDecision {
        decide(self.inputs(&NamedPeer::new("c", C)))
    }

    fn own_proposal(&self) -> FoundingProposal {
        own_proposal(self.inputs(&NamedPeer::new("c", C)))
    }

    #[track_caller]
    fn waits_for(&self, message: &str) {
        match self.decide() {
            BootstrapDecision::Wait(wait) => assert!(wait.to_string().contains(message), "{wait}"),
            other => panic!("{other:?}"),
        }
    }
}

fn unnamed(peers: &[&str]) -> Vec<NamedPeer> {
    peers
        .iter()
        .map(|peer| NamedPeer::new(if *peer == C { "c" } else { "" }, peer))
        .collect()
}

fn all_three() -> Vec<NamedPeer> {
    vec![
        NamedPeer::new("a", A),
        NamedPeer::new("b", B),
        NamedPeer::new("c", C),
    ]
}

fn members() -> BootstrapMode {
    let pairs = all_three()
        .into_iter()
        .map(|founder| (founder.name, founder.peer));
    BootstrapMode::Members(pairs.collect())
}

fn discover(expect: Option<u32>) -> BootstrapMode {
    let name = "judicators".to_string();
    BootstrapMode::Discover { name, expect }
}

fn join() -> BootstrapMode {
    BootstrapMode::Join(vec!["10.0.0.1:2379".into()])
}

fn unreachable() -> PeerObservation {
    PeerObservation::Unreachable("refused".into())
}

/// With a stage, the peer has also seen this node's promise.
fn proposing(name: &str, founders: Vec<NamedPeer>, stage: Option<FoundingStage>) -> PeerObservation {
    PeerObservation::Proposing(proposal(name, initial_cluster(founders), stage))
}

fn proposal(name: &str, cluster: InitialCluster, stage: Option<FoundingStage>) -> FoundingProposal {
    FoundingProposal {
        name: name.into(),
        cluster,
        stage,
        promises_seen: stage.map(|_| C.to_string()).into_iter().collect(),
    }
}

/// With the token that `a` created.
fn initial_cluster(founders: Vec<NamedPeer>) -> InitialCluster {
    let token = "t".into();
    InitialCluster { founders, token }
}

/// A member that has never served.
fn unstarted(id: u64, name: &str, peer: &str) -> ListedMember {
    ListedMember {
        id,
        name: name.into(),
        peer: peer.into(),
        client: None,
        learner: false,
    }
}

/// A member that has served.
fn served(id: u64, name: &str, peer: &str) -> ListedMember {
    ListedMember {
        client: Some(peer.replace("2380", "2379")),
        ..unstarted(id, name, peer)
    }
}

fn running(members: &[ListedMember]) -> PeerObservation {
    PeerObservation::Running(RunningCluster {
        cluster: 7,
        members: members.to_vec(),
    })
}

fn belongs_to(cluster: u64) -> EtcdLocalState {
    EtcdLocalState {
        membership: Some(ClusterMembership {
            cluster,
            member: None,
        }),
        ..EtcdLocalState::default()
    }
}

fn founding(stage: FoundingStage) -> EtcdLocalState {
    EtcdLocalState {
        founding: Some(FoundingRecord {
            cluster: initial_cluster(all_three()),
            stage,
        }),
        ..EtcdLocalState::default()
    }
}

fn join_through(peers: &[&str]) -> BootstrapDecision {
    BootstrapDecision::Join(peers.iter().map(|peer| peer.replace("2380", "2379")).collect())
}

fn all_modes() -> Vec<BootstrapMode> {
    vec![
        BootstrapMode::Unspecified,
        BootstrapMode::First,
        members(),
        discover(Some(3)),
        discover(None),
        join(),
    ]
}

#[test]
fn a_node_with_data_starts_in_every_mode() {
    for mode in all_modes() {
        let with_data = EtcdLocalState {
            has_data: true,
            ..belongs_to(7)
        };
        let case = DecisionCase::of(mode).with_state(with_data);
        assert_eq!(case.decide(), BootstrapDecision::StartWithData);
        let others = running(&[served(1, "a", A)]);
        assert_eq!(
            case.clone().observing(A, others).decide(),
            BootstrapDecision::StartWithData
        );
        assert_eq!(
            case.observing(A, unreachable()).decide(),
            BootstrapDecision::StartWithData
        );
    }
}

#[test]
fn a_node_that_left_does_not_start_again() {
    for mode in all_modes() {
        for has_data in [true, false] {
            let left = EtcdLocalState {
                left: true,
                has_data,
                ..belongs_to(7)
            };
            assert_eq!(
                DecisionCase::of(mode.clone()).with_state(left).decide(),
                BootstrapDecision::Refuse(BootstrapRefusal::Left)
            );
        }
    }
}

#[test]
fn another_cluster_is_refused_with_and_without_data() {
    for mode in [members(), discover(Some(3)), discover(None), join()] {
        for has_data in [true, false] {
            let state = EtcdLocalState {
                has_data,
                ..belongs_to(8)
            };
            let case = DecisionCase::of(mode.clone())
                .with_state(state)
                .observing(A, running(&[served(1, "a", A)]));
            assert_eq!(
                case.decide(),
                BootstrapDecision::Refuse(BootstrapRefusal::AnotherCluster { ours: 8, theirs: 7 })
            );
        }
    }
}

#[test]
fn a_node_that_lost_its_data_never_founds_a_cluster() {
    for mode in [BootstrapMode::Unspecified, BootstrapMode::First] {
        let case = DecisionCase::of(mode).with_state(belongs_to(7));
        assert_eq!(
            case.decide(),
            BootstrapDecision::Refuse(BootstrapRefusal::DataLost { cluster: 7 })
        );
    }
    for mode in [members(), discover(Some(3)), discover(None), join()] {
        let case = DecisionCase::of(mode).with_state(belongs_to(7));
        case.clone()
            .observing(A, unreachable())
            .waits_for("comes back as a new member");
        // Not even if all others are about to found a cluster, or a running cluster has a free place for it.
        let founders = case
            .clone()
            .observing(A, proposing("a", all_three(), Some(FoundingStage::Promised)))
            .observing(B, proposing("b", all_three(), Some(FoundingStage::Promised)));
        founders.waits_for("comes back as a new member");
        let free_place = running(&[served(1, "a", A), served(2, "b", B), unstarted(3, "c", C)]);
        assert_eq!(case.observing(A, free_place).decide(), join_through(&[A, B]));
    }
}

#[test]
fn without_data_and_without_others_the_mode_decides() {
    assert_eq!(
        DecisionCase::of(BootstrapMode::Unspecified).decide(),
        BootstrapDecision::Refuse(BootstrapRefusal::Unspecified)
    );
    let alone = InitialCluster {
        founders: vec![NamedPeer::new("c", C)],
        token: "own".into(),
    };
    assert_eq!(
        DecisionCase::of(BootstrapMode::First).decide(),
        BootstrapDecision::Found(alone.clone())
    );
    assert_eq!(
        DecisionCase::of(BootstrapMode::Members(vec![("c".into(), C.into())])).decide(),
        BootstrapDecision::Found(alone)
    );
    DecisionCase::of(join())
        .observing("10.0.0.1:2379", unreachable())
        .waits_for("10.0.0.1:2379 (refused)");
    DecisionCase::of(discover(None)).waits_for("no other node is known yet");
    for mode in [discover(None), discover(Some(3))] {
        let unresolved = DecisionCase {
            founders: Err(BootstrapWait::Unresolved {
                name: "judicators".into(),
                reason: "unknown".into(),
            }),
            ..DecisionCase::of(mode)
        };
        unresolved.waits_for("the DNS name judicators does not resolve");
    }
}

#[test]
fn a_decision_on_disk_is_carried_out_after_a_crash_even_alone() {
    for mode in [members(), discover(Some(3)), BootstrapMode::Unspecified] {
        let case = DecisionCase::of(mode).with_state(founding(FoundingStage::Decided));
        assert_eq!(
            case.decide(),
            BootstrapDecision::Found(initial_cluster(all_three()))
        );
        let alone = case.observing(A, unreachable()).observing(B, unreachable());
        assert_eq!(
            alone.decide(),
            BootstrapDecision::Found(initial_cluster(all_three()))
        );
    }
}

#[test]
fn a_founder_takes_its_free_place_in_the_cluster_that_another_founder_runs() {
    for mode in [members(), discover(Some(3))] {
        let forming = running(&[unstarted(1, "a", A), unstarted(2, "b", B), unstarted(3, "c", C)]);
        let case = DecisionCase::of(mode);
        let promised = case.clone().with_state(founding(FoundingStage::Promised));
        let observing = promised
            .clone()
            .observing(A, forming.clone())
            .observing(B, unreachable());
        assert_eq!(
            observing.decide(),
            BootstrapDecision::Found(initial_cluster(all_three()))
        );
        // A node that lost its promise no longer knows the token.
        case.clone().observing(A, forming).waits_for("is forming");
        // The two others already serve.
        let serving = running(&[served(1, "a", A), served(2, "b", B), unstarted(3, "c", C)]);
        let observing = promised.observing(A, serving.clone());
        assert_eq!(
            observing.decide(),
            BootstrapDecision::Found(initial_cluster(all_three()))
        );
        assert_eq!(case.clone().observing(A, serving).decide(), join_through(&[A, B]));
        // Its member has served before: a node without data now is not that member.
        let has_served = running(&[served(1, "a", A), served(2, "b", B), served(3, "c", C)]);
        assert_eq!(
            case.clone().observing(A, has_served).decide(),
            join_through(&[A, B])
        );
        // Added as a learner, and never started.
        let learner = ListedMember {
            learner: true,
            ..unstarted(3, "", C)
        };
        let added = running(&[served(1, "a", A), served(2, "b", B), learner]);
        assert_eq!(case.clone().observing(A, added).decide(), join_through(&[A, B]));
        // There is no place for it, and no member serves yet that could add it.
        let without = running(&[unstarted(1, "a", A), unstarted(2, "b", B)]);
        case.observing(A, without).waits_for("is forming");
    }
}

#[test]
fn a_running_cluster_is_joined() {
    let cluster = running(&[served(1, "a", A), served(2, "b", B)]);
    for mode in [members(), discover(Some(3)), discover(None), join()] {
        let case = DecisionCase::of(mode)
            .observing(A, cluster.clone())
            .observing(B, unreachable());
        assert_eq!(case.decide(), join_through(&[A, B]));
    }
    // With --join a node does not take a founder's place: the member is removed, and a new one is added.
    let free_place = running(&[served(1, "a", A), unstarted(3, "c", C)]);
    assert_eq!(
        DecisionCase::of(join()).observing(A, free_place).decide(),
        join_through(&[A])
    );
    let other = PeerObservation::Running(RunningCluster {
        cluster: 8,
        members: vec![served(4, "d", D)],
    });
    let two = DecisionCase::of(join()).observing(A, cluster).observing(D, other);
    assert_eq!(
        two.decide(),
        BootstrapDecision::Refuse(BootstrapRefusal::TwoClusters)
    );
}

#[test]
fn a_node_that_is_not_among_the_founders_waits_for_them() {
    let late = DecisionCase {
        founders: Ok(unnamed(&[A, B, D])),
        ..DecisionCase::of(discover(Some(3)))
    };
    late.waits_for("this node joins it when it serves");
}
