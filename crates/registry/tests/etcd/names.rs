//! A name is for one judicator.

use std::time::Duration;

use registry::etcd::Access;

use super::servers::Cluster;
use super::stage::{Judicator, LONG, SHORT, STEADY, becomes, reached, roster, sees};

/// Looks for longer than several rounds of the shortest lease take.
async fn stays(access: &Access, expected: &[&str]) {
    let end = tokio::time::Instant::now() + SHORT;
    while tokio::time::Instant::now() < end {
        assert_eq!(roster(access).await, expected);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_second_one_waits_until_the_first_is_gone() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let first = Judicator::start(&access, "a@1.1.1.1:1", STEADY);
    first.leads().await;
    let second = Judicator::start(&access, "a@2.2.2.2:2", SHORT);
    sees(&second.registry, &["1.1.1.1:1"]).await;
    stays(&access, &["a@1.1.1.1:1 1*"]).await;
    assert!(!*second.registry.leading.borrow());
    first.stop().await;
    becomes(&access, &["a@2.2.2.2:2 1*"]).await;
    second.leads().await;
}

#[tokio::test]
async fn a_later_life_takes_over_at_once() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let first = Judicator::start(&access, "a@1.1.1.1:1 1", LONG);
    first.leads().await;
    first.vanish().await;
    let second = Judicator::start(&access, "a@1.1.1.1:1 2", SHORT);
    second.leads().await;
    becomes(&access, &["a@1.1.1.1:1 2*"]).await;
    // Nothing of it hangs on the earlier lease.
    second.vanish().await;
    becomes(&access, &[]).await;
}

#[tokio::test]
async fn doubles_do_not_take_it_from_each_other_in_turns() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let first = Judicator::start(&access, "a@1.1.1.1:1 1", SHORT);
    first.leads().await;
    let second = Judicator::start(&access, "a@1.1.1.1:1 2", STEADY);
    second.leads().await;
    first.leads_no_longer().await;
    stays(&access, &["a@1.1.1.1:1 2*"]).await;
    second.vanish().await;
    becomes(&access, &["a@1.1.1.1:1 1*"]).await;
}

#[tokio::test]
async fn a_value_that_makes_no_sense_is_left_out() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let mut client = reached(&access).await;
    for (name, value) in [("odd", "{"), ("a", "what?")] {
        let key = format!("/conclave/judicators/{name}");
        client.put(key, value, None).await.unwrap();
    }
    // Nor does it keep the name from being used.
    let a = Judicator::start(&access, "a@1.1.1.1:1", SHORT);
    a.leads().await;
    sees(&a.registry, &["1.1.1.1:1"]).await;
    becomes(&access, &["a@1.1.1.1:1 1*"]).await;
}
