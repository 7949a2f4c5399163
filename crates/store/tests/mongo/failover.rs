//! The primary is lost while everyone is at work: nothing acknowledged is lost, nothing is committed twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::{Complete, End, Executing, Moment, Report, ReportAnswer, Status, TaskId};
use store::contract::sample::{get, marked, new, spec};
use store::contract::worker::Worker;
use store::{Change, NewTask, StoreError, TaskStore};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::set::{Guard, Set};

const ADDERS: usize = 6;
const EXECUTORS: usize = 3;
/// How many of each kind must go well after the fault.
const MORE: usize = 100;
const DEADLINE: Duration = Duration::from_secs(90);

/// What was acknowledged.
#[derive(Default)]
struct Ledger {
    stop: AtomicBool,
    added: Mutex<BTreeMap<TaskId, Moment>>,
    settled: Mutex<BTreeSet<TaskId>>,
    errors: AtomicUsize,
}

impl Ledger {
    fn counts(&self) -> (usize, usize) {
        (
            self.added.lock().unwrap().len(),
            self.settled.lock().unwrap().len(),
        )
    }

    /// A caller of ours repeats what may go better later, and nothing else.
    async fn insist<T, F>(&self, call: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let begun = Instant::now();
        loop {
            match call().await {
                Ok(value) => return value,
                Err(error) => {
                    assert!(error.is_transient(), "{error:?}");
                    assert!(begun.elapsed() < DEADLINE, "{error:?}");
                    self.errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Until so many more of each were acknowledged. Answers how long that took.
    async fn wait_for_more(&self, more: usize) -> Duration {
        let begun = Instant::now();
        let (added, settled) = self.counts();
        loop {
            let now = self.counts();
            if now.0 >= added + more && now.1 >= settled + more {
                return begun.elapsed();
            }
            assert!(
                begun.elapsed() < DEADLINE,
                "no progress: {now:?} after {added} {settled}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[derive(Clone, Copy)]
enum Fault {
    Kill,
    Pause,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_primary_loses_nothing() {
    let mut set = Set::start(3, Guard::Open).await;
    let stores: Vec<Arc<dyn TaskStore>> = vec![
        Arc::new(set.open("failover").await),
        Arc::new(set.open("failover").await),
    ];
    let ledger = Arc::new(Ledger::default());
    let heard = tokio::spawn(listen(stores[1].changes(), ledger.clone()));
    let mut load = JoinSet::new();
    for index in 0..ADDERS {
        load.spawn(add(stores[index % 2].clone(), ledger.clone()));
    }
    for index in 0..EXECUTORS {
        load.spawn(work(stores.clone(), format!("e{index}"), ledger.clone()));
    }
    ledger.wait_for_more(MORE).await;
    for fault in [Fault::Kill, Fault::Pause] {
        set.until_whole().await;
        let primary = set.primary().await;
        match fault {
            Fault::Kill => set.kill(primary),
            Fault::Pause => set.pause(primary),
        }
        let took = ledger.wait_for_more(MORE).await;
        match fault {
            Fault::Kill => set.restart(primary),
            Fault::Pause => set.resume(primary),
        }
        println!("went on {took:.1?} after the primary was lost");
        // What the old primary had alone is taken back now.
        ledger.wait_for_more(MORE).await;
    }
    ledger.stop.store(true, Ordering::Relaxed);
    load.join_all().await;
    println!(
        "{:?} added and settled, {} calls to be repeated",
        ledger.counts(),
        ledger.errors.load(Ordering::Relaxed)
    );
    check(&*stores[0], &ledger).await;
    let heard = heard.await.unwrap();
    if let Heard::All(ended) = &heard {
        let settled = ledger.settled.lock().unwrap();
        let missed: Vec<_> = settled.difference(ended).collect();
        assert!(missed.is_empty(), "these ends were not told: {missed:?}");
    }
}

async fn add(store: Arc<dyn TaskStore>, ledger: Arc<Ledger>) {
    while !ledger.stop.load(Ordering::Relaxed) {
        let tasks: Vec<NewTask> = (0..3).map(|_| new(spec())).collect();
        let added = ledger.insist(|| store.add(tasks.clone())).await;
        let mut all = ledger.added.lock().unwrap();
        all.extend(added.iter().map(|added| (added.id, added.add_time)));
    }
}

/// Repeats a report that was not answered, at the other judicator. Goes on until nothing is left.
async fn work(stores: Vec<Arc<dyn TaskStore>>, name: String, ledger: Arc<Ledger>) {
    let mut worker = Worker::new(&stores[0], &name);
    let tries = AtomicUsize::new(0);
    loop {
        let stopped = ledger.stop.load(Ordering::Relaxed);
        let complete: Vec<_> = std::mem::take(&mut worker.running)
            .into_iter()
            .map(|running| Complete {
                handout: running.handout,
                end: End::Result(marked(running.handout.attempt, &name)),
            })
            .collect();
        let report = Report {
            complete,
            vacant: 8,
            ..worker.next_report()
        };
        let reported = ledger
            .insist(|| {
                let count = tries.fetch_add(1, Ordering::Relaxed);
                stores[count % stores.len()].report(report.clone())
            })
            .await;
        let ReportAnswer::Done(answer) = reported.answer else {
            panic!("refused: {:?}", reported.answer);
        };
        worker.acked = report.seq;
        worker.running = answer
            .assign
            .iter()
            .map(|assigned| Executing {
                handout: assigned.handout,
                status: None,
            })
            .collect();
        for handout in answer.delete {
            let fresh = ledger.settled.lock().unwrap().insert(handout.task);
            assert!(fresh, "{handout:?} was given out after it had ended");
        }
        if stopped && worker.running.is_empty() {
            return;
        }
    }
}

enum Heard {
    All(BTreeSet<TaskId>),
    /// Told that something was missed: then everyone looks for himself.
    Lost,
}

/// Until everything has ended that was acknowledged, or something was lost.
async fn listen(mut changes: Receiver<Change>, ledger: Arc<Ledger>) -> Heard {
    let mut ended = BTreeSet::new();
    let mut quiet = None;
    loop {
        match tokio::time::timeout(Duration::from_millis(500), changes.recv()).await {
            Ok(Ok(Change::Moved { id, status, .. })) if status.done() => drop(ended.insert(id)),
            Ok(Ok(Change::Lost) | Err(RecvError::Lagged(_))) => return Heard::Lost,
            Ok(Err(RecvError::Closed)) => panic!("the store is open"),
            Ok(Ok(_)) => {}
            // Nothing more happens; what is on its way may still take a moment.
            Err(_) if ledger.stop.load(Ordering::Relaxed) => {
                let since = *quiet.get_or_insert_with(Instant::now);
                let all = ledger.settled.lock().unwrap().is_subset(&ended);
                if all || since.elapsed() > Duration::from_secs(10) {
                    return Heard::All(ended);
                }
            }
            Err(_) => {}
        }
    }
}

async fn check(store: &dyn TaskStore, ledger: &Ledger) {
    let added = ledger.added.lock().unwrap().clone();
    let settled = ledger.settled.lock().unwrap().clone();
    for (id, add_time) in &added {
        let task = get(store, *id).await;
        assert_eq!(task.add_time, *add_time);
        assert_eq!(task.status, Status::Success, "{task:?}");
        assert!(settled.contains(id));
        let result = task.result.unwrap().execute.unwrap();
        let mark = String::from_utf8(result.stdout.bytes.to_vec()).unwrap();
        assert!(
            mark.starts_with(&format!("{} ", task.attempt)),
            "{mark} is of another attempt"
        );
    }
    let totals = store.totals().await.unwrap();
    assert_eq!(totals.held, 0);
    assert_eq!(totals.counts[&Status::Success], settled.len() as u64);
    // An addition that was not acknowledged may have taken effect: the caller repeated it, so it is known.
    assert_eq!(totals.counts.values().sum::<u64>(), added.len() as u64);
}
