//! Model-based test with random histories: executors crash, lose answers and repeat reports, users add and cancel
//! tasks, and a leader expires sessions. After each event the store must answer like a simple reference
//! implementation and keep the invariants about terminal tasks. At the end every task must reach a terminal status.

mod history;
mod invariants;
mod reference_store;
mod simulated_executor;

use std::future::Future;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::history::HistoryRunner;
use crate::TaskStore;

/// How many executors a history has.
const EXECUTORS: usize = 3;
/// The queue keys of the requirements that tasks of a history may have.
const KEYS: [&str; 4] = ["/c", "/go", "lab/", "lab/c"];
/// The requirements of the tasks: these, and those whose judge programs need tools of their own.
const REQUIREMENTS: [&str; 7] = ["/c", "/go", "lab/", "lab/c", "+/c /go", "+/ lab/c", "+lab/ /c"];
/// How many groups a history has.
const GROUPS: usize = 2;

/// One event of a random history in the model-based store test, like an added task, a report or a restart.
#[derive(Clone, Debug)]
enum HistoryEvent {
    Add {
        count: usize,
        priority: i32,
        /// The number of the group; `GROUPS` for none.
        group: usize,
        requires: Requirement,
    },
    /// Adds a task that repeats the task with this index, modulo the number of tasks.
    Retry {
        task: usize,
    },
    /// Cancels the task with this index, modulo the number of tasks.
    Cancel {
        task: usize,
    },
    /// Cancels this task and the next ones in one call.
    CancelMany {
        first: usize,
        count: usize,
    },
    Report {
        executor: usize,
        vacant: u32,
        actions: Vec<AttemptAction>,
        delivery: Delivery,
    },
    /// An earlier report arrives now, possibly for the second time, and its answer is ignored.
    LateReport {
        executor: usize,
        back: usize,
    },
    Restart {
        executor: usize,
        spool: SpoolState,
    },
    Leave {
        executor: usize,
    },
    /// The executor has other languages and roots from now on: those with these numbers in `KEYS`.
    ChangeTools {
        executor: usize,
        keys: Vec<usize>,
    },
    /// The leader expires the session as it was this many reports ago.
    Expire {
        executor: usize,
        behind: u64,
    },
}

/// In a random history of the store test: the number of a task's requirement in [`REQUIREMENTS`], if it has
/// one.
type Requirement = Option<usize>;

/// In a random history of the store test: what a simulated executor does with an attempt before it reports.
#[derive(Clone, Copy, Debug)]
enum AttemptAction {
    Nothing,
    Compile,
    Run,
    Succeed,
    Fail,
    Break,
    PlatformFailure,
    Forget,
}

/// In a random history of the store test: whether an executor's report and the store's answer to it arrive.
#[derive(Clone, Copy, Debug)]
enum Delivery {
    Arrives,
    AnswerLost,
    ReportLost,
}

/// In a random history of the store test: whether a restarted executor still has its data folder.
#[derive(Clone, Copy, Debug)]
enum SpoolState {
    /// Its results and the id of the previous session.
    Intact,
    /// Nothing: the store takes it for another executor with the same name.
    Lost,
}

/// Runs random histories. `make` returns an empty store and a guard, for example its temporary folder, which is dropped
/// after the history.
pub fn run<Guard, Made>(cases: u32, make: impl Fn() -> Made)
where
    Made: Future<Output = (Guard, Arc<dyn TaskStore>)>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let events = vec(event(), 1..80);
    let result = runner.run(&events, |events| {
        runtime.block_on(async {
            let (_guard, store) = make().await;
            let mut history = HistoryRunner::new(store);
            for event in events {
                history.apply(event).await;
            }
            history.drain().await;
        });
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

fn event() -> impl Strategy<Value = HistoryEvent> {
    let executor = 0..EXECUTORS;
    prop_oneof![
        3 => (1..4_usize, -1..2, 0..=GROUPS, requirement())
            .prop_map(|(count, priority, group, requires)| HistoryEvent::Add { count, priority, group, requires }),
        1 => (executor.clone(), vec(0..KEYS.len(), 0..4))
            .prop_map(|(executor, keys)| HistoryEvent::ChangeTools { executor, keys }),
        1 => (0..50_usize).prop_map(|task| HistoryEvent::Retry { task }),
        1 => (0..50_usize, 0..4_usize).prop_map(|(first, count)| HistoryEvent::CancelMany { first, count }),
        1 => (0..50_usize).prop_map(|task| HistoryEvent::Cancel { task }),
        10 => (executor.clone(), 0..3_u32, vec(action(), 6), delivery())
            .prop_map(|(executor, vacant, actions, delivery)| HistoryEvent::Report { executor, vacant, actions, delivery }),
        2 => (executor.clone(), 0..4_usize).prop_map(|(executor, back)| HistoryEvent::LateReport { executor, back }),
        1 => (executor.clone(), prop_oneof![4 => Just(SpoolState::Intact), 1 => Just(SpoolState::Lost)])
            .prop_map(|(executor, spool)| HistoryEvent::Restart { executor, spool }),
        1 => executor.clone().prop_map(|executor| HistoryEvent::Leave { executor }),
        1 => (executor, 0..3_u64).prop_map(|(executor, behind)| HistoryEvent::Expire { executor, behind }),
    ]
}

fn requirement() -> impl Strategy<Value = Requirement> {
    prop_oneof![2 => Just(None), 1 => (0..REQUIREMENTS.len()).prop_map(Some)]
}

fn action() -> impl Strategy<Value = AttemptAction> {
    prop_oneof![
        4 => Just(AttemptAction::Nothing),
        2 => Just(AttemptAction::Compile),
        2 => Just(AttemptAction::Run),
        4 => Just(AttemptAction::Succeed),
        1 => Just(AttemptAction::Fail),
        1 => Just(AttemptAction::Break),
        2 => Just(AttemptAction::PlatformFailure),
        1 => Just(AttemptAction::Forget),
    ]
}

fn delivery() -> impl Strategy<Value = Delivery> {
    prop_oneof![6 => Just(Delivery::Arrives), 2 => Just(Delivery::AnswerLost), 1 => Just(Delivery::ReportLost)]
}
