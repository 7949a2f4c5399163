//! Contract cases: how many tasks are before another one in the queue.

use std::sync::Arc;

use model::{QueuePlace, QueuedBefore, TaskId, ToolRequirement};

use super::fake_executor::FakeExecutor;
use super::fixtures::{add_task_with, get_task, new_task, requiring, task_spec, tools};
use crate::TaskStore;

/// The count for a task that executors with the tools for these queue keys may claim.
async fn before(store: &dyn TaskStore, id: TaskId, keys: &[&str]) -> QueuedBefore {
    let task = get_task(store, id).await;
    let place = QueuePlace {
        id,
        priority: task.spec.priority,
        add_time: task.add_time,
        tools: vec![tools(keys)],
        requires: ToolRequirement::of(&task.spec),
    };
    store.queued_before(place).await.unwrap()
}

fn exactly(tasks: u32) -> QueuedBefore {
    QueuedBefore { tasks, more: false }
}

/// The counts agree with the order in which an executor claims the tasks.
pub async fn tasks_that_a_claim_takes_first_are_before_it(store: Arc<dyn TaskStore>) {
    let mut ids = vec![];
    for (number, priority) in [0, 5, -3, 5, i32::MAX, 0, i32::MIN, 5, 0].into_iter().enumerate() {
        let id = add_task_with(&*store, |spec| {
            if number % 2 == 1 {
                spec.language = requiring("/c").language;
            }
            spec.priority = priority;
        })
        .await;
        ids.push(id);
    }
    let mut executor = FakeExecutor::new(&store, "e");
    executor.tools = Some(tools(&["/c", "/go"]));
    executor.claim(0).await;
    for round in 0..ids.len() {
        let mut places = vec![];
        for id in &ids {
            places.push((before(&*store, *id, &["/c", "/go"]).await, *id));
        }
        places.sort_by_key(|(before, _)| before.tasks);
        let counted: Vec<_> = places.iter().map(|(before, _)| *before).collect();
        let expected: Vec<_> = (0..9 - round).map(|number| exactly(number as u32)).collect();
        assert_eq!(counted, expected);
        let first = places[0].1;
        assert_eq!(executor.claim_one().await.task, first);
        ids.retain(|id| *id != first);
    }
}

pub async fn only_the_queues_of_the_keys_count(store: Arc<dyn TaskStore>) {
    for key in [None, Some("/c"), Some("lab/"), Some("lab/c"), Some("/c")] {
        store
            .add(vec![new_task(key.map_or_else(task_spec, requiring))])
            .await
            .unwrap();
    }
    let done = add_task_with(&*store, |_| {}).await;
    store.cancel(done).await.unwrap();
    let id = add_task_with(&*store, |_| {}).await;
    let check = async |keys: &[&str], expected: u32| {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        assert_eq!(before(&*store, id, &keys).await, exactly(expected), "{keys:?}");
    };
    check(&[], 1).await;
    check(&["/c"], 3).await;
    check(&["lab/"], 2).await;
    check(&["/c", "lab/", "lab/c", "other/"], 5).await;
    let many: Vec<_> = (0..700).map(|number| format!("root-{number}/c")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).chain(["lab/c"]).collect();
    check(&many, 2).await;
    assert!(ToolRequirement::default().queue_key().is_none());
}

pub async fn a_count_is_limited(store: Arc<dyn TaskStore>) {
    let limit = QueuedBefore::MAX as usize;
    let backlog: Vec<_> = (0..limit + 1)
        .map(|number| match number % 2 {
            0 => new_task(task_spec()),
            _ => new_task(requiring("/c")),
        })
        .collect();
    for batch in backlog.chunks(1000) {
        store.add(batch.to_vec()).await.unwrap();
    }
    let last = backlog[limit].id;
    assert_eq!(
        before(&*store, last, &["/c"]).await,
        exactly(QueuedBefore::MAX),
        "as many as are counted"
    );
    let id = add_task_with(&*store, |_| {}).await;
    let more = QueuedBefore {
        tasks: QueuedBefore::MAX,
        more: true,
    };
    assert_eq!(before(&*store, id, &["/c"]).await, more);
    assert_eq!(before(&*store, id, &[]).await, exactly(QueuedBefore::MAX / 2 + 1));
}
