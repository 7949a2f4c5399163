use std::time::{Duration, Instant};

use cluster_tests::{ClusterProcess, ETCD, FormationMethod, TestCluster};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::harness::{LONGER_THAN_LEASES, assert_runs_a_task};

const SOON: Duration = Duration::from_secs(60);
const DAEMON: ClusterProcess = ClusterProcess::Service("mongodb");

/// Waits for the claim to initiate the replica set, and returns the node that made it.
async fn wait_for_claim(cluster: &TestCluster) -> String {
    let etcd = cluster.node("j1").address_of(ETCD);
    loop {
        let mut watch = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &etcd])
            // From the first revision, because the claim may be older than this watch.
            .args(["watch", "--rev", "1", "/conclave/mongodb/initiate"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Ok(claim) = serde_json::from_str::<serde_json::Value>(&line) {
                return claim["name"].as_str().unwrap().to_string();
            }
        }
        // The watch ended, because etcd does not serve yet.
    }
}

/// Injects a fault into the node that claims to initiate, and asserts that exactly one replica set forms.
async fn assert_one_set_forms_despite(inject: impl AsyncFnOnce(&mut TestCluster, &str)) {
    let mut cluster = TestCluster::new().without_secret();
    cluster.form(FormationMethod::Members, 3);
    let victim = tokio::time::timeout(SOON, wait_for_claim(&cluster))
        .await
        .unwrap();
    let begun = Instant::now();
    inject(&mut cluster, &victim).await;
    cluster.add_executor("e1");
    cluster.wait_until_complete(3).await;
    println!(
        "complete {:?} after {victim} claimed to initiate",
        begun.elapsed()
    );
    cluster.wait_for_executors(1).await;
    assert_runs_a_task(&cluster).await;
}

#[tokio::test]
async fn the_initiating_daemon_is_killed() {
    assert_one_set_forms_despite(async |cluster, victim| {
        let node = cluster.node_mut(victim);
        node.signal(DAEMON, Signal::SIGKILL).await;
        println!("{}", node.log("mongodb"));
    })
    .await;
}

/// The others cannot know whether it has initiated the set, so they must wait until it comes back.
#[tokio::test]
async fn the_initiating_node_loses_power() {
    assert_one_set_forms_despite(async |cluster, victim| {
        cluster.node_mut(victim).kill_all();
        tokio::time::sleep(LONGER_THAN_LEASES).await;
        cluster.node_mut(victim).start();
    })
    .await;
}

/// The claim expires while the daemon is stopped, and another daemon initiates the set before it continues. Or its own mongod
/// is already initiated: then the others wait for it.
#[tokio::test]
async fn the_initiating_daemon_is_paused() {
    assert_one_set_forms_despite(async |cluster, victim| {
        let paused = cluster.node_mut(victim).signal(DAEMON, Signal::SIGSTOP).await;
        tokio::time::sleep(LONGER_THAN_LEASES).await;
        kill(Pid::from_raw(paused), Signal::SIGCONT).unwrap();
    })
    .await;
}
