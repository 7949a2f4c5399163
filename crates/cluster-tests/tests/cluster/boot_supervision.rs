use std::fs::File;
use std::time::Duration;

use cluster_tests::{ClusterProcess, FormationMethod, TestCluster, wait_until};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;

use crate::harness::assert_runs_a_task;

const SOON: Duration = Duration::from_secs(20);
const JUDICATOR: ClusterProcess = ClusterProcess::Service("judicator");

async fn single_judicator() -> TestCluster {
    let mut cluster = TestCluster::new();
    cluster.form(FormationMethod::Join, 1);
    cluster.add_executor("e1");
    cluster.wait_until_complete(1).await;
    cluster.wait_for_executors(1).await;
    cluster
}

/// Asserts that boot does not restart the judicator while it is held.
async fn assert_not_restarted(cluster: &TestCluster) {
    let node = cluster.node("j1");
    node.service("judicator", "held", |service| service.state == "held")
        .await;
    // Longer than a restart takes. The absence of a restart can only be observed by waiting.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let status = node.status().await.unwrap();
    let judicator = status.get("judicator").unwrap();
    assert_eq!((judicator.state.as_str(), judicator.pid), ("held", None));
}

#[tokio::test]
async fn a_held_service_is_not_restarted() {
    let mut cluster = single_judicator().await;
    // Held by the command.
    let node = cluster.node_mut("j1");
    assert_eq!(node.conclave(&["hold", "judicator"]).await.code, 0);
    node.service("judicator", "held", |service| {
        service.state == "held" && service.pid.is_some()
    })
    .await;
    let first = node.signal(JUDICATOR, Signal::SIGKILL).await;
    assert_not_restarted(&cluster).await;
    let node = cluster.node_mut("j1");
    assert_eq!(node.conclave(&["unhold", "judicator"]).await.code, 0);
    node.wait_until_ready().await;
    let second = node.pid(JUDICATOR).await;
    assert_ne!(second, first);
    assert_runs_a_task(&cluster).await;

    // Held by a lock on the pid file, as an operator's script may do.
    let node = cluster.node_mut("j1");
    let path = node.data().join("run/judicator.pid");
    assert_eq!(
        std::fs::read_to_string(&path).unwrap().split_whitespace().next(),
        Some(&second.to_string()[..])
    );
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let lock = Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, error)| error)
        .unwrap();
    node.signal(JUDICATOR, Signal::SIGKILL).await;
    assert_not_restarted(&cluster).await;
    drop(lock);
    let node = cluster.node_mut("j1");
    node.wait_until_ready().await;
    let judicator = node
        .service("judicator", "running", |service| service.state == "running")
        .await;
    assert_eq!(judicator.restarts, 2, "{judicator:?}");
    assert!(
        judicator.exit.contains("SIGKILL") || judicator.exit.contains('9'),
        "{judicator:?}"
    );
    assert_runs_a_task(&cluster).await;

    // A service that the node does not have cannot be held.
    let said = cluster.node("j1").conclave(&["hold", "gateway"]).await;
    assert_ne!(said.code, 0);
    assert!(
        said.stderr.contains("judicator") && said.stderr.contains("etcd"),
        "{said:?}"
    );
}

/// Two instances of a service would corrupt its data. The next boot has to find services that an earlier one left.
#[tokio::test]
async fn the_next_boot_takes_over() {
    let mut cluster = single_judicator().await;
    for round in ["while its services exit", "after they have exited"] {
        let node = cluster.node_mut("j1");
        node.signal(ClusterProcess::Boot, Signal::SIGKILL).await;
        if round == "after they have exited" {
            node.wait_until_no_process_runs().await;
        }
        node.start();
        node.wait_until_ready().await;
        for name in ["etcd", "mongodb", "judicator"] {
            let running = cluster.node("j1").running(&["service", name]);
            assert_eq!(running.len(), 1, "{running:?}");
        }
        assert_runs_a_task(&cluster).await;
    }
    // A second boot at the same time is refused, and the first continues.
    let node = cluster.node_mut("j1");
    let (succeeded, words) = node.second_boot().await;
    assert!(!succeeded, "{words}");
    assert!(
        words.contains("already runs") && words.contains("conclave stop"),
        "{words}"
    );
    assert_runs_a_task(&cluster).await;

    let node = cluster.node_mut("j1");
    node.stop(&[]).await;
    let said = node.conclave(&["status"]).await;
    for word in ["boot is not running", "stopped"] {
        assert!(said.text().contains(word), "{said:?}");
    }
}

/// Services log to files, and to the terminal if asked for.
#[tokio::test]
async fn logs_are_rotated_and_printed() {
    let mut cluster = TestCluster::new();
    cluster.add_judicator("j1");
    let args = [
        "--first",
        "--print-log=etcd,judicator",
        "--set",
        "boot.log_size=16KiB",
    ];
    cluster.start_judicator("j1", &args.map(String::from));
    let node = cluster.node_mut("j1");
    node.wait_until_ready().await;
    for service in ["etcd", "mongodb", "judicator"] {
        let what = format!("a log of {service}");
        // After a rotation the current file may be empty.
        let older = node.data().join(format!("log/{service}.log.1"));
        wait_until(&what, SOON, async || {
            (!node.log(service).is_empty() || older.exists()).then_some(())
        })
        .await;
    }
    // mongod logs enough for a rotation.
    let older = node.data().join("log/mongodb.log.1");
    wait_until("a rotated log", SOON, async || older.exists().then_some(())).await;
    let status = node.conclave(&["status"]).await.assert_success();
    for word in ["etcd", "mongodb", "judicator", "running"] {
        assert!(status.text().contains(word), "{}", status.text());
    }
    // One line of etcd and one of the judicator; printing is asynchronous.
    for words in ["now serving peer/client/metrics", "this judicator is the leader"] {
        let what = format!("'{words}' at the terminal");
        wait_until(&what, SOON, async || {
            node.terminal_output().contains(words).then_some(())
        })
        .await;
    }
    node.stop(&[]).await;
    assert!(
        !node.terminal_output().contains("WiredTiger"),
        "the log of mongod was not asked for"
    );
}
