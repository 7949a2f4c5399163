//! The daemon continues after a crash between any two steps of joining and founding.

use daemons::etcd::{BootstrapMode, EtcdMemberOptions, EtcdMemberState};
use etcd_client::MemberAddOptions;
use tokio::process::Command;

use crate::harness::{EtcdTestCluster, EtcdTestNode, connect_when_available, wait_for_members, wait_until};

#[tokio::test]
async fn a_node_that_was_added_but_never_started_joins() {
    let cluster = EtcdTestCluster::new();
    let mut first = cluster.start(1, BootstrapMode::First);
    first.wait_until_serving().await;
    let options = cluster.options(2, cluster.join(&[1]));
    let message = EtcdTestNode::start(EtcdMemberOptions {
        program: cluster.fake_etcd("exit 7"),
        ..options.clone()
    })
    .wait_for_failure()
    .await;
    assert!(message.contains("exit code 7"), "{message}");
    let left_behind = cluster.members_when_available(1).await;
    let unstarted = left_behind
        .iter()
        .find(|member| member.state == EtcdMemberState::Unstarted);
    let unstarted = unstarted.expect("it was added").id;

    let mut second = EtcdTestNode::start(options);
    second.wait_until_serving().await;
    let seen = cluster.wait_until_healthy(1, &[1, 2]).await;
    assert!(seen.iter().all(|member| member.id != unstarted), "{seen:?}");
}

#[tokio::test]
async fn a_learner_that_was_never_promoted_joins() {
    let cluster = EtcdTestCluster::new();
    let mut first = cluster.start(1, BootstrapMode::First);
    first.wait_until_serving().await;
    let mut client = connect_when_available(&cluster.access(1)).await;
    let learner = Some(MemberAddOptions::new().with_is_learner());
    let peer = format!("http://{}", cluster.peer(2));
    client.member_add([&peer], learner).await.unwrap();
    // Started as the daemon starts it, until it is a learner.
    let advertise = format!("http://{}", cluster.client(2));
    let mut etcd = Command::new("etcd")
        .arg("--name=n2")
        .arg(format!("--data-dir={}", cluster.data(2).join("data").display()))
        .args([
            format!("--listen-client-urls={advertise}"),
            format!("--advertise-client-urls={advertise}"),
        ])
        .args([
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
        ])
        .arg(format!(
            "--initial-cluster=n1=http://{},n2={peer}",
            cluster.peer(1)
        ))
        .args(["--initial-cluster-state=existing", "--log-level=error"])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    wait_for_members(cluster.access(1), "a learner", |seen| {
        seen.iter().any(|member| member.state == EtcdMemberState::Learner)
    })
    .await;
    etcd.kill().await.unwrap();

    let mut second = cluster.start(2, cluster.join(&[1]));
    second.wait_until_serving().await;
    cluster.wait_until_healthy(1, &[1, 2]).await;
}

#[tokio::test]
async fn a_founder_that_decided_but_never_started_takes_its_place() {
    let cluster = EtcdTestCluster::new();
    let mut others = [1, 2].map(|node| cluster.start(node, cluster.founders(&[1, 2, 3])));
    let options = cluster.options(3, cluster.founders(&[1, 2, 3]));
    let message = EtcdTestNode::start(EtcdMemberOptions {
        program: cluster.fake_etcd("exit 7"),
        ..options.clone()
    })
    .wait_for_failure()
    .await;
    assert!(message.contains("exit code 7"), "{message}");
    // The two others are a majority and serve without it; its place in the member list stays free.
    for other in &mut others {
        other.wait_until_serving().await;
    }
    let mut third = EtcdTestNode::start(options);
    third.wait_until_serving().await;
    cluster.wait_until_healthy(1, &[1, 2, 3]).await;
}

#[tokio::test]
async fn founders_that_crash_after_their_promise_found_the_cluster() {
    let cluster = EtcdTestCluster::new();
    let first = cluster.start(1, cluster.founders(&[1, 2]));
    let second = cluster.start(2, cluster.founders(&[1, 2]));
    let promise = cluster.data(1).join("founding");
    wait_until("a promise is on disk", || promise.exists()).await;
    first.crash().await;
    second.crash().await;
    let _nodes = [1, 2].map(|node| cluster.start(node, cluster.founders(&[1, 2])));
    cluster.wait_until_healthy(1, &[1, 2]).await;
}
