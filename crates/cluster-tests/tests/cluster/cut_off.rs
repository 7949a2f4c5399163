use cluster_tests::Host;

use crate::stage::{LONGER_THAN_LEASES, Stage};

async fn cut_and_healed(stage: &Stage, victim: &str, role: &str) {
    let fault = stage.fault(format!("{victim}, which {role}, is cut off"));
    let host = stage.cluster.machine(victim).host();
    host.cut();
    stage.resumed(&fault).await;
    // It must not go on by itself, and nobody may count on it.
    tokio::time::sleep(LONGER_THAN_LEASES).await;
    let roster = stage
        .cluster
        .roster_with("that another leads and is primary", |roster| {
            let others = |found: Option<String>| found.is_some_and(|name| name != victim);
            others(roster.leader()) && others(roster.primary())
        })
        .await;
    assert!(
        roster.get(victim).is_some(),
        "a node that is cut off is no less a member"
    );
    host.heal();
    stage.whole(fault).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_cut_off_and_comes_back() {
    let stage = Stage::busy().await;
    let victim = stage.cluster.leader().await;
    cut_and_healed(&stage, &victim, "leads").await;
    let victim = stage.cluster.primary().await;
    cut_and_healed(&stage, &victim, "is primary").await;
    stage.settle().await;
}

/// It hears everyone, and nobody hears it: the others must not wait for it, and it must not believe itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_nobody_hears_is_no_obstacle() {
    let stage = Stage::busy().await;
    let victim = stage.cluster.primary().await;
    let fault = stage.fault(format!("nobody hears {victim}, which is primary"));
    let host = stage.cluster.machine(&victim).host();
    let others: Vec<&Host> = stage
        .cluster
        .others(&victim)
        .map(cluster_tests::Machine::host)
        .collect();
    others.iter().for_each(|other| host.mute(other));
    tokio::time::sleep(LONGER_THAN_LEASES).await;
    stage.resumed(&fault).await;
    others.iter().for_each(|other| host.unmute(other));
    stage.whole(fault).await;
    stage.settle().await;
}

/// Nobody has a majority: nothing may be promised, and nothing is lost. When the network is back, so is everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_judicators_are_cut_off_from_each_other() {
    let stage = Stage::busy().await;
    let fault = stage.fault("every judicator is alone");
    for name in ["j1", "j2", "j3"] {
        stage.cluster.machine(name).host().cut();
    }
    tokio::time::sleep(LONGER_THAN_LEASES).await;
    for name in ["j1", "j2", "j3"] {
        stage.cluster.machine(name).host().heal();
    }
    stage.resumed(&fault).await;
    stage.whole(fault).await;
    stage.settle().await;
}
