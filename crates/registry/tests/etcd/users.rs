//! etcd asks who is there.

use std::error::Error;

use registry::etcd::{self, Access, Login};
use tokio_util::sync::CancellationToken;

use super::servers::{Cluster, at_one};
use super::stage::{Judicator, SHORT, becomes, insist, reached, sees};

fn as_root(access: Access, password: &str) -> Access {
    Access {
        login: Some(Login {
            user: "root".into(),
            password: password.into(),
        }),
        ..access
    }
}

/// What etcd itself says: that the way to it took too long, or etcd, is no answer.
async fn refusal(access: &Access) -> String {
    insist("etcd does not refuse", async || {
        let error = etcd::roster(access).await.err().ok_or("it is let in")?;
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        match cause.contains("etcdserver: ") && !cause.contains("timed out") {
            true => Ok(cause),
            false => Err(error.into()),
        }
    })
    .await
}

#[tokio::test]
async fn before_and_after_users_are_set_up_and_after_a_restart() {
    let mut cluster = Cluster::start(1).await;
    let proxy = cluster.proxy().await;
    let access = as_root(cluster.access(), "right");
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());
    let (behind, _task) = etcd::follow(as_root(at_one(&proxy), "right"), CancellationToken::new());
    let a = Judicator::start(&access, "a@1.1.1.1:1", SHORT);
    a.leads().await;
    for registry in [&follower, &behind] {
        sees(registry, &["1.1.1.1:1"]).await;
    }

    let mut client = reached(&cluster.access()).await;
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
    let b = Judicator::start(&access, "b@2.2.2.2:2", SHORT);
    for registry in [&follower, &behind, &a.registry] {
        sees(registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    }

    // It forgets who has logged in.
    cluster.first().kill();
    cluster.first().restart();
    let c = Judicator::start(&access, "c@3.3.3.3:3", SHORT);
    for registry in [&follower, &behind, &a.registry, &b.registry, &c.registry] {
        sees(registry, &["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3"]).await;
    }
    for judicator in [a, b, c] {
        judicator.stop().await;
    }
    becomes(&access, &[]).await;
    for registry in [&follower, &behind] {
        sees(registry, &[]).await;
    }
}
