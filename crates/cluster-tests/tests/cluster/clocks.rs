use std::time::Duration;

use api::Task;
use cluster_tests::{ClusterProcess, FormationMethod, JudicatorList, TestCluster, wait_until};
use model::{BlobHash, TaskStatus};
use nix::sys::signal::Signal;

use crate::harness::{assert_runs_a_task, short_task};

const TIMEOUT: Duration = Duration::from_secs(60);
const NAMES: [&str; 3] = ["j1", "j2", "j3"];

/// Uploads a blob that no task uses, and waits until a leader has removed it.
async fn wait_until_retention_has_run(cluster: &TestCluster, content: &'static str) {
    let removed = || -> usize {
        let logs = NAMES.map(|name| cluster.node(name).log("judicator"));
        logs.iter()
            .map(|log| log.matches("removed old tasks and unused blobs").count())
            .sum()
    };
    let before = removed();
    let bytes = futures::stream::iter([Ok::<_, std::io::Error>(bytes::Bytes::from(content))]);
    let hash = BlobHash::of(content);
    cluster.client().put_blob(hash, bytes).await.expect("a blob");
    wait_until("an unused blob to be removed", TIMEOUT, async || {
        (removed() > before).then_some(())
    })
    .await;
}

/// Asserts that each task still exists, with times in order.
async fn assert_kept(cluster: &TestCluster, tasks: &[Task]) {
    for task in tasks {
        assert_eq!(task.status, TaskStatus::Success, "{task:?}");
        let kept = cluster.client().get(task.id, None).await;
        let kept = kept.unwrap_or_else(|error| panic!("{task:?} was removed: {error}"));
        let times = [
            Some(kept.add_time),
            kept.start_time,
            kept.report_time,
            kept.finish_time,
        ];
        assert!(times.is_sorted(), "{times:?}");
    }
}

/// Done tasks are kept for a week, the default. Blobs are kept for a second, which shows when retention has run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_clock_is_wrong_removes_nothing_early() {
    let mut cluster = TestCluster::new().with_clocks();
    let config = std::fs::read_to_string(cluster.config()).unwrap();
    let config = config.replace("[judicator]\n", "[judicator]\nkeep_blobs = \"1s\"\n");
    std::fs::write(cluster.config(), config).unwrap();
    cluster.form(FormationMethod::Members, NAMES.len());
    cluster.add_executor("e1");
    cluster.wait_until_complete(3).await;
    cluster.wait_for_executors(1).await;

    let mut tasks = vec![cluster.run(short_task(&cluster)).await];
    let leader = cluster.leader().await;
    for (offset, content) in [("+8d", "ahead"), ("-8d", "behind")] {
        cluster.node(&leader).clock().set(offset);
        wait_until_retention_has_run(&cluster, content).await;
        assert_kept(&cluster, &tasks).await;
        tasks.push(cluster.run(short_task(&cluster)).await);
    }
    // The next leader's clock is right, then it is wrong as well.
    let judicator = ClusterProcess::Service("judicator");
    cluster.node_mut(&leader).signal(judicator, Signal::SIGSTOP).await;
    let is_another = |judicators: &JudicatorList| judicators.leader().is_some_and(|other| other != leader);
    let judicators = cluster.wait_for_judicators("another leader", is_another).await;
    cluster.node_mut(&leader).signal(judicator, Signal::SIGCONT).await;
    let leader = judicators.leader().unwrap();
    wait_until_retention_has_run(&cluster, "another leader").await;
    cluster.node(&leader).clock().set("+8d");
    wait_until_retention_has_run(&cluster, "another leader ahead").await;

    assert_kept(&cluster, &tasks).await;
    assert_runs_a_task(&cluster).await;
}
