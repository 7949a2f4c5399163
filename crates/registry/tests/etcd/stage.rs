//! Judicators that are registered, and what is seen of them.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use registry::Registry;
use registry::etcd::{self, Access, JudicatorSeen, Me};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// For what has to happen at some time.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// The shortest lease that etcd grants.
pub(super) const SHORT: Duration = Duration::from_secs(2);

/// So long that no test lives to see its end.
pub(super) const LONG: Duration = Duration::from_secs(600);

pub(super) struct Judicator {
    pub(super) registry: Registry,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Judicator {
    /// `name@address`, with a version after a space if it matters.
    pub(super) fn start(access: &Access, who: &str, lease: Duration) -> Judicator {
        let (name, rest) = who.split_once('@').unwrap();
        let (address, version) = rest.split_once(' ').unwrap_or((rest, "1"));
        let me = Me {
            name: name.into(),
            address: address.into(),
            version: version.into(),
        };
        let stop = CancellationToken::new();
        let (registry, task) = etcd::register(access.clone(), me, lease, stop.clone());
        Judicator { registry, stop, task }
    }

    /// In order.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.task)
            .await
            .expect("it does not stop")
            .unwrap();
    }

    /// Without a word, as kill -9 does.
    pub(super) async fn vanish(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub(super) async fn leads(&self) {
        wait(&self.registry.leading, "leading", |leads| *leads).await;
    }

    pub(super) async fn leads_no_longer(&self) {
        wait(&self.registry.leading, "leading", |leads| !leads).await;
    }
}

pub(super) async fn wait<T: Clone + Debug>(
    value: &watch::Receiver<T>,
    what: &str,
    good: impl FnMut(&T) -> bool,
) {
    let mut value = value.clone();
    let waited = tokio::time::timeout(DEADLINE, value.wait_for(good)).await.is_ok();
    assert!(waited, "{what} stays {:?}", *value.borrow());
}

/// Waits until a registry has exactly these addresses, in any order.
pub(super) async fn sees(registry: &Registry, expected: &[&str]) {
    wait(
        &registry.judicators,
        &format!("not {expected:?}, but"),
        |addresses| {
            let mut addresses = addresses.clone();
            addresses.sort();
            addresses == expected
        },
    )
    .await;
}

/// Everybody as `name@address version`, with a star where it leads.
pub(super) async fn roster(access: &Access) -> Vec<String> {
    let told = |seen: JudicatorSeen| {
        let star = if seen.leads { "*" } else { "" };
        format!("{}@{} {}{star}", seen.name, seen.address, seen.version)
    };
    let seen = etcd::roster(access).await.unwrap();
    seen.into_iter().map(told).collect()
}

/// Waits until the roster is this.
pub(super) async fn becomes(access: &Access, expected: &[&str]) {
    let mut last = Vec::new();
    let looked = async {
        loop {
            last = roster(access).await;
            if last == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(DEADLINE, looked).await;
    assert!(waited.is_ok(), "not {expected:?}, but {last:?}");
}

/// Looks all the time whether two lead at once.
pub(super) struct Lookout {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

impl Lookout {
    pub(super) fn over(judicators: &[&Judicator]) -> Lookout {
        let leading: Vec<_> = judicators
            .iter()
            .map(|judicator| judicator.registry.leading.clone())
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let count = || leading.iter().filter(|leads| *leads.borrow()).count();
            let mut looks = 0;
            while !told.load(Ordering::Relaxed) {
                // The values are read one after another: a lead that moves in between is seen twice. Not so again.
                assert!(count() < 2 || count() < 2, "two lead at once");
                looks += 1;
                std::thread::sleep(Duration::from_micros(200));
            }
            looks
        });
        Lookout { stop, thread }
    }

    pub(super) fn saw_no_two(self) {
        self.stop.store(true, Ordering::Relaxed);
        let looks = self.thread.join().expect("two led at once");
        assert!(looks > 0);
    }
}
