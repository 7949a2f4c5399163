//! Test judicators, and helpers that wait for what etcd shows of them.

use std::error::Error;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use etcd_client::Client;
use registry::Registry;
use registry::etcd::{self, EtcdAccess, LocalJudicator, NewerFormSource, RegisteredJudicator};
use supervise::ComponentFailure;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// For anything that a test waits for.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// The shortest lease that etcd grants. A busy machine may lose it, so it is for judicators that may lose their lease.
pub(super) const SHORT_LEASE: Duration = Duration::from_secs(2);

/// Longer than the pauses of a busy machine, and short enough to expire while a test waits.
pub(super) const STEADY_LEASE: Duration = Duration::from_secs(10);

/// Longer than any test.
pub(super) const LONG_LEASE: Duration = Duration::from_secs(600);

/// A judicator that registers in a test's etcd, run as a Tokio task of the test.
pub(super) struct JudicatorTask {
    pub(super) registry: Registry,
    /// The form of tasks that it does not know; 0 for none.
    pub(super) newer_form: Arc<AtomicU32>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ComponentFailure>>,
}

impl JudicatorTask {
    /// `who` is `name@address`, with an optional version after a space.
    pub(super) fn start(access: &EtcdAccess, who: &str, lease: Duration) -> JudicatorTask {
        let (name, rest) = who.split_once('@').unwrap();
        let (address, version) = rest.split_once(' ').unwrap_or((rest, "1"));
        let newer_form = Arc::new(AtomicU32::new(0));
        let form = newer_form.clone();
        let me = LocalJudicator {
            name: name.into(),
            address: address.into(),
            version: version.into(),
            newer_form: NewerFormSource::new(move || {
                Some(form.load(Ordering::SeqCst)).filter(|form| *form > 0)
            }),
        };
        let stop = CancellationToken::new();
        let (registry, task) = etcd::register(access.clone(), me, lease, stop.clone()).unwrap();
        JudicatorTask {
            registry,
            newer_form,
            stop,
            task,
        }
    }

    /// Stops it in order: it deregisters.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.task)
            .await
            .expect("the judicator does not stop")
            .unwrap()
            .unwrap();
    }

    /// Ends it without deregistering, as `kill -9` does.
    pub(super) async fn abort(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub(super) async fn wait_until_leading(&self) {
        wait_until(&self.registry.leading, "leading", |leads| *leads).await;
    }

    pub(super) async fn wait_until_not_leading(&self) {
        wait_until(&self.registry.leading, "leading", |leads| !leads).await;
    }
}

pub(super) async fn wait_until<T: Clone + Debug>(
    value: &watch::Receiver<T>,
    what: &str,
    good: impl FnMut(&T) -> bool,
) {
    let mut value = value.clone();
    let waited = tokio::time::timeout(DEADLINE, value.wait_for(good)).await.is_ok();
    assert!(waited, "{what} stays {:?}", *value.borrow());
}

/// Waits until a registry lists exactly these addresses, in any order.
pub(super) async fn wait_for_addresses(registry: &Registry, expected: &[&str]) {
    wait_until(
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

/// Retries until `ask` succeeds, as every client of etcd must: etcd may stall for a moment, or hold an election.
pub(super) async fn retry_until_ok<T>(what: &str, ask: impl AsyncFn() -> Result<T, Box<dyn Error>>) -> T {
    let mut last = None;
    let asked = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answer = tokio::time::timeout(DEADLINE, asked).await;
    answer.unwrap_or_else(|_| panic!("{what}: {last:?}"))
}

pub(super) async fn connect(access: &EtcdAccess) -> Client {
    retry_until_ok("could not connect to etcd", async || Ok(access.connect().await?)).await
}

/// Deletes a key that belongs to another process.
pub(super) async fn delete(access: &EtcdAccess, key: &str) {
    retry_until_ok("could not delete the key", async || {
        access.connect().await?.delete(key, None).await?;
        Ok(())
    })
    .await;
}

pub(super) async fn list(access: &EtcdAccess) -> Vec<RegisteredJudicator> {
    retry_until_ok("could not list the judicators", async || {
        Ok(etcd::list_judicators(access).await?)
    })
    .await
}

/// All judicators as `name@address version`, with a star for the leader.
pub(super) async fn registered(access: &EtcdAccess) -> Vec<String> {
    let show = |judicator: RegisteredJudicator| {
        let star = if judicator.leads { "*" } else { "" };
        format!(
            "{}@{} {}{star}",
            judicator.name, judicator.address, judicator.version
        )
    };
    list(access).await.into_iter().map(show).collect()
}

/// Waits until exactly these judicators are registered.
pub(super) async fn wait_for_registered(access: &EtcdAccess, expected: &[&str]) {
    wait_until_registered(access, &format!("{expected:?}"), |registered| {
        registered == expected
    })
    .await;
}

pub(super) async fn wait_until_registered(access: &EtcdAccess, what: &str, good: impl Fn(&[String]) -> bool) {
    retry_until_ok("the registered judicators", async || {
        let registered = registered(access).await;
        match good(&registered) {
            true => Ok(()),
            false => Err(format!("not {what}, but {registered:?}").into()),
        }
    })
    .await;
}

/// A thread of a registry test that checks all the time that no two judicators lead at once.
pub(super) struct LeaderMonitor {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl LeaderMonitor {
    /// Has checked once when this returns.
    pub(super) fn start(judicators: &[&JudicatorTask]) -> LeaderMonitor {
        let leading: Vec<_> = judicators
            .iter()
            .map(|judicator| judicator.registry.leading.clone())
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (checked, first_check) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let count = || leading.iter().filter(|leads| *leads.borrow()).count();
            // The values are read one after another, so a leadership that moves in between counts twice. A second
            // count rules that out.
            let check = || assert!(count() < 2 || count() < 2, "two judicators lead at once");
            check();
            drop(checked);
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(200));
                check();
            }
        });
        // Nothing is sent: the channel closes after the first check.
        let _ = first_check.recv();
        LeaderMonitor { stop, thread }
    }

    pub(super) fn assert_never_two_leaders(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("two judicators led at once");
    }
}
