//! A proxy follows the members of its cluster.

use daemons::etcd::{
    BootstrapMode, EtcdMemberState, EtcdProxyOptions, LeaveClusterResult, ProxySeeds, leave,
    saved_cluster_id, saved_endpoints,
};

use crate::harness::{
    EtcdTestCluster, EtcdTestProxy, find_process_with_argument, get, put, wait_for_members, wait_until,
};

#[tokio::test]
async fn a_proxy_follows_the_members_and_saves_them() {
    let cluster = EtcdTestCluster::new();
    let mut one = cluster.start(1, BootstrapMode::First);
    one.wait_until_serving().await;
    put(&cluster.access(1), "key", "value").await;
    let options = cluster.proxy_options(9, ProxySeeds::Addresses(vec![cluster.client(1)]));
    let proxy = EtcdTestProxy::start(options.clone());
    let through = cluster.access(9);
    wait_until_proxy_listens(&cluster).await;
    assert_eq!(get(&through, "key").await.as_deref(), Some("value"));

    let mut two = cluster.start(2, cluster.join(&[1]));
    two.wait_until_serving().await;
    let both = vec![cluster.client(1), cluster.client(2)];
    wait_until("the proxy knows the second member", || {
        saved_endpoints(&cluster.data(9)) == both
    })
    .await;
    assert_eq!(leave(&one.options).await.unwrap(), LeaveClusterResult::Left);
    one.wait_for_failure().await;
    let second = vec![cluster.client(2)];
    wait_until("the proxy knows only the second member", || {
        saved_endpoints(&cluster.data(9)) == second
    })
    .await;
    put(&through, "key", "later").await;
    assert_eq!(get(&cluster.access(2), "key").await.as_deref(), Some("later"));

    // No member is at the configured address any more.
    proxy.stop().await;
    let proxy = EtcdTestProxy::start(options);
    wait_until_proxy_listens(&cluster).await;
    assert_eq!(get(&through, "key").await.as_deref(), Some("later"));
    proxy.stop().await;
}

#[tokio::test]
async fn a_proxy_finds_members_by_a_dns_name() {
    let cluster = EtcdTestCluster::new();
    let mut one = cluster.start(1, BootstrapMode::First);
    one.wait_until_serving().await;
    let name = "judicators".to_string();
    let client_port = one.options.client_port;
    let mut options = cluster.proxy_options(9, ProxySeeds::DnsName { name, client_port });
    options.tries = 1;
    let message = EtcdTestProxy::start(options.clone()).wait_for_failure().await;
    assert!(
        message.contains("the DNS name judicators does not resolve"),
        "{message}"
    );
    cluster.dns.set(&[1]);
    options.tries = 30;
    let _proxy = EtcdTestProxy::start(options);
    wait_until_proxy_listens(&cluster).await;
}

#[tokio::test]
async fn another_cluster_at_the_address_of_a_member_is_ignored() {
    let cluster = EtcdTestCluster::new();
    let mut one = cluster.start(1, BootstrapMode::First);
    one.wait_until_serving().await;
    let mut nodes = [2, 3].map(|node| cluster.start(node, cluster.join(&[1])));
    for node in &mut nodes {
        node.wait_until_serving().await;
    }
    cluster.wait_until_healthy(2, &[1, 2, 3]).await;
    let options = cluster.proxy_options(9, ProxySeeds::Addresses(vec![cluster.client(1)]));
    let proxy = EtcdTestProxy::start(options.clone());
    wait_until_proxy_listens(&cluster).await;
    let ours = saved_cluster_id(&cluster.data(9));
    assert!(ours.is_some());
    assert_eq!(ours, saved_cluster_id(&cluster.data(2)));

    one.crash_and_delete_folder().await;
    let mut one = cluster.start(1, BootstrapMode::First);
    one.wait_until_serving().await;
    put(&cluster.access(1), "whose", "another").await;
    assert_ne!(saved_cluster_id(&cluster.data(1)), ours);
    let listens = format!("--listen-addr={}", cluster.client(9));
    let forwards = format!(
        "--endpoints=http://{},http://{}",
        cluster.client(2),
        cluster.client(3)
    );
    wait_until("the proxy forwards to the two other members only", || {
        find_process_with_argument(&listens).is_some_and(|(_, args)| args.contains(&forwards))
    })
    .await;
    wait_until_proxy_listens(&cluster).await;
    put(&cluster.access(9), "whose", "ours").await;
    assert_eq!(get(&cluster.access(1), "whose").await.as_deref(), Some("another"));
    // The same after a restart, when the only configured address is the wrong one.
    proxy.stop().await;
    let proxy = EtcdTestProxy::start(options);
    wait_until_proxy_listens(&cluster).await;
    assert_eq!(get(&cluster.access(9), "whose").await.as_deref(), Some("ours"));
    proxy.stop().await;

    // To the members of its own cluster, n1 is a member that does not answer. A new proxy that finds two clusters
    // does not choose.
    let seen = wait_for_members(cluster.access(2).with_cluster_id(ours), "an answer", |_| true).await;
    assert_eq!(seen[0].state, EtcdMemberState::Unreachable);
    let both = vec![cluster.client(1), cluster.client(3)];
    let undecided = EtcdProxyOptions {
        tries: 1,
        ..cluster.proxy_options(8, ProxySeeds::Addresses(both))
    };
    let message = EtcdTestProxy::start(undecided).wait_for_failure().await;
    assert!(message.contains("two different clusters"), "{message}");
    assert_eq!(saved_cluster_id(&cluster.data(8)), None);
}

async fn wait_until_proxy_listens(cluster: &EtcdTestCluster) {
    let at = cluster.client(9);
    wait_until("the proxy listens", || std::net::TcpStream::connect(&at).is_ok()).await;
}
