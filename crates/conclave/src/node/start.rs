//! Starts the components of a node. Every long-lived task of the process starts here. The table of [`supervise::Component`]
//! says what happens when one of them, or a part of it, panics or ends unexpectedly.
//!
//! | component | if it fails | when it is stopped |
//! |---|---|---|
//! | gateway | the process stops with its error | accepts no more requests, finishes those in progress |
//! | executor | the process stops with its error | accepts no more tasks, lets running ones continue for `stop_grace`, returns the rest |
//! | rpc | the process stops with its error | finishes calls in progress, ends streams |
//! | judicator | the process stops with its error | ends its background tasks, then the store closes |
//! | list of judicators | the process stops with its error | ends at once |
//! | metrics upkeep | it is restarted | ends at once |
//! | reload | the process stops with its error; a file that cannot be read keeps its old value | ends at once |

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use executor::JudicatorLocation;
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

use super::{
    NodeComponent, NodeFolder, NodeSecrets, ReloadOnHangup, ReloadedFiles, check_configured_roots,
    open_files, options,
};
use crate::config::{Config, HostPort};

/// Stop timeout of components that have no long work to finish.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Stop timeout of an executor beyond `stop_grace`: time to finish a report in progress, to kill and clean up running tasks, and
/// to send a last report.
const EXECUTOR_STOP_MARGIN: Duration = Duration::from_secs(10);

/// How often the recorder compacts its histograms, which would otherwise grow while no client reads the metrics.
const METRICS_UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Opens the embedded store and starts a single judicator with it. `address` is `None` if only this process calls it. `capacity`
/// is that of the executor in this process, if there is one.
pub(crate) fn single_judicator(
    config: &Config,
    folder: &NodeFolder,
    address: Option<SocketAddr>,
    capacity: Option<Capacity>,
) -> Result<(Arc<Judicator>, NodeComponent)> {
    let options = store::sqlite::SqliteStoreOptions {
        max_attempts: config.judicator.attempts.get(),
        ..store::sqlite::SqliteStoreOptions::default()
    };
    let store = Arc::new(SqliteStore::open(&folder.store_folder()?, options)?);
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    let registry = registry::local::single_judicator(address.clone());
    let options = judicator::JudicatorOptions {
        capacity,
        ..options::judicator(config, address)?
    };
    judicator(options, store, registry.leading)
}

pub(crate) fn judicator(
    options: judicator::JudicatorOptions,
    store: Arc<dyn TaskStore>,
    leading: watch::Receiver<bool>,
) -> Result<(Arc<Judicator>, NodeComponent)> {
    let tracker = TaskTracker::new();
    let mut judicator = None;
    let component = NodeComponent::start(Component::Judicator.name(), STOP_TIMEOUT, |stop| {
        let started = Judicator::start(options, store, leading, &tracker, &stop);
        judicator = Some(Arc::clone(&started));
        async move {
            let failure = stop.run_until_cancelled(started.failure()).await;
            // The store closes when its last user is dropped.
            drop(started);
            if let Some(failure) = failure {
                // Does not wait for the background tasks, so that the process ends soon.
                stop.cancel();
                return Err(failure.into());
            }
            tracker.close();
            tracker.wait().await;
            Ok(())
        }
    });
    let judicator = judicator.context("could not start the judicator")?;
    Ok((judicator, component))
}

pub(crate) fn rpc(listener: TcpListener, calls: Arc<dyn Calls>, secrets: &NodeSecrets) -> NodeComponent {
    let secret = secrets.cluster.clone();
    NodeComponent::start(Component::RpcServer.name(), STOP_TIMEOUT, |stop| async move {
        Ok(rpc::serve(listener, calls, secret, stop).await?)
    })
}

/// Prepares the executor and starts it. The error lists everything that prevents tasks from running on this machine.
pub(crate) async fn executor(
    config: &Config,
    folder: &NodeFolder,
    calls: Arc<dyn Calls>,
    judicator_location: JudicatorLocation,
) -> Result<NodeComponent> {
    check_configured_roots(config)?;
    let options = options::executor(config, folder, judicator_location)?;
    let executor = executor::ExecutorService::prepare(options, calls).await?;
    let stop_timeout = config.executor.stop_grace.saturating_add(EXECUTOR_STOP_MARGIN);
    Ok(NodeComponent::start(
        Component::Executor.name(),
        stop_timeout,
        |stop| async move { Ok(executor.run(stop).await?) },
    ))
}

pub(crate) fn gateway(
    config: &Config,
    listener: TcpListener,
    calls: Arc<dyn Calls>,
    secrets: &NodeSecrets,
    metrics: PrometheusHandle,
) -> NodeComponent {
    let mut options = options::gateway(config, secrets);
    options.max_connections = open_files::max_connections(&options);
    NodeComponent::start(Component::Gateway.name(), STOP_TIMEOUT, |stop| async move {
        Ok(gateway::run(listener, options, calls, metrics, stop).await?)
    })
}

/// Installs the recorder for the metrics of all crates. The gateway serves them.
pub(crate) fn metrics() -> Result<PrometheusHandle> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &gateway::DURATION_BUCKETS)
        .context("could not set the histogram buckets")?
        .install_recorder()
        .context("could not install the metrics recorder")
}

pub(crate) fn reload(reload: ReloadOnHangup, files: ReloadedFiles) -> NodeComponent {
    NodeComponent::start(Component::Reload.name(), STOP_TIMEOUT, |stop| async move {
        stop.run_until_cancelled(reload.run(files)).await;
        Ok(())
    })
}

pub(crate) fn metrics_upkeep(metrics: PrometheusHandle) -> NodeComponent {
    NodeComponent::start(Component::MetricsUpkeep.name(), STOP_TIMEOUT, |stop| async move {
        let upkeep = || {
            let (metrics, stop) = (metrics.clone(), stop.clone());
            async move {
                let mut interval = tokio::time::interval(METRICS_UPKEEP_INTERVAL);
                while stop.run_until_cancelled(interval.tick()).await.is_some() {
                    metrics.run_upkeep();
                }
            }
        };
        Supervisor::run_restarting(Component::MetricsUpkeep, &stop, upkeep).await;
        Ok(())
    })
}

/// Follows the list of judicators in etcd, for executors and gateways. Must be stopped last.
pub(crate) fn judicator_list(access: registry::etcd::EtcdAccess) -> Result<(Registry, NodeComponent)> {
    let mut registry = None;
    let component = NodeComponent::start(Component::JudicatorList.name(), STOP_TIMEOUT, |stop| {
        let (started, follower) = registry::etcd::follow(access, stop);
        registry = Some(started);
        async move { Ok(follower.await?) }
    });
    let registry = registry.context("could not start the list of judicators")?;
    Ok((registry, component))
}

/// A client for judicators at fixed addresses.
pub(crate) fn rpc_client(judicators: &[HostPort], secrets: &NodeSecrets) -> rpc::RpcClient {
    let addresses = judicators
        .iter()
        .map(|HostPort(address)| address.clone())
        .collect();
    rpc::RpcClient::new(
        registry::local::fixed_judicators(addresses).judicators,
        secrets.cluster.clone(),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Appends the text of all source files below a folder.
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
    fn every_documented_metric_exists() {
        let page = include_str!("../../../../docs/single-machine.md");
        let words = page.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        let named: Vec<_> = words.filter(|word| word.starts_with("conclave_")).collect();
        assert!(named.len() >= 10, "{named:?}");
        let mut text = String::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for crate_folder in std::fs::read_dir(crates).unwrap().flatten() {
            sources(&crate_folder.path().join("src"), &mut text);
        }
        for name in named {
            assert!(text.contains(&format!("\"{name}\"")), "there is no metric {name}");
        }
    }
}
