//! Nodes that must not start are refused, and leave no trace.

use std::net::TcpListener;

use crate::harness::{ReplicaSetHarness, SECRET};

#[tokio::test]
async fn a_node_that_does_not_fit_the_cluster_is_refused_before_anything_is_written() {
    let mut harness = ReplicaSetHarness::new(Some(SECRET)).await;
    harness.start("a");
    harness.wait_until_set_is("a+").await;

    // Another secret, or none.
    for secret in [Some("another secret than theirs".to_string()), None] {
        let mut options = harness.options("b");
        options.secret = secret;
        let message = harness.run_until_failure(options).await;
        assert!(message.contains("secrets.cluster_file"), "{message}");
    }
    // Another set.
    let mut options = harness.options("b");
    options.set = "other".into();
    let message = harness.run_until_failure(options).await;
    assert!(
        message.contains("the cluster's replica set is conclave, not other"),
        "{message}"
    );
    // The address of another node, and the name of another node.
    let mut options = harness.options("b");
    options.port = harness.options("a").port;
    let message = harness.run_until_failure(options).await;
    assert!(message.contains("is registered by the node a"), "{message}");
    let mut options = harness.options("b");
    options.name = "a".into();
    let message = harness.run_until_failure(options).await;
    assert!(message.contains("a node named a runs at"), "{message}");
    // None of these starts has left a trace.
    assert!(!harness.data("b").exists());
    assert_eq!(harness.record("members/b").await, None);
    assert_eq!(harness.records_with_prefix("left/").await, Vec::<String>::new());

    // The node's own folder, with other options than before.
    harness.stop("a").await;
    let mut options = harness.options("a");
    options.secret = Some("another secret than before".into());
    let message = harness.run_until_failure(options).await;
    assert!(message.contains("another cluster secret"), "{message}");
    let mut options = harness.options("a");
    options.set = "other".into();
    let message = harness.run_until_failure(options).await;
    assert!(
        message.contains("data of the replica set conclave, not of other"),
        "{message}"
    );
    // The folder of another cluster.
    let other = ReplicaSetHarness::new(Some(SECRET)).await;
    let mut options = harness.options("a");
    options.etcd = other.access.clone();
    let message = harness.run_until_failure(options).await;
    assert!(message.contains("data of another cluster"), "{message}");
    assert_eq!(other.record("members/a").await, None);

    harness.start("a");
    harness.wait_until_set_is("a+").await;
    harness.shut_down().await;
}

#[tokio::test]
async fn the_error_for_a_mongod_that_cannot_run_says_what_to_do() {
    let mut harness = ReplicaSetHarness::new(None).await;
    let options = harness.options("a");
    let taken = TcpListener::bind((options.host.as_str(), options.port)).unwrap();
    let message = harness.run_until_failure(options).await;
    assert!(
        message.contains("is in use") && message.contains("mongodb.port"),
        "{message}"
    );
    drop(taken);

    let mut options = harness.options("b");
    options.program = "no-such-mongod".into();
    let message = harness.run_until_failure(options).await;
    assert!(message.contains("mongodb.program"), "{message}");
    assert!(!harness.data("b").exists());

    // A mongod that starts and never serves.
    let mut options = harness.options("c");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exec echo db version v6.0.0\nexec sleep 1000\n";
    options.program = harness.write_script("mongod", script);
    options.tries = 1;
    let message = harness.run_until_failure(options).await;
    assert_eq!(message, "mongod did not answer for 1s and was killed");
    harness.shut_down().await;
}
