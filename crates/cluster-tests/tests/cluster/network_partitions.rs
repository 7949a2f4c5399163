use cluster_tests::LanHost;

use crate::harness::{BusyCluster, LONGER_THAN_LEASES};

async fn disconnect_and_reconnect(busy: &BusyCluster, victim: &str, role: &str) {
    let fault = busy.fault(format!("{victim}, which {role}, is cut off"));
    let host = busy.cluster.node(victim).host();
    host.disconnect();
    busy.wait_for_progress(&fault).await;
    // It must not keep leading, and the others must not wait for it.
    tokio::time::sleep(LONGER_THAN_LEASES).await;
    let judicators = busy
        .cluster
        .wait_for_judicators("that another leads and is primary", |judicators| {
            let others = |found: Option<String>| found.is_some_and(|name| name != victim);
            others(judicators.leader()) && others(judicators.primary())
        })
        .await;
    assert!(
        judicators.get(victim).is_some(),
        "a node that is cut off stays a member"
    );
    host.reconnect();
    busy.wait_until_complete(fault).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_cut_off_and_comes_back() {
    let busy = BusyCluster::start().await;
    let victim = busy.cluster.leader().await;
    disconnect_and_reconnect(&busy, &victim, "leads").await;
    let victim = busy.cluster.primary().await;
    disconnect_and_reconnect(&busy, &victim, "is primary").await;
    busy.stop_and_verify().await;
}

/// The node receives packets, and its own are dropped: the others must not wait for it, and it must not keep leading.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_can_only_receive_is_replaced() {
    let busy = BusyCluster::start().await;
    let victim = busy.cluster.primary().await;
    let fault = busy.fault(format!("packets from {victim}, which is primary, are dropped"));
    let host = busy.cluster.node(&victim).host();
    let others: Vec<&LanHost> = busy
        .cluster
        .others(&victim)
        .map(cluster_tests::ClusterNode::host)
        .collect();
    others.iter().for_each(|other| host.block_sending_to(other));
    tokio::time::sleep(LONGER_THAN_LEASES).await;
    busy.wait_for_progress(&fault).await;
    others.iter().for_each(|other| host.unblock_sending_to(other));
    busy.wait_until_complete(fault).await;
    busy.stop_and_verify().await;
}

/// No judicator has a majority, so no add is acknowledged. When the network is back, everything continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_judicators_are_cut_off_from_each_other() {
    let busy = BusyCluster::start().await;
    let fault = busy.fault("every judicator is cut off");
    for name in ["j1", "j2", "j3"] {
        busy.cluster.node(name).host().disconnect();
    }
    tokio::time::sleep(LONGER_THAN_LEASES).await;
    for name in ["j1", "j2", "j3"] {
        busy.cluster.node(name).host().reconnect();
    }
    busy.wait_for_progress(&fault).await;
    busy.wait_until_complete(fault).await;
    busy.stop_and_verify().await;
}
