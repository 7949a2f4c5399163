//! Servers that run but no longer answer.

use daemons::etcd::{BootstrapMode, EtcdMemberOptions, EtcdProxyOptions, ProxySeeds};

use crate::harness::{EtcdTestCluster, EtcdTestNode, EtcdTestProxy, suspend_server, wait_until};

#[tokio::test]
async fn a_member_that_hangs_is_killed_and_a_member_without_a_majority_is_not() {
    let cluster = EtcdTestCluster::new();
    let mut options = [1, 2].map(|node| EtcdMemberOptions {
        tries: 20,
        ..cluster.options(node, cluster.founders(&[1, 2]))
    });
    options[0].tries = 10;
    let [mut one, mut two] = options.map(EtcdTestNode::start);
    for node in [&mut one, &mut two] {
        node.wait_until_serving().await;
    }
    let folder = cluster.data(2);
    suspend_server(&format!("--data-dir={}", folder.join("data").display()));
    let message = two.wait_for_failure().await;
    assert!(
        message.contains("etcd did not answer for 20 s and was killed"),
        "{message}"
    );
    // It has had no majority for twice as long as it may leave requests unanswered.
    assert!(one.is_running());
    let mut two = cluster.start(2, BootstrapMode::Unspecified);
    two.wait_until_serving().await;
    cluster.wait_until_healthy(1, &[1, 2]).await;
}

#[tokio::test]
async fn a_proxy_that_hangs_is_killed_and_a_proxy_without_members_is_not() {
    let cluster = EtcdTestCluster::new();
    let mut one = cluster.start(1, BootstrapMode::First);
    one.wait_until_serving().await;
    let options = |node, tries| EtcdProxyOptions {
        tries,
        ..cluster.proxy_options(node, ProxySeeds::Addresses(vec![cluster.client(1)]))
    };
    // The proxies also have to start within this time.
    let (lasting, hanging) = (
        EtcdTestProxy::start(options(8, 15)),
        EtcdTestProxy::start(options(9, 30)),
    );
    for node in [8, 9] {
        let at = cluster.client(node);
        wait_until("the proxy listens", || std::net::TcpStream::connect(&at).is_ok()).await;
        // The daemon writes the file again once the proxy serves and is being monitored.
        let endpoints = cluster.data(node).join("endpoints");
        std::fs::remove_file(&endpoints).unwrap();
        wait_until("the proxy is monitored", || endpoints.exists()).await;
    }
    one.crash().await;
    suspend_server(&format!("--listen-addr={}", cluster.client(9)));
    let message = hanging.wait_for_failure().await;
    assert!(
        message.contains("grpc-proxy did not answer for 30 s"),
        "{message}"
    );
    assert!(lasting.is_running());
}
