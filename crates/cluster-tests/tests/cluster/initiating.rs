use std::time::{Duration, Instant};

use cluster_tests::{Cluster, ETCD, Forming, Process};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::stage::{LONGER_THAN_LEASES, runs_a_task};

const SOON: Duration = Duration::from_secs(60);
const DAEMON: Process = Process::Service("mongodb");

/// Who claims to initiate the replica set, at the moment of the claim.
async fn claims(cluster: &Cluster) -> String {
    let etcd = cluster.machine("j1").at(ETCD);
    loop {
        let mut watch = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &etcd])
            // From the beginning: it may have been too quick for us.
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
        // It ended: etcd does not serve yet.
    }
}

/// Whoever claims to initiate is struck; there has to be one replica set in the end, and only one.
async fn struck_while_initiating(strike: impl AsyncFnOnce(&mut Cluster, &str)) {
    let mut cluster = Cluster::new().without_secret();
    cluster.form(Forming::Members, 3);
    let victim = tokio::time::timeout(SOON, claims(&cluster)).await.unwrap();
    let begun = Instant::now();
    strike(&mut cluster, &victim).await;
    cluster.add_executor("e1");
    cluster.whole(3).await;
    println!("whole {:?} after {victim} claimed to initiate", begun.elapsed());
    cluster.working(1).await;
    runs_a_task(&cluster).await;
}

#[tokio::test]
async fn its_daemon_is_killed() {
    struck_while_initiating(async |cluster, victim| {
        let machine = cluster.machine_mut(victim);
        machine.signal(DAEMON, Signal::SIGKILL).await;
        println!("{}", machine.log("mongodb"));
    })
    .await;
}

/// Nobody knows whether it has initiated or not, so nobody else may; it has to come back.
#[tokio::test]
async fn its_power_fails() {
    struck_while_initiating(async |cluster, victim| {
        cluster.machine_mut(victim).kill_all();
        tokio::time::sleep(LONGER_THAN_LEASES).await;
        cluster.machine_mut(victim).start();
    })
    .await;
}

/// Its claim has ended and another has initiated when it goes on with what it was about to do. Or it was so quick that
/// its own mongod is initiated already: then nobody else may, and the others wait for it.
#[tokio::test]
async fn its_daemon_stands_still() {
    struck_while_initiating(async |cluster, victim| {
        let paused = cluster.machine_mut(victim).signal(DAEMON, Signal::SIGSTOP).await;
        tokio::time::sleep(LONGER_THAN_LEASES).await;
        kill(Pid::from_raw(paused), Signal::SIGCONT).unwrap();
    })
    .await;
}
