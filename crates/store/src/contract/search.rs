//! Contract cases: searching by each field and by several together.

use std::sync::Arc;

use model::{
    GroupName, OutcomeReason, SortOrder, StepCommand, TaskId, TaskQuery, TaskSpec, TaskStatus, UnixTime,
    UserName,
};

use super::fake_executor::FakeExecutor;
use super::fixtures::{add_task, add_task_with, get_task, labels, new_task, run_failure, success, task_spec};
use super::paging::read_all_pages;
use crate::{NewTaskRecord, TaskStore};

/// Returns what the query finds, oldest first. In the other order it must find the same tasks.
pub(super) async fn search_ids(store: &Arc<dyn TaskStore>, query: TaskQuery) -> Vec<TaskId> {
    let ids = async |order| {
        let page = store
            .search(TaskQuery {
                order,
                limit: 500,
                ..query.clone()
            })
            .await
            .unwrap();
        assert_eq!(page.next, None);
        page.tasks.iter().map(|summary| summary.id).collect::<Vec<_>>()
    };
    let oldest = ids(SortOrder::Oldest).await;
    let mut newest = ids(SortOrder::Newest).await;
    newest.reverse();
    assert_eq!(oldest, newest, "{query:?}");
    oldest
}

pub(super) fn user(name: &str) -> Option<UserName> {
    Some(UserName::new(name).unwrap())
}

pub async fn by_id(store: Arc<dyn TaskStore>) {
    let (a, b, _) = (
        add_task(&*store).await,
        add_task(&*store).await,
        add_task(&*store).await,
    );
    let query = |ids: &[TaskId]| TaskQuery {
        ids: ids.to_vec(),
        ..TaskQuery::default()
    };
    assert_eq!(
        search_ids(&store, query(&[b, a, b, TaskId(uuid::Uuid::now_v7())])).await,
        [a, b]
    );
    assert_eq!(
        search_ids(&store, query(&[TaskId(uuid::Uuid::now_v7())])).await,
        []
    );
    assert_eq!(
        search_ids(
            &store,
            TaskQuery {
                user: user("nobody"),
                ..query(&[a])
            }
        )
        .await,
        []
    );
}

pub async fn by_a_prefix_of_the_id(store: Arc<dyn TaskStore>) {
    let texts = [
        "01890a5d-ac96-774b-bcce-b302099a8057",
        "01890a5d-ac97-774b-bcce-b302099a8057",
        "01890a5e-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "01890a5d-ffff-ffff-ffff-ffffffffffff",
        "01890a5d-0000-0000-0000-000000000000",
    ];
    let mut ids = vec![];
    for (index, text) in texts.into_iter().enumerate() {
        let name = if index % 2 == 0 { "ada" } else { "bob" };
        let task = NewTaskRecord {
            id: text.parse().unwrap(),
            ..new_task(TaskSpec {
                user: UserName::new(name).unwrap(),
                ..task_spec()
            })
        };
        ids.push(task.id);
        store.add(vec![task]).await.unwrap();
    }
    let query = |prefix: &str| TaskQuery {
        id_prefix: Some(prefix.parse().unwrap()),
        ..TaskQuery::default()
    };
    for (prefix, expected) in [
        ("01890a5d-ac96", vec![ids[0]]),
        ("01890A5D-AC9", vec![ids[0], ids[1]]),
        ("01890a5d", vec![ids[5], ids[0], ids[1], ids[4]]),
        ("0189", vec![ids[5], ids[0], ids[1], ids[4], ids[2]]),
        ("ffff", vec![ids[3]]),
        ("0000", vec![]),
        (texts[4], vec![ids[4]]),
    ] {
        assert_eq!(search_ids(&store, query(prefix)).await, expected, "{prefix}");
    }
    let of_bob = TaskQuery {
        user: user("bob"),
        ..query("0189")
    };
    assert_eq!(search_ids(&store, of_bob.clone()).await, [ids[1], ids[5]]);
    let named = TaskQuery {
        ids: ids[1..].to_vec(),
        ..of_bob
    };
    assert_eq!(search_ids(&store, named).await, [ids[1], ids[5]]);
    for order in [SortOrder::Oldest, SortOrder::Newest] {
        let mut pages = read_all_pages(
            &store,
            TaskQuery {
                order,
                limit: 2,
                ..query("01890a5")
            },
        )
        .await;
        if order == SortOrder::Newest {
            pages.reverse();
        }
        assert_eq!(pages, [ids[5], ids[0], ids[1], ids[4], ids[2]], "{order}");
    }
}

pub async fn by_user(store: Arc<dyn TaskStore>) {
    let mut of_bob = vec![];
    for name in ["ada", "bob", "ada", "bob", "bobby"] {
        let id = add_task_with(&*store, |spec| spec.user = UserName::new(name).unwrap()).await;
        of_bob.extend((name == "bob").then_some(id));
    }
    assert_eq!(
        search_ids(
            &store,
            TaskQuery {
                user: user("bob"),
                ..TaskQuery::default()
            }
        )
        .await,
        of_bob
    );
    assert_eq!(
        search_ids(
            &store,
            TaskQuery {
                user: user("Bob"),
                ..TaskQuery::default()
            }
        )
        .await,
        []
    );
}

pub async fn by_status(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    let (mut ids, mut handouts) = (vec![], vec![]);
    for _ in 0..4 {
        ids.push(add_task(&*store).await);
        handouts.push(executor.claim_one().await);
    }
    executor.finish(handouts[1], success()).await;
    executor.finish(handouts[2], run_failure()).await;
    executor.report_status(ids[3], TaskStatus::Running).await;
    store.cancel(ids[0]).await.unwrap();
    let query = |statuses: &[TaskStatus]| TaskQuery {
        statuses: statuses.to_vec(),
        ..TaskQuery::default()
    };
    assert_eq!(
        search_ids(&store, query(&[TaskStatus::Cancelled])).await,
        [ids[0]]
    );
    assert_eq!(
        search_ids(
            &store,
            query(&[TaskStatus::Running, TaskStatus::Success, TaskStatus::Running])
        )
        .await,
        [ids[1], ids[3]]
    );
    assert_eq!(search_ids(&store, query(&[TaskStatus::Pending])).await, []);
    assert_eq!(search_ids(&store, query(&TaskStatus::ALL)).await, ids);
    assert_eq!(search_ids(&store, query(&[])).await, ids);
}

pub async fn by_executor(store: Arc<dyn TaskStore>) {
    let (a, b) = (add_task(&*store).await, add_task(&*store).await);
    let (mut one, mut other) = (
        FakeExecutor::new(&store, "one"),
        FakeExecutor::new(&store, "other"),
    );
    let attempt_id = one.claim_one().await;
    other.claim_one().await;
    let query = |executor: &FakeExecutor| TaskQuery {
        executor: Some(executor.name.clone()),
        ..TaskQuery::default()
    };
    assert_eq!(search_ids(&store, query(&one)).await, [a]);
    assert_eq!(search_ids(&store, query(&other)).await, [b]);
    let running = TaskQuery {
        statuses: vec![TaskStatus::Running],
        ..query(&one)
    };
    assert_eq!(search_ids(&store, running.clone()).await, []);
    one.report_status(a, TaskStatus::Running).await;
    assert_eq!(search_ids(&store, running).await, [a]);
    one.finish(attempt_id, success()).await;
    assert_eq!(search_ids(&store, query(&one)).await, []);
}

pub async fn by_time(store: Arc<dyn TaskStore>) {
    let (mut ids, mut times) = (vec![], vec![]);
    for _ in 0..4 {
        let id = add_task(&*store).await;
        ids.push(id);
        times.push(get_task(&*store, id).await.add_time);
    }
    let query = |from: Option<UnixTime>, until: Option<UnixTime>| TaskQuery {
        from,
        until,
        ..TaskQuery::default()
    };
    assert_eq!(search_ids(&store, query(Some(times[1]), None)).await, ids[1..]);
    assert_eq!(search_ids(&store, query(None, Some(times[1]))).await, ids[..1]);
    assert_eq!(
        search_ids(&store, query(Some(times[1]), Some(times[3]))).await,
        ids[1..3]
    );
    assert_eq!(
        search_ids(&store, query(Some(times[3]), Some(times[1]))).await,
        []
    );
    assert_eq!(
        search_ids(
            &store,
            TaskQuery {
                user: user("ada"),
                ..query(Some(times[2]), None)
            }
        )
        .await,
        ids[2..]
    );
}

pub async fn by_text(store: Arc<dyn TaskStore>) {
    let commands = ["python3 Main.py", "a%b", "a_b", "axb", "Été"];
    let mut ids = vec![];
    for command in commands {
        let id = add_task_with(&*store, |spec| {
            spec.compile = None;
            spec.execute.command = StepCommand::Shell(command.into());
        });
        ids.push(id.await);
    }
    let compiled = add_task_with(&*store, |spec| {
        spec.execute.command = StepCommand::Argv(vec!["./run".into(), "two words".into()]);
        spec.compile.as_mut().unwrap().command = StepCommand::Shell("g++ main.cc".into());
    });
    ids.push(compiled.await);
    let query = |text: &str| TaskQuery {
        text: Some(text.into()),
        ..TaskQuery::default()
    };
    for (text, expected) in [
        ("MAIN", vec![ids[0], ids[5]]),
        ("main.py", vec![ids[0]]),
        ("g++", vec![ids[5]]),
        ("run two", vec![ids[5]]),
        ("a%b", vec![ids[1]]),
        ("a_b", vec![ids[2]]),
        ("%", vec![ids[1]]),
        ("été", vec![ids[4]]),
        ("ada", vec![]),
        ("", ids.clone()),
    ] {
        assert_eq!(search_ids(&store, query(text)).await, expected, "{text:?}");
    }
}

pub async fn by_label(store: Arc<dyn TaskStore>) {
    let mut ids = vec![];
    for (name, pairs) in [
        ("ada", &[("hw", "3"), ("term", "a")][..]),
        ("ada", &[("hw", "3"), ("term", "b")]),
        ("bob", &[("hw", "3")]),
        ("bob", &[("hw", "33"), ("3", "hw")]),
        ("ada", &[]),
    ] {
        let id = add_task_with(&*store, |spec| {
            spec.user = UserName::new(name).unwrap();
            spec.labels = labels(pairs);
        });
        ids.push(id.await);
    }
    for (name, pairs, expected) in [
        (None, &[("hw", "3")][..], &ids[..3]),
        (Some("ada"), &[("hw", "3")], &ids[..2]),
        (Some("bob"), &[("hw", "3")], &ids[2..3]),
        (None, &[("hw", "3"), ("term", "b")], &ids[1..2]),
        (Some("ada"), &[("hw", "3"), ("term", "a")], &ids[..1]),
        (None, &[("hw", "33")], &ids[3..4]),
        (None, &[("hw", "")], &[]),
        (Some("eve"), &[("hw", "3")], &[]),
    ] {
        let query = TaskQuery {
            user: name.and_then(user),
            labels: labels(pairs),
            ..TaskQuery::default()
        };
        assert_eq!(search_ids(&store, query.clone()).await, expected, "{query:?}");
        // Together with conditions that have indexes of their own.
        let named = TaskQuery {
            ids: ids.clone(),
            ..query.clone()
        };
        assert_eq!(search_ids(&store, named).await, expected);
        let pages = read_all_pages(&store, TaskQuery { limit: 1, ..query }).await;
        assert_eq!(pages.len(), expected.len());
    }
    let oldest = TaskQuery {
        order: SortOrder::Oldest,
        ..TaskQuery::default()
    };
    let page = store.search(oldest).await.unwrap();
    assert_eq!(page.tasks[0].labels, labels(&[("hw", "3"), ("term", "a")]));
    assert_eq!(page.tasks[4].labels, labels(&[]));
}

pub async fn by_group(store: Arc<dyn TaskStore>) {
    let mut ids = vec![];
    for (name, group) in [
        ("ada", Some("g")),
        ("bob", Some("g")),
        ("ada", Some("h")),
        ("ada", None),
        ("ada", Some("g")),
    ] {
        let id = add_task_with(&*store, |spec| {
            spec.user = UserName::new(name).unwrap();
            spec.group = group.map(|group| GroupName::new(group).unwrap());
            spec.labels = labels(&[("a", "b")]);
        });
        ids.push(id.await);
    }
    store.cancel(ids[0]).await.unwrap();
    let group = GroupName::new("g").ok();
    let query = TaskQuery {
        group: group.clone(),
        ..TaskQuery::default()
    };
    assert_eq!(search_ids(&store, query.clone()).await, [ids[0], ids[1], ids[4]]);
    let of_ada = TaskQuery {
        user: user("ada"),
        ..query.clone()
    };
    assert_eq!(search_ids(&store, of_ada.clone()).await, [ids[0], ids[4]]);
    let pending = TaskQuery {
        statuses: vec![TaskStatus::Pending],
        labels: labels(&[("a", "b")]),
        ..of_ada.clone()
    };
    assert_eq!(search_ids(&store, pending.clone()).await, [ids[4]]);
    let other_label = TaskQuery {
        labels: labels(&[("a", "c")]),
        ..pending
    };
    assert_eq!(search_ids(&store, other_label).await, []);
    let named = TaskQuery {
        ids: ids.clone(),
        ..query.clone()
    };
    assert_eq!(search_ids(&store, named).await, [ids[0], ids[1], ids[4]]);
    assert_eq!(
        read_all_pages(&store, TaskQuery { limit: 1, ..of_ada })
            .await
            .len(),
        2
    );
    let listed = store.search(query).await.unwrap();
    assert!(listed.tasks.iter().all(|summary| summary.group == group));
}

pub async fn by_reason(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    let mut ids = vec![];
    for reason in [
        OutcomeReason::Exited,
        OutcomeReason::TimeLimit,
        OutcomeReason::MemoryLimit,
    ] {
        ids.push(add_task(&*store).await);
        let attempt_id = executor.claim_one().await;
        let mut result = run_failure();
        result.execute.as_mut().unwrap().reason = reason;
        executor.finish(attempt_id, result).await;
    }
    let (cancelled, waiting) = (add_task(&*store).await, add_task(&*store).await);
    store.cancel(cancelled).await.unwrap();
    let query = |reasons: &[OutcomeReason]| TaskQuery {
        reasons: reasons.to_vec(),
        ..TaskQuery::default()
    };
    let slow = query(&[OutcomeReason::TimeLimit]);
    assert_eq!(search_ids(&store, slow.clone()).await, [ids[1]]);
    assert_eq!(
        store.search(slow).await.unwrap().tasks[0].reason,
        Some(OutcomeReason::TimeLimit)
    );
    let limits = query(&[OutcomeReason::TimeLimit, OutcomeReason::MemoryLimit]);
    assert_eq!(search_ids(&store, limits).await, ids[1..]);
    let page = store.search(TaskQuery::default()).await.unwrap();
    let shown: Vec<_> = page.tasks[..2]
        .iter()
        .map(|task| (task.id, task.reason))
        .collect();
    assert_eq!(shown, [(waiting, None), (cancelled, None)]);
}

pub async fn by_whether_it_was_retried(store: Arc<dyn TaskStore>) {
    let first = add_task(&*store).await;
    let second = add_task_with(&*store, |spec| spec.retry_of = Some(first)).await;
    let query = |retried| TaskQuery {
        retried,
        ..TaskQuery::default()
    };
    assert_eq!(search_ids(&store, query(Some(true))).await, [first]);
    assert_eq!(search_ids(&store, query(Some(false))).await, [second]);
    assert_eq!(search_ids(&store, query(None)).await, [first, second]);
}

pub async fn by_all_fields_together(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    let mut ids = vec![];
    for index in 0..12 {
        let id = add_task_with(&*store, |spec| {
            spec.user = UserName::new(if index % 2 == 0 { "ada" } else { "bob" }).unwrap();
            spec.execute.command = StepCommand::Shell(if index % 3 == 0 { "fizz" } else { "buzz" }.into());
        });
        ids.push(id.await);
    }
    executor.claim(8).await;
    for id in &ids[..6] {
        executor.report_status(*id, TaskStatus::Running).await;
    }
    let query = TaskQuery {
        ids: vec![],
        id_prefix: None,
        user: user("ada"),
        statuses: vec![TaskStatus::Running, TaskStatus::Cancelled],
        executor: Some(executor.name.clone()),
        from: Some(get_task(&*store, ids[2]).await.add_time),
        until: Some(get_task(&*store, ids[9]).await.add_time),
        text: Some("BUZ".into()),
        ..TaskQuery::default()
    };
    assert_eq!(search_ids(&store, query.clone()).await, [ids[2], ids[4]]);
    let named = TaskQuery {
        ids: ids[3..].to_vec(),
        ..query.clone()
    };
    assert_eq!(search_ids(&store, named).await, [ids[4]]);
    let of_bob = TaskQuery {
        user: user("bob"),
        ..query
    };
    assert_eq!(search_ids(&store, of_bob).await, [ids[5]]);
}
