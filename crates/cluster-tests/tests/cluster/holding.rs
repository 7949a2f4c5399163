use std::fs::File;
use std::time::Duration;

use cluster_tests::{Cluster, Forming, Process, await_that};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;

use crate::stage::runs_a_task;

const SOON: Duration = Duration::from_secs(20);
const JUDICATOR: Process = Process::Service("judicator");

async fn alone() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.form(Forming::Join, 1);
    cluster.add_executor("e1");
    cluster.whole(1).await;
    cluster.working(1).await;
    cluster
}

/// It died, and nobody starts it for as long as somebody may want to have it so.
async fn stays_dead(cluster: &Cluster) {
    let machine = cluster.machine("j1");
    machine
        .service("judicator", "held", |service| service.state == "held")
        .await;
    // Longer than it takes to start it again. That nothing happens can only be seen by waiting.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let status = machine.status().await.unwrap();
    let judicator = status.get("judicator").unwrap();
    assert_eq!((judicator.state.as_str(), judicator.pid), ("held", None));
}

#[tokio::test]
async fn a_held_service_is_left_alone() {
    let mut cluster = alone().await;
    // By command.
    let machine = cluster.machine_mut("j1");
    assert_eq!(machine.conclave(&["hold", "judicator"]).await.code, 0);
    machine
        .service("judicator", "held", |service| {
            service.state == "held" && service.pid.is_some()
        })
        .await;
    let first = machine.signal(JUDICATOR, Signal::SIGKILL).await;
    stays_dead(&cluster).await;
    let machine = cluster.machine_mut("j1");
    assert_eq!(machine.conclave(&["unhold", "judicator"]).await.code, 0);
    machine.ready().await;
    let second = machine.pid(JUDICATOR).await;
    assert_ne!(second, first);
    runs_a_task(&cluster).await;

    // By the lock on the pid file, as an operator's script may take it.
    let machine = cluster.machine_mut("j1");
    let path = machine.data().join("run/judicator.pid");
    assert_eq!(
        std::fs::read_to_string(&path).unwrap().split_whitespace().next(),
        Some(&second.to_string()[..])
    );
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let lock = Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, error)| error)
        .unwrap();
    machine.signal(JUDICATOR, Signal::SIGKILL).await;
    stays_dead(&cluster).await;
    drop(lock);
    let machine = cluster.machine_mut("j1");
    machine.ready().await;
    let judicator = machine
        .service("judicator", "running", |service| service.state == "running")
        .await;
    assert_eq!(judicator.restarts, 2, "{judicator:?}");
    assert!(
        judicator.exit.contains("SIGKILL") || judicator.exit.contains('9'),
        "{judicator:?}"
    );
    runs_a_task(&cluster).await;

    // What there is not cannot be held.
    let said = cluster.machine("j1").conclave(&["hold", "gateway"]).await;
    assert_ne!(said.code, 0);
    assert!(
        said.stderr.contains("judicator") && said.stderr.contains("etcd"),
        "{said:?}"
    );
}

/// Twice the same service would be twice the same data. The next boot has to find what the last one left.
#[tokio::test]
async fn the_next_boot_takes_over() {
    let mut cluster = alone().await;
    for round in ["while its services go", "after they went"] {
        let machine = cluster.machine_mut("j1");
        machine.signal(Process::Boot, Signal::SIGKILL).await;
        if round == "after they went" {
            machine.nobody().await;
        }
        machine.start();
        machine.ready().await;
        for name in ["etcd", "mongodb", "judicator"] {
            let running = cluster.machine("j1").running(&["service", name]);
            assert_eq!(running.len(), 1, "{running:?}");
        }
        runs_a_task(&cluster).await;
    }
    // Two at a time are refused, and the first goes on.
    let machine = cluster.machine_mut("j1");
    let (well, words) = machine.second_boot().await;
    assert!(!well, "{words}");
    assert!(
        words.contains("already runs") && words.contains("conclave stop"),
        "{words}"
    );
    runs_a_task(&cluster).await;

    let machine = cluster.machine_mut("j1");
    machine.stop(&[]).await;
    let said = machine.conclave(&["status"]).await;
    for word in ["boot does not run", "stopped"] {
        assert!(said.text().contains(word), "{said:?}");
    }
}

/// A word at the terminal, the log in its file, and both go on after a restart.
#[tokio::test]
async fn logs_are_kept_and_shown() {
    let mut cluster = Cluster::new();
    cluster.add_judicator("j1");
    let args = [
        "--first",
        "--print-log=etcd,judicator",
        "--set",
        "boot.log_size=16KiB",
    ];
    cluster.start_judicator("j1", &args.map(String::from));
    let machine = cluster.machine_mut("j1");
    machine.ready().await;
    for service in ["etcd", "mongodb", "judicator"] {
        let what = format!("a log of {service}");
        // What a service has said last may have been moved to the older file, and the new one be empty.
        let older = machine.data().join(format!("log/{service}.log.1"));
        await_that(&what, SOON, async || {
            (!machine.log(service).is_empty() || older.exists()).then_some(())
        })
        .await;
    }
    // mongod has much to say: its first words are in another file by now.
    let older = machine.data().join("log/mongodb.log.1");
    await_that("a second log", SOON, async || older.exists().then_some(())).await;
    let status = machine.conclave(&["status"]).await.well();
    for word in ["etcd", "mongodb", "judicator", "running"] {
        assert!(status.text().contains(word), "{}", status.text());
    }
    // As etcd has it, and as the judicator has it. It is shown by and by.
    for words in ["now serving peer/client/metrics", "this judicator leads"] {
        let what = format!("'{words}' at the terminal");
        await_that(&what, SOON, async || {
            machine.shown().contains(words).then_some(())
        })
        .await;
    }
    machine.stop(&[]).await;
    assert!(
        !machine.shown().contains("WiredTiger"),
        "mongod was not asked for"
    );
}
