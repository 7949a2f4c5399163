//! Proxies, and the members behind them.

use daemons::etcd::{
    Departure, MemberState, ProxyOptions, Seeds, Start, known_cluster, known_endpoints, leave,
};

use crate::stage::{Proxy, Stage, get, members_once, put, server_with, wait_until};

#[tokio::test]
async fn a_proxy_follows_the_members_and_remembers_them() {
    let stage = Stage::new();
    let mut one = stage.start(1, Start::First);
    one.serves().await;
    put(&stage.access(1), "key", "value").await;
    let options = stage.proxy_options(9, Seeds::At(vec![stage.client(1)]));
    let proxy = Proxy::start(options.clone());
    let through = stage.access(9);
    until_reached(&stage).await;
    assert_eq!(get(&through, "key").await.as_deref(), Some("value"));

    let mut two = stage.start(2, stage.join(&[1]));
    two.serves().await;
    let both = vec![stage.client(1), stage.client(2)];
    wait_until("the proxy knows the second member", || {
        known_endpoints(&stage.data(9)) == both
    })
    .await;
    assert_eq!(leave(&one.options).await.unwrap(), Departure::Left);
    one.fails().await;
    let second = vec![stage.client(2)];
    wait_until("the proxy knows only the second", || {
        known_endpoints(&stage.data(9)) == second
    })
    .await;
    put(&through, "key", "later").await;
    assert_eq!(get(&stage.access(2), "key").await.as_deref(), Some("later"));

    // The address that it was once given leads nowhere by now.
    proxy.stop().await;
    let proxy = Proxy::start(options);
    until_reached(&stage).await;
    assert_eq!(get(&through, "key").await.as_deref(), Some("later"));
    proxy.stop().await;
}

#[tokio::test]
async fn a_proxy_finds_members_behind_a_name() {
    let stage = Stage::new();
    let mut one = stage.start(1, Start::First);
    one.serves().await;
    let name = "judicators".to_string();
    let client_port = one.options.client_port;
    let mut options = stage.proxy_options(9, Seeds::Behind { name, client_port });
    options.tries = 1;
    let why = Proxy::start(options.clone()).fails().await;
    assert!(why.contains("the DNS name judicators does not resolve"), "{why}");
    stage.dns.set(&[1]);
    options.tries = 30;
    let _proxy = Proxy::start(options);
    until_reached(&stage).await;
}

#[tokio::test]
async fn another_cluster_at_a_members_address_is_left_out() {
    let stage = Stage::new();
    let mut one = stage.start(1, Start::First);
    one.serves().await;
    let mut nodes = [2, 3].map(|node| stage.start(node, stage.join(&[1])));
    for node in &mut nodes {
        node.serves().await;
    }
    stage.all_well(2, &[1, 2, 3]).await;
    let options = stage.proxy_options(9, Seeds::At(vec![stage.client(1)]));
    let proxy = Proxy::start(options.clone());
    until_reached(&stage).await;
    let ours = known_cluster(&stage.data(9));
    assert!(ours.is_some());
    assert_eq!(ours, known_cluster(&stage.data(2)));

    one.lose_all().await;
    let mut one = stage.start(1, Start::First);
    one.serves().await;
    put(&stage.access(1), "whose", "another").await;
    assert_ne!(known_cluster(&stage.data(1)), ours);
    let listens = format!("--listen-addr={}", stage.client(9));
    let leads = format!(
        "--endpoints=http://{},http://{}",
        stage.client(2),
        stage.client(3)
    );
    wait_until("the proxy leads to the others only", || {
        server_with(&listens).is_some_and(|(_, args)| args.contains(&leads))
    })
    .await;
    until_reached(&stage).await;
    put(&stage.access(9), "whose", "ours").await;
    assert_eq!(get(&stage.access(1), "whose").await.as_deref(), Some("another"));
    // Nor after a restart, when all that it was given is the wrong one.
    proxy.stop().await;
    let proxy = Proxy::start(options);
    until_reached(&stage).await;
    assert_eq!(get(&stage.access(9), "whose").await.as_deref(), Some("ours"));
    proxy.stop().await;

    // Members keep to theirs, in which n1 is one that does not answer; and who is new is not to choose.
    let seen = members_once(stage.access(2).of(ours), "an answer", |_| true).await;
    assert_eq!(seen[0].state, MemberState::Unreachable);
    let both = vec![stage.client(1), stage.client(3)];
    let undecided = ProxyOptions {
        tries: 1,
        ..stage.proxy_options(8, Seeds::At(both))
    };
    let why = Proxy::start(undecided).fails().await;
    assert!(why.contains("two different clusters"), "{why}");
    assert_eq!(known_cluster(&stage.data(8)), None);
}

async fn until_reached(stage: &Stage) {
    let at = stage.client(9);
    wait_until("the proxy listens", || std::net::TcpStream::connect(&at).is_ok()).await;
}
