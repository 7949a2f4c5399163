//! Judicators that are registered, and what is seen of them.

use std::error::Error;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use etcd_client::Client;
use registry::Registry;
use registry::etcd::{self, Access, JudicatorSeen, Me};
use supervise::ComponentFailed;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// For what has to happen at some time.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// The shortest lease that etcd grants. A busy machine may well lose it, so it is for those who may lose it.
pub(super) const SHORT: Duration = Duration::from_secs(2);

/// Outlasts the pauses of a busy machine, and still ends while a test waits.
pub(super) const STEADY: Duration = Duration::from_secs(10);

/// So long that no test lives to see its end.
pub(super) const LONG: Duration = Duration::from_secs(600);

pub(super) struct Judicator {
    pub(super) registry: Registry,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ComponentFailed>>,
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
        let (registry, task) = etcd::register(access.clone(), me, lease, stop.clone()).unwrap();
        Judicator { registry, stop, task }
    }

    /// In order.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.task)
            .await
            .expect("it does not stop")
            .unwrap()
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

/// Asks until there is an answer, as every client of etcd has to: it may stand still for a moment, or elect.
pub(super) async fn insist<T>(what: &str, ask: impl AsyncFn() -> Result<T, Box<dyn Error>>) -> T {
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

pub(super) async fn reached(access: &Access) -> Client {
    insist("etcd is not reached", async || Ok(access.connect().await?)).await
}

/// Behind the back of whoever has it.
pub(super) async fn delete(access: &Access, key: &str) {
    insist("not deleted", async || {
        access.connect().await?.delete(key, None).await?;
        Ok(())
    })
    .await;
}

pub(super) async fn seen(access: &Access) -> Vec<JudicatorSeen> {
    insist("no roster", async || Ok(etcd::roster(access).await?)).await
}

/// Everybody as `name@address version`, with a star where it leads.
pub(super) async fn roster(access: &Access) -> Vec<String> {
    let told = |seen: JudicatorSeen| {
        let star = if seen.leads { "*" } else { "" };
        format!("{}@{} {}{star}", seen.name, seen.address, seen.version)
    };
    seen(access).await.into_iter().map(told).collect()
}

/// Waits until the roster is this.
pub(super) async fn becomes(access: &Access, expected: &[&str]) {
    becomes_such(access, &format!("{expected:?}"), |roster| roster == expected).await;
}

pub(super) async fn becomes_such(access: &Access, what: &str, good: impl Fn(&[String]) -> bool) {
    insist("the roster", async || {
        let roster = roster(access).await;
        match good(&roster) {
            true => Ok(()),
            false => Err(format!("not {what}, but {roster:?}").into()),
        }
    })
    .await;
}

/// Looks all the time whether two lead at once.
pub(super) struct Lookout {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Lookout {
    /// Has looked once when this returns.
    pub(super) fn over(judicators: &[&Judicator]) -> Lookout {
        let leading: Vec<_> = judicators
            .iter()
            .map(|judicator| judicator.registry.leading.clone())
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let (looked, first_look) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let count = || leading.iter().filter(|leads| *leads.borrow()).count();
            // The values are read one after another: a lead that moves in between is seen twice. Not so again.
            let look = || assert!(count() < 2 || count() < 2, "two lead at once");
            look();
            drop(looked);
            while !told.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(200));
                look();
            }
        });
        // Nothing is ever sent: it ends with the first look.
        let _ = first_look.recv();
        Lookout { stop, thread }
    }

    pub(super) fn saw_no_two(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("two led at once");
    }
}
