//! Several stores on one database, as in a cluster with several judicators.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use model::{AttemptEnd, Report, ReportAnswer, StoreAge, TaskId, TaskStatus};
use store::contract::fake_executor::{FakeExecutor, completed, instructions};
use store::contract::fixtures::{
    add_task, attempt_result, get_task, new_task, put_blob, read_blob, task_spec, task_with_blobs,
};
use store::{ChangeEvent, NewTaskRecord, StoreError, TaskStore};
use tokio::task::JoinSet;

use super::replica_set::{TestAuthentication, TestReplicaSet};

const TASKS: usize = 240;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_judicators_agree() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let stores: Vec<Arc<dyn TaskStore>> = join_all((0..3).map(|_| replica_set.open("shared")))
        .await
        .into_iter()
        .map(|store| Arc::new(store) as Arc<dyn TaskStore>)
        .collect();
    each_task_is_claimed_once(&stores).await;
    a_report_sent_to_two_judicators_commits_once(&stores).await;
    a_task_added_by_two_judicators_is_added_once(&stores).await;
    a_blob_is_either_used_or_removed(&stores).await;
    every_judicator_receives_change_events(&stores).await;
    check_totals(&stores).await;
}

/// Executors claim from the same queue through different judicators, and each task runs once.
async fn each_task_is_claimed_once(stores: &[Arc<dyn TaskStore>]) {
    let batch = (0..TASKS).map(|_| new_task(task_spec())).collect();
    let added = stores[0].add(batch).await.unwrap();
    let mut running = JoinSet::new();
    for index in 0..6 {
        let mut executor = FakeExecutor::new(&stores[index % 3], &format!("e{index}"));
        running.spawn(async move {
            let mut finished = vec![];
            loop {
                let complete: Vec<_> = std::mem::take(&mut executor.running)
                    .into_iter()
                    .map(|running| {
                        let result = attempt_result(running.attempt_id.attempt, executor.name.as_str());
                        completed(running.attempt_id, AttemptEnd::Result(result))
                    })
                    .collect();
                finished.extend(complete.iter().map(|complete| complete.attempt_id.task));
                let report = Report {
                    complete,
                    vacant: 5,
                    ..executor.next_report()
                };
                let answer = instructions(executor.send(report).await);
                if answer.assign.is_empty() && answer.delete.is_empty() {
                    return finished;
                }
            }
        });
    }
    let finished: Vec<TaskId> = running.join_all().await.concat();
    assert_eq!(finished.len(), TASKS, "each task is assigned once");
    let distinct: BTreeSet<_> = finished.into_iter().collect();
    assert_eq!(distinct, added.iter().map(|added| added.id).collect());
    for id in distinct {
        let task = get_task(&*stores[1], id).await;
        assert_eq!((task.status, task.attempt.0), (TaskStatus::Success, 1));
    }
}

/// The executor got no answer from the first judicator and sent its report to the second, while the first still
/// handles it.
async fn a_report_sent_to_two_judicators_commits_once(stores: &[Arc<dyn TaskStore>]) {
    let mut executor = FakeExecutor::new(&stores[0], "doubled");
    for _ in 0..20 {
        let batch = (0..6).map(|_| new_task(task_spec())).collect();
        stores[1].add(batch).await.unwrap();
        executor.claim(3).await;
        let complete: Vec<_> = std::mem::take(&mut executor.running)
            .into_iter()
            .map(|running| {
                let result = attempt_result(running.attempt_id.attempt, "doubled");
                completed(running.attempt_id, AttemptEnd::Result(result))
            })
            .collect();
        let report = Report {
            complete,
            vacant: 3,
            ..executor.next_report()
        };
        let older = Report {
            seq: model::ReportSeq(report.seq.0 - 1),
            ..report.clone()
        };
        let (first, second, late) = tokio::join!(
            stores[0].report(report.clone()),
            stores[1].report(report.clone()),
            stores[2].report(older)
        );
        let (first, second, late) = (first.unwrap(), second.unwrap(), late.unwrap());
        let commits = [&first, &second, &late].map(|reported| reported.finished.len());
        assert_eq!(commits.iter().sum::<usize>(), 3, "{commits:?}");
        // Both answers are the same, so the executor may use either.
        let (first, second) = (instructions(first), instructions(second));
        assert_eq!(first.delete, second.delete);
        let handouts = |answer: &model::ReportInstructions| {
            let assigned = answer.assign.iter().map(|assigned| assigned.attempt_id);
            assigned.collect::<BTreeSet<_>>()
        };
        assert_eq!(handouts(&first), handouts(&second));
        assert!(
            matches!(late.answer, ReportAnswer::Stale | ReportAnswer::Done(_)),
            "{late:?}"
        );
        executor.acked = report.seq;
        executor.running = handouts(&first)
            .into_iter()
            .map(|attempt_id| model::ExecutingAttempt {
                attempt_id,
                status: None,
            })
            .collect();
        for running in std::mem::take(&mut executor.running) {
            executor
                .finish(
                    running.attempt_id,
                    attempt_result(running.attempt_id.attempt, "x"),
                )
                .await;
        }
    }
    cancel_remaining_tasks(stores).await;
}

async fn a_task_added_by_two_judicators_is_added_once(stores: &[Arc<dyn TaskStore>]) {
    for _ in 0..20 {
        let (task, other) = (new_task(task_spec()), new_task(task_spec()));
        let contradiction = NewTaskRecord {
            digest: [9; 32],
            ..other.clone()
        };
        let (first, second) = tokio::join!(
            stores[0].add(vec![task.clone(), other]),
            stores[1].add(vec![task.clone()])
        );
        let (first, second) = (first.unwrap()[0], second.unwrap()[0]);
        assert!(first.existed != second.existed, "one of them added it");
        assert_eq!(first.add_time, second.add_time);
        let refused = stores[2].add(vec![contradiction]).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
    cancel_remaining_tasks(stores).await;
}

/// In whatever order the two happen, a task that was added has its blob.
async fn a_blob_is_either_used_or_removed(stores: &[Arc<dyn TaskStore>]) {
    for round in 0..40_u8 {
        let bytes = [round; 5];
        let hash = put_blob(&*stores[0], &bytes).await.unwrap();
        let task = task_with_blobs(&[hash]);
        let (added, gone) = tokio::join!(
            stores[1].add(vec![task.clone()]),
            stores[2].apply_retention(StoreAge(0), StoreAge(i64::MAX), 10)
        );
        gone.unwrap();
        match added {
            Ok(_) => {
                assert_eq!(read_blob(&*stores[0], hash).await.as_deref(), Some(&bytes[..]));
            }
            Err(StoreError::BlobNotFound(_)) => {
                assert_eq!(stores[0].get(task.id).await.unwrap(), None);
                assert_eq!(read_blob(&*stores[0], hash).await, None);
            }
            Err(other) => panic!("{other}"),
        }
    }
    cancel_remaining_tasks(stores).await;
}

async fn every_judicator_receives_change_events(stores: &[Arc<dyn TaskStore>]) {
    let mut subscribers: Vec<_> = stores.iter().map(|store| store.subscribe()).collect();
    let id = add_task(&*stores[0]).await;
    for subscriber in &mut subscribers {
        loop {
            match subscriber.recv().await.unwrap() {
                ChangeEvent::StatusChanged {
                    id: moved, status, ..
                } if moved == id => {
                    assert_eq!(status, TaskStatus::Pending);
                    break;
                }
                ChangeEvent::EventsLost => panic!("events were lost"),
                // The other stores may still receive earlier events.
                _ => {}
            }
        }
    }
    cancel_remaining_tasks(stores).await;
}

async fn cancel_remaining_tasks(stores: &[Arc<dyn TaskStore>]) {
    let mut executor = FakeExecutor::new(&stores[0], &format!("drain-{}", TaskId(uuid::Uuid::now_v7())));
    loop {
        let assigned = executor.claim(100).await;
        if assigned.is_empty() {
            return;
        }
        for assigned in assigned {
            stores[1].cancel(assigned.attempt_id.task).await.unwrap();
        }
        executor.claim(0).await;
    }
}

async fn check_totals(stores: &[Arc<dyn TaskStore>]) {
    let totals = stores[0].totals().await.unwrap();
    assert_eq!(totals.held, 0);
    for status in TaskStatus::ALL {
        let mut query = model::TaskQuery {
            statuses: vec![status],
            limit: 1000,
            ..Default::default()
        };
        let mut count = 0;
        loop {
            let page = stores[1].search(query.clone()).await.unwrap();
            count += page.tasks.len() as u64;
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(totals.counts[&status], count, "{status}");
    }
}
