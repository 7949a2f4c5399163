//! The ways to a cluster, when all goes well.

use std::time::{Duration, Instant};

use daemons::etcd::{MemberState, Options, Start, known_cluster, known_endpoints};

use crate::stage::{Node, Stage, get, ip, members_once, put};

#[tokio::test]
async fn the_first_node_founds_and_goes_on_after_a_restart() {
    let began = Instant::now();
    let stage = Stage::new();
    let mut node = stage.start(1, Start::First);
    node.serves().await;
    let before = members_once(
        stage.access(1),
        "one that leads and tells its uptime",
        |seen| matches!(seen, [one] if one.state == MemberState::Leader && one.uptime.is_some()),
    )
    .await;
    assert_eq!(before[0].name, "n1");
    assert_eq!(before[0].peer, stage.peer(1));
    assert!(before[0].version.starts_with("3."), "{before:?}");
    let uptime = before[0]
        .uptime
        .expect("it says for how long it has been running");
    // A machine tells in whole seconds when it was started, and all its processes count from there.
    assert!(uptime <= began.elapsed() + Duration::from_secs(1), "{before:?}");
    put(&stage.access(1), "key", "value").await;
    node.stop().await;

    // What was said at first matters no more.
    for start in [
        Start::Unsaid,
        Start::First,
        stage.founders(&[1, 2, 3]),
        stage.join(&[2]),
    ] {
        let node = stage.start(1, start);
        let after = stage.all_well(1, &[1]).await;
        assert_eq!(after[0].id, before[0].id);
        assert_eq!(get(&stage.access(1), "key").await.as_deref(), Some("value"));
        node.stop().await;
    }
}

#[tokio::test]
async fn three_founders_started_at_once_are_one_cluster() {
    let stage = Stage::new();
    let _nodes = stage.three().await;
    let seen = stage.all_well(1, &[1, 2, 3]).await;
    for node in [2, 3] {
        let ids: Vec<u64> = stage.members(node).await.iter().map(|member| member.id).collect();
        assert_eq!(ids, seen.iter().map(|member| member.id).collect::<Vec<_>>());
    }
    // Each knows where all of them serve.
    let all: Vec<String> = [1, 2, 3].map(|node| stage.client(node)).to_vec();
    crate::stage::wait_until("all endpoints are known everywhere", || {
        [1, 2, 3]
            .iter()
            .all(|node| known_endpoints(&stage.data(*node)) == all)
    })
    .await;
}

#[tokio::test]
async fn the_same_founders_that_found_again_are_another_cluster() {
    let stage = Stage::new();
    let start = || [1, 2].map(|node| stage.start(node, stage.founders(&[1, 2])));
    let mut found = Vec::new();
    for _ in 0..2 {
        let nodes = start();
        let ids: Vec<u64> = stage
            .all_well(1, &[1, 2])
            .await
            .iter()
            .map(|seen| seen.id)
            .collect();
        let clusters = || [1, 2].map(|node| known_cluster(&stage.data(node)));
        crate::stage::wait_until("both have noted their cluster", || {
            clusters().iter().all(Option::is_some)
        })
        .await;
        let clusters = clusters();
        assert_eq!(clusters[0], clusters[1]);
        found.push((clusters[0], ids));
        for node in nodes {
            node.lose_all().await;
        }
    }
    assert_ne!(found[0].0, found[1].0);
    assert!(found[0].1.iter().all(|id| !found[1].1.contains(id)), "{found:?}");
}

#[tokio::test]
async fn a_founder_waits_for_the_others_and_founds_nothing_alone() {
    let stage = Stage::new();
    let mut options = stage.options(1, stage.founders(&[1, 2, 3]));
    options.tries = 1;
    let why = Node::start(options).fails().await;
    assert!(why.contains(&stage.peer(2)), "{why}");
    assert!(!stage.data(1).join("data").exists());
    let _nodes = stage.three().await;
}

#[tokio::test]
async fn others_join_the_first_as_full_members() {
    let stage = Stage::new();
    let mut first = stage.start(1, Start::First);
    first.serves().await;
    // Both at once: one has to wait for the other.
    let mut second = stage.start(2, stage.join(&[1]));
    let mut third = stage.start(3, stage.join(&[1, 2]));
    second.serves().await;
    third.serves().await;
    stage.all_well(3, &[1, 2, 3]).await;
    put(&stage.access(3), "key", "value").await;
    assert_eq!(get(&stage.access(2), "key").await.as_deref(), Some("value"));
    // An ordinary stop keeps the place.
    let before = stage.members(1).await;
    let options = second.options.clone();
    second.stop().await;
    assert_eq!(stage.members(1).await.len(), 3);
    let _second = Node::start(options);
    let after = stage.all_well(1, &[1, 2, 3]).await;
    assert_eq!(after[1].id, before[1].id);
}

#[tokio::test]
async fn a_member_whose_address_changed_tells_the_others() {
    let stage = Stage::new();
    let [_one, _two, three] = stage.three().await;
    let before = stage.all_well(1, &[1, 2, 3]).await;
    let options = three.options.clone();
    three.stop().await;
    let mut three = Node::start(Options {
        host: ip(13).to_string(),
        start: Start::Unsaid,
        ..options
    });
    three.serves().await;
    let after = stage.all_well(1, &[1, 2, 3]).await;
    assert_eq!(after[2].id, before[2].id);
    assert_eq!(
        (&after[2].peer, &after[2].client),
        (&stage.peer(13), &stage.client(13))
    );
}
