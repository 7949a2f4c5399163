use std::time::Duration;

use api::Task;
use cluster_tests::{Cluster, Forming, Process, Roster, await_that};
use model::{BlobHash, Status};
use nix::sys::signal::Signal;
use sha2::{Digest, Sha256};

use crate::stage::{quick, runs_a_task};

const PATIENCE: Duration = Duration::from_secs(60);
const NAMES: [&str; 3] = ["j1", "j2", "j3"];

/// Puts a blob that no task names, and waits until some leader has removed it.
async fn retention_has_run(cluster: &Cluster, content: &'static str) {
    let removed = || -> usize {
        let logs = NAMES.map(|name| cluster.machine(name).log("judicator"));
        logs.iter()
            .map(|log| log.matches("removed what was long done").count())
            .sum()
    };
    let before = removed();
    let bytes = futures::stream::iter([Ok::<_, std::io::Error>(bytes::Bytes::from(content))]);
    let hash = BlobHash(Sha256::digest(content).into());
    cluster.client().put_blob(hash, bytes).await.expect("a blob");
    await_that("an idle blob to be removed", PATIENCE, async || {
        (removed() > before).then_some(())
    })
    .await;
}

/// Each task is still there, with times that do not run backwards.
async fn are_kept(cluster: &Cluster, tasks: &[Task]) {
    for task in tasks {
        assert_eq!(task.status, Status::Success, "{task:?}");
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

/// Done tasks are kept for a week, as by default; blobs only for a second, which shows when retention was at work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_clock_is_wrong_removes_nothing_early() {
    let mut cluster = Cluster::new().with_clocks();
    let config = std::fs::read_to_string(cluster.config()).unwrap();
    let config = config.replace("[judicator]\n", "[judicator]\nkeep_blobs = \"1s\"\n");
    std::fs::write(cluster.config(), config).unwrap();
    cluster.form(Forming::Members, NAMES.len());
    cluster.add_executor("e1");
    cluster.whole(3).await;
    cluster.working(1).await;

    let mut tasks = vec![cluster.run(quick(&cluster)).await];
    let leader = cluster.leader().await;
    for (offset, content) in [("+8d", "ahead"), ("-8d", "behind")] {
        cluster.machine(&leader).clock().set(offset);
        retention_has_run(&cluster, content).await;
        are_kept(&cluster, &tasks).await;
        tasks.push(cluster.run(quick(&cluster)).await);
    }
    // The next leader's clock is right, then it is wrong as well.
    let judicator = Process::Service("judicator");
    cluster
        .machine_mut(&leader)
        .signal(judicator, Signal::SIGSTOP)
        .await;
    let is_another = |roster: &Roster| roster.leader().is_some_and(|other| other != leader);
    let roster = cluster.roster_with("another leader", is_another).await;
    cluster
        .machine_mut(&leader)
        .signal(judicator, Signal::SIGCONT)
        .await;
    let leader = roster.leader().unwrap();
    retention_has_run(&cluster, "another leader").await;
    cluster.machine(&leader).clock().set("+8d");
    retention_has_run(&cluster, "another leader ahead").await;

    are_kept(&cluster, &tasks).await;
    runs_a_task(&cluster).await;
}
