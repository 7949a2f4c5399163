use std::sync::Arc;

use super::*;
use crate::{
    AttemptNumber, AttemptRecord, DrainReason, ExecutorDrain, ExecutorTools, LanguageName, OfferedLanguage,
    SessionId, StepCommand, TaskSpec, UserName,
};

fn task(change: impl FnOnce(&mut Task)) -> Task {
    let user = UserName::new("ada").unwrap();
    let mut task = Task {
        id: TaskId(uuid::Uuid::from_u128(1)),
        spec: TaskSpec::new(user, StepCommand::Shell("true".into())),
        status: TaskStatus::Pending,
        executor: None,
        session: None,
        attempt: AttemptNumber(0),
        add_time: UnixTime(7),
        start_time: None,
        report_time: None,
        finish_time: None,
        ran_on: vec![],
        result: None,
        trouble: None,
    };
    change(&mut task);
    task
}

fn name(name: &str) -> ExecutorName {
    ExecutorName::new(name).unwrap()
}

fn language(name: &str) -> LanguageName {
    LanguageName::new(name).unwrap()
}

/// An executor that is alive and has the language C, with this many slots, tasks and GiB of memory.
fn executor(slots: u32, tasks: u32, gibibytes: u64) -> ExecutorState {
    let c = OfferedLanguage {
        root: None,
        name: language("c"),
        version: None,
    };
    ExecutorState {
        name: name("e"),
        session: SessionId(uuid::Uuid::from_u128(1)),
        health: Health::Alive,
        slots,
        tasks,
        host: String::new(),
        version: String::new(),
        capacity: Some(Capacity {
            memory: gibibytes << 30,
            processes: 512,
            open_files: 1024,
        }),
        tools: Arc::new(ExecutorTools::new(vec![c], vec![])),
        drain: None,
        load: None,
        since: UnixTime(0),
        report_time: UnixTime(0),
    }
}

fn drained() -> ExecutorState {
    ExecutorState {
        drain: Some(ExecutorDrain {
            reason: DrainReason::new("a new disk").unwrap(),
            by: None,
            since: UnixTime(1),
        }),
        ..executor(4, 0, 64)
    }
}

fn gone() -> ExecutorState {
    ExecutorState {
        health: Health::Gone,
        ..executor(4, 0, 4)
    }
}

fn needing(gibibytes: u64) -> Task {
    task(|task| task.spec.execute.limits.memory = Some(gibibytes << 30))
}

#[test]
fn a_queued_task_waits_for_an_executor_that_can_take_it() {
    let check = |task: Task, executors: &[ExecutorState], expected: &[WaitReason]| {
        let wait = TaskWait::decide(&task, executors);
        assert_eq!(wait.reasons, expected);
        assert_eq!((wait.status, wait.queued_before), (Some(task.status), None));
    };
    let any = || task(|_| {});
    check(any(), &[], &[WaitReason::NoExecutor]);
    check(
        any(),
        &[gone(), gone()],
        &[WaitReason::NoneAlive { executors: 2 }],
    );
    let busy = |executors, slots| WaitReason::SlotsBusy { executors, slots };
    check(any(), &[executor(4, 4, 4), gone()], &[busy(1, 4)]);
    // It holds tasks in advance.
    check(any(), &[executor(4, 9, 4), executor(2, 2, 4)], &[busy(2, 6)]);
    let free = |free| WaitReason::SlotFree { free };
    check(any(), &[executor(4, 9, 4), executor(3, 1, 4)], &[free(2)]);
    // An executor of an older version takes tasks of any size.
    let unknown = ExecutorState {
        capacity: None,
        ..executor(1, 1, 1)
    };
    check(needing(64), &[unknown], &[busy(1, 1)]);
    let retrying = task(|task| task.status = TaskStatus::Retrying);
    check(retrying, &[executor(1, 0, 4)], &[free(1)]);
}

#[test]
fn drained_executors_take_no_task() {
    let reasons = |executors: &[ExecutorState]| TaskWait::decide(&task(|_| {}), executors).reasons;
    assert_eq!(
        reasons(&[drained(), drained(), gone()]),
        [WaitReason::AllDrained { executors: 2 }]
    );
    // The others decide, and the drained one is not the largest of them.
    let found = TaskWait::decide(&needing(32), &[drained(), executor(1, 1, 4)]).reasons;
    let busy = WaitReason::SlotsBusy {
        executors: 1,
        slots: 1,
    };
    assert!(
        matches!(found[0], WaitReason::TooLarge { .. }) && found[1] == busy,
        "{found:?}"
    );
    let place = queue_place(&task(|_| {}), &[drained()]).unwrap();
    assert!(place.tools.is_empty(), "it takes none of them");
}

#[test]
fn a_task_waits_for_its_language() {
    let requiring = |name: &str| task(|task| task.spec.language = Some(language(name)));
    let reasons = |task: &Task, executors: &[ExecutorState]| TaskWait::decide(task, executors).reasons;
    let executors = [executor(4, 4, 4), gone()];
    let busy = WaitReason::SlotsBusy {
        executors: 1,
        slots: 4,
    };
    assert_eq!(reasons(&requiring("c"), &executors), [busy]);
    let missing = reasons(&requiring("go"), &executors);
    assert_eq!(missing, [WaitReason::NoTools("/go".parse().unwrap())]);
    assert!(
        missing[0].to_string().contains("the language go"),
        "{}",
        missing[0]
    );
    let no_one = reasons(&requiring("c"), &[gone()]);
    assert_eq!(no_one, [WaitReason::NoneAlive { executors: 1 }]);
}

#[test]
fn a_large_task_waits_for_the_executors_that_claim_it() {
    let check = |gibibytes: u64, executors: &[ExecutorState], expected: &[WaitReason]| {
        assert_eq!(TaskWait::decide(&needing(gibibytes), executors).reasons, expected);
    };
    let executors = [executor(8, 0, 2), executor(2, 2, 16), executor(1, 1, 32)];
    let few = |large_enough| WaitReason::FewLargeEnough {
        executors: 3,
        large_enough,
    };
    let busy = |executors, slots| WaitReason::SlotsBusy { executors, slots };
    check(1, &executors, &[WaitReason::SlotFree { free: 8 }]);
    check(10, &executors, &[few(2), busy(2, 3)]);
    check(20, &executors, &[few(1), busy(1, 1)]);
    let found = TaskWait::decide(&needing(64), &executors).reasons;
    assert!(
        matches!(found[..], [WaitReason::TooLarge { request, largest }, WaitReason::SlotsBusy { executors: 1, .. }]
            if request.memory == 64 << 30 && largest.memory == 32 << 30),
        "{found:?}"
    );
    assert!(
        found[0].to_string().contains("65536 MiB") && found[0].to_string().contains("32768 MiB"),
        "{}",
        found[0]
    );
}

#[test]
fn a_task_that_an_executor_has_taken_waits_there() {
    let held = |status, end: Option<RecordedEnd>| {
        task(|task| {
            task.status = status;
            task.executor = Some(name("e"));
            task.ran_on = end
                .into_iter()
                .map(|end| AttemptRecord {
                    executor: name("before"),
                    attempt: AttemptNumber(1),
                    start_time: UnixTime(1),
                    end: Some((UnixTime(2), end)),
                })
                .collect();
        })
    };
    let check = |task: Task, expected: &[WaitReason]| {
        assert_eq!(TaskWait::decide(&task, &[]).reasons, expected);
        assert_eq!(queue_place(&task, &[]), None);
    };
    let (assigned, pause) = (WaitReason::Assigned(name("e")), WaitReason::RetryPause(name("e")));
    check(held(TaskStatus::Pending, None), std::slice::from_ref(&assigned));
    check(held(TaskStatus::Retrying, Some(RecordedEnd::Lost)), &[assigned]);
    check(held(TaskStatus::Retrying, Some(RecordedEnd::Broken)), &[pause]);
    for status in [TaskStatus::Compiling, TaskStatus::Running] {
        check(held(status, None), &[]);
    }
    for status in TaskStatus::ALL.into_iter().filter(|status| status.is_done()) {
        check(task(|task| task.status = status), &[]);
    }
}

#[test]
fn the_tasks_that_the_same_executors_take_are_before_it() {
    let check = |task: Task, executors: &[ExecutorState], expected: &[&str]| {
        let place = queue_place(&task, executors).unwrap();
        let keys = place
            .tools
            .iter()
            .flat_map(|tools| tools.queue_keys().of_steps().to_vec());
        assert_eq!(keys.collect::<Vec<_>>(), expected);
        assert_eq!(place.requires, ToolRequirement::of(&task.spec));
        assert_eq!(
            (place.id, place.add_time, place.priority),
            (task.id, UnixTime(7), 3)
        );
    };
    let requiring = |name: Option<&str>| {
        task(|task| {
            task.spec.priority = 3;
            task.spec.language = name.map(language);
        })
    };
    check(requiring(None), &[], &[]);
    check(requiring(None), &[executor(1, 1, 1), gone()], &["/c"]);
    check(requiring(Some("c")), &[executor(1, 1, 1)], &["/c"]);
    check(requiring(Some("go")), &[executor(1, 1, 1)], &[]);
}

#[test]
fn sentences_are_singular_or_plural() {
    let check = |reason: WaitReason, expected: &str| assert_eq!(reason.to_string(), expected);
    let busy = |executors, slots| WaitReason::SlotsBusy { executors, slots };
    check(
        busy(1, 1),
        "The only slot of the executor that could run it is busy.",
    );
    check(
        busy(1, 4),
        "All 4 slots of the executor that could run it are busy.",
    );
    check(
        busy(2, 6),
        "All 6 slots of the 2 executors that could run it are busy.",
    );
    let before = |found| QueuedBefore::counted(found).to_string();
    assert_eq!(before(0), "It is the first in the queue.");
    assert_eq!(before(1), "1 task is before it in the queue.");
    assert_eq!(before(10_000), "10000 tasks are before it in the queue.");
    assert_eq!(
        before(10_001),
        "More than 10000 tasks are before it in the queue."
    );
}

#[test]
fn every_reason_has_a_name_of_its_own() {
    let reasons = [
        WaitReason::NoExecutor,
        WaitReason::NoneAlive { executors: 1 },
        WaitReason::NoTools(ToolRequirement::default()),
        WaitReason::AllDrained { executors: 2 },
        WaitReason::TooLarge {
            request: ResourceRequest::default(),
            largest: Capacity::UNKNOWN,
        },
        WaitReason::FewLargeEnough {
            executors: 2,
            large_enough: 1,
        },
        WaitReason::SlotsBusy {
            executors: 1,
            slots: 1,
        },
        WaitReason::SlotFree { free: 1 },
        WaitReason::Assigned(name("e")),
        WaitReason::RetryPause(name("e")),
        WaitReason::NotKnown,
    ];
    assert_eq!(reasons.map(|reason| reason.as_str()), WaitReason::NAMES);
}
