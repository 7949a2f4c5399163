//! Contract cases: searching by language, and counting what a search matches.

use std::sync::Arc;

use model::{
    GroupName, LanguageName, OutcomeReason, StatusCounts, StepCommand, TaskCounts, TaskId, TaskQuery,
    TaskStatus, UnixTime,
};

use super::SCAN_LIMIT;
use super::fake_executor::FakeExecutor;
use super::fixtures::{add_task_with, labels, new_task, requiring, run_failure, success, task_spec};
use super::search::{search_ids, user};
use crate::TaskStore;

async fn add_requiring(store: &Arc<dyn TaskStore>, key: &str) -> TaskId {
    let task = new_task(requiring(key));
    store.add(vec![task]).await.unwrap()[0].id
}

fn language(name: &str) -> TaskQuery {
    TaskQuery {
        language: LanguageName::new(name).ok(),
        ..TaskQuery::default()
    }
}

pub async fn by_language(store: Arc<dyn TaskStore>) {
    let go = add_requiring(&store, "/go").await;
    let cpp = add_requiring(&store, "/c++").await;
    let in_root = add_requiring(&store, "debian/go").await;
    // Neither a root nor another language counts.
    add_requiring(&store, "go/").await;
    add_requiring(&store, "/mango").await;
    add_task_with(&*store, |_| {}).await;
    assert_eq!(search_ids(&store, language("go")).await, [go, in_root]);
    assert_eq!(search_ids(&store, language("Go")).await, [go, in_root]);
    assert_eq!(search_ids(&store, language("c++")).await, [cpp]);
    assert_eq!(search_ids(&store, language("c")).await, []);
    assert_eq!(search_ids(&store, language(".*")).await, []);
    let page = store.search(language("c++")).await.unwrap();
    assert_eq!(page.tasks[0].language, LanguageName::new("c++").ok());
    let by_more = TaskQuery {
        statuses: vec![TaskStatus::Pending],
        user: user("ada"),
        text: Some("A.OUT".into()),
        ..language("go")
    };
    assert_eq!(search_ids(&store, by_more.clone()).await, [go, in_root]);
    let of_nobody = TaskQuery {
        user: user("nobody"),
        ..by_more
    };
    assert_eq!(search_ids(&store, of_nobody).await, []);
}

async fn count(store: &Arc<dyn TaskStore>, query: TaskQuery) -> StatusCounts {
    let TaskCounts { counts, complete } = store.count(query.clone()).await.unwrap();
    assert!(complete, "{query:?}");
    counts
}

pub async fn counts_match_the_tasks_by_status(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    for (index, result) in [Some(success()), Some(run_failure()), Some(success()), None, None]
        .into_iter()
        .enumerate()
    {
        let id = add_task_with(&*store, |spec| {
            spec.user = user(if index == 2 { "bob" } else { "ada" }).unwrap();
        })
        .await;
        match result {
            Some(result) => {
                let attempt = executor.claim_one().await;
                executor.finish(attempt, result).await;
            }
            None if index == 4 => drop(store.cancel(id).await.unwrap()),
            None => {}
        }
    }
    let of_ada = TaskQuery {
        user: user("ada"),
        ..TaskQuery::default()
    };
    let expected = [
        (TaskStatus::Pending, 1),
        (TaskStatus::Success, 1),
        (TaskStatus::RunFailed, 1),
        (TaskStatus::Cancelled, 1),
    ];
    assert_eq!(count(&store, of_ada.clone()).await, expected.into());
    let failed = TaskQuery {
        statuses: vec![TaskStatus::RunFailed, TaskStatus::Cancelled],
        ..of_ada.clone()
    };
    let expected = [(TaskStatus::RunFailed, 1), (TaskStatus::Cancelled, 1)];
    assert_eq!(count(&store, failed).await, expected.into());
    let all = TaskQuery {
        reasons: OutcomeReason::ALL.to_vec(),
        ..TaskQuery::default()
    };
    let expected = [(TaskStatus::Success, 2), (TaskStatus::RunFailed, 1)];
    assert_eq!(count(&store, all).await, expected.into());
    // The page of the query does not matter.
    let page = store.search(of_ada.clone()).await.unwrap();
    let elsewhere = TaskQuery {
        limit: 1,
        after: Some(of_ada.cursor_after(&page.tasks[0])),
        ..of_ada
    };
    assert_eq!(count(&store, elsewhere).await.values().sum::<u64>(), 4);
}

pub async fn a_count_has_the_filters_of_a_search(store: Arc<dyn TaskStore>) {
    let id = add_task_with(&*store, |spec| {
        spec.group = GroupName::new("g").ok();
        spec.labels = labels(&[("a", "1"), ("b", "2")]);
        spec.language = LanguageName::new("go").ok();
        spec.execute.command = StepCommand::Shell("find the Needle".into());
    })
    .await;
    add_task_with(&*store, |_| {}).await;
    let query = TaskQuery::default;
    for matching in [
        TaskQuery {
            ids: vec![id],
            ..query()
        },
        TaskQuery {
            id_prefix: id.to_string().parse().ok(),
            ..query()
        },
        TaskQuery {
            group: GroupName::new("g").ok(),
            ..query()
        },
        TaskQuery {
            labels: labels(&[("a", "1"), ("b", "2")]),
            ..query()
        },
        TaskQuery {
            text: Some("NEEDLE".into()),
            ..query()
        },
        TaskQuery {
            text: Some("needle".into()),
            user: user("ada"),
            statuses: TaskStatus::ALL.to_vec(),
            ..query()
        },
        language("go"),
    ] {
        let found = count(&store, matching.clone()).await;
        assert_eq!(found, [(TaskStatus::Pending, 1)].into(), "{matching:?}");
    }
    for nothing in [
        TaskQuery {
            until: Some(UnixTime(1)),
            ..query()
        },
        TaskQuery {
            user: user("nobody"),
            ..query()
        },
        TaskQuery {
            retried: Some(true),
            ..query()
        },
        TaskQuery {
            statuses: vec![TaskStatus::Running],
            text: Some("needle".into()),
            ..query()
        },
    ] {
        assert_eq!(count(&store, nothing.clone()).await, [].into(), "{nothing:?}");
    }
}

/// The newest tasks are counted.
pub async fn a_count_examines_a_bounded_number_of_tasks(store: Arc<dyn TaskStore>) {
    let tasks = |count: usize, name: &str| {
        let task = |_| {
            let mut spec = task_spec();
            spec.user = user(name).unwrap();
            new_task(spec)
        };
        (0..count).map(task).collect::<Vec<_>>()
    };
    let oldest = store.add(tasks(3, "ada")).await.unwrap();
    store.cancel(oldest[0].id).await.unwrap();
    store.add(tasks(SCAN_LIMIT - 3, "ada")).await.unwrap();
    store.add(tasks(SCAN_LIMIT, "bob")).await.unwrap();
    let of = |name: &str, text: Option<&str>| TaskQuery {
        user: user(name),
        text: text.map(String::from),
        ..TaskQuery::default()
    };
    for text in [None, Some("A.OUT")] {
        let counted = store.count(of("ada", text)).await.unwrap();
        assert_eq!(
            counted.counts.values().sum::<u64>(),
            SCAN_LIMIT as u64,
            "{counted:?}"
        );
        assert_eq!(counted.counts[&TaskStatus::Cancelled], 1);
    }
    store.add(tasks(3, "ada")).await.unwrap();
    for text in [None, Some("A.OUT")] {
        let counted = store.count(of("ada", text)).await.unwrap();
        let expected = TaskCounts {
            counts: [(TaskStatus::Pending, SCAN_LIMIT as u64)].into(),
            complete: false,
        };
        assert_eq!(counted, expected, "{text:?}");
    }
}
