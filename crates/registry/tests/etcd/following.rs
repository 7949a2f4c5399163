//! Executors and gateways follow through a proxy.

use std::time::Duration;

use registry::etcd;
use tokio_util::sync::CancellationToken;

use super::servers::{Cluster, at_one};
use super::stage::{Judicator, SHORT, STEADY, sees};

/// One time limit for all of them: it would not do for whoever only reads the list now and then.
#[tokio::test]
async fn changes_are_seen_as_they_happen() {
    const LIMIT: Duration = Duration::from_secs(30);
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let proxy = cluster.proxy().await;
    let (follower, _task) = etcd::follow(at_one(&proxy), CancellationToken::new());
    let changes = async {
        for _ in 0..5 {
            let a = Judicator::start(&access, "a@1.1.1.1:1", STEADY);
            sees(&follower, &["1.1.1.1:1"]).await;
            a.stop().await;
            sees(&follower, &[]).await;
        }
    };
    tokio::time::timeout(LIMIT, changes)
        .await
        .expect("changes come too late");
}

#[tokio::test]
async fn a_proxy_that_is_restarted() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let mut proxy = cluster.proxy().await;
    let (follower, _task) = etcd::follow(at_one(&proxy), CancellationToken::new());
    let a = Judicator::start(&access, "a@1.1.1.1:1", SHORT);
    sees(&follower, &["1.1.1.1:1"]).await;
    let b = Judicator::start(&access, "b@2.2.2.2:2", SHORT);
    sees(&follower, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    b.stop().await;
    sees(&follower, &["1.1.1.1:1"]).await;

    proxy.kill();
    let c = Judicator::start(&access, "c@3.3.3.3:3", SHORT);
    sees(&c.registry, &["1.1.1.1:1", "3.3.3.3:3"]).await;
    a.stop().await;
    sees(&c.registry, &["3.3.3.3:3"]).await;
    // Nobody tells the follower meanwhile, and nothing is taken from it.
    assert_eq!(*follower.judicators.borrow(), ["1.1.1.1:1"]);
    proxy.restart();
    sees(&follower, &["3.3.3.3:3"]).await;
    // An address that changes under a name.
    c.stop().await;
    let _c = Judicator::start(&access, "c@4.4.4.4:4", SHORT);
    sees(&follower, &["4.4.4.4:4"]).await;
}

#[tokio::test]
async fn a_proxy_that_hangs() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let (one, other) = (cluster.proxy().await, cluster.proxy().await);
    let proxies = access.at(vec![one.endpoint.clone(), other.endpoint.clone()]);
    let (follower, _task) = etcd::follow(proxies, CancellationToken::new());
    let _a = Judicator::start(&access, "a@1.1.1.1:1", SHORT);
    sees(&follower, &["1.1.1.1:1"]).await;
    one.pause();
    let b = Judicator::start(&access, "b@2.2.2.2:2", SHORT);
    sees(&follower, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    // Back again, whichever it was that was in use.
    one.resume();
    other.pause();
    b.stop().await;
    sees(&follower, &["1.1.1.1:1"]).await;
}
