//! Contract cases: reading the results of a search page by page.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{SortOrder, StepCommand, TaskId, TaskQuery, TaskStatus, TaskSummary, UserName};

use super::fake_executor::FakeExecutor;
use super::fixtures::{add_task, add_task_with, get_task, new_task, success, task_spec};
use crate::{StoreError, TaskStore};

/// Reads all pages of the search, and adds tasks between them.
pub(super) async fn read_all_pages(store: &Arc<dyn TaskStore>, mut query: TaskQuery) -> Vec<TaskId> {
    let mut listed = vec![];
    for page in 0.. {
        assert!(page < 100, "the pages never end");
        let found = store.search(query.clone()).await.unwrap();
        assert!(found.tasks.len() <= query.limit);
        listed.extend(found.tasks.iter().map(|summary| summary.id));
        let Some(next) = found.next else { break };
        query.after = Some(next);
        if page < 5 {
            add_task(&**store).await;
        }
    }
    listed
}

fn check_pages(listed: &[TaskId], existing: &[TaskId], order: SortOrder) {
    let distinct: BTreeSet<_> = listed.iter().collect();
    assert_eq!(distinct.len(), listed.len(), "no task is on two pages");
    let mut old: Vec<_> = listed
        .iter()
        .copied()
        .filter(|id| existing.contains(id))
        .collect();
    if order == SortOrder::Newest {
        assert_eq!(
            old.len(),
            listed.len(),
            "a task that is added later belongs before the first page"
        );
        old.reverse();
    }
    assert_eq!(old, existing, "no task is missing");
}

pub async fn pages_are_stable_while_tasks_are_added(store: Arc<dyn TaskStore>) {
    let ada = UserName::new("ada").unwrap();
    let mut existing = vec![];
    let queries = [
        TaskQuery::default(),
        TaskQuery {
            user: Some(ada),
            ..TaskQuery::default()
        },
        TaskQuery {
            statuses: vec![TaskStatus::Pending],
            ..TaskQuery::default()
        },
        TaskQuery {
            text: Some("a.out".into()),
            ..TaskQuery::default()
        },
    ];
    for query in queries {
        for order in [SortOrder::Oldest, SortOrder::Newest] {
            for limit in [1, 3, 1000] {
                if existing.len() < 20 {
                    let batch = (0..4).map(|_| new_task(task_spec())).collect();
                    existing.extend(store.add(batch).await.unwrap().iter().map(|added| added.id));
                }
                existing = super::search::search_ids(&store, TaskQuery::default()).await;
                let listed = read_all_pages(
                    &store,
                    TaskQuery {
                        order,
                        limit,
                        ..query.clone()
                    },
                )
                .await;
                check_pages(&listed, &existing, order);
            }
            // Remove the added tasks, so that reading pages of one task stays short.
            for id in super::search::search_ids(&store, TaskQuery::default())
                .await
                .into_iter()
                .skip(20)
            {
                remove_task(&store, id).await;
            }
        }
    }
}

/// Cancels and removes a task.
async fn remove_task(store: &Arc<dyn TaskStore>, id: TaskId) {
    store.cancel(id).await.unwrap();
    let (ever, never) = (model::StoreAge(i64::MAX), model::StoreAge(0));
    assert_eq!(store.apply_retention(ever, never, 10).await.unwrap().tasks, 1);
}

pub async fn pages_merge_several_statuses(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    let mut expected: Vec<TaskId> = vec![];
    for index in 0..20 {
        let id = add_task_with(&*store, |spec| spec.priority = 1).await;
        match index % 4 {
            0 => drop(store.cancel(id).await.unwrap()),
            1 => {
                let attempt_id = executor.claim_one().await;
                executor.finish(attempt_id, success()).await;
            }
            2 => drop(executor.claim_one().await),
            _ => {}
        }
        expected.extend((index % 4 != 2 && index % 4 != 3).then_some(id));
        if index % 4 == 3 {
            let attempt_id = executor.claim_one().await;
            executor.report_status(attempt_id.task, TaskStatus::Running).await;
        }
    }
    for limit in [1, 2, 7] {
        let query = TaskQuery {
            statuses: vec![TaskStatus::Success, TaskStatus::Cancelled],
            order: SortOrder::Oldest,
            limit,
            ..TaskQuery::default()
        };
        assert_eq!(read_all_pages(&store, query).await, expected);
    }
}

pub async fn the_cursor_of_another_search_is_refused(store: Arc<dyn TaskStore>) {
    add_task(&*store).await;
    add_task(&*store).await;
    let query = TaskQuery {
        limit: 1,
        ..TaskQuery::default()
    };
    let next = store.search(query.clone()).await.unwrap().next;
    assert!(next.is_some());
    let same = TaskQuery {
        after: next,
        limit: 7,
        ..query.clone()
    };
    assert_eq!(store.search(same).await.unwrap().tasks.len(), 1);
    let other = TaskQuery {
        after: next,
        order: SortOrder::Oldest,
        ..query
    };
    assert!(matches!(
        store.search(other).await,
        Err(StoreError::ForeignCursor)
    ));
}

pub async fn long_commands_are_shortened_in_lists(store: Arc<dyn TaskStore>) {
    // The second command would be cut within a character.
    let commands = [
        "x".repeat(TaskSummary::MAX_COMMAND_BYTES),
        "ö".repeat(TaskSummary::MAX_COMMAND_BYTES),
        "x".repeat(60 << 10),
    ];
    for command in &commands {
        add_task_with(&*store, |spec| {
            spec.execute.command = StepCommand::Shell(command.clone())
        })
        .await;
    }
    let query = TaskQuery {
        order: SortOrder::Oldest,
        ..TaskQuery::default()
    };
    let page = store.search(query).await.unwrap();
    assert_eq!(page.tasks[0].command, commands[0]);
    for (summary, command) in page.tasks.iter().zip(&commands).skip(1) {
        assert!(
            summary.command.len() <= TaskSummary::MAX_COMMAND_BYTES,
            "{}",
            summary.command.len()
        );
        let kept = summary.command.strip_suffix('…').expect("a mark");
        assert!(command.starts_with(kept) && kept.len() >= TaskSummary::MAX_COMMAND_BYTES - 4);
        let task = get_task(&*store, summary.id).await;
        assert_eq!(task.spec.execute.command.display(), *command);
    }
}

pub async fn the_page_length_is_bounded(store: Arc<dyn TaskStore>) {
    let count = TaskQuery::MAX_PAGE + 5;
    store
        .add((0..count).map(|_| new_task(task_spec())).collect())
        .await
        .unwrap();
    for (limit, expected) in [
        (0, 50),
        (1, 1),
        (TaskQuery::MAX_PAGE, TaskQuery::MAX_PAGE),
        (usize::MAX, TaskQuery::MAX_PAGE),
    ] {
        let page = store
            .search(TaskQuery {
                limit,
                ..TaskQuery::default()
            })
            .await
            .unwrap();
        assert_eq!(page.tasks.len(), expected);
        assert!(page.next.is_some());
    }
    let page = store
        .search(TaskQuery {
            limit: 1,
            order: SortOrder::Oldest,
            ..TaskQuery::default()
        })
        .await
        .unwrap();
    let task = get_task(&*store, page.tasks[0].id).await;
    let expected = TaskSummary {
        id: task.id,
        user: task.spec.user,
        priority: task.spec.priority,
        command: "./a.out x".into(),
        status: task.status,
        reason: None,
        labels: task.spec.labels,
        group: task.spec.group,
        language: task.spec.language,
        executor: task.executor,
        attempt: task.attempt,
        add_time: task.add_time,
        start_time: None,
        finish_time: None,
    };
    assert_eq!(page.tasks, [expected]);
}
