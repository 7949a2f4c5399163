//! Another etcd cluster at the address of a former member.

use registry::etcd::{EtcdAccess, EtcdAccessError};

use super::harness::{connect, retry_until_ok};
use super::servers::{EtcdCluster, access_to};

/// The refusal of this access. A failed connection is not a refusal.
async fn refusal(access: &EtcdAccess) -> EtcdAccessError {
    retry_until_ok("the cluster is not refused", async || {
        match access.connect().await {
            Ok(_) => Err("the cluster is accepted".into()),
            Err(silent @ EtcdAccessError::Connect { .. }) => Err(silent.into()),
            Err(refused) => Ok(refused),
        }
    })
    .await
}

#[tokio::test]
async fn only_the_expected_cluster_is_accepted() {
    let (ours, foreign) = (EtcdCluster::start(1).await, EtcdCluster::start(1).await);
    let mut client = connect(&ours.access()).await;
    let id = client.status().await.unwrap().header().unwrap().cluster_id();
    client.put("whose", "ours", None).await.unwrap();

    // The foreign cluster is tried first.
    let endpoints = [foreign.access().endpoints, ours.access().endpoints].concat();
    let both = ours.access().with_endpoints(endpoints).with_cluster_id(Some(id));
    let mut client = connect(&both).await;
    let answer = client.get("whose", None).await.unwrap();
    assert_eq!(answer.kvs().len(), 1);

    let proxies = [ours.proxy().await, foreign.proxy().await];
    let [through_ours, through_foreign] = proxies
        .each_ref()
        .map(|proxy| access_to(proxy).with_cluster_id(Some(id)));
    connect(&through_ours).await;
    for access in [foreign.access().with_cluster_id(Some(id)), through_foreign] {
        let refused = refusal(&access).await;
        assert!(
            matches!(refused, EtcdAccessError::AnotherCluster { ours, .. } if ours == id),
            "{refused}"
        );
    }
}
