//! Drained executors at a judicator.

use std::time::Duration;

use futures::StreamExt;
use model::{AddTask, DrainReason, ExecutorName, UserName};
use rpc::{CallError, Calls, HintStream};

use super::harness::with_deadline;
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, new_id, spec};

/// Longer than a judicator takes to send a hint.
const NO_HINT: Duration = Duration::from_millis(200);

async fn add_task(judicator: &judicator::Judicator) {
    judicator.add(vec![AddTask::new(new_id(), spec())]).await.unwrap();
}

async fn wait_for_hint(hints: &mut HintStream) {
    with_deadline(hints.next()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_drained_executor_is_woken_when_it_is_resumed_and_not_by_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let started = SqliteJudicator::start(folder.path());
    let judicator = started.judicator.clone();
    let mut executor = ScriptedExecutor::new(&judicator, "e");
    executor.claim(4).await;
    let name = executor.name.clone();
    let mut hints = judicator.watch(name.clone(), executor.session).await.unwrap();
    wait_for_hint(&mut hints).await;

    let reason = DrainReason::new("new disk").unwrap();
    let user = UserName::new("ada").unwrap();
    let state = judicator
        .drain(name.clone(), reason.clone(), Some(user.clone()))
        .await
        .unwrap();
    let drain = state.drain.unwrap();
    assert_eq!((drain.reason, drain.by), (reason.clone(), Some(user)));
    // The drain itself, so that the executor knows.
    wait_for_hint(&mut hints).await;
    for _ in 0..3 {
        assert!(executor.claim(4).await.is_empty());
        add_task(&judicator).await;
        let hint = tokio::time::timeout(NO_HINT, hints.next()).await;
        assert!(hint.is_err(), "a hint for a task");
    }
    let state = judicator.resume(name.clone()).await.unwrap();
    assert_eq!((state.name, state.drain), (name, None));
    wait_for_hint(&mut hints).await;
    assert_eq!(executor.claim(4).await.len(), 3);
    drop((hints, executor, judicator));
    started.stop().await;
}

#[tokio::test]
async fn an_unknown_executor_cannot_be_drained() {
    let folder = tempfile::tempdir().unwrap();
    let started = SqliteJudicator::start(folder.path());
    let nobody = ExecutorName::new("nobody").unwrap();
    let reason = DrainReason::new("x").unwrap();
    let drained = started.judicator.drain(nobody.clone(), reason, None).await;
    assert_eq!(drained, Err(CallError::NoExecutor(nobody.clone())));
    let resumed = started.judicator.resume(nobody.clone()).await;
    assert_eq!(resumed, Err(CallError::NoExecutor(nobody)));
    started.stop().await;
}
