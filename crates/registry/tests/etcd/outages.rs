//! etcd fails, in part or as a whole.

use std::time::{Duration, Instant};

use registry::etcd;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::servers::{Cluster, at_one};
use super::stage::{Judicator, Lookout, SHORT, becomes, becomes_such, delete, sees};

/// Looks until it leads no longer, and tells when it last did. Looked at by a thread that notes the time *before* it
/// looks: whoever is late himself does not take the other for late. The very last look does not count either: after
/// a pause of the whole process it may come before the thread that ends the reign.
fn last_lead(leading: watch::Receiver<bool>) -> std::thread::JoinHandle<Instant> {
    std::thread::spawn(move || {
        let mut looks = [Instant::now(); 2];
        loop {
            let now = Instant::now();
            if !*leading.borrow() {
                return looks[0];
            }
            looks = [looks[1], now];
            std::thread::sleep(Duration::from_millis(10));
        }
    })
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_before_its_lease_ends() {
    const LEASE: Duration = Duration::from_secs(6);
    let mut cluster = Cluster::start(1).await;
    let access = cluster.access();
    let a = Judicator::start(&access, "a@1.1.1.1:1", LEASE);
    a.leads().await;
    let b = Judicator::start(&access, "b@2.2.2.2:2", LEASE);
    for registry in [&a.registry, &b.registry] {
        sees(registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    }
    let lookout = Lookout::over(&[&a, &b]);

    let led = last_lead(a.registry.leading.clone());
    cluster.first().pause();
    // The last keep-alive went out before this moment.
    let last = Instant::now();
    a.leads_no_longer().await;
    let led = led.join().unwrap();
    assert!(
        led < last + LEASE,
        "led for longer than its lease may have lasted"
    );
    tokio::time::sleep_until((last + LEASE + SHORT).into()).await;
    // It is etcd that was away, not the judicators.
    sees(&a.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;

    cluster.first().resume();
    futures::future::select(Box::pin(a.leads()), Box::pin(b.leads())).await;
    sees(&a.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    lookout.saw_no_two();
}

#[tokio::test]
async fn etcd_is_killed_and_comes_back() {
    let mut cluster = Cluster::start(1).await;
    let access = cluster.access();
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());
    let a = Judicator::start(&access, "a@1.1.1.1:1", SHORT);
    a.leads().await;
    sees(&follower, &["1.1.1.1:1"]).await;
    cluster.first().kill();
    a.leads_no_longer().await;
    assert_eq!(*follower.judicators.borrow(), ["1.1.1.1:1"]);
    cluster.first().restart();
    a.leads().await;
    let _b = Judicator::start(&access, "b@2.2.2.2:2", SHORT);
    sees(&follower, &["1.1.1.1:1", "2.2.2.2:2"]).await;
}

#[tokio::test]
async fn the_leader_of_etcd_is_killed() {
    let mut cluster = Cluster::start(3).await;
    let access = cluster.access();
    let leader = cluster.leader().await;
    // Everybody talks to that one first.
    let mut endpoints = access.endpoints.clone();
    endpoints.rotate_left(leader);
    let access = access.at(endpoints);
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());
    let a = Judicator::start(&access, "a@1.1.1.1:1", SHORT);
    a.leads().await;
    let b = Judicator::start(&access, "b@2.2.2.2:2", SHORT);
    sees(&follower, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    let lookout = Lookout::over(&[&a, &b]);
    cluster.members[leader].kill();
    let c = Judicator::start(&access, "c@3.3.3.3:3", SHORT);
    for registry in [&follower, &a.registry, &b.registry, &c.registry] {
        sees(registry, &["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3"]).await;
    }
    a.stop().await;
    b.stop().await;
    c.leads().await;
    lookout.saw_no_two();
}

#[tokio::test]
async fn the_only_member_that_was_given_hangs_for_good() {
    let cluster = Cluster::start(3).await;
    let access = cluster.access();
    let given = &cluster.members[0];
    let a = Judicator::start(&at_one(given), "a@1.1.1.1:1", SHORT);
    a.leads().await;
    let others = access.at(access.endpoints[1..].to_vec());
    // Whom else to ask is its first question, after the first list and after the first round. What it sees of a change
    // and does about one comes later.
    let b = Judicator::start(&others, "b@2.2.2.2:2", SHORT);
    sees(&a.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    b.stop().await;
    sees(&a.registry, &["1.1.1.1:1"]).await;
    delete(&others, "/conclave/leader").await;
    becomes(&others, &["a@1.1.1.1:1 1*"]).await;

    given.pause();
    let b = Judicator::start(&others, "b@2.2.2.2:2", SHORT);
    sees(&a.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    becomes_such(&access, "both", |roster| roster.len() == 2).await;
    b.stop().await;
    a.leads().await;
}

#[tokio::test]
async fn a_member_that_answers_but_has_lost_the_others_is_passed_over() {
    let mut cut_off = Cluster::start(2).await;
    cut_off.members[1].kill();
    let cluster = Cluster::start(1).await;
    let lost = cut_off.members[0].endpoint.clone();
    let both = cluster
        .access()
        .at(vec![lost, cluster.members[0].endpoint.clone()]);
    let (follower, _task) = etcd::follow(both.clone(), CancellationToken::new());
    let a = Judicator::start(&both, "a@1.1.1.1:1", SHORT);
    a.leads().await;
    sees(&follower, &["1.1.1.1:1"]).await;
    becomes(&both, &["a@1.1.1.1:1 1*"]).await;
}
