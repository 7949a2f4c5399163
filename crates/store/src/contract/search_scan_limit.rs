//! Contract cases: a search examines a bounded number of tasks for each page.

use std::sync::Arc;

use model::{ExecutorName, GroupName, Page, SortOrder, StepCommand, TaskId, TaskQuery, TaskStatus, UserName};

use super::SCAN_LIMIT;
use super::fake_executor::FakeExecutor;
use super::fixtures::{get_task, labels, new_task, task_spec};
use super::search::{search_ids, user};
use crate::TaskStore;

/// Adds `count` tasks of the user with this command, in one batch.
async fn add_tasks(store: &Arc<dyn TaskStore>, count: usize, name: &str, command: &str) -> Vec<TaskId> {
    let tasks = (0..count).map(|_| {
        let mut spec = task_spec();
        spec.user = UserName::new(name).unwrap();
        spec.execute.command = StepCommand::Shell(command.into());
        new_task(spec)
    });
    let added = store.add(tasks.collect()).await.unwrap();
    added.iter().map(|added| added.id).collect()
}

fn ids(page: &Page) -> Vec<TaskId> {
    page.tasks.iter().map(|summary| summary.id).collect()
}

pub async fn a_page_examines_a_bounded_number_of_tasks(store: Arc<dyn TaskStore>) {
    let first = add_tasks(&store, 1, "ada", "needle").await;
    add_tasks(&store, 2 * SCAN_LIMIT, "ada", "hay").await;
    let last = add_tasks(&store, 1, "ada", "needle").await;
    for (order, near, far) in [
        (SortOrder::Newest, &last, &first),
        (SortOrder::Oldest, &first, &last),
    ] {
        let mut query = TaskQuery {
            text: Some("needle".into()),
            order,
            ..TaskQuery::default()
        };
        let found = store.search(query.clone()).await.unwrap();
        assert_eq!((ids(&found), found.complete), (near.clone(), false), "{order}");
        query.after = found.next;
        let empty = store.search(query.clone()).await.unwrap();
        assert_eq!((ids(&empty), empty.complete), (vec![], false), "{order}");
        query.after = empty.next;
        let end = store.search(query.clone()).await.unwrap();
        assert_eq!(
            (ids(&end), end.complete, end.next),
            (far.clone(), true, None),
            "{order}"
        );
        // A page that is full before the scan limit is complete.
        let full = TaskQuery {
            limit: 1,
            after: None,
            ..query
        };
        let full = store.search(full).await.unwrap();
        assert_eq!(ids(&full), *near, "{order}");
        assert!(full.complete && full.next.is_some(), "{order}");
    }
    // The scan limit does not apply to a query that an index answers completely.
    let all = TaskQuery {
        limit: 1000,
        ..TaskQuery::default()
    };
    let all = store.search(all).await.unwrap();
    assert_eq!((all.tasks.len(), all.complete), (2 * SCAN_LIMIT + 2, true));
}

pub async fn an_indexed_condition_narrows_a_text_search(store: Arc<dyn TaskStore>) {
    let of_bob = add_tasks(&store, 2, "bob", "needle").await;
    let cancelled = add_tasks(&store, 1, "ada", "needle").await[0];
    store.cancel(cancelled).await.unwrap();
    add_tasks(&store, 2 * SCAN_LIMIT, "ada", "hay").await;
    let query = TaskQuery {
        text: Some("needle".into()),
        ..TaskQuery::default()
    };
    let by_user = TaskQuery {
        user: user("bob"),
        ..query.clone()
    };
    let by_status = TaskQuery {
        statuses: vec![TaskStatus::Cancelled, TaskStatus::Running],
        ..query.clone()
    };
    let by_ids = TaskQuery {
        ids: of_bob.clone(),
        ..query.clone()
    };
    let by_time = TaskQuery {
        until: Some(get_task(&*store, cancelled).await.add_time),
        ..query.clone()
    };
    assert!(!store.search(query).await.unwrap().complete);
    for (query, expected) in [
        (by_user, of_bob.clone()),
        (by_status, vec![cancelled]),
        (by_ids, of_bob.clone()),
        (by_time, of_bob),
    ] {
        assert_eq!(search_ids(&store, query).await, expected);
    }
}

/// Whatever other conditions a user's search has, the cursor names only tasks of that user.
pub async fn the_cursor_of_a_users_search_names_no_task_of_another_user(store: Arc<dyn TaskStore>) {
    let foreign = add_tasks(&store, 2 * SCAN_LIMIT, "ada", "true").await;
    let mut wanted = add_tasks(&store, 2, "bob", "true").await;
    wanted.sort_unstable();
    let mut all = add_tasks(&store, 2 * SCAN_LIMIT, "ada", "true").await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim(500).await;
    all.extend(foreign);
    all.extend(&wanted);
    let prefix = wanted[0].to_string()[..4].parse().unwrap();
    let narrowed = [
        TaskQuery {
            id_prefix: Some(prefix),
            ..TaskQuery::default()
        },
        TaskQuery {
            statuses: vec![TaskStatus::Pending],
            ..TaskQuery::default()
        },
        TaskQuery {
            executor: Some(executor.name.clone()),
            ..TaskQuery::default()
        },
        TaskQuery {
            ids: all,
            ..TaskQuery::default()
        },
        TaskQuery::default(),
    ];
    for query in narrowed {
        for (order, text) in [
            (SortOrder::Oldest, None),
            (SortOrder::Newest, None),
            (SortOrder::Newest, Some("rue".to_string())),
        ] {
            let mut query = TaskQuery {
                user: user("bob"),
                limit: 1,
                order,
                text,
                ..query.clone()
            };
            let mut found = vec![];
            loop {
                let page = store.search(query.clone()).await.unwrap();
                found.extend(ids(&page));
                let Some(next) = page.next else { break };
                assert!(wanted.contains(&next.id), "{query:?}: {next:?}");
                query.after = Some(next);
            }
            found.sort_unstable();
            assert_eq!(found, wanted, "{query:?}");
        }
    }
}

pub async fn a_condition_without_an_index_is_bounded_too(store: Arc<dyn TaskStore>) {
    let wanted = add_tasks(&store, 1, "bob", "true").await;
    add_tasks(&store, SCAN_LIMIT, "bob", "false").await;
    // A user and a status: the store uses an index for one of them and checks the other on each task.
    store.cancel(wanted[0]).await.unwrap();
    let others = add_tasks(&store, SCAN_LIMIT, "ada", "true").await;
    for id in others {
        store.cancel(id).await.unwrap();
    }
    let mut query = TaskQuery {
        user: user("bob"),
        statuses: vec![TaskStatus::Cancelled],
        limit: 10,
        ..TaskQuery::default()
    };
    let first = store.search(query.clone()).await.unwrap();
    assert_eq!((ids(&first), first.complete), (vec![], false));
    query.after = first.next;
    let second = store.search(query).await.unwrap();
    assert_eq!((ids(&second), second.complete, second.next), (wanted, true, None));
    for nothing in [
        TaskQuery {
            user: user("nobody"),
            ..TaskQuery::default()
        },
        TaskQuery {
            statuses: vec![TaskStatus::RunFailed],
            ..TaskQuery::default()
        },
        TaskQuery {
            executor: Some(ExecutorName::new("nobody").unwrap()),
            ..TaskQuery::default()
        },
    ] {
        assert_eq!(store.search(nothing).await.unwrap(), Page::default());
    }
}

/// A search for a label or a group examines only their tasks, and of these a bounded number for each page.
pub async fn labels_and_groups_narrow_a_search(store: Arc<dyn TaskStore>) {
    let marked = |command: &str, name: &str| {
        let mut spec = task_spec();
        spec.user = UserName::new(name).unwrap();
        spec.execute.command = StepCommand::Shell(command.into());
        spec.labels = labels(&[("a", "b")]);
        spec.group = GroupName::new("g").ok();
        new_task(spec)
    };
    let needle = store.add(vec![marked("needle", "bob")]).await.unwrap()[0].id;
    add_tasks(&store, 2 * SCAN_LIMIT, "bob", "hay").await;
    let by_label = TaskQuery {
        labels: labels(&[("a", "b")]),
        text: Some("needle".into()),
        limit: 10,
        ..TaskQuery::default()
    };
    let by_group = TaskQuery {
        labels: labels(&[]),
        group: GroupName::new("g").ok(),
        ..by_label.clone()
    };
    for query in [&by_label, &by_group] {
        for user in [None, user("bob")] {
            let query = TaskQuery {
                user,
                ..query.clone()
            };
            assert_eq!(search_ids(&store, query).await, [needle]);
        }
    }
    let others = (0..SCAN_LIMIT).map(|_| marked("hay", "ada"));
    store.add(others.collect()).await.unwrap();
    let own = (0..SCAN_LIMIT).map(|_| marked("hay", "bob"));
    store.add(own.collect()).await.unwrap();
    for query in [&by_label, &by_group] {
        // The tasks of other users are not examined.
        for (user, pages) in [(None, 3), (user("bob"), 2)] {
            let mut query = TaskQuery {
                user,
                ..query.clone()
            };
            for page_number in 1..=pages {
                let page = store.search(query.clone()).await.unwrap();
                let is_last = page_number == pages;
                assert_eq!(
                    (ids(&page) == [needle], page.complete),
                    (is_last, is_last),
                    "{query:?}"
                );
                query.after = page.next;
            }
            assert_eq!(query.after, None);
        }
    }
}
