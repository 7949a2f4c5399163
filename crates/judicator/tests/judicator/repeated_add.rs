//! A repeated add finds its task, whatever the judicator would refuse today.

use bytes::Bytes;
use judicator::JudicatorOptions;
use model::{
    AddTask, Content, InvalidField, LimitPolicy, Limits, RootName, TaskSizeLimits, TaskSpec, UserName,
};
use rpc::{CallError, Calls};
use tokio::time::Instant;

use super::harness::{options, with_deadline};
use super::languages::{java_options, java_source_code, java_task};
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, new_id, roots, spec};

fn inline(text: &'static str) -> Content {
    Content::Inline(Bytes::from_static(text.as_bytes()))
}

fn refused_field<T: std::fmt::Debug>(answer: Result<T, CallError>) -> String {
    match answer {
        Err(CallError::Invalid(InvalidField { field, .. })) => field,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_repeated_add_is_recognised_after_the_operator_changed_the_rules() {
    async fn check(task: AddTask, changed: JudicatorOptions, field: &str) {
        let folder = tempfile::tempdir().unwrap();
        let first = SqliteJudicator::start_with(folder.path(), java_options());
        assert!(!first.judicator.add(vec![task.clone()]).await.unwrap()[0].existed);
        let stored = first.judicator.get(task.id, None).await.unwrap().spec;
        first.stop().await;
        let second = SqliteJudicator::start_with(folder.path(), changed);
        let add = async |task: AddTask| with_deadline(second.judicator.add(vec![task])).await;
        assert!(add(task.clone()).await.unwrap()[0].existed, "{field}");
        assert_eq!(second.judicator.get(task.id, None).await.unwrap().spec, stored);
        let mut other = task.clone();
        other.spec.priority += 1;
        assert_eq!(
            add(other).await.err(),
            Some(CallError::Conflict(task.id)),
            "{field}"
        );
        // Another user's task is not the one that was added.
        let mut foreign = task.clone();
        foreign.spec.user = UserName::new("eve").unwrap();
        assert_eq!(refused_field(add(foreign).await), field);
        let new = AddTask { id: new_id(), ..task };
        assert_eq!(refused_field(add(new).await), field);
    }
    let task = || java_source_code(inline("class A {}"));
    check(task(), options(), "language").await;
    let two = java_task(vec![
        ("A.java", inline("class A { void main() {} }")),
        ("B.java", inline("class B {}")),
    ]);
    let mut renamed = java_options();
    let mut row = renamed.languages.rows()[0].clone();
    row.has_class_name = false;
    renamed.languages = model::LanguageTable::new(vec![row]).unwrap();
    check(two, renamed, "source").await;
    let mut many = task();
    many.spec.attempts = Some(7);
    let changed = JudicatorOptions {
        max_attempts: 6,
        ..java_options()
    };
    check(many, changed, "attempts").await;
    let changed = JudicatorOptions {
        task_size_limits: TaskSizeLimits {
            command_bytes: 3,
            ..TaskSizeLimits::default()
        },
        ..java_options()
    };
    check(task(), changed, "execute.command").await;
    let changed = JudicatorOptions {
        task_size_limits: TaskSizeLimits {
            inline_bytes: 5,
            ..TaskSizeLimits::default()
        },
        ..java_options()
    };
    check(task(), changed, "source").await;
    let mut large = task();
    large.spec.execute.limits.memory = Some(64 << 20);
    let mut limits = LimitPolicy::default();
    limits.max.memory = Some(32 << 20);
    let changed = JudicatorOptions {
        limits,
        ..java_options()
    };
    check(large, changed, "execute.limits.memory").await;
    let mut data = task();
    data.spec.execute.input = Content::Inline(Bytes::from(vec![b'x'; 20_000]));
    let mut limits = LimitPolicy::default();
    limits.default = Limits {
        space: Some(10_000),
        ..limits.default
    };
    let changed = JudicatorOptions {
        limits,
        ..java_options()
    };
    check(data, changed, "execute.limits.space").await;
}

fn task_in(root: &str) -> AddTask {
    let root = Some(RootName::new(root).unwrap());
    AddTask::new(new_id(), TaskSpec { root, ..spec() })
}

fn waiting(task: &AddTask) -> AddTask {
    AddTask {
        wait_for_executor: true,
        ..task.clone()
    }
}

#[tokio::test]
async fn a_repeated_batch_reads_the_executors_once() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let mut executor = ScriptedExecutor::new(judicator, "e");
    executor.tools = Some(roots(&["lab"]));
    executor.claim(0).await;
    let one_root = || task_in("contest");
    let mut tasks: Vec<_> = std::iter::repeat_with(one_root).take(50).collect();
    tasks.extend((0..50).map(|number| task_in(&format!("contest-{number}"))));
    let ids: Vec<_> = tasks.iter().map(|task| task.id).collect();
    let waiting = tasks.iter().map(waiting).collect();
    with_deadline(judicator.add(waiting)).await.unwrap();
    let begun = Instant::now();
    let again = with_deadline(judicator.add(tasks.clone())).await.unwrap();
    assert!(begun.elapsed().as_millis() < 2000, "{:?}", begun.elapsed());
    assert!(again.iter().all(|added| added.existed));
    assert_eq!(again.iter().map(|added| added.id).collect::<Vec<_>>(), ids);
    // The first task that does not exist is named.
    tasks[60] = task_in("first");
    tasks[61] = task_in("second");
    tasks[70].spec.attempts = Some(0);
    let Err(CallError::Invalid(refused)) = with_deadline(judicator.add(tasks)).await else {
        panic!("the batch was added");
    };
    assert_eq!(refused.field, "tasks[60].root");
    assert!(refused.problem.contains("'first'"), "{refused}");
}
