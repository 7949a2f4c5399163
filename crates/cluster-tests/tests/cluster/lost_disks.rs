use cluster_tests::ETCD;

use crate::harness::BusyCluster;

/// A node is lost with its disk, is removed, and a new node replaces it. Then another loses its disk and comes back under its
/// old name and address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_node_is_removed_and_replaced() {
    let mut busy = BusyCluster::start().await;
    let lost = busy.cluster.primary().await;
    let fault = busy.fault(format!("{lost}, which is primary, is lost for good"));
    busy.cluster.node_mut(&lost).kill_and_delete_data();
    busy.wait_for_progress(&fault).await;
    // It may be listed as leader until its lease expires.
    let judicators = busy
        .cluster
        .wait_for_judicators("that another judicator leads", |judicators| {
            let is_alive = judicators.get(&lost).is_some_and(|node| node.health == "alive");
            !is_alive && judicators.leader().is_some_and(|leader| leader != lost)
        })
        .await;
    let left = judicators.leader().unwrap();
    let said = busy.cluster.node(&left).conclave(&["remove", &lost]).await;
    assert_eq!(said.code, 0, "{said:?}");
    busy.cluster.remove_node(&lost);
    busy.cluster.wait_until_complete(2).await;
    busy.cluster.join_judicator("j4");
    busy.wait_until_complete(fault).await;

    let lost = busy.cluster.leader().await;
    let fault = busy.fault(format!("{lost}, which leads, has lost its disk"));
    busy.cluster.node_mut(&lost).kill_and_delete_data();
    busy.wait_for_progress(&fault).await;
    let others: Vec<_> = busy
        .cluster
        .others(&lost)
        .filter(|node| node.name().starts_with('j'))
        .map(|node| node.address_of(ETCD))
        .collect();
    let joining = ["--join".to_string(), others.join(",")];
    busy.cluster.start_judicator(&lost, &joining);
    busy.wait_until_complete(fault).await;
    busy.stop_and_verify().await;
}

/// The node is started with its usual command, as by a unit file: with the list of initial members, although its old
/// membership is no longer valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_disk_rejoins_with_its_usual_command() {
    let mut busy = BusyCluster::start().await;
    let lost = busy.cluster.primary().await;
    let fault = busy.fault(format!("{lost}, which is primary, has lost its disk"));
    busy.cluster.node_mut(&lost).kill_and_delete_data();
    busy.wait_for_progress(&fault).await;
    busy.cluster.node_mut(&lost).start();
    busy.wait_until_complete(fault).await;
    busy.stop_and_verify().await;
}
