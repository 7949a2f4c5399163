use std::time::Instant;

use cluster_tests::{CommandOutput, FormationMethod, TestCluster};

use crate::harness::{BusyCluster, assert_runs_a_task, short_task};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_judicators_join_at_once_and_two_leave() {
    let mut busy = BusyCluster::start().await;
    let fault = busy.fault("j4 and j5 join");
    ["j4", "j5"]
        .iter()
        .for_each(|name| busy.cluster.join_judicator(name));
    let judicators = busy.cluster.wait_until_complete(5).await;
    assert_eq!(judicators.names(), ["j1", "j2", "j3", "j4", "j5"]);
    busy.wait_for_progress(&fault).await;

    // Both commands to leave, each on the primary.
    for leave in [&["leave"][..], &["stop", "--leave"]] {
        let victim = busy.cluster.primary().await;
        let before = busy.cluster.judicators().await.unwrap().0.len();
        let fault = busy.fault(format!(
            "{victim}, which is primary, leaves by `{}`",
            leave.join(" ")
        ));
        let node = busy.cluster.node_mut(&victim);
        let said = node.conclave(leave).await;
        assert_eq!(said.code, 0, "{said:?}");
        let (succeeded, log) = node.wait_for_end().await;
        assert!(succeeded, "{log}");
        node.wait_until_no_process_runs().await;
        let judicators = busy.cluster.wait_until_complete(before - 1).await;
        assert!(judicators.get(&victim).is_none());
        busy.wait_for_progress(&fault).await;
    }
    busy.stop_and_verify().await;
}

/// A replica set has at most seven voting members. The eighth gets a vote when another leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_eighth_member_votes_only_after_another_leaves() {
    let begun = Instant::now();
    let mut cluster = TestCluster::new();
    cluster.form(FormationMethod::Members, 5);
    cluster.wait_until_complete(5).await;
    println!("five after {:?}", begun.elapsed());
    ["j6", "j7", "j8"]
        .iter()
        .for_each(|name| cluster.join_judicator(name));
    let judicators = cluster.wait_until_complete(8).await;
    println!("eight after {:?}", begun.elapsed());
    assert_eq!(judicators.voters(), 7, "{judicators}");
    let non_voter = judicators.without_vote()[0].to_string();
    let primary = judicators.primary().unwrap();
    let leaves = judicators
        .names()
        .into_iter()
        .find(|name| *name != non_voter && *name != primary);
    let leaves = leaves.unwrap().to_string();
    let said = cluster.node(&leaves).conclave(&["leave"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let judicators = cluster
        .wait_for_judicators("seven voters among seven", |judicators| {
            judicators.is_complete(7) && judicators.voters() == 7
        })
        .await;
    println!("seven again after {:?}", begun.elapsed());
    assert!(
        judicators.get(&leaves).is_none() && judicators.get(&non_voter).is_some(),
        "{judicators}"
    );
}

/// The last node holds the only copy of the data. It is only stopped, and nothing is lost.
#[tokio::test]
async fn the_last_node_stays_a_member() {
    let mut cluster = TestCluster::new();
    cluster.form(FormationMethod::Join, 1);
    cluster.add_executor("e1");
    cluster.wait_until_complete(1).await;
    cluster.wait_for_executors(1).await;
    let task = cluster.run(short_task(&cluster)).await;
    let node = cluster.node_mut("j1");
    let said = node.conclave(&["leave"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.text().contains("the last node"), "{said:?}");
    node.wait_for_end().await;
    node.wait_until_no_process_runs().await;
    node.start();
    cluster.wait_until_complete(1).await;
    assert_eq!(cluster.gateways().done(task.id).await, task);
    cluster.wait_for_executors(1).await;
    assert_runs_a_task(&cluster).await;
}

/// The second to leave is the last member by then, and has to stay.
#[tokio::test]
async fn when_two_nodes_leave_at_once_one_stays() {
    let mut cluster = TestCluster::of(2).await;
    cluster.add_executor("e1");
    cluster.wait_for_executors(1).await;
    let task = cluster.run(short_task(&cluster)).await;
    let (one, other) = tokio::join!(
        cluster.node("j1").conclave(&["leave"]),
        cluster.node("j2").conclave(&["leave"]),
    );
    let is_refused = |said: &CommandOutput| said.code == 1 && said.stderr.contains("the last member");
    let left = |said: &CommandOutput| said.code == 0 && said.text().contains("left etcd");
    // The first had left before the second checked: as the last node it is stopped, and remains a member.
    let is_stopped = |said: &CommandOutput| said.code == 0 && said.text().contains("the last node");
    let (stays, said) = match (left(&one), left(&other)) {
        (true, false) => ("j2", other),
        (false, true) => ("j1", one),
        _ => panic!("{one:?}, {other:?}"),
    };
    assert!(is_refused(&said) || is_stopped(&said), "{said:?}");
    if is_stopped(&said) {
        let node = cluster.node_mut(stays);
        node.wait_for_end().await;
        node.wait_until_no_process_runs().await;
        node.start();
    }
    let judicators = cluster.wait_until_complete(1).await;
    assert_eq!(judicators.names(), [stays]);
    assert_eq!(cluster.gateways().done(task.id).await, task);
    assert_runs_a_task(&cluster).await;
}
