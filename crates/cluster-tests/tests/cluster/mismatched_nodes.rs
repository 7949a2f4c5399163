//! Nodes that do not match the cluster they try to join: they report why, and the cluster is not affected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cluster_tests::{ETCD, FormationMethod, TestCluster};

use crate::harness::{assert_runs_a_task, wait_until_logged};

async fn cluster_of_one() -> TestCluster {
    let mut cluster = TestCluster::new();
    cluster.form(FormationMethod::Join, 1);
    cluster.add_executor("e1");
    cluster.wait_until_complete(1).await;
    cluster.wait_for_executors(1).await;
    assert_runs_a_task(&cluster).await;
    cluster
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[tokio::test]
async fn a_node_with_a_wrong_secret_is_refused() {
    let mut cluster = cluster_of_one().await;
    let wrong: PathBuf = cluster.folder().join("wrong");
    fs::write(&wrong, "incorrect-horse-battery-staple\n").unwrap();
    let join = cluster.node("j1").address_of(ETCD);
    let wrong = wrong.display().to_string();
    cluster.add_judicator("j2");
    let args = ["--join", &join, "--cluster-file", &wrong];
    cluster.start_judicator("j2", &args.map(String::from));
    wait_until_logged(&cluster, "j2", &["secret"]).await;
    cluster.remove_node("j2");
    cluster.wait_until_complete(1).await;
    // An executor with the wrong secret is refused, too.
    cluster.add_executor_by("e2", &["--join", &join, "--cluster-file", &wrong]);
    wait_until_logged(&cluster, "e2", &["secret"]).await;
    let executors = cluster.client().executors().await.unwrap();
    assert_eq!(executors.len(), 1, "{executors:?}");
    // A secret that is too short.
    fs::write(cluster.folder().join("short"), "short\n").unwrap();
    let short = cluster.folder().join("short").display().to_string();
    cluster.add_judicator("j3");
    let args = ["--join", &join, "--cluster-file", &short];
    cluster.start_judicator("j3", &args.map(String::from));
    wait_until_logged(&cluster, "j3", &["16"]).await;
    cluster.wait_until_complete(1).await;
    assert_runs_a_task(&cluster).await;
}

/// The data belongs to a replica set of another name: it is not changed, and is usable when the setting is corrected.
#[tokio::test]
async fn a_wrong_replica_set_name_is_reported() {
    let mut cluster = cluster_of_one().await;
    let task = cluster
        .client()
        .search(&model::TaskQuery::default())
        .await
        .unwrap()
        .tasks
        .remove(0);
    cluster.node_mut("j1").stop(&[]).await;
    let right = ["--first".to_string()];
    let wrong = ["--first", "--set", "mongodb.set=another"].map(String::from);
    cluster.start_judicator("j1", &wrong);
    wait_until_logged(&cluster, "j1", &["another", "conclave", "mongodb.set"]).await;
    cluster.node_mut("j1").kill_all();
    cluster.start_judicator("j1", &right);
    cluster.wait_until_complete(1).await;
    cluster.wait_for_executors(1).await;
    assert!(cluster.client().get(task.id, None).await.unwrap().done);
    assert_runs_a_task(&cluster).await;
}

/// The node's data folder was copied from another cluster, as a whole or in part.
#[tokio::test]
async fn a_data_folder_of_another_cluster_is_refused() {
    let mut other = TestCluster::new();
    other.form(FormationMethod::Join, 1);
    other.wait_until_complete(1).await;
    other.node_mut("j1").stop(&[]).await;
    let mut cluster = cluster_of_one().await;
    let join = cluster.node("j1").address_of(ETCD);
    let args = ["--join".to_string(), join];
    for (name, part) in [("j2", ""), ("j3", "etcd"), ("j4", "mongodb")] {
        cluster.add_judicator(name);
        let data = cluster.node(name).data();
        if !part.is_empty() {
            fs::create_dir(&data).unwrap();
        }
        copy(&other.node("j1").data().join(part), &data.join(part));
        cluster.start_judicator(name, &args);
        wait_until_logged(&cluster, name, &["another cluster"]).await;
        cluster.remove_node(name);
        cluster.wait_until_complete(1).await;
    }
    assert_runs_a_task(&cluster).await;
    // The cluster that was copied from still works.
    other.node_mut("j1").start();
    other.wait_until_complete(1).await;
}
