//! What a judicator fills in when a task is added.

use model::{AddTask, InvalidField, TaskSpec};
use rpc::{CallError, Calls};

use super::sqlite_harness::{SqliteJudicator, new_id, spec};

#[tokio::test]
async fn the_number_of_attempts_is_stored_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let add = async |attempts: Option<u32>| {
        let spec = TaskSpec { attempts, ..spec() };
        let id = new_id();
        judicator.add(vec![AddTask { id, spec }]).await?;
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
    let task = |attempts| AddTask {
        id,
        spec: TaskSpec { attempts, ..spec() },
    };
    assert!(!judicator.add(vec![task(None)]).await.unwrap()[0].existed);
    assert!(judicator.add(vec![task(None)]).await.unwrap()[0].existed);
    // The same number as the default is another request.
    let other = judicator.add(vec![task(Some(3))]).await;
    assert_eq!(other.err(), Some(CallError::Conflict(id)));
}
