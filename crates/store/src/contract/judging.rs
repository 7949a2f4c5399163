//! Contract cases: tasks with cases, and the judgements on them.

use std::sync::Arc;

use model::{Check, LanguageName, OutcomeReason, TaskForm, TaskQuery, TaskStatus, ToolRequirement, Verdict};

use super::fake_executor::FakeExecutor;
use super::fixtures::{
    add_task, add_task_with, counted, get_group, get_task, group_key, judge_program, judged_result, judging,
    new_task, requiring, task_spec, tools,
};
use super::search::search_ids;
use crate::TaskStore;

pub async fn cases_are_handed_out_and_read_as_they_were_added(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    let checks = [
        Check::None,
        Check::Exact,
        Check::Lines,
        judging().check,
        Check::Program(judge_program()),
        Check::Interactive(judge_program()),
    ];
    for check in checks {
        let mut judging = judging();
        judging.check = check;
        let mut spec = task_spec();
        spec.judging = Some(judging);
        let id = add_task_with(&*store, |added| *added = spec.clone()).await;
        assert_eq!(get_task(&*store, id).await.spec, spec);
        let assigned = executor.claim(1).await;
        assert_eq!(assigned[0].spec, spec);
    }
}

pub async fn every_verdict_is_committed(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    for verdict in Verdict::ALL {
        let id = add_task_with(&*store, |spec| spec.judging = Some(judging())).await;
        let attempt_id = executor.claim_one().await;
        let result = judged_result(verdict);
        let reported = executor.finish(attempt_id, result.clone()).await;
        assert_eq!(reported.finished[0].status, result.status(), "{verdict}");
        let task = get_task(&*store, id).await;
        assert_eq!(
            (task.status, &task.trouble),
            (result.status(), &None),
            "{verdict}"
        );
        assert_eq!(task.result.as_ref(), Some(&result), "{verdict}");
        let found = TaskQuery {
            statuses: vec![result.status()],
            reasons: result.reason().into_iter().collect(),
            ..TaskQuery::default()
        };
        assert!(search_ids(&store, found).await.contains(&id), "{verdict}");
    }
}

/// The checker of the task has failed, which is an end like any other: the task has a result, and is not tried again.
pub async fn a_judge_error_is_a_system_error_with_a_result(store: Arc<dyn TaskStore>) {
    let id = add_task_with(&*store, |spec| {
        spec.judging = Some(judging());
        spec.group = Some(group_key("contest").group);
    })
    .await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.report_status(id, TaskStatus::Running).await;
    executor
        .finish(attempt_id, judged_result(Verdict::JudgeError))
        .await;
    let task = get_task(&*store, id).await;
    assert_eq!((task.status, task.executor), (TaskStatus::SystemError, None));
    let group = get_group(&*store, "contest").await;
    assert_eq!(counted(&group.counts), [(TaskStatus::SystemError, 1)].into());
    assert_eq!(group.reasons, [(OutcomeReason::JudgeError, 1)].into());
    // The history counts it as an end with a result.
    assert_eq!(store.ends_without_result().system_errors, 0);
    // A task that repeats it takes its place in the counters.
    let mut spec = task.spec;
    spec.retry_of = Some(id);
    store.add(vec![new_task(spec)]).await.unwrap();
    let group = get_group(&*store, "contest").await;
    assert_eq!(counted(&group.counts), [(TaskStatus::Pending, 1)].into());
    assert_eq!(group.reasons, [].into());
}

pub async fn executors_of_earlier_forms_leave_tasks_with_cases(store: Arc<dyn TaskStore>) {
    let judged = add_task_with(&*store, |spec| spec.judging = Some(judging())).await;
    let other = add_task(&*store).await;
    let mut without_cells = FakeExecutor::new(&store, "without-cells");
    without_cells.newest_form = TaskForm::NEWEST_WITHOUT_CELLS;
    assert_eq!(store.newest_executor_form().await.unwrap(), None);
    let assigned = without_cells.claim(9).await;
    assert_eq!(assigned.len(), 1);
    assert_eq!(assigned[0].attempt_id.task, other);
    let newest = store.newest_executor_form().await.unwrap();
    assert_eq!(newest, Some(TaskForm::NEWEST_WITHOUT_CELLS));
    let mut able = FakeExecutor::new(&store, "able");
    assert_eq!(able.claim_one().await.task, judged);
    assert_eq!(
        store.newest_executor_form().await.unwrap(),
        Some(able.newest_form)
    );
    // Only live executors count.
    able.expire().await;
    assert_eq!(store.newest_executor_form().await.unwrap(), newest);
    without_cells.expire().await;
    assert_eq!(store.newest_executor_form().await.unwrap(), None);
}

/// The program that judges may be in another language than the task. Only an executor with both runs the task.
pub async fn the_program_that_judges_needs_tools_too(store: Arc<dyn TaskStore>) {
    let keys = ["+/c /python", "+/ lab/r", "/c", "+lab/ /c", "+/c /go"];
    let mut ids = vec![];
    for key in keys {
        let spec = requiring(key);
        assert_eq!(ToolRequirement::of(&spec).to_string(), key);
        ids.push(add_task_with(&*store, |added| *added = spec).await);
    }
    // What the program needs as well as the task is required once.
    let mut same = requiring("+/c /go");
    let program = same
        .judging
        .as_mut()
        .and_then(|judging| judging.check.program_mut());
    program.unwrap().language = same.language.clone();
    assert_eq!(ToolRequirement::of(&same).to_string(), "/c");
    let check = async |name: &str, keys: &[&str], expected: &[usize]| {
        let mut executor = FakeExecutor::new(&store, name);
        executor.tools = Some(tools(keys));
        let assigned = executor.claim(9).await;
        let assigned: Vec<_> = assigned.iter().map(|task| task.attempt_id.task).collect();
        let expected: Vec<_> = expected.iter().map(|index| ids[*index]).collect();
        assert_eq!(assigned, expected, "{name}");
        // The next executor finds them in their queues again.
        executor.running.clear();
        executor.claim(0).await;
    };
    check("python", &["/python"], &[]).await;
    check("c", &["/c"], &[2]).await;
    check("both", &["/c", "/python"], &[0, 2]).await;
    check("r", &["lab/r"], &[1]).await;
    check("lab", &["lab/", "/c"], &[2, 3]).await;
    check(
        "all",
        &["lab/", "lab/r", "/c", "/go", "/python", "/c++"],
        &[0, 1, 2, 3, 4],
    )
    .await;
    let tasks = TaskQuery {
        language: Some(LanguageName::new("c").unwrap()),
        ..TaskQuery::default()
    };
    let found = search_ids(&store, tasks).await;
    assert_eq!(
        found.len(),
        3,
        "the language of the program that judges is not the task's"
    );
}
