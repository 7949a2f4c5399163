//! The long-lived components of a node's process, which are stopped one after the other.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::signals::StopSignals;

/// A long-lived Tokio task of a node's process, such as the gateway, that runs until it is stopped. If it ends before,
/// the whole process stops with its error.
pub(crate) struct NodeComponent {
    name: &'static str,
    stop: CancellationToken,
    /// How long it may take to stop before the next component is stopped anyway.
    stop_timeout: Duration,
    task: JoinHandle<Result<()>>,
}

impl NodeComponent {
    pub(crate) fn start<F>(
        name: &'static str,
        stop_timeout: Duration,
        run: impl FnOnce(CancellationToken) -> F,
    ) -> NodeComponent
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "every component is awaited by `run`")]
        let task = tokio::spawn(run(stop.clone()));
        NodeComponent {
            name,
            stop,
            stop_timeout,
            task,
        }
    }

    async fn stop(self) -> Result<()> {
        let NodeComponent {
            name,
            stop,
            stop_timeout,
            task,
        } = self;
        stop.cancel();
        match tokio::time::timeout(stop_timeout, task).await {
            Ok(ended) => component_result(name, ended),
            Err(_) => {
                warn!("{name} did not stop within {stop_timeout:?}; continuing without it");
                Ok(())
            }
        }
    }
}

/// Upper bound of each stop timeout after a failure, so that the process is restarted soon.
const STOP_TIMEOUT_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The long-lived Tokio tasks of a node's process, such as judicator and gateway, in the order in which they stop.
pub(crate) struct NodeComponents(pub(crate) Vec<NodeComponent>);

impl NodeComponents {
    /// Waits for the first signal or until a component ends, then stops all components. After a failure it stops them in reverse
    /// order, so that the gateway is last and keeps answering readiness checks with the reason.
    pub(crate) async fn run(self, mut signals: StopSignals) -> Result<()> {
        let NodeComponents(mut components) = self;
        let tasks = components.iter_mut().map(|component| &mut component.task);
        let failed = tokio::select! {
            (signal, _) = signals.next() => {
                info!(signal, "stopping; a second signal stops at once");
                None
            }
            (ended, index, _) = futures::future::select_all(tasks) => Some((ended, index)),
        };
        let first = failed.map(|(ended, index)| {
            let component = components.remove(index);
            component_result(component.name, ended)
                .and_then(|()| Err(anyhow!("{} ended unexpectedly", component.name)))
        });
        if let Some(Err(error)) = &first {
            error!("stopping: {error:#}");
            components.reverse();
            for component in &mut components {
                component.stop_timeout = component.stop_timeout.min(STOP_TIMEOUT_AFTER_FAILURE);
            }
        }
        // A second signal ends the process even if a component hangs.
        #[expect(clippy::disallowed_methods, reason = "ends with the process")]
        tokio::spawn(async move {
            let (signal, number) = signals.next().await;
            warn!(signal, "second signal; stopping at once");
            std::process::exit(128 + number);
        });
        let mut result = first.unwrap_or(Ok(()));
        for component in components {
            let stopped = component.stop().await;
            result = result.and(stopped);
        }
        result
    }
}

fn component_result(name: &str, ended: Result<Result<()>, tokio::task::JoinError>) -> Result<()> {
    ended
        .map_err(|error| anyhow!(error))
        .and_then(|result| result)
        .with_context(|| format!("{name} failed"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const STOP_TIMEOUT: Duration = Duration::from_millis(100);

    /// A component that logs its name when it is stopped.
    fn recording(name: &'static str, log: &Arc<Mutex<Vec<&'static str>>>) -> NodeComponent {
        let log = Arc::clone(log);
        NodeComponent::start(name, STOP_TIMEOUT, |stop| async move {
            stop.cancelled().await;
            log.lock().unwrap().push(name);
            Ok(())
        })
    }

    #[tokio::test]
    async fn a_failure_stops_the_others_in_reverse_order_and_is_returned() {
        let log = Arc::default();
        let components = NodeComponents(vec![
            recording("gateway", &log),
            NodeComponent::start("executor", STOP_TIMEOUT, |_| async { Err(anyhow!("no disk")) }),
            recording("judicator", &log),
        ]);
        let error = components.run(StopSignals::listen().unwrap()).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "executor failed: no disk");
        // The gateway is last, so that it answers readiness checks until the end.
        assert_eq!(*log.lock().unwrap(), ["judicator", "gateway"]);
    }

    #[tokio::test]
    async fn a_component_that_hangs_does_not_block_the_others() {
        let log = Arc::default();
        let components = NodeComponents(vec![
            NodeComponent::start("ends", STOP_TIMEOUT, |_| async { Ok(()) }),
            NodeComponent::start("hangs", STOP_TIMEOUT, |_| std::future::pending()),
            recording("judicator", &log),
        ]);
        let error = components.run(StopSignals::listen().unwrap()).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "ends ended unexpectedly");
        assert_eq!(*log.lock().unwrap(), ["judicator"]);
    }
}
