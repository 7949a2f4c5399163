//! Contract cases: the blobs that a result names.

use std::sync::Arc;

use model::{AttemptEnd, CapturedOutput, Report, StoreAge, TaskStatus};

use super::fake_executor::{FakeExecutor, completed, instructions};
use super::fixtures::{
    add_task, get_task, hash_of, put_blob, read_blob, result_with_files, success, task_with_blobs,
};
use crate::{RetentionSummary, TaskStore};

/// An age after every stamp.
const AFTER_ALL: StoreAge = StoreAge(i64::MAX);

pub async fn a_result_is_committed_when_its_blobs_are_there(store: Arc<dyn TaskStore>) {
    let (with_files, other) = (add_task(&*store).await, add_task(&*store).await);
    let file = put_blob(&*store, b"file").await.unwrap();
    let missing = hash_of(b"output");
    let mut result = result_with_files(&[file, missing]);
    result.execute.as_mut().unwrap().stdout = CapturedOutput {
        size: 1 << 20,
        blob: Some(missing),
        ..CapturedOutput::small("the first bytes")
    };
    let mut executor = FakeExecutor::new(&store, "e");
    let (first, second) = (executor.claim_one().await, executor.claim_one().await);
    executor.running.clear();
    let report = Report {
        complete: vec![
            completed(first, AttemptEnd::Result(result.clone())),
            completed(second, AttemptEnd::Result(success())),
        ],
        ..executor.next_report()
    };
    let reported = executor.send(report).await;
    assert_eq!(reported.finished.len(), 1);
    let answer = instructions(reported);
    assert_eq!((answer.upload_again, answer.delete), (vec![first], vec![second]));
    // The attempt is still held, and its neighbour is committed.
    let task = get_task(&*store, with_files).await;
    assert_eq!((task.executor, task.result), (Some(executor.name.clone()), None));
    assert_eq!(get_task(&*store, other).await.status, TaskStatus::Success);
    assert_eq!(put_blob(&*store, b"output").await.unwrap(), missing);
    let answer = instructions(executor.finish(first, result.clone()).await);
    assert_eq!((answer.upload_again, answer.delete), (vec![], vec![first]));
    assert_eq!(get_task(&*store, with_files).await.result, Some(result));
}

/// A late result is discarded in any case, so its blobs are not needed.
pub async fn the_blobs_of_a_late_result_are_not_needed(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    store.cancel(id).await.unwrap();
    let result = result_with_files(&[hash_of(b"nowhere")]);
    let answer = instructions(executor.finish(attempt_id, result).await);
    assert_eq!((answer.upload_again, answer.delete), (vec![], vec![attempt_id]));
}

pub async fn the_blobs_of_a_result_are_kept_with_its_task(store: Arc<dyn TaskStore>) {
    let input = put_blob(&*store, b"input").await.unwrap();
    let output = put_blob(&*store, b"output").await.unwrap();
    let unused = put_blob(&*store, b"unused").await.unwrap();
    let task = task_with_blobs(&[input]);
    store.add(vec![task.clone()]).await.unwrap();
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    // The task keeps its own input, too: the blob is one of the spec and one of the result.
    executor
        .finish(attempt_id, result_with_files(&[input, output]))
        .await;
    let now = store.age().await.unwrap();
    let retired = store.apply_retention(now, AFTER_ALL, 10).await.unwrap();
    assert_eq!(
        retired,
        RetentionSummary {
            tasks: 0,
            blobs: 1,
            more: false
        }
    );
    assert_eq!(read_blob(&*store, unused).await, None);
    assert_eq!(read_blob(&*store, output).await.as_deref(), Some(&b"output"[..]));
    // A later task may use a kept file as its input.
    let next = task_with_blobs(&[output]);
    store.add(vec![next.clone()]).await.unwrap();
    let retired = store.apply_retention(AFTER_ALL, AFTER_ALL, 10).await.unwrap();
    assert_eq!(
        retired,
        RetentionSummary {
            tasks: 1,
            blobs: 1,
            more: false
        }
    );
    let sizes = store.has_blobs(vec![input, output]).await.unwrap();
    assert_eq!(sizes, [None, Some(6)]);
    store.cancel(next.id).await.unwrap();
    let retired = store.apply_retention(AFTER_ALL, AFTER_ALL, 10).await.unwrap();
    assert_eq!(
        retired,
        RetentionSummary {
            tasks: 1,
            blobs: 1,
            more: false
        }
    );
    assert_eq!(store.has_blobs(vec![output]).await.unwrap(), [None]);
}
