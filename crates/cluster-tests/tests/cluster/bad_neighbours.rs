//! A node that does not fit the cluster it was told to join: it says why, and the cluster does not notice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cluster_tests::{Cluster, ETCD, Forming};

use crate::stage::{complains, runs_a_task};

async fn one() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.form(Forming::Join, 1);
    cluster.add_executor("e1");
    cluster.whole(1).await;
    cluster.working(1).await;
    runs_a_task(&cluster).await;
    cluster
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

#[tokio::test]
async fn a_wrong_secret() {
    let mut cluster = one().await;
    let wrong: PathBuf = cluster.folder().join("wrong");
    fs::write(&wrong, "incorrect-horse-battery-staple\n").unwrap();
    let join = cluster.machine("j1").at(ETCD);
    let wrong = wrong.display().to_string();
    cluster.add_judicator("j2");
    let args = ["--join", &join, "--cluster-file", &wrong];
    cluster.start_judicator("j2", &args.map(String::from));
    complains(&cluster, "j2", &["secret"]).await;
    cluster.discard("j2");
    cluster.whole(1).await;
    // Nor does an executor or a gateway get in.
    cluster.add_executor_by("e2", &["--join", &join, "--cluster-file", &wrong]);
    complains(&cluster, "e2", &["secret"]).await;
    let executors = cluster.client().executors().await.unwrap();
    assert_eq!(executors.len(), 1, "{executors:?}");
    // A secret that is none.
    fs::write(cluster.folder().join("short"), "short\n").unwrap();
    let short = cluster.folder().join("short").display().to_string();
    cluster.add_judicator("j3");
    let args = ["--join", &join, "--cluster-file", &short];
    cluster.start_judicator("j3", &args.map(String::from));
    complains(&cluster, "j3", &["16"]).await;
    cluster.whole(1).await;
    runs_a_task(&cluster).await;
}

/// The data belongs to a set of another name: it is not touched, and is still there when the mistake is mended.
#[tokio::test]
async fn a_wrong_name_of_the_replica_set() {
    let mut cluster = one().await;
    let task = cluster
        .client()
        .search(&model::Query::default())
        .await
        .unwrap()
        .tasks
        .remove(0);
    cluster.machine_mut("j1").stop(&[]).await;
    let right = ["--first".to_string()];
    let wrong = ["--first", "--set", "mongodb.set=another"].map(String::from);
    cluster.start_judicator("j1", &wrong);
    complains(&cluster, "j1", &["another", "conclave", "mongodb.set"]).await;
    cluster.machine_mut("j1").kill_all();
    cluster.start_judicator("j1", &right);
    cluster.whole(1).await;
    cluster.working(1).await;
    assert!(cluster.client().get(task.id, None).await.unwrap().done);
    runs_a_task(&cluster).await;
}

/// A node whose folder was brought from elsewhere, whole or in part.
#[tokio::test]
async fn a_data_folder_of_another_cluster() {
    let mut other = Cluster::new();
    other.form(Forming::Join, 1);
    other.whole(1).await;
    other.machine_mut("j1").stop(&[]).await;
    let mut cluster = one().await;
    let join = cluster.machine("j1").at(ETCD);
    let args = ["--join".to_string(), join];
    for (name, part) in [("j2", ""), ("j3", "etcd"), ("j4", "mongodb")] {
        cluster.add_judicator(name);
        let data = cluster.machine(name).data();
        if !part.is_empty() {
            fs::create_dir(&data).unwrap();
        }
        copy(&other.machine("j1").data().join(part), &data.join(part));
        cluster.start_judicator(name, &args);
        complains(&cluster, name, &["another cluster"]).await;
        cluster.discard(name);
        cluster.whole(1).await;
    }
    runs_a_task(&cluster).await;
    // What was copied from is as good as before.
    other.machine_mut("j1").start();
    other.whole(1).await;
}
