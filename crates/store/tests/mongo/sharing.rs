//! Several stores on one database, as several judicators have it.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use model::{Age, Complete, End, Report, ReportAnswer, Status, TaskId};
use store::contract::sample::{add_one, blob, get, marked, needing, new, put, spec};
use store::contract::worker::{Worker, done};
use store::{Change, NewTask, StoreError, TaskStore};
use tokio::task::JoinSet;

use super::set::{Guard, Set};

const TASKS: usize = 240;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn judicators_do_not_get_in_each_others_way() {
    let set = Set::start(1, Guard::Open).await;
    let stores: Vec<Arc<dyn TaskStore>> = join_all((0..3).map(|_| set.open("shared")))
        .await
        .into_iter()
        .map(|store| Arc::new(store) as Arc<dyn TaskStore>)
        .collect();
    everybody_claims(&stores).await;
    one_report_at_two_judicators(&stores).await;
    one_task_added_by_two(&stores).await;
    a_blob_is_used_or_retired(&stores).await;
    changes_are_heard_everywhere(&stores).await;
    check_totals(&stores).await;
}

/// Many executors at all judicators reach for the same queue, and each task is run once.
async fn everybody_claims(stores: &[Arc<dyn TaskStore>]) {
    let batch = (0..TASKS).map(|_| new(spec())).collect();
    let added = stores[0].add(batch).await.unwrap();
    let mut running = JoinSet::new();
    for index in 0..6 {
        let mut worker = Worker::new(&stores[index % 3], &format!("e{index}"));
        running.spawn(async move {
            let mut finished = vec![];
            loop {
                let complete: Vec<_> = std::mem::take(&mut worker.running)
                    .into_iter()
                    .map(|running| Complete {
                        handout: running.handout,
                        end: End::Result(marked(running.handout.attempt, worker.name.as_str())),
                    })
                    .collect();
                finished.extend(complete.iter().map(|complete| complete.handout.task));
                let report = Report {
                    complete,
                    vacant: 5,
                    ..worker.next_report()
                };
                let answer = done(worker.deliver(report).await);
                if answer.assign.is_empty() && answer.delete.is_empty() {
                    return finished;
                }
            }
        });
    }
    let finished: Vec<TaskId> = running.join_all().await.concat();
    assert_eq!(finished.len(), TASKS, "each was given out once");
    let distinct: BTreeSet<_> = finished.into_iter().collect();
    assert_eq!(distinct, added.iter().map(|added| added.id).collect());
    for id in distinct {
        let task = get(&*stores[1], id).await;
        assert_eq!((task.status, task.attempt.0), (Status::Success, 1));
    }
}

/// The executor had no answer from the first and went to the second, while the first was still at it.
async fn one_report_at_two_judicators(stores: &[Arc<dyn TaskStore>]) {
    let mut worker = Worker::new(&stores[0], "doubled");
    for _ in 0..20 {
        let batch = (0..6).map(|_| new(spec())).collect();
        stores[1].add(batch).await.unwrap();
        worker.claim(3).await;
        let complete: Vec<_> = std::mem::take(&mut worker.running)
            .into_iter()
            .map(|running| Complete {
                handout: running.handout,
                end: End::Result(marked(running.handout.attempt, "doubled")),
            })
            .collect();
        let report = Report {
            complete,
            vacant: 3,
            ..worker.next_report()
        };
        let older = Report {
            seq: model::Seq(report.seq.0 - 1),
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
        // Both answers are good: the executor may take either to heart.
        let (first, second) = (done(first), done(second));
        assert_eq!(first.delete, second.delete);
        let handouts = |answer: &model::Answer| {
            let assigned = answer.assign.iter().map(|assigned| assigned.handout);
            assigned.collect::<BTreeSet<_>>()
        };
        assert_eq!(handouts(&first), handouts(&second));
        assert!(
            matches!(late.answer, ReportAnswer::Stale | ReportAnswer::Done(_)),
            "{late:?}"
        );
        worker.acked = report.seq;
        worker.running = handouts(&first)
            .into_iter()
            .map(|handout| model::Executing {
                handout,
                status: None,
            })
            .collect();
        for running in std::mem::take(&mut worker.running) {
            worker
                .finish(running.handout, marked(running.handout.attempt, "x"))
                .await;
        }
    }
    drain(stores).await;
}

async fn one_task_added_by_two(stores: &[Arc<dyn TaskStore>]) {
    for _ in 0..20 {
        let (task, other) = (new(spec()), new(spec()));
        let contradiction = NewTask {
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
    drain(stores).await;
}

/// Whatever the order: a task that was added has its blob.
async fn a_blob_is_used_or_retired(stores: &[Arc<dyn TaskStore>]) {
    for round in 0..40_u8 {
        let bytes = [round; 5];
        let hash = put(&*stores[0], &bytes).await.unwrap();
        let task = needing(&[hash]);
        let (added, gone) = tokio::join!(
            stores[1].add(vec![task.clone()]),
            stores[2].retire(Age(0), Age(i64::MAX), 10)
        );
        gone.unwrap();
        match added {
            Ok(_) => {
                assert_eq!(blob(&*stores[0], hash).await.as_deref(), Some(&bytes[..]));
            }
            Err(StoreError::NoBlob(_)) => {
                assert_eq!(stores[0].get(task.id).await.unwrap(), None);
                assert_eq!(blob(&*stores[0], hash).await, None);
            }
            Err(other) => panic!("{other}"),
        }
    }
    drain(stores).await;
}

async fn changes_are_heard_everywhere(stores: &[Arc<dyn TaskStore>]) {
    let mut listeners: Vec<_> = stores.iter().map(|store| store.changes()).collect();
    let id = add_one(&*stores[0]).await;
    for listener in &mut listeners {
        loop {
            match listener.recv().await.unwrap() {
                Change::Moved {
                    id: moved, status, ..
                } if moved == id => {
                    assert_eq!(status, Status::Pending);
                    break;
                }
                Change::Lost => panic!("nothing was lost"),
                // The other stores may still hear of what was before.
                _ => {}
            }
        }
    }
    drain(stores).await;
}

async fn drain(stores: &[Arc<dyn TaskStore>]) {
    let mut worker = Worker::new(&stores[0], &format!("drain-{}", TaskId::generate()));
    loop {
        let assigned = worker.claim(100).await;
        if assigned.is_empty() {
            return;
        }
        for assigned in assigned {
            stores[1].cancel(assigned.handout.task).await.unwrap();
        }
        worker.claim(0).await;
    }
}

async fn check_totals(stores: &[Arc<dyn TaskStore>]) {
    let totals = stores[0].totals().await.unwrap();
    assert_eq!(totals.held, 0);
    for status in Status::ALL {
        let mut query = model::Query {
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
