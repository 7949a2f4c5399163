//! Starts the parts of a node. Every long-lived task of a process begins here. What happens when one of them, or a
//! component inside of it, panics or ends by itself stands in the table of [`supervise::Component`].
//!
//! | part | if it fails | told to stop |
//! |---|---|---|
//! | gateway | the process stops with its error | takes no more requests, answers those under way |
//! | executor | the process stops with its error | takes no more tasks, lets those that run go on for `stop_grace`, gives back the rest |
//! | rpc | the process stops with its error | calls under way are finished, streams are ended |
//! | judicator | the process stops with its error | ends its tasks, then the store closes |
//! | list of judicators | the process stops with its error | ends at once |
//! | upkeep | it is started again | ends at once |
//! | reload | the process stops with its error; what cannot be read stays as it was | ends at once |

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use executor::Contact;
use judicator::Judicator;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use model::Capacity;
use registry::Registry;
use rpc::Calls;
use store::TaskStore;
use store::sqlite::SqliteStore;
use supervise::{Component, Supervisor};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::{Folder, Part, Reload, Renewed, Secrets, open_files, options};
use crate::config::{Address, Config};

/// For what has nothing long to finish.
const PATIENCE: Duration = Duration::from_secs(5);
/// For an executor, beyond the time that its tasks have: a report may be under way, what runs is killed and cleared
/// away, and a goodbye is tried.
const FAREWELL: Duration = Duration::from_secs(10);

/// How often histograms are folded together, so that they do not grow while nobody asks for the metrics.
const UPKEEP: Duration = Duration::from_secs(5);

/// Opens the embedded store and starts a judicator over it that stands alone. Without an address, only this process
/// calls it. The capacity is that of the executor in this process, if there is one.
pub(crate) fn alone(
    config: &Config,
    folder: &Folder,
    address: Option<SocketAddr>,
    capacity: Option<Capacity>,
) -> Result<(Arc<Judicator>, Part)> {
    let options = store::sqlite::Options {
        max_attempts: config.judicator.attempts.get(),
        ..store::sqlite::Options::default()
    };
    let store = Arc::new(SqliteStore::open(&folder.store()?, options)?);
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    let registry = registry::local::alone(address.clone());
    let options = judicator::Options {
        capacity,
        ..options::judicator(config, address)
    };
    judicator(options, store, registry.leading)
}

pub(crate) fn judicator(
    options: judicator::Options,
    store: Arc<dyn TaskStore>,
    leading: watch::Receiver<bool>,
) -> Result<(Arc<Judicator>, Part)> {
    let tracker = TaskTracker::new();
    let mut judicator = None;
    let part = Part::start(Component::Judicator.name(), PATIENCE, |stop| {
        let started = Judicator::start(options, store, leading, &tracker, &stop);
        judicator = Some(Arc::clone(&started));
        async move {
            let failed = stop.run_until_cancelled(started.failure()).await;
            // Whoever uses the store holds it; it closes when all of them have let go.
            drop(started);
            if let Some(failed) = failed {
                // Without waiting for the rest of it: that the process ends is to be known at once.
                stop.cancel();
                return Err(failed.into());
            }
            tracker.close();
            tracker.wait().await;
            Ok(())
        }
    });
    let judicator = judicator.context("the judicator was not started")?;
    Ok((judicator, part))
}

pub(crate) fn rpc(listener: TcpListener, calls: Arc<dyn Calls>, secrets: &Secrets) -> Part {
    let secret = secrets.cluster.clone();
    Part::start(Component::RpcServer.name(), PATIENCE, |stop| async move {
        Ok(rpc::serve(listener, calls, secret, stop).await?)
    })
}

/// Returns when it is known that tasks can be run here, or with all that keeps them from it.
pub(crate) async fn executor(
    config: &Config,
    folder: &Folder,
    calls: Arc<dyn Calls>,
    contact: Contact,
) -> Result<Part> {
    let options = options::executor(config, folder, contact)?;
    let executor = executor::Executor::prepare(options, calls).await?;
    let patience = config.executor.stop_grace.saturating_add(FAREWELL);
    Ok(Part::start(
        Component::Executor.name(),
        patience,
        |stop| async move { Ok(executor.run(stop).await?) },
    ))
}

pub(crate) fn gateway(
    config: &Config,
    listener: TcpListener,
    calls: Arc<dyn Calls>,
    secrets: &Secrets,
    metrics: PrometheusHandle,
) -> Part {
    let mut options = options::gateway(config, secrets);
    options.max_connections = open_files::connections(&options);
    Part::start(Component::Gateway.name(), PATIENCE, |stop| async move {
        Ok(gateway::run(listener, options, calls, metrics, stop).await?)
    })
}

/// Where every crate's counts go, for the gateway to show.
pub(crate) fn metrics() -> Result<PrometheusHandle> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &gateway::SECONDS_BUCKETS)
        .context("could not set the metrics' buckets")?
        .install_recorder()
        .context("could not set up the metrics")
}

pub(crate) fn reload(reload: Reload, renewed: Renewed) -> Part {
    Part::start(Component::Reload.name(), PATIENCE, |stop| async move {
        stop.run_until_cancelled(reload.run(renewed)).await;
        Ok(())
    })
}

pub(crate) fn upkeep(metrics: PrometheusHandle) -> Part {
    Part::start(Component::MetricsUpkeep.name(), PATIENCE, |stop| async move {
        let fold = || {
            let (metrics, stop) = (metrics.clone(), stop.clone());
            async move {
                let mut turn = tokio::time::interval(UPKEEP);
                while stop.run_until_cancelled(turn.tick()).await.is_some() {
                    metrics.run_upkeep();
                }
            }
        };
        Supervisor::keep_running(Component::MetricsUpkeep, &stop, fold).await;
        Ok(())
    })
}

/// Follows in etcd which judicators there are, for a node that has none itself. To be stopped last.
pub(crate) fn judicator_list(access: registry::etcd::Access) -> Result<(Registry, Part)> {
    let mut registry = None;
    let part = Part::start(Component::JudicatorList.name(), PATIENCE, |stop| {
        let (told, followed) = registry::etcd::follow(access, stop);
        registry = Some(told);
        async move { Ok(followed.await?) }
    });
    let registry = registry.context("the list of judicators was not started")?;
    Ok((registry, part))
}

/// Carries calls to judicators that are elsewhere.
pub(crate) fn client(judicators: &[Address], secrets: &Secrets) -> rpc::Client {
    let addresses = judicators
        .iter()
        .map(|Address(address)| address.clone())
        .collect();
    rpc::Client::new(
        registry::local::given(addresses).judicators,
        secrets.cluster.clone(),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Every text that is in the sources of all crates.
    fn sources(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|end| end == "rs") {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn every_metric_in_the_documents_exists() {
        let page = include_str!("../../../../docs/single-machine.md");
        let words = page.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        let named: Vec<_> = words.filter(|word| word.starts_with("conclave_")).collect();
        assert!(named.len() >= 10, "{named:?}");
        let mut text = String::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for room in std::fs::read_dir(crates).unwrap().flatten() {
            sources(&room.path().join("src"), &mut text);
        }
        for name in named {
            assert!(
                text.contains(&format!("\"{name}\"")),
                "no metric is called {name}"
            );
        }
    }
}
