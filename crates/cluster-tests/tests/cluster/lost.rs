use cluster_tests::ETCD;

use crate::stage::Stage;

/// One is lost with its disk, is removed, and a new one takes its place. Then another is lost and comes back under
/// its old name and address, with nothing on its disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_node_is_replaced() {
    let mut stage = Stage::busy().await;
    let lost = stage.cluster.primary().await;
    let fault = stage.fault(format!("{lost}, which is primary, is lost for good"));
    stage.cluster.machine_mut(&lost).destroy();
    stage.resumed(&fault).await;
    // Only then is it believed to be lost; it may lead until then, or never have led.
    let roster = stage
        .cluster
        .roster_with("that it is gone and another leads", |roster| {
            let is_there = roster.get(&lost).is_some_and(|node| node.health == "alive");
            !is_there && roster.leader().is_some_and(|leader| leader != lost)
        })
        .await;
    let left = roster.leader().unwrap();
    let said = stage.cluster.machine(&left).conclave(&["remove", &lost]).await;
    assert_eq!(said.code, 0, "{said:?}");
    stage.cluster.discard(&lost);
    stage.cluster.whole(2).await;
    stage.cluster.join_judicator("j4");
    stage.whole(fault).await;

    let lost = stage.cluster.leader().await;
    let fault = stage.fault(format!("{lost}, which leads, has lost its disk"));
    stage.cluster.machine_mut(&lost).destroy();
    stage.resumed(&fault).await;
    let others: Vec<_> = stage
        .cluster
        .others(&lost)
        .filter(|machine| machine.name().starts_with('j'))
        .map(|machine| machine.at(ETCD))
        .collect();
    let joining = ["--join".to_string(), others.join(",")];
    stage.cluster.start_judicator(&lost, &joining);
    stage.whole(fault).await;
    stage.settle().await;
}

/// Started by the same command as ever, as a unit file would do it: with the list of the first members, of which it
/// is none any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_disk_is_started_as_ever() {
    let mut stage = Stage::busy().await;
    let lost = stage.cluster.primary().await;
    let fault = stage.fault(format!("{lost}, which is primary, has lost its disk"));
    stage.cluster.machine_mut(&lost).destroy();
    stage.resumed(&fault).await;
    stage.cluster.machine_mut(&lost).start();
    stage.whole(fault).await;
    stage.settle().await;
}
