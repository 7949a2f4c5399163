//! Sessions: who may report, and what becomes of those who may not.

use std::sync::Arc;

use model::{
    Attempt, Complete, End, Executing, Handout, Health, Intent, Report, ReportAnswer, Seq, SessionId, Status,
    TaskId,
};

use super::sample::{add_one, get, marked, status, success};
use super::worker::{CAPACITY, Worker, done};
use crate::TaskStore;

pub async fn an_older_report_is_stale(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    worker.claim(0).await;
    let wandering = Report {
        vacant: 1,
        ..worker.next_report()
    };
    let handout = worker.claim_one().await;
    let before = get(&*store, id).await;
    let reported = store.report(wandering).await.unwrap();
    assert_eq!(reported.answer, ReportAnswer::Stale);
    // Had it counted, it would have given the task back: it does not name it.
    assert_eq!(get(&*store, id).await, before);
    worker.finish(handout, success()).await;
    assert_eq!(status(&*store, id).await, Status::Success);
}

pub async fn a_session_nobody_opened_has_ended(store: Arc<dyn TaskStore>) {
    add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    worker.next_report();
    let report = Report {
        vacant: 1,
        ..worker.next_report()
    };
    assert_eq!(store.report(report).await.unwrap().answer, ReportAnswer::Ended);
    assert_eq!(store.executors().await.unwrap(), []);
    assert_eq!(store.totals().await.unwrap().held, 0);
}

pub async fn a_second_live_session_is_refused(store: Arc<dyn TaskStore>) {
    add_one(&*store).await;
    let mut first = Worker::new(&store, "e");
    let handout = first.claim_one().await;
    let state = store.executors().await.unwrap().remove(0);
    assert_eq!(state.capacity, Some(CAPACITY));
    let mut second = Worker::new(&store, "e");
    let refused = store
        .report(Report {
            vacant: 1,
            ..second.next_report()
        })
        .await
        .unwrap();
    assert_eq!(
        refused.answer,
        ReportAnswer::Occupied {
            host: "host-of-e".into(),
            since: state.since
        }
    );
    let unrelated = Report {
        succeeds: Some(SessionId::generate()),
        ..second.next_report()
    };
    let unrelated = Report {
        seq: Seq(1),
        ..unrelated
    };
    let refused = store.report(unrelated).await.unwrap();
    assert!(matches!(refused.answer, ReportAnswer::Occupied { .. }));
    // The first goes on as if nothing had been.
    first.finish(handout, success()).await;
    assert_eq!(status(&*store, handout.task).await, Status::Success);
}

pub async fn a_successor_brings_the_results_and_gives_back_the_rest(store: Arc<dyn TaskStore>) {
    let (ended, broken, dropped) = (
        add_one(&*store).await,
        add_one(&*store).await,
        add_one(&*store).await,
    );
    let mut former = Worker::new(&store, "e");
    let handouts: Vec<_> = former
        .claim(3)
        .await
        .iter()
        .map(|assigned| assigned.handout)
        .collect();
    let mut successor = Worker::new(&store, "e");
    let complete = vec![
        Complete {
            handout: handouts[0],
            end: End::Result(marked(Attempt(1), "spooled")),
        },
        Complete {
            handout: handouts[1],
            end: End::Broken("the spool says so".into()),
        },
    ];
    let report = Report {
        succeeds: Some(former.session),
        complete,
        // Those of a former session are nobody's any more, whatever is said of them.
        executing: vec![Executing {
            handout: handouts[2],
            status: Some(Status::Running),
        }],
        ..successor.next_report()
    };
    let reported = store.report(report.clone()).await.unwrap();
    assert_eq!(reported.finished.len(), 1);
    assert_eq!(done(reported).delete, handouts);
    assert_eq!(
        get(&*store, ended).await.result,
        Some(marked(Attempt(1), "spooled"))
    );
    let lost = get(&*store, broken).await;
    assert_eq!((lost.status, &lost.executor), (Status::Retrying, &None));
    assert!(lost.trouble.is_some(), "it was lost, and says why");
    let waited = get(&*store, dropped).await;
    assert_eq!((waited.status, &waited.executor), (Status::Retrying, &None));
    assert_eq!(waited.trouble, None, "it had not begun");
    // The answer may not have arrived: the same report again loses nothing more.
    let again = store.report(report).await.unwrap();
    assert!(again.finished.is_empty());
    assert_eq!(done(again).delete, handouts);
    assert_eq!(get(&*store, broken).await, lost);
    assert_eq!(get(&*store, dropped).await, waited);
    // The former session is over.
    let late = store.report(former.next_report()).await.unwrap();
    assert_eq!(late.answer, ReportAnswer::Ended);
    let sessions = store.live_sessions().await.unwrap();
    assert_eq!(sessions, [successor.seen()]);
}

pub async fn a_session_that_left_has_ended(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    let goodbye = Report {
        intent: Intent::Leave,
        ..worker.next_report()
    };
    worker.deliver(goodbye.clone()).await;
    assert_eq!(store.live_sessions().await.unwrap(), []);
    assert_eq!(store.executors().await.unwrap()[0].health, Health::Gone);
    for late in [goodbye, worker.next_report()] {
        assert_eq!(store.report(late).await.unwrap().answer, ReportAnswer::Ended);
    }
    // The next session needs nobody's leave.
    Worker::new(&store, "e").claim(0).await;
    assert_eq!(store.executors().await.unwrap()[0].health, Health::Alive);
}

pub async fn leaving_gives_everything_back(store: Arc<dyn TaskStore>) {
    for _ in 0..3 {
        add_one(&*store).await;
    }
    let waiting = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    let handouts: Vec<_> = worker
        .claim(3)
        .await
        .iter()
        .map(|assigned| assigned.handout)
        .collect();
    // The first has ended, the second still runs, the third is not named.
    let goodbye = Report {
        intent: Intent::Leave,
        vacant: 4,
        complete: vec![Complete {
            handout: handouts[0],
            end: End::Result(success()),
        }],
        executing: vec![Executing {
            handout: handouts[1],
            status: None,
        }],
        ..worker.next_report()
    };
    let reported = store.report(goodbye).await.unwrap();
    assert!(reported.claimed.is_empty());
    let answer = done(reported);
    assert!(answer.assign.is_empty());
    assert_eq!(answer.delete, handouts[..2]);
    assert_eq!(status(&*store, handouts[0].task).await, Status::Success);
    for handout in &handouts[1..] {
        let task = get(&*store, handout.task).await;
        assert_eq!(
            (task.status, task.executor, task.trouble),
            (Status::Retrying, None, None)
        );
    }
    assert_eq!(status(&*store, waiting).await, Status::Pending);
}

pub async fn an_expired_session_has_ended(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    let handout = worker.claim_one().await;
    assert_eq!(store.expire(worker.seen()).await.unwrap(), Some(1));
    assert_eq!(store.executors().await.unwrap()[0].health, Health::Gone);
    let late = Report {
        complete: vec![Complete {
            handout,
            end: End::Result(success()),
        }],
        vacant: 1,
        ..worker.next_report()
    };
    assert_eq!(
        store.report(late.clone()).await.unwrap().answer,
        ReportAnswer::Ended
    );
    let before = get(&*store, id).await;
    assert_eq!(before.status, Status::Retrying);
    // The new session brings the result along, but the attempt is lost already.
    let mut next = Worker::new(&store, "e");
    let report = Report {
        succeeds: Some(worker.session),
        complete: late.complete,
        ..next.next_report()
    };
    let reported = next.deliver(report).await;
    assert!(reported.finished.is_empty());
    assert_eq!(done(reported).delete, [handout]);
    assert_eq!(get(&*store, id).await, before);
}

pub async fn only_the_holder_can_finish(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut lost = Worker::new(&store, "e");
    let first = lost.claim_one().await;
    lost.die().await;
    let second = lost.claim_one().await;
    assert_eq!(second.attempt, Attempt(2));
    let mut other = Worker::new(&store, "other");
    // The right attempt from the wrong executor; and from the right one the wrong attempt, the wrong session.
    let reported = other.finish(second, marked(Attempt(9), "thief")).await;
    assert_eq!(
        (reported.finished.len(), done(reported).delete),
        (0, vec![second])
    );
    let mixed = Handout {
        attempt: first.attempt,
        ..second
    };
    let former = Handout {
        session: first.session,
        ..second
    };
    for wrong in [first, mixed, former] {
        let report = Report {
            complete: vec![Complete {
                handout: wrong,
                end: End::Result(success()),
            }],
            executing: vec![Executing {
                handout: second,
                status: None,
            }],
            ..lost.next_report()
        };
        let reported = lost.deliver(report).await;
        assert_eq!((reported.finished.len(), done(reported).delete), (0, vec![wrong]));
    }
    lost.finish(second, marked(Attempt(2), "right")).await;
    assert_eq!(get(&*store, id).await.result, Some(marked(Attempt(2), "right")));
}

pub async fn what_is_not_held_is_deleted(store: Arc<dyn TaskStore>) {
    add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    let held = worker.claim_one().await;
    let unknown = Handout {
        task: TaskId::generate(),
        ..held
    };
    let other_session = Handout {
        session: SessionId::generate(),
        ..held
    };
    let other_attempt = Handout {
        attempt: Attempt(2),
        ..held
    };
    let executing = |handout| Executing {
        handout,
        status: Some(Status::Running),
    };
    let report = Report {
        executing: [unknown, held, other_session, other_attempt]
            .map(executing)
            .to_vec(),
        ..worker.next_report()
    };
    let answer = done(worker.deliver(report).await);
    assert_eq!(answer.delete, [unknown, other_session, other_attempt]);
    assert_eq!(status(&*store, held.task).await, Status::Running);
}

pub async fn a_name_is_free_after_expiry(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    worker.claim(0).await;
    let former = worker.session;
    worker.die().await;
    worker.claim(0).await;
    let sessions = store.live_sessions().await.unwrap();
    assert_eq!(sessions, [worker.seen()]);
    assert_ne!(sessions[0].session, former);
}
