//! Proxies, and the members behind them.

use daemons::etcd::{Departure, Seeds, Start, known_endpoints, leave};

use crate::stage::{Proxy, Stage, get, put, wait_until};

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

async fn until_reached(stage: &Stage) {
    let at = stage.client(9);
    wait_until("the proxy listens", || std::net::TcpStream::connect(&at).is_ok()).await;
}
