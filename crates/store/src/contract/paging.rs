//! Going through a search page by page.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Brief, Command, Order, Query, Status, TaskId, UserName};

use super::sample::{add_one, add_with, get, new, spec, success};
use super::worker::Worker;
use crate::{StoreError, TaskStore};

/// Goes through all pages, with more tasks added between any two of them.
pub(super) async fn walk(store: &Arc<dyn TaskStore>, mut query: Query) -> Vec<TaskId> {
    let mut seen = vec![];
    for page in 0.. {
        assert!(page < 100, "the pages do not come to an end");
        let found = store.search(query.clone()).await.unwrap();
        assert!(found.tasks.len() <= query.limit);
        seen.extend(found.tasks.iter().map(|brief| brief.id));
        let Some(next) = found.next else { break };
        query.after = Some(next);
        if page < 5 {
            add_one(&**store).await;
        }
    }
    seen
}

fn check_walk(seen: &[TaskId], there: &[TaskId], order: Order) {
    let distinct: BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "none twice");
    let mut old: Vec<_> = seen.iter().copied().filter(|id| there.contains(id)).collect();
    if order == Order::Newest {
        assert_eq!(
            old.len(),
            seen.len(),
            "what is added later comes before the first page"
        );
        old.reverse();
    }
    assert_eq!(old, there, "none missing");
}

pub async fn pages_are_stable_while_tasks_are_added(store: Arc<dyn TaskStore>) {
    let ada = UserName::new("ada").unwrap();
    let mut there = vec![];
    let queries = [
        Query::default(),
        Query {
            user: Some(ada),
            ..Query::default()
        },
        Query {
            statuses: vec![Status::Pending],
            ..Query::default()
        },
        Query {
            text: Some("a.out".into()),
            ..Query::default()
        },
    ];
    for query in queries {
        for order in [Order::Oldest, Order::Newest] {
            for limit in [1, 3, 1000] {
                if there.len() < 20 {
                    let batch = (0..4).map(|_| new(spec())).collect();
                    there.extend(store.add(batch).await.unwrap().iter().map(|added| added.id));
                }
                there = super::searching::found(&store, Query::default()).await;
                let seen = walk(
                    &store,
                    Query {
                        order,
                        limit,
                        ..query.clone()
                    },
                )
                .await;
                check_walk(&seen, &there, order);
            }
            // Later rounds need not grow: that keeps the walk by ones short.
            for id in super::searching::found(&store, Query::default())
                .await
                .into_iter()
                .skip(20)
            {
                retire(&store, id).await;
            }
        }
    }
}

/// Removes one task.
async fn retire(store: &Arc<dyn TaskStore>, id: TaskId) {
    store.cancel(id).await.unwrap();
    let (ever, never) = (model::Age(i64::MAX), model::Age(0));
    assert_eq!(store.retire(ever, never, 10).await.unwrap().tasks, 1);
}

pub async fn pages_over_several_statuses(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    let mut expected: Vec<TaskId> = vec![];
    for index in 0..20 {
        let id = add_with(&*store, |spec| spec.priority = 1).await;
        match index % 4 {
            0 => drop(store.cancel(id).await.unwrap()),
            1 => {
                let handout = worker.claim_one().await;
                worker.finish(handout, success()).await;
            }
            2 => drop(worker.claim_one().await),
            _ => {}
        }
        expected.extend((index % 4 != 2 && index % 4 != 3).then_some(id));
        if index % 4 == 3 {
            let handout = worker.claim_one().await;
            worker.progress(handout.task, Status::Running).await;
        }
    }
    for limit in [1, 2, 7] {
        let query = Query {
            statuses: vec![Status::Success, Status::Cancelled],
            order: Order::Oldest,
            limit,
            ..Query::default()
        };
        assert_eq!(walk(&store, query).await, expected);
    }
}

pub async fn a_foreign_cursor_is_refused(store: Arc<dyn TaskStore>) {
    add_one(&*store).await;
    add_one(&*store).await;
    let query = Query {
        limit: 1,
        ..Query::default()
    };
    let next = store.search(query.clone()).await.unwrap().next;
    assert!(next.is_some());
    let same = Query {
        after: next,
        limit: 7,
        ..query.clone()
    };
    assert_eq!(store.search(same).await.unwrap().tasks.len(), 1);
    let other = Query {
        after: next,
        order: Order::Oldest,
        ..query
    };
    assert!(matches!(
        store.search(other).await,
        Err(StoreError::ForeignCursor)
    ));
}

pub async fn long_commands_are_cut_in_lists(store: Arc<dyn TaskStore>) {
    // The cut of the second falls into a character.
    let commands = [
        "x".repeat(Brief::COMMAND),
        "ö".repeat(Brief::COMMAND),
        "x".repeat(60 << 10),
    ];
    for command in &commands {
        add_with(&*store, |spec| {
            spec.execute.command = Command::Shell(command.clone())
        })
        .await;
    }
    let query = Query {
        order: Order::Oldest,
        ..Query::default()
    };
    let page = store.search(query).await.unwrap();
    assert_eq!(page.tasks[0].command, commands[0]);
    for (brief, command) in page.tasks.iter().zip(&commands).skip(1) {
        assert!(brief.command.len() <= Brief::COMMAND, "{}", brief.command.len());
        let kept = brief.command.strip_suffix('…').expect("a mark");
        assert!(command.starts_with(kept) && kept.len() >= Brief::COMMAND - 4);
        let task = get(&*store, brief.id).await;
        assert_eq!(task.spec.execute.command.display(), *command);
    }
}

pub async fn limits_are_bounded(store: Arc<dyn TaskStore>) {
    let count = Query::LIMIT + 5;
    store
        .add((0..count).map(|_| new(spec())).collect())
        .await
        .unwrap();
    for (limit, expected) in [
        (0, 50),
        (1, 1),
        (Query::LIMIT, Query::LIMIT),
        (usize::MAX, Query::LIMIT),
    ] {
        let page = store
            .search(Query {
                limit,
                ..Query::default()
            })
            .await
            .unwrap();
        assert_eq!(page.tasks.len(), expected);
        assert!(page.next.is_some());
    }
    let page = store
        .search(Query {
            limit: 1,
            order: Order::Oldest,
            ..Query::default()
        })
        .await
        .unwrap();
    let task = get(&*store, page.tasks[0].id).await;
    let expected = Brief {
        id: task.id,
        user: task.spec.user,
        priority: task.spec.priority,
        command: "./a.out x".into(),
        status: task.status,
        executor: task.executor,
        attempt: task.attempt,
        add_time: task.add_time,
        start_time: None,
        finish_time: None,
    };
    assert_eq!(page.tasks, [expected]);
}
