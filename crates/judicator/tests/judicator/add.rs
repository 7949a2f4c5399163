//! What a judicator fills in when a task is added.

use std::sync::Arc;

use futures::StreamExt;
use judicator::Judicator;
use model::{AddTask, AddedTask, InvalidField, RootName, TaskSpec};
use rpc::{CallError, Calls};
use tokio::time::Instant;

use super::harness::{StoreFault, start, with_deadline};
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, new_id, roots, spec};

#[tokio::test]
async fn the_number_of_attempts_is_stored_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let add = async |attempts: Option<u32>| {
        let spec = TaskSpec { attempts, ..spec() };
        let id = new_id();
        judicator.add(vec![AddTask::new(id, spec)]).await?;
        let task = judicator.get(id, None).await?;
        Ok(task.spec.attempts)
    };
    assert_eq!(add(None).await, Ok(Some(3)));
    assert_eq!(add(Some(1)).await, Ok(Some(1)));
    assert_eq!(add(Some(100)).await, Ok(Some(100)));
    let refused = InvalidField::over_limit("attempts", "may be up to 100", 100, 101);
    assert_eq!(add(Some(101)).await, Err(CallError::Invalid(refused)));
    assert!(matches!(add(Some(0)).await, Err(CallError::Invalid(_))));
}

#[tokio::test]
async fn a_repeated_add_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let id = new_id();
    let task = |attempts| AddTask::new(id, TaskSpec { attempts, ..spec() });
    assert!(!judicator.add(vec![task(None)]).await.unwrap()[0].existed);
    assert!(judicator.add(vec![task(None)]).await.unwrap()[0].existed);
    // The same number as the default is another request.
    let other = judicator.add(vec![task(Some(3))]).await;
    assert_eq!(other.err(), Some(CallError::Conflict(id)));
}

fn task_in(root: &str) -> AddTask {
    let root = Some(RootName::new(root).unwrap());
    AddTask::new(new_id(), TaskSpec { root, ..spec() })
}

async fn add(judicator: &Arc<Judicator>, task: AddTask) -> Result<Vec<AddedTask>, CallError> {
    with_deadline(judicator.add(vec![task])).await
}

#[tokio::test]
async fn a_task_for_a_root_that_no_executor_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let mut executor = ScriptedExecutor::new(judicator, "e");
    executor.tools = Some(roots(&["lab", "web"]));
    executor.claim(0).await;
    add(judicator, task_in("lab")).await.unwrap();
    let Err(CallError::Invalid(refused)) = add(judicator, task_in("contest")).await else {
        panic!("the task was added");
    };
    assert_eq!(refused.field, "root");
    assert!(refused.problem.contains("one of these: lab, web;"), "{refused}");
    let mut waits = task_in("contest");
    waits.wait_for_executor = true;
    let waiting = add(judicator, waits).await.unwrap()[0].id;
    assert_eq!(executor.claim(9).await.len(), 1);
    // The root can be used as soon as its executor has reported, although the list was read just before. The executor
    // that reported it first may have left.
    add(judicator, task_in("contest")).await.unwrap_err();
    executor.tools = Some(roots(&["contest"]));
    assert_eq!(executor.claim(1).await[0].task, waiting);
    let begun = Instant::now();
    add(judicator, task_in("contest")).await.unwrap();
    assert!(begun.elapsed().as_millis() < 900, "{:?}", begun.elapsed());
    add(judicator, task_in("web")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_is_not_refused_while_the_executors_cannot_be_read() {
    let test = start(StoreFault::NoExecutorList);
    for _ in 0..3 {
        let answer = add(&test.judicator, task_in("lab")).await;
        // The task has reached the store, which adds nothing.
        assert!(matches!(answer, Err(CallError::Unavailable(_))), "{answer:?}");
    }
}

/// The idle executor without the root has more free slots, so it would get the hint for any other task.
#[tokio::test]
async fn the_executor_with_the_root_gets_the_hint() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let mut executors = ["able", "other"].map(|name| ScriptedExecutor::new(judicator, name));
    let mut hints = vec![];
    for (executor, root) in executors.iter_mut().zip(["lab", "web"]) {
        executor.tools = Some(roots(&[root]));
        let (name, session) = (executor.name.clone(), executor.session);
        hints.push(judicator.watch(name, session).await.unwrap());
    }
    for (executor, vacant) in executors.iter_mut().zip([1, 8]) {
        executor.claim(vacant).await;
    }
    for hints in &mut hints {
        with_deadline(hints.next()).await.unwrap().unwrap();
    }
    let [able, other] = &mut hints[..] else {
        panic!("there are two executors");
    };
    let added = add(judicator, task_in("lab")).await.unwrap();
    tokio::select! {
        hint = with_deadline(able.next()) => hint.unwrap().unwrap(),
        _ = other.next() => panic!("the hint went to an executor without the root"),
    }
    assert_eq!(executors[0].claim(1).await[0].task, added[0].id);
}
