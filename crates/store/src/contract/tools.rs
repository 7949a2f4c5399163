//! Contract cases: tasks that need a language or a root, and the executors that have them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{
    AttemptEnd, Capacity, ExecutorTools, Report, ReportIntent, SessionId, TaskId, TaskStatus, ToolRequirement,
};

use super::fake_executor::{CAPACITY, FakeExecutor};
use super::fixtures::{get_task, new_task, requiring, task_spec, tools};
use crate::{MAX_SKIPPED_TASKS, NewTaskRecord, TaskStore};

fn executor_with(store: &Arc<dyn TaskStore>, name: &str, keys: &[&str]) -> FakeExecutor {
    let mut executor = FakeExecutor::new(store, name);
    executor.tools = Some(tools(keys));
    executor
}

async fn add_requiring(store: &Arc<dyn TaskStore>, key: &str) -> TaskId {
    store.add(vec![new_task(requiring(key))]).await.unwrap()[0].id
}

async fn claim(executor: &mut FakeExecutor, vacant: u32) -> Vec<TaskId> {
    let assigned = executor.claim(vacant).await;
    assigned.iter().map(|assigned| assigned.attempt_id.task).collect()
}

/// The tools of each executor on the list, in the order of their names.
async fn listed_tools(store: &Arc<dyn TaskStore>) -> Vec<Arc<ExecutorTools>> {
    let executors = store.executors().await.unwrap();
    executors.into_iter().map(|executor| executor.tools).collect()
}

pub async fn only_executors_with_the_tools_claim_a_task(store: Arc<dyn TaskStore>) {
    let mut ids = vec![];
    for key in ["/c", "lab/", "lab/c"] {
        ids.push(add_requiring(&store, key).await);
    }
    let spec = get_task(&*store, ids[2]).await.spec;
    assert_eq!(ToolRequirement::of(&spec).to_string(), "lab/c");
    assert_eq!(claim(&mut FakeExecutor::new(&store, "none"), 9).await, []);
    let mut others = executor_with(&store, "others", &["/go", "web/", "web/c", "lab/go", "/cc", "/b"]);
    assert_eq!(claim(&mut others, 9).await, []);
    for (index, key) in ["/c", "lab/", "lab/c"].into_iter().enumerate() {
        let mut executor = executor_with(&store, &format!("e{index}"), &[key]);
        assert_eq!(claim(&mut executor, 9).await, [ids[index]], "{key}");
    }
    let assigned = add_requiring(&store, "/c").await;
    let mut executor = executor_with(&store, "all", &["lab/c", "/c", "lab/"]);
    assert_eq!(executor.claim(9).await[0].spec, requiring("/c"));
    assert_eq!(get_task(&*store, assigned).await.executor, Some(executor.name));
}

pub async fn claims_keep_the_order_across_requirements(store: Arc<dyn TaskStore>) {
    let mut expected = vec![];
    let keys = [None, Some("/c"), Some("lab/c"), Some("/nobody"), Some("lab/")];
    for number in 0..60 {
        let key = keys[number * 7 % keys.len()];
        let mut spec = key.map_or_else(task_spec, requiring);
        spec.priority = [0, 5, -1][number * 5 % 3];
        let priority = spec.priority;
        let id = store.add(vec![new_task(spec)]).await.unwrap()[0].id;
        if key != Some("/nobody") {
            expected.push((priority, id));
        }
    }
    expected.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    let mut executor = executor_with(&store, "e", &["/c", "lab/", "lab/c", "/unused"]);
    let mut claimed = vec![];
    for vacant in [1, 7, 2, 11, 100] {
        claimed.extend(claim(&mut executor, vacant).await);
    }
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(claimed, expected);
}

pub async fn a_released_task_still_has_its_requirement(store: Arc<dyn TaskStore>) {
    let id = add_requiring(&store, "lab/c").await;
    let keys = ["lab/c"];
    let mut executor = executor_with(&store, "e", &keys);
    let mut unable = executor_with(&store, "unable", &["/c", "lab/"]);
    assert_eq!(claim(&mut executor, 1).await, [id]);
    // Given back.
    executor.running.clear();
    assert_eq!(claim(&mut executor, 0).await, []);
    assert_eq!(claim(&mut unable, 1).await, []);
    assert_eq!(claim(&mut executor, 1).await, [id]);
    // The executor went silent.
    executor.expire().await;
    assert_eq!(claim(&mut unable, 1).await, []);
    executor.tools = Some(tools(&keys));
    assert_eq!(claim(&mut executor, 1).await, [id]);
    // The attempt failed.
    let attempt_id = executor.running[0].attempt_id;
    executor
        .end_attempt(attempt_id, AttemptEnd::PlatformFailure("no warden".into()))
        .await;
    assert_eq!(claim(&mut unable, 1).await, []);
    assert_eq!(claim(&mut executor, 1).await, [id]);
    // The executor left.
    let leave = Report {
        intent: ReportIntent::Leave,
        ..executor.next_report()
    };
    executor.send(leave).await;
    assert_eq!(claim(&mut unable, 1).await, []);
    assert_eq!(get_task(&*store, id).await.status, TaskStatus::Retrying);
    // A task that repeats it.
    let mut spec = get_task(&*store, id).await.spec;
    spec.retry_of = Some(id);
    let repeated = store.add(vec![new_task(spec)]).await.unwrap()[0].id;
    assert_eq!(claim(&mut unable, 2).await, []);
    store.cancel(id).await.unwrap();
    let mut executor = executor_with(&store, "later", &keys);
    assert_eq!(claim(&mut executor, 2).await, [repeated]);
}

pub async fn tools_last_until_the_next_session(store: Arc<dyn TaskStore>) {
    let mut executor = executor_with(&store, "e", &["/c"]);
    executor.claim(0).await;
    for _ in 0..2 {
        executor.claim(0).await;
        assert_eq!(listed_tools(&store).await, [tools(&["/c"])]);
    }
    let c = add_requiring(&store, "/c").await;
    assert_eq!(claim(&mut executor, 1).await, [c]);
    // Others replace them.
    executor.tools = Some(tools(&["/go", "lab/"]));
    let (go, _) = (
        add_requiring(&store, "/go").await,
        add_requiring(&store, "/c").await,
    );
    assert_eq!(claim(&mut executor, 9).await, [go]);
    assert_eq!(listed_tools(&store).await, [tools(&["/go", "lab/"])]);
    executor.expire().await;
    assert_eq!(
        listed_tools(&store).await,
        [tools(&["/go", "lab/"])],
        "its last ones"
    );
    // A session that does not report its tools has none.
    assert_eq!(claim(&mut executor, 9).await, []);
    assert_eq!(listed_tools(&store).await, [tools(&[])]);
    executor.tools = Some(tools(&["/go"]));
    assert_eq!(claim(&mut executor, 1).await.len(), 1);
    // The next session succeeds this one.
    let former = executor.session;
    executor = FakeExecutor::new(&store, "e");
    executor.session = SessionId(uuid::Uuid::now_v7());
    let report = Report {
        succeeds: Some(former),
        vacant: 9,
        ..executor.next_report()
    };
    let answer = super::fake_executor::instructions(executor.send(report).await);
    assert_eq!(answer.assign, []);
    assert_eq!(get_task(&*store, go).await.status, TaskStatus::Retrying);
    assert_eq!(listed_tools(&store).await, [tools(&[])]);
}

/// One report gives the task back and says that the executor no longer has the language.
pub async fn an_executor_without_the_tools_does_not_claim_its_task_again(store: Arc<dyn TaskStore>) {
    let id = add_requiring(&store, "/c").await;
    let mut executor = executor_with(&store, "e", &["/c", "/go"]);
    assert_eq!(claim(&mut executor, 1).await, [id]);
    executor.running.clear();
    executor.tools = Some(tools(&["/go"]));
    assert_eq!(claim(&mut executor, 1).await, []);
    executor.tools = Some(tools(&["/c"]));
    assert_eq!(claim(&mut executor, 1).await, [id]);
}

pub async fn tasks_for_a_root_wait_until_an_executor_has_it(store: Arc<dyn TaskStore>) {
    let mut waiting = vec![];
    for number in 0..5 {
        waiting.push(add_requiring(&store, &format!("root-{number}/c")).await);
    }
    let mut executor = executor_with(&store, "e", &["/c"]);
    assert_eq!(claim(&mut executor, 9).await, []);
    executor.tools = Some(tools(&["/c", "root-3/c", "root-1/c"]));
    assert_eq!(claim(&mut executor, 9).await, [waiting[1], waiting[3]]);
    let cancelled = store.cancel(waiting[0]).await.unwrap().unwrap();
    assert_eq!(cancelled.status, TaskStatus::Cancelled);
}

fn executor_of_size(store: &Arc<dyn TaskStore>, name: &str, gibibytes: u64, keys: &[&str]) -> FakeExecutor {
    let mut executor = executor_with(store, name, keys);
    executor.capacity = Some(Capacity {
        memory: gibibytes << 30,
        ..CAPACITY
    });
    executor
}

fn needing(gibibytes: u64, key: Option<&str>) -> NewTaskRecord {
    let mut spec = key.map_or_else(task_spec, requiring);
    spec.execute.limits.memory = Some(gibibytes << 30);
    spec.execute.limits.space = None;
    new_task(spec)
}

/// A task that does not fit is left to a larger executor only if that one has what the task needs. Otherwise it would wait
/// for ever.
pub async fn only_larger_executors_with_the_tools_count(store: Arc<dyn TaskStore>) {
    let mut large = executor_of_size(&store, "large", 64, &["/go"]);
    let mut middle = executor_of_size(&store, "middle", 16, &["/c"]);
    let mut small = executor_of_size(&store, "small", 4, &["/c", "/go", "/r"]);
    for executor in [&mut large, &mut middle, &mut small] {
        executor.claim(0).await;
    }
    let tasks = [Some("/c"), Some("/go"), Some("/r"), None].map(|key| needing(30, key));
    let ids = store.add(tasks.to_vec()).await.unwrap();
    let [c, go, r, any] = [0, 1, 2, 3].map(|index: usize| ids[index].id);
    // Only small has the third one.
    assert_eq!(claim(&mut small, 9).await, [r]);
    // It is given back, and the same holds.
    small.running.clear();
    assert_eq!(claim(&mut small, 9).await, [r]);
    assert_eq!(
        claim(&mut middle, 9).await,
        [c],
        "the large one lacks the language"
    );
    assert_eq!(claim(&mut large, 9).await, [go, any]);
    // Without the middle one, the small one takes what needs its language. A store may notice that with a delay.
    middle.expire().await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while claim(&mut small, 9).await != [c] {
        assert!(Instant::now() < deadline, "no executor claims the task");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The bound on skipped tasks holds for the claim, and a task that fits is found before it.
pub async fn a_leading_skip_of_large_tasks_does_not_hide_other_requirements(store: Arc<dyn TaskStore>) {
    let mut large = executor_of_size(&store, "large", 64, &["/c"]);
    let mut small = executor_of_size(&store, "small", 4, &["/c", "/go"]);
    large.claim(0).await;
    let backlog = (0..MAX_SKIPPED_TASKS - 10).map(|_| needing(30, Some("/c")));
    store.add(backlog.collect()).await.unwrap();
    let fits = store
        .add(vec![
            needing(1, None),
            needing(1, Some("/go")),
            needing(1, Some("/c")),
        ])
        .await
        .unwrap();
    let fits: Vec<_> = fits.iter().map(|added| added.id).collect();
    assert_eq!(claim(&mut small, 3).await, fits);
}

/// Half of them wait for one language, and each of the others for another root.
pub async fn tasks_that_no_executor_can_run_are_in_nobodys_way(store: Arc<dyn TaskStore>) {
    const UNCLAIMABLE: usize = 20_000;
    let unclaimable: Vec<_> = (0..UNCLAIMABLE)
        .map(|number| {
            let mut spec = match number % 2 {
                0 => requiring("/cobol"),
                _ => requiring(&format!("root-{number}/")),
            };
            spec.priority = 9;
            new_task(spec)
        })
        .collect();
    for batch in unclaimable.chunks(1000) {
        store.add(batch.to_vec()).await.unwrap();
    }
    let claimable = [None, Some("/c"), None, Some("lab/c"), Some("/c")];
    let claimable = claimable.map(|key| new_task(key.map_or_else(task_spec, requiring)));
    let ids: Vec<_> = claimable.iter().map(|task| task.id).collect();
    store.add(claimable.to_vec()).await.unwrap();
    let mut without_tools = FakeExecutor::new(&store, "without");
    assert_eq!(claim(&mut without_tools, 1).await, ids[..1]);
    let many: Vec<_> = (0..300).map(|number| format!("/language-{number}")).collect();
    let keys: Vec<_> = many.iter().map(String::as_str).chain(["/c", "lab/c"]).collect();
    let mut executor = executor_with(&store, "e", &keys);
    assert_eq!(claim(&mut executor, 2).await, ids[1..3]);
    assert_eq!(claim(&mut executor, 9).await, ids[3..]);
    assert_eq!(claim(&mut executor, 9).await, []);
    let mut able = executor_with(&store, "able", &["/cobol", "root-77/"]);
    let claimed = claim(&mut able, 40).await;
    let expected = unclaimable
        .iter()
        .enumerate()
        .filter(|(number, _)| number % 2 == 0 || *number == 77);
    let expected: Vec<_> = expected.map(|(_, task)| task.id).take(40).collect();
    assert_eq!(claimed, expected);
}
