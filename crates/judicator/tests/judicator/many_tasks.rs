//! Calls about all tasks that match a search: counts, retries, and the stream of changes.

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use model::{AddTask, Content, LanguageName, TaskFile, TaskQuery, TaskSpec, TaskStatus, WorkspacePath};
use rpc::{CallError, Calls};

use super::harness::with_deadline;
use super::languages::java_options;
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, add_group, group_key, new_id, spec};

fn of_ada() -> TaskQuery {
    TaskQuery {
        user: Some(spec().user),
        ..TaskQuery::default()
    }
}

#[tokio::test]
async fn counts_without_a_filter_are_the_totals() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let ids = add_group(judicator, "sweep", 3).await;
    judicator.cancel(ids[0]).await.unwrap();
    let all = judicator.count(TaskQuery::default()).await.unwrap();
    assert!(all.complete);
    // The totals have all statuses.
    assert_eq!(all.counts.len(), TaskStatus::ALL.len());
    let filtered = judicator.count(of_ada()).await.unwrap();
    let expected = [(TaskStatus::Pending, 2), (TaskStatus::Cancelled, 1)];
    assert_eq!((filtered.counts, filtered.complete), (expected.into(), true));
    for (status, count) in expected {
        assert_eq!(all.counts[&status], count);
    }
}

#[tokio::test]
async fn tasks_that_match_and_failed_are_retried() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let refused = judicator.retry_matching(TaskQuery::default(), None).await;
    assert!(matches!(refused, Err(CallError::Invalid(_))), "{refused:?}");
    add_group(judicator, "a", 150).await;
    add_group(judicator, "b", 10).await;
    let mut executor = ScriptedExecutor::new(judicator, "e");
    let attempts = executor.claim(160).await;
    executor.finish(&attempts[..30], 0).await;
    executor.finish(&attempts[30..], 1).await;
    let of_group = TaskQuery {
        group: Some(group_key("b").group),
        ..TaskQuery::default()
    };
    let first = judicator.retry_matching(of_group, None).await.unwrap();
    assert_eq!((first.ids.len(), first.next), (10, None));
    let succeeded = TaskQuery {
        statuses: vec![TaskStatus::Success, TaskStatus::Pending],
        ..of_ada()
    };
    let nothing = judicator.retry_matching(succeeded, None).await.unwrap();
    assert_eq!((nothing.ids.len(), nothing.next), (0, None));
    let rest = judicator.retry_matching(of_ada(), None).await.unwrap();
    assert_eq!((rest.ids.len(), rest.next), (120, None));
    let again = judicator.retry_matching(of_ada(), None).await.unwrap();
    assert_eq!(again.ids.len(), 0);
}

#[tokio::test]
async fn a_language_is_found_by_its_alias() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start_with(folder.path(), java_options());
    let main = b"public class Main { public static void main(String[] args) {} }";
    let file = TaskFile {
        content: Content::Inline(Bytes::from_static(main)),
        executable: false,
    };
    let task = TaskSpec {
        language: LanguageName::new("JDK").ok(),
        source: [(WorkspacePath::new("Main.java").unwrap(), file)].into(),
        ..spec()
    };
    let mut add = AddTask::new(new_id(), task);
    add.wait_for_executor = true;
    judicator.add(vec![add]).await.unwrap();
    for (name, expected) in [("java", 1), ("jdk", 1), ("go", 0)] {
        let query = TaskQuery {
            language: LanguageName::new(name).ok(),
            ..TaskQuery::default()
        };
        let page = judicator.search(query.clone()).await.unwrap();
        assert_eq!(page.tasks.len(), expected, "{name}");
        let counts = judicator.count(query).await.unwrap();
        assert_eq!(counts.counts.values().sum::<u64>(), expected as u64, "{name}");
    }
}

#[tokio::test]
async fn changes_of_tasks_are_ticks() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let mut changes = judicator.changes().await.unwrap();
    assert!(changes.next().now_or_never().is_none());
    let ids = add_group(judicator, "sweep", 1).await;
    with_deadline(changes.next()).await.unwrap().unwrap();
    // Every later change is followed by a tick, whatever was before.
    while changes.next().now_or_never().is_some() {}
    judicator.cancel(ids[0]).await.unwrap();
    with_deadline(changes.next()).await.unwrap().unwrap();
}
