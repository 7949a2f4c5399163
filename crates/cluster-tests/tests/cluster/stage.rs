//! What the tests of clusters share: a cluster under load, a fault, and how it went on.

use std::fmt::Display;
use std::time::{Duration, Instant};

use cluster_tests::{Cluster, Load, await_that, shell};
use model::Status;
use serde_json::Value;

/// Longer than every lease there is.
pub(crate) const LONGER_THAN_LEASES: Duration = Duration::from_secs(7);

/// A node tries for a while before it gives up.
const COMPLAINS: Duration = Duration::from_secs(60);

/// A cluster of three judicators, two executors and a gateway, and clients that keep it busy.
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) load: Load,
}

impl Stage {
    pub(crate) async fn busy() -> Stage {
        let begun = Instant::now();
        let cluster = Cluster::at_work(3).await;
        println!("the cluster is there after {:?}", begun.elapsed());
        let load = Load::gentle(cluster.gateways(), &cluster.history);
        load.resumed().await;
        Stage { cluster, load }
    }

    /// From here on it is measured how long the service is away.
    pub(crate) fn fault(&self, what: impl Display) -> Fault {
        self.load.watch();
        Fault {
            what: what.to_string(),
            begun: Instant::now(),
        }
    }

    /// Tasks are added and done again.
    pub(crate) async fn resumed(&self, fault: &Fault) {
        self.load.resumed().await;
        println!("{}: tasks are done after {:?}", fault.what, fault.begun.elapsed());
    }

    /// Every judicator is there again.
    pub(crate) async fn whole(&self, fault: Fault) {
        self.cluster.whole(3).await;
        self.load.resumed().await;
        let Fault { what, begun } = fault;
        println!(
            "{what}: whole after {:?}, adds stood still for {:?} at most",
            begun.elapsed(),
            self.load.silence()
        );
    }

    /// Every promise was kept, exactly once, and nothing is left of any task.
    pub(crate) async fn settle(self) -> Cluster {
        let Stage { cluster, load } = self;
        let kept = load.settle(cluster.gateways(), &cluster.history).await;
        println!("{kept} tasks, {} runs", cluster.history.runs().len());
        for name in ["e1", "e2"] {
            cluster.machine(name).remains().await_none().await;
        }
        assert_eq!(cluster.history.alive(), [0; 0]);
        cluster
    }
}

pub(crate) struct Fault {
    what: String,
    begun: Instant,
}

/// A task that ends at once.
pub(crate) fn quick(cluster: &Cluster) -> Value {
    shell(&cluster.history.record("echo $CONCLAVE_TASK $$"))
}

/// The cluster can do what it is for.
pub(crate) async fn runs_a_task(cluster: &Cluster) {
    let task = cluster.run(quick(cluster)).await;
    assert_eq!(task.status, Status::Success, "{task:?}");
}

/// Waits until the node says all of these words: as its last, or as the reason why one of its services is not there.
pub(crate) async fn complains(cluster: &Cluster, name: &str, words: &[&str]) {
    let machine = cluster.machine(name);
    let mut said = String::new();
    await_that(&format!("{words:?} from {name}"), COMPLAINS, async || {
        said = machine.shown();
        if let Some(status) = machine.status().await {
            said.extend(status.services.iter().map(|service| format!("{service:?}\n")));
        }
        words.iter().all(|word| said.contains(word)).then_some(())
    })
    .await;
    println!("{}", said.trim());
}
