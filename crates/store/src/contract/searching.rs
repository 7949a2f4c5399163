//! Searching by each field and by all together.

use std::sync::Arc;

use model::{Command, ExecutorName, Moment, Order, Page, Query, Status, TaskId, TaskSpec, UserName};

use super::WINDOW;
use super::paging::walk;
use super::sample::{add_one, add_with, get, new, run_failure, spec, success};
use super::worker::Worker;
use crate::{NewTask, TaskStore};

/// What the query finds, oldest first; newest first must find the same the other way round.
pub(super) async fn found(store: &Arc<dyn TaskStore>, query: Query) -> Vec<TaskId> {
    let ids = async |order| {
        let page = store
            .search(Query {
                order,
                limit: 500,
                ..query.clone()
            })
            .await
            .unwrap();
        assert_eq!(page.next, None);
        page.tasks.iter().map(|brief| brief.id).collect::<Vec<_>>()
    };
    let oldest = ids(Order::Oldest).await;
    let mut newest = ids(Order::Newest).await;
    newest.reverse();
    assert_eq!(oldest, newest, "{query:?}");
    oldest
}

fn user(name: &str) -> Option<UserName> {
    Some(UserName::new(name).unwrap())
}

pub async fn by_id(store: Arc<dyn TaskStore>) {
    let (a, b, _) = (
        add_one(&*store).await,
        add_one(&*store).await,
        add_one(&*store).await,
    );
    let query = |ids: &[TaskId]| Query {
        ids: ids.to_vec(),
        ..Query::default()
    };
    assert_eq!(found(&store, query(&[b, a, b, TaskId::generate()])).await, [a, b]);
    assert_eq!(found(&store, query(&[TaskId::generate()])).await, []);
    assert_eq!(
        found(
            &store,
            Query {
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
        let task = NewTask {
            id: text.parse().unwrap(),
            ..new(TaskSpec {
                user: UserName::new(name).unwrap(),
                ..spec()
            })
        };
        ids.push(task.id);
        store.add(vec![task]).await.unwrap();
    }
    let query = |prefix: &str| Query {
        id_prefix: Some(prefix.parse().unwrap()),
        ..Query::default()
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
        assert_eq!(found(&store, query(prefix)).await, expected, "{prefix}");
    }
    let of_bob = Query {
        user: user("bob"),
        ..query("0189")
    };
    assert_eq!(found(&store, of_bob.clone()).await, [ids[1], ids[5]]);
    let named = Query {
        ids: ids[1..].to_vec(),
        ..of_bob
    };
    assert_eq!(found(&store, named).await, [ids[1], ids[5]]);
    for order in [Order::Oldest, Order::Newest] {
        let mut walked = walk(
            &store,
            Query {
                order,
                limit: 2,
                ..query("01890a5")
            },
        )
        .await;
        if order == Order::Newest {
            walked.reverse();
        }
        assert_eq!(walked, [ids[5], ids[0], ids[1], ids[4], ids[2]], "{order}");
    }
}

pub async fn by_user(store: Arc<dyn TaskStore>) {
    let mut of_bob = vec![];
    for name in ["ada", "bob", "ada", "bob", "bobby"] {
        let id = add_with(&*store, |spec| spec.user = UserName::new(name).unwrap()).await;
        of_bob.extend((name == "bob").then_some(id));
    }
    assert_eq!(
        found(
            &store,
            Query {
                user: user("bob"),
                ..Query::default()
            }
        )
        .await,
        of_bob
    );
    assert_eq!(
        found(
            &store,
            Query {
                user: user("Bob"),
                ..Query::default()
            }
        )
        .await,
        []
    );
}

pub async fn by_status(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    let (mut ids, mut handouts) = (vec![], vec![]);
    for _ in 0..4 {
        ids.push(add_one(&*store).await);
        handouts.push(worker.claim_one().await);
    }
    worker.finish(handouts[1], success()).await;
    worker.finish(handouts[2], run_failure()).await;
    worker.progress(ids[3], Status::Running).await;
    store.cancel(ids[0]).await.unwrap();
    let query = |statuses: &[Status]| Query {
        statuses: statuses.to_vec(),
        ..Query::default()
    };
    assert_eq!(found(&store, query(&[Status::Cancelled])).await, [ids[0]]);
    assert_eq!(
        found(
            &store,
            query(&[Status::Running, Status::Success, Status::Running])
        )
        .await,
        [ids[1], ids[3]]
    );
    assert_eq!(found(&store, query(&[Status::Pending])).await, []);
    assert_eq!(found(&store, query(&Status::ALL)).await, ids);
    assert_eq!(found(&store, query(&[])).await, ids);
}

pub async fn by_executor(store: Arc<dyn TaskStore>) {
    let (a, b) = (add_one(&*store).await, add_one(&*store).await);
    let (mut one, mut other) = (Worker::new(&store, "one"), Worker::new(&store, "other"));
    let handout = one.claim_one().await;
    other.claim_one().await;
    let query = |worker: &Worker| Query {
        executor: Some(worker.name.clone()),
        ..Query::default()
    };
    assert_eq!(found(&store, query(&one)).await, [a]);
    assert_eq!(found(&store, query(&other)).await, [b]);
    let running = Query {
        statuses: vec![Status::Running],
        ..query(&one)
    };
    assert_eq!(found(&store, running.clone()).await, []);
    one.progress(a, Status::Running).await;
    assert_eq!(found(&store, running).await, [a]);
    one.finish(handout, success()).await;
    assert_eq!(found(&store, query(&one)).await, []);
}

pub async fn by_time(store: Arc<dyn TaskStore>) {
    let (mut ids, mut times) = (vec![], vec![]);
    for _ in 0..4 {
        let id = add_one(&*store).await;
        ids.push(id);
        times.push(get(&*store, id).await.add_time);
    }
    let query = |from: Option<Moment>, until: Option<Moment>| Query {
        from,
        until,
        ..Query::default()
    };
    assert_eq!(found(&store, query(Some(times[1]), None)).await, ids[1..]);
    assert_eq!(found(&store, query(None, Some(times[1]))).await, ids[..1]);
    assert_eq!(
        found(&store, query(Some(times[1]), Some(times[3]))).await,
        ids[1..3]
    );
    assert_eq!(found(&store, query(Some(times[3]), Some(times[1]))).await, []);
    assert_eq!(
        found(
            &store,
            Query {
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
        let id = add_with(&*store, |spec| {
            spec.compile = None;
            spec.execute.command = Command::Shell(command.into());
        });
        ids.push(id.await);
    }
    let compiled = add_with(&*store, |spec| {
        spec.execute.command = Command::Argv(vec!["./run".into(), "two words".into()]);
        spec.compile.as_mut().unwrap().command = Command::Shell("g++ main.cc".into());
    });
    ids.push(compiled.await);
    let query = |text: &str| Query {
        text: Some(text.into()),
        ..Query::default()
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
        assert_eq!(found(&store, query(text)).await, expected, "{text:?}");
    }
}

pub async fn by_everything_at_once(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    let mut ids = vec![];
    for index in 0..12 {
        let id = add_with(&*store, |spec| {
            spec.user = UserName::new(if index % 2 == 0 { "ada" } else { "bob" }).unwrap();
            spec.execute.command = Command::Shell(if index % 3 == 0 { "fizz" } else { "buzz" }.into());
        });
        ids.push(id.await);
    }
    worker.claim(8).await;
    for id in &ids[..6] {
        worker.progress(*id, Status::Running).await;
    }
    let query = Query {
        ids: vec![],
        id_prefix: None,
        user: user("ada"),
        statuses: vec![Status::Running, Status::Cancelled],
        executor: Some(worker.name.clone()),
        from: Some(get(&*store, ids[2]).await.add_time),
        until: Some(get(&*store, ids[9]).await.add_time),
        text: Some("BUZ".into()),
        ..Query::default()
    };
    assert_eq!(found(&store, query.clone()).await, [ids[2], ids[4]]);
    let named = Query {
        ids: ids[3..].to_vec(),
        ..query.clone()
    };
    assert_eq!(found(&store, named).await, [ids[4]]);
    let of_bob = Query {
        user: user("bob"),
        ..query
    };
    assert_eq!(found(&store, of_bob).await, [ids[5]]);
}

/// Tasks with this command, all in one batch.
async fn add_many(store: &Arc<dyn TaskStore>, count: usize, name: &str, command: &str) -> Vec<TaskId> {
    let tasks = (0..count).map(|_| {
        let mut spec = spec();
        spec.user = UserName::new(name).unwrap();
        spec.execute.command = Command::Shell(command.into());
        new(spec)
    });
    let added = store.add(tasks.collect()).await.unwrap();
    added.iter().map(|added| added.id).collect()
}

fn ids(page: &Page) -> Vec<TaskId> {
    page.tasks.iter().map(|brief| brief.id).collect()
}

pub async fn a_page_looks_at_a_bounded_number_of_tasks(store: Arc<dyn TaskStore>) {
    let first = add_many(&store, 1, "ada", "needle").await;
    add_many(&store, 2 * WINDOW, "ada", "hay").await;
    let last = add_many(&store, 1, "ada", "needle").await;
    for (order, near, far) in [(Order::Newest, &last, &first), (Order::Oldest, &first, &last)] {
        let mut query = Query {
            text: Some("needle".into()),
            order,
            ..Query::default()
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
        // A page that is full before that needs no more.
        let full = Query {
            limit: 1,
            after: None,
            ..query
        };
        let full = store.search(full).await.unwrap();
        assert_eq!(ids(&full), *near, "{order}");
        assert!(full.complete && full.next.is_some(), "{order}");
    }
    // What an index answers is never cut short.
    let all = Query {
        limit: 1000,
        ..Query::default()
    };
    let all = store.search(all).await.unwrap();
    assert_eq!((all.tasks.len(), all.complete), (2 * WINDOW + 2, true));
}

pub async fn other_conditions_narrow_what_a_text_is_looked_for_in(store: Arc<dyn TaskStore>) {
    let of_bob = add_many(&store, 2, "bob", "needle").await;
    let cancelled = add_many(&store, 1, "ada", "needle").await[0];
    store.cancel(cancelled).await.unwrap();
    add_many(&store, 2 * WINDOW, "ada", "hay").await;
    let query = Query {
        text: Some("needle".into()),
        ..Query::default()
    };
    let by_user = Query {
        user: user("bob"),
        ..query.clone()
    };
    let by_status = Query {
        statuses: vec![Status::Cancelled, Status::Running],
        ..query.clone()
    };
    let by_ids = Query {
        ids: of_bob.clone(),
        ..query.clone()
    };
    let by_time = Query {
        until: Some(get(&*store, cancelled).await.add_time),
        ..query.clone()
    };
    assert!(!store.search(query).await.unwrap().complete);
    for (query, expected) in [
        (by_user, of_bob.clone()),
        (by_status, vec![cancelled]),
        (by_ids, of_bob.clone()),
        (by_time, of_bob),
    ] {
        assert_eq!(found(&store, query).await, expected);
    }
}

/// However a user's search is narrowed, the cursor to the next page names only tasks of that user.
pub async fn the_cursor_of_a_users_search_names_no_foreign_task(store: Arc<dyn TaskStore>) {
    let foreign = add_many(&store, 2 * WINDOW, "ada", "true").await;
    let mut wanted = add_many(&store, 2, "bob", "true").await;
    wanted.sort_unstable();
    let mut all = add_many(&store, 2 * WINDOW, "ada", "true").await;
    let mut worker = Worker::new(&store, "e");
    worker.claim(500).await;
    all.extend(foreign);
    all.extend(&wanted);
    let prefix = wanted[0].to_string()[..4].parse().unwrap();
    let narrowed = [
        Query {
            id_prefix: Some(prefix),
            ..Query::default()
        },
        Query {
            statuses: vec![Status::Pending],
            ..Query::default()
        },
        Query {
            executor: Some(worker.name.clone()),
            ..Query::default()
        },
        Query {
            ids: all,
            ..Query::default()
        },
        Query::default(),
    ];
    for query in narrowed {
        for (order, text) in [
            (Order::Oldest, None),
            (Order::Newest, None),
            (Order::Newest, Some("rue".to_string())),
        ] {
            let mut query = Query {
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

pub async fn a_condition_without_an_index_of_its_own_is_bounded_too(store: Arc<dyn TaskStore>) {
    let wanted = add_many(&store, 1, "bob", "true").await;
    add_many(&store, WINDOW, "bob", "false").await;
    // A user and a status: one of them is looked up, the other is checked task by task.
    store.cancel(wanted[0]).await.unwrap();
    let others = add_many(&store, WINDOW, "ada", "true").await;
    for id in others {
        store.cancel(id).await.unwrap();
    }
    let mut query = Query {
        user: user("bob"),
        statuses: vec![Status::Cancelled],
        limit: 10,
        ..Query::default()
    };
    let first = store.search(query.clone()).await.unwrap();
    assert_eq!((ids(&first), first.complete), (vec![], false));
    query.after = first.next;
    let second = store.search(query).await.unwrap();
    assert_eq!((ids(&second), second.complete, second.next), (wanted, true, None));
    for nothing in [
        Query {
            user: user("nobody"),
            ..Query::default()
        },
        Query {
            statuses: vec![Status::RunFailed],
            ..Query::default()
        },
        Query {
            executor: Some(ExecutorName::new("nobody").unwrap()),
            ..Query::default()
        },
    ] {
        assert_eq!(store.search(nothing).await.unwrap(), Page::default());
    }
}
