use std::time::Instant;

use cluster_tests::{Cluster, Forming, Said};

use crate::stage::{Stage, quick, runs_a_task};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fourth_and_a_fifth_join_at_the_same_moment_and_leave() {
    let mut stage = Stage::busy().await;
    let fault = stage.fault("j4 and j5 join");
    ["j4", "j5"]
        .iter()
        .for_each(|name| stage.cluster.join_judicator(name));
    let roster = stage.cluster.whole(5).await;
    assert_eq!(roster.names(), ["j1", "j2", "j3", "j4", "j5"]);
    stage.resumed(&fault).await;

    // The two ways to leave, by those that have most to give away.
    for leave in [&["leave"][..], &["stop", "--leave"]] {
        let victim = stage.cluster.primary().await;
        let before = stage.cluster.roster().await.unwrap().0.len();
        let fault = stage.fault(format!(
            "{victim}, which is primary, leaves by `{}`",
            leave.join(" ")
        ));
        let machine = stage.cluster.machine_mut(&victim);
        let said = machine.conclave(leave).await;
        assert_eq!(said.code, 0, "{said:?}");
        let (well, log) = machine.ended().await;
        assert!(well, "{log}");
        machine.nobody().await;
        let roster = stage.cluster.whole(before - 1).await;
        assert!(roster.get(&victim).is_none());
        stage.resumed(&fault).await;
    }
    stage.settle().await;
}

/// A replica set has seven voters at most. The eighth gets a vote when one of them leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_eighth_has_no_vote_until_another_leaves() {
    let begun = Instant::now();
    let mut cluster = Cluster::new();
    cluster.form(Forming::Members, 5);
    cluster.whole(5).await;
    println!("five after {:?}", begun.elapsed());
    ["j6", "j7", "j8"]
        .iter()
        .for_each(|name| cluster.join_judicator(name));
    let roster = cluster.whole(8).await;
    println!("eight after {:?}", begun.elapsed());
    assert_eq!(roster.voters(), 7, "{roster}");
    let silent = roster.without_vote()[0].to_string();
    let primary = roster.primary().unwrap();
    let leaves = roster
        .names()
        .into_iter()
        .find(|name| *name != silent && *name != primary);
    let leaves = leaves.unwrap().to_string();
    let said = cluster.machine(&leaves).conclave(&["leave"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let roster = cluster
        .roster_with("seven voters among seven", |roster| {
            roster.is_whole(7) && roster.voters() == 7
        })
        .await;
    println!("seven again after {:?}", begun.elapsed());
    assert!(
        roster.get(&leaves).is_none() && roster.get(&silent).is_some(),
        "{roster}"
    );
}

/// It has nobody to leave to: its data is all there is. It is stopped, and nothing is lost.
#[tokio::test]
async fn the_last_stays_a_member() {
    let mut cluster = Cluster::new();
    cluster.form(Forming::Join, 1);
    cluster.add_executor("e1");
    cluster.whole(1).await;
    cluster.working(1).await;
    let task = cluster.run(quick(&cluster)).await;
    let machine = cluster.machine_mut("j1");
    let said = machine.conclave(&["leave"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.text().contains("the last node"), "{said:?}");
    machine.ended().await;
    machine.nobody().await;
    machine.start();
    cluster.whole(1).await;
    assert_eq!(cluster.gateways().done(task.id).await, task);
    cluster.working(1).await;
    runs_a_task(&cluster).await;
}

/// One of them is the last by the time it is its turn, and has to stay.
#[tokio::test]
async fn of_two_that_leave_at_the_same_moment_one_stays() {
    let mut cluster = Cluster::of(2).await;
    cluster.add_executor("e1");
    cluster.working(1).await;
    let task = cluster.run(quick(&cluster)).await;
    let (one, other) = tokio::join!(
        cluster.machine("j1").conclave(&["leave"]),
        cluster.machine("j2").conclave(&["leave"]),
    );
    let is_refused = |said: &Said| said.code == 1 && said.stderr.contains("the last member");
    let left = |said: &Said| said.code == 0 && said.text().contains("left etcd");
    // The first was gone before the other looked: as the last node it is stopped, and remains a member.
    let is_stopped = |said: &Said| said.code == 0 && said.text().contains("the last node");
    let (stays, said) = match (left(&one), left(&other)) {
        (true, false) => ("j2", other),
        (false, true) => ("j1", one),
        _ => panic!("{one:?}, {other:?}"),
    };
    assert!(is_refused(&said) || is_stopped(&said), "{said:?}");
    if is_stopped(&said) {
        let machine = cluster.machine_mut(stays);
        machine.ended().await;
        machine.nobody().await;
        machine.start();
    }
    let roster = cluster.whole(1).await;
    assert_eq!(roster.names(), [stays]);
    assert_eq!(cluster.gateways().done(task.id).await, task);
    runs_a_task(&cluster).await;
}
