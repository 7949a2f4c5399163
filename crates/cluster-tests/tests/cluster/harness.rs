//! A cluster under load, and faults injected into it.

use std::fmt::Display;
use std::time::{Duration, Instant};

use cluster_tests::{LoadGenerator, TestCluster, shell, wait_until};
use model::TaskStatus;
use serde_json::Value;

/// Longer than every lease in the cluster.
pub(crate) const LONGER_THAN_LEASES: Duration = Duration::from_secs(7);

/// A node retries for a while before it reports an error.
const LOG_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster under test (three judicators, two executors, a gateway), and clients that keep it busy.
pub(crate) struct BusyCluster {
    pub(crate) cluster: TestCluster,
    pub(crate) load: LoadGenerator,
}

impl BusyCluster {
    pub(crate) async fn start() -> BusyCluster {
        let begun = Instant::now();
        let cluster = TestCluster::with_executors_and_gateway(3).await;
        println!("the cluster has formed after {:?}", begun.elapsed());
        let load = LoadGenerator::start_low_load(cluster.gateways(), &cluster.history);
        load.wait_for_progress().await;
        BusyCluster { cluster, load }
    }

    /// Marks the injection of a fault, and starts to measure the unavailability.
    pub(crate) fn fault(&self, what: impl Display) -> InjectedFault {
        self.load.reset_longest_gap();
        InjectedFault {
            what: what.to_string(),
            begun: Instant::now(),
        }
    }

    /// Waits until tasks are added and done again.
    pub(crate) async fn wait_for_progress(&self, fault: &InjectedFault) {
        self.load.wait_for_progress().await;
        println!("{}: tasks are done after {:?}", fault.what, fault.begun.elapsed());
    }

    /// Waits until every judicator is healthy again.
    pub(crate) async fn wait_until_complete(&self, fault: InjectedFault) {
        self.cluster.wait_until_complete(3).await;
        self.load.wait_for_progress().await;
        let InjectedFault { what, begun } = fault;
        println!(
            "{what}: complete after {:?}, no add was acknowledged for at most {:?}",
            begun.elapsed(),
            self.load.longest_gap()
        );
    }

    /// Stops the load, and asserts that every acknowledged task has ended exactly once and left nothing behind.
    pub(crate) async fn stop_and_verify(self) -> TestCluster {
        let BusyCluster { cluster, load } = self;
        let kept = load.stop_and_verify(cluster.gateways(), &cluster.history).await;
        println!("{kept} tasks, {} runs", cluster.history.runs().len());
        for name in ["e1", "e2"] {
            cluster.node(name).leftovers().wait_until_clean().await;
        }
        assert_eq!(cluster.history.alive(), [0; 0]);
        cluster
    }
}

/// A fault that a test has injected into a busy cluster, and when, to print how long the recovery took.
pub(crate) struct InjectedFault {
    what: String,
    begun: Instant,
}

/// A task that ends at once.
pub(crate) fn short_task(cluster: &TestCluster) -> Value {
    shell(&cluster.history.record("echo $CONCLAVE_TASK $$"))
}

/// Asserts that the cluster runs a task.
pub(crate) async fn assert_runs_a_task(cluster: &TestCluster) {
    let task = cluster.run(short_task(cluster)).await;
    assert_eq!(task.status, TaskStatus::Success, "{task:?}");
}

/// Waits until all of these texts appear in the node's output or in the status of its services.
pub(crate) async fn wait_until_logged(cluster: &TestCluster, name: &str, words: &[&str]) {
    let node = cluster.node(name);
    let mut said = String::new();
    wait_until(&format!("{words:?} from {name}"), LOG_TIMEOUT, async || {
        said = node.terminal_output();
        if let Some(status) = node.status().await {
            said.extend(status.services.iter().map(|service| format!("{service:?}\n")));
        }
        words.iter().all(|word| said.contains(word)).then_some(())
    })
    .await;
    println!("{}", said.trim());
}
