//! A judicator is seen while it is there.

use std::time::Duration;

use registry::etcd;
use tokio_util::sync::CancellationToken;

use super::servers::Cluster;
use super::stage::{DEADLINE, Judicator, LONG, STEADY, becomes, delete, reached, roster, seen, sees};

#[tokio::test]
async fn from_its_start_to_its_stop() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());

    // With leases that never end, whatever goes was deregistered.
    let a = Judicator::start(&access, "a@1.1.1.1:1 7.0", LONG);
    a.leads().await;
    let b = Judicator::start(&access, "b@2.2.2.2:2", LONG);
    for registry in [&follower, &a.registry, &b.registry] {
        sees(registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    }
    assert_eq!(roster(&access).await, ["a@1.1.1.1:1 7.0*", "b@2.2.2.2:2 1"]);
    let since = seen(&access).await[0].since;
    assert!(since.elapsed().unwrap().as_secs() < 3600);

    a.stop().await;
    assert!(!roster(&access).await.concat().contains("1.1.1.1"));
    b.leads().await;
    sees(&follower, &["2.2.2.2:2"]).await;
    b.stop().await;
    assert_eq!(roster(&access).await, [""; 0]);
    sees(&follower, &[]).await;
    assert!(!*follower.leading.borrow());
}

#[tokio::test]
async fn until_its_lease_ends_if_it_vanishes() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());
    let a = Judicator::start(&access, "a@1.1.1.1:1", STEADY);
    a.leads().await;
    sees(&follower, &["1.1.1.1:1"]).await;
    let leading = a.registry.leading.clone();
    a.vanish().await;
    assert!(!*leading.borrow());
    assert_eq!(roster(&access).await, ["a@1.1.1.1:1 1*"]);
    sees(&follower, &[]).await;
}

#[tokio::test]
async fn with_a_lease_that_is_kept_alive() {
    const LEASE: Duration = Duration::from_secs(4);
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let a = Judicator::start(&access, "a@1.1.1.1:1", LEASE);
    let mut leading = a.registry.leading.clone();
    // A busy machine may cost it the lead, and then it begins again. Without keep-alives it would lose it every time.
    let kept = async {
        loop {
            a.leads().await;
            leading.mark_unchanged();
            // Whatever happens to it while two of its leases would have ended shows here.
            let changed = tokio::time::timeout(2 * LEASE, leading.changed()).await;
            if changed.is_err() && *leading.borrow() {
                break;
            }
        }
    };
    tokio::time::timeout(DEADLINE, kept)
        .await
        .expect("the lead is lost again and again");
    becomes(&access, &["a@1.1.1.1:1 1*"]).await;
}

#[tokio::test]
async fn again_if_somebody_removes_it() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let a = Judicator::start(&access, "a@1.1.1.1:1", LONG);
    a.leads().await;
    let key = "/conclave/judicators/a";
    for key in [key, "/conclave/leader"] {
        delete(&access, key).await;
        becomes(&access, &["a@1.1.1.1:1 1*"]).await;
    }
    // The lease itself is ended behind its back.
    let mut client = reached(&access).await;
    let kept = client.get(key, None).await.unwrap();
    client.lease_client().revoke(kept.kvs()[0].lease()).await.unwrap();
    becomes(&access, &["a@1.1.1.1:1 1*"]).await;
    a.leads().await;
}
