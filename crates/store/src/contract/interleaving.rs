//! Random histories: several executors that crash, lose answers and repeat themselves, users who add and
//! cancel, a leader who expires. Whatever happens, the store must answer as a plain reference does, keep
//! every promise about a task's end, and in the end bring every task to one.

mod executor;
mod history;
mod reference;
mod witness;

use std::future::Future;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::history::History;
use crate::TaskStore;

/// How many executors take part.
const EXECUTORS: usize = 3;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    Add {
        count: usize,
        priority: i32,
    },
    /// The n-th task of all, counted round.
    Cancel {
        task: usize,
    },
    Report {
        executor: usize,
        vacant: u32,
        acts: Vec<Act>,
        fate: Fate,
    },
    /// A report sent earlier arrives now, perhaps for the second time; nobody waits for its answer.
    Late {
        executor: usize,
        back: usize,
    },
    Restart {
        executor: usize,
        spool: Spool,
    },
    Leave {
        executor: usize,
    },
    /// The leader has seen the session this many reports ago.
    Expire {
        executor: usize,
        behind: u64,
    },
}

/// What an executor does with one of its tasks before it reports.
#[derive(Clone, Copy, Debug)]
enum Act {
    Nothing,
    Compile,
    Run,
    Succeed,
    Fail,
    Break,
    PlatformFailure,
    Forget,
}

/// What becomes of a report and its answer.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    AnswerLost,
    Lost,
}

/// What a restarted executor finds on its disk.
#[derive(Clone, Copy, Debug)]
enum Spool {
    /// Its results, and the name of the session before.
    Found,
    /// Nothing: it comes as a stranger under the same name.
    Gone,
}

/// Puts stores through random histories. `make` answers an empty store, and beside it whatever has to live
/// as long.
pub fn run<Keep, Made>(cases: u32, make: impl Fn() -> Made)
where
    Made: Future<Output = (Keep, Arc<dyn TaskStore>)>,
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
    let outcome = runner.run(&events, |events| {
        runtime.block_on(async {
            let (_keep, store) = make().await;
            let mut history = History::new(store);
            for event in events {
                history.happen(event).await;
            }
            history.drain().await;
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

fn event() -> impl Strategy<Value = Event> {
    let executor = 0..EXECUTORS;
    prop_oneof![
        3 => (1..4_usize, -1..2).prop_map(|(count, priority)| Event::Add { count, priority }),
        1 => (0..50_usize).prop_map(|task| Event::Cancel { task }),
        10 => (executor.clone(), 0..3_u32, vec(act(), 6), fate())
            .prop_map(|(executor, vacant, acts, fate)| Event::Report { executor, vacant, acts, fate }),
        2 => (executor.clone(), 0..4_usize).prop_map(|(executor, back)| Event::Late { executor, back }),
        1 => (executor.clone(), prop_oneof![4 => Just(Spool::Found), 1 => Just(Spool::Gone)])
            .prop_map(|(executor, spool)| Event::Restart { executor, spool }),
        1 => executor.clone().prop_map(|executor| Event::Leave { executor }),
        1 => (executor, 0..3_u64).prop_map(|(executor, behind)| Event::Expire { executor, behind }),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => Just(Act::Nothing),
        2 => Just(Act::Compile),
        2 => Just(Act::Run),
        4 => Just(Act::Succeed),
        1 => Just(Act::Fail),
        1 => Just(Act::Break),
        2 => Just(Act::PlatformFailure),
        1 => Just(Act::Forget),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![6 => Just(Fate::Arrives), 2 => Just(Fate::AnswerLost), 1 => Just(Fate::Lost)]
}
