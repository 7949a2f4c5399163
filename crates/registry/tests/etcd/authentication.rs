//! etcd with authentication enabled.

use std::error::Error;

use registry::etcd::{self, EtcdAccess, EtcdLogin};
use tokio_util::sync::CancellationToken;

use super::harness::{
    JudicatorTask, SHORT_LEASE, connect, retry_until_ok, wait_for_addresses, wait_for_registered,
};
use super::servers::{EtcdCluster, access_to};

fn as_root(access: EtcdAccess, password: &str) -> EtcdAccess {
    EtcdAccess {
        login: Some(EtcdLogin {
            user: "root".into(),
            password: password.into(),
        }),
        ..access
    }
}

/// The refusal of etcd itself. A timeout is not a refusal.
async fn refusal(access: &EtcdAccess) -> String {
    retry_until_ok("etcd does not refuse the login", async || {
        let error = etcd::list_judicators(access)
            .await
            .err()
            .ok_or("the login is accepted")?;
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        match cause.contains("etcdserver: ") && !cause.contains("timed out") {
            true => Ok(cause),
            false => Err(error.into()),
        }
    })
    .await
}

#[tokio::test]
async fn clients_log_in_after_authentication_is_enabled_and_after_a_restart() {
    let mut cluster = EtcdCluster::start(1).await;
    let proxy = cluster.proxy().await;
    let access = as_root(cluster.access(), "right");
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());
    let (behind, _task) = etcd::follow(as_root(access_to(&proxy), "right"), CancellationToken::new());
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", SHORT_LEASE);
    a.wait_until_leading().await;
    for registry in [&follower, &behind] {
        wait_for_addresses(registry, &["1.1.1.1:1"]).await;
    }

    let mut client = connect(&cluster.access()).await;
    client.user_add("root", "right", None).await.unwrap();
    client.user_grant_role("root", "root").await.unwrap();
    client.auth_enable().await.unwrap();
    for (access, words) in [
        (cluster.access(), "user name is empty"),
        (as_root(cluster.access(), "wrong"), "authentication failed"),
    ] {
        let cause = refusal(&access).await;
        assert!(cause.contains(words), "{cause}");
    }
    let b = JudicatorTask::start(&access, "b@2.2.2.2:2", SHORT_LEASE);
    for registry in [&follower, &behind, &a.registry] {
        wait_for_addresses(registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    }

    // A restart drops all login tokens.
    cluster.first().kill();
    cluster.first().restart();
    let c = JudicatorTask::start(&access, "c@3.3.3.3:3", SHORT_LEASE);
    for registry in [&follower, &behind, &a.registry, &b.registry, &c.registry] {
        wait_for_addresses(registry, &["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3"]).await;
    }
    for judicator in [a, b, c] {
        judicator.stop().await;
    }
    wait_for_registered(&access, &[]).await;
    for registry in [&follower, &behind] {
        wait_for_addresses(registry, &[]).await;
    }
}
