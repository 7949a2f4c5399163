//! What must not start, and leaves no trace when it does not.

use std::net::TcpListener;

use crate::ground::{Ground, SECRET};

#[tokio::test]
async fn strangers_are_refused_before_anything_is_written() {
    let mut ground = Ground::new(Some(SECRET)).await;
    ground.start("a");
    ground.until_set_is("a+").await;

    // Another secret, or none.
    for secret in [Some("another secret than theirs".to_string()), None] {
        let mut options = ground.options("b");
        options.secret = secret;
        let told = ground.failure_of(options).await;
        assert!(told.contains("secrets.cluster_file"), "{told}");
    }
    // Another set.
    let mut options = ground.options("b");
    options.set = "other".into();
    let told = ground.failure_of(options).await;
    assert!(
        told.contains("the cluster's replica set is conclave, not other"),
        "{told}"
    );
    // An address that is another's, and a name that is.
    let mut options = ground.options("b");
    options.port = ground.options("a").port;
    let told = ground.failure_of(options).await;
    assert!(told.contains("is registered by the node a"), "{told}");
    let mut options = ground.options("b");
    options.name = "a".into();
    let told = ground.failure_of(options).await;
    assert!(told.contains("a node named a runs at"), "{told}");
    // None of them was there.
    assert!(!ground.data("b").exists());
    assert_eq!(ground.record("members/b").await, None);
    assert_eq!(ground.records_below("left/").await, Vec::<String>::new());

    // Its own folder, but not as it was set up.
    ground.stop("a").await;
    let mut options = ground.options("a");
    options.secret = Some("another secret than before".into());
    let told = ground.failure_of(options).await;
    assert!(told.contains("another cluster secret"), "{told}");
    let mut options = ground.options("a");
    options.set = "other".into();
    let told = ground.failure_of(options).await;
    assert!(
        told.contains("data of the replica set conclave, not of other"),
        "{told}"
    );
    // The folder of another cluster.
    let other = Ground::new(Some(SECRET)).await;
    let mut options = ground.options("a");
    options.etcd = other.access.clone();
    let told = ground.failure_of(options).await;
    assert!(told.contains("data of another cluster"), "{told}");
    assert_eq!(other.record("members/a").await, None);

    ground.start("a");
    ground.until_set_is("a+").await;
    ground.end().await;
}

#[tokio::test]
async fn a_server_that_cannot_run_is_told_with_what_to_do() {
    let mut ground = Ground::new(None).await;
    let options = ground.options("a");
    let taken = TcpListener::bind((options.host.as_str(), options.port)).unwrap();
    let told = ground.failure_of(options).await;
    assert!(
        told.contains("is taken") && told.contains("mongodb.port"),
        "{told}"
    );
    drop(taken);

    let mut options = ground.options("b");
    options.program = "no-such-mongod".into();
    let told = ground.failure_of(options).await;
    assert!(told.contains("mongodb.program"), "{told}");
    assert!(!ground.data("b").exists());

    // One that starts and never serves.
    let mut options = ground.options("c");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exec echo db version v6.0.0\nexec sleep 1000\n";
    options.program = ground.script("mongod", script);
    options.tries = 1;
    let told = ground.failure_of(options).await;
    assert_eq!(told, "mongod did not answer for 1s and was killed");
    ground.end().await;
}
