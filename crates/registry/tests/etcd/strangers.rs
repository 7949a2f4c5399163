//! Another cluster at an address that was once that of a member.

use registry::etcd::{Access, AccessError};

use super::servers::{Cluster, at_one};
use super::stage::{insist, reached};

/// What speaks against it, if not only that there was no answer yet.
async fn refusal(access: &Access) -> AccessError {
    insist("it is not refused", async || match access.connect().await {
        Ok(_) => Err("it is let in".into()),
        Err(silent @ AccessError::Connect { .. }) => Err(silent.into()),
        Err(refused) => Ok(refused),
    })
    .await
}

#[tokio::test]
async fn only_the_cluster_that_was_named_will_do() {
    let (ours, strange) = (Cluster::start(1).await, Cluster::start(1).await);
    let mut client = reached(&ours.access()).await;
    let id = client.status().await.unwrap().header().unwrap().cluster_id();
    client.put("whose", "ours", None).await.unwrap();

    // The strange one is asked first.
    let endpoints = [strange.access().endpoints, ours.access().endpoints].concat();
    let both = ours.access().at(endpoints).of(Some(id));
    let mut client = reached(&both).await;
    let answer = client.get("whose", None).await.unwrap();
    assert_eq!(answer.kvs().len(), 1);

    let proxies = [ours.proxy().await, strange.proxy().await];
    let [through_ours, through_strange] = proxies.each_ref().map(|proxy| at_one(proxy).of(Some(id)));
    reached(&through_ours).await;
    for access in [strange.access().of(Some(id)), through_strange] {
        let refused = refusal(&access).await;
        assert!(
            matches!(refused, AccessError::AnotherCluster { ours, .. } if ours == id),
            "{refused}"
        );
    }
}
