//! The long-lived parts of a process: started in one place, stopped one after the other.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::signals::Signals;

/// Something that runs until it is told to stop. If it ends before, the whole process stops with its error.
pub(crate) struct Part {
    name: &'static str,
    stop: CancellationToken,
    /// How long it may take to stop before the next part is stopped all the same.
    patience: Duration,
    task: JoinHandle<Result<()>>,
}

impl Part {
    pub(crate) fn start<F>(
        name: &'static str,
        patience: Duration,
        run: impl FnOnce(CancellationToken) -> F,
    ) -> Part
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(stop.clone()));
        Part {
            name,
            stop,
            patience,
            task,
        }
    }

    async fn stop(self) -> Result<()> {
        let Part {
            name,
            stop,
            patience,
            task,
        } = self;
        stop.cancel();
        match tokio::time::timeout(patience, task).await {
            Ok(ended) => outcome(name, ended),
            Err(_) => {
                warn!("{name} did not stop within {patience:?}; going on without it");
                Ok(())
            }
        }
    }
}

/// After a failure the process is to start again soon: nobody is given the time of an orderly stop.
const PATIENCE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// In the order in which they stop.
pub(crate) struct Parts(pub(crate) Vec<Part>);

impl Parts {
    /// Until the first signal, or until a part ends; then stops all of them in their order, or after a failure in the
    /// opposite one: the gateway comes last then, and says to everyone who asks why the node is not ready.
    pub(crate) async fn run(self, mut signals: Signals) -> Result<()> {
        let Parts(mut parts) = self;
        let tasks = parts.iter_mut().map(|part| &mut part.task);
        let failed = tokio::select! {
            (signal, _) = signals.next() => {
                info!("{signal}: stopping; a second signal stops at once");
                None
            }
            (ended, index, _) = futures::future::select_all(tasks) => Some((ended, index)),
        };
        let first = failed.map(|(ended, index)| {
            let part = parts.remove(index);
            outcome(part.name, ended).and_then(|()| Err(anyhow!("{} ended by itself", part.name)))
        });
        if let Some(Err(error)) = &first {
            error!("stopping, because {error:#}");
            parts.reverse();
            for part in &mut parts {
                part.patience = part.patience.min(PATIENCE_AFTER_FAILURE);
            }
        }
        // Whatever hangs, the operator has the last word.
        tokio::spawn(async move {
            let (signal, number) = signals.next().await;
            warn!("{signal} again: stopping at once");
            std::process::exit(128 + number);
        });
        let mut result = first.unwrap_or(Ok(()));
        for part in parts {
            let stopped = part.stop().await;
            result = result.and(stopped);
        }
        result
    }
}

fn outcome(name: &str, ended: Result<Result<()>, tokio::task::JoinError>) -> Result<()> {
    ended
        .map_err(|error| anyhow!(error))
        .and_then(|result| result)
        .with_context(|| format!("{name} failed"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);

    fn recording(name: &'static str, log: &Arc<Mutex<Vec<&'static str>>>) -> Part {
        let log = Arc::clone(log);
        Part::start(name, PATIENCE, |stop| async move {
            stop.cancelled().await;
            log.lock().unwrap().push(name);
            Ok(())
        })
    }

    #[tokio::test]
    async fn a_failure_stops_the_others_in_order_and_is_told() {
        let log = Arc::default();
        let parts = Parts(vec![
            recording("gateway", &log),
            Part::start("executor", PATIENCE, |_| async { Err(anyhow!("no disk")) }),
            recording("judicator", &log),
        ]);
        let error = parts.run(Signals::listen().unwrap()).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "executor failed: no disk");
        // The gateway has said until the end why the node is not ready.
        assert_eq!(*log.lock().unwrap(), ["judicator", "gateway"]);
    }

    #[tokio::test]
    async fn a_part_that_hangs_does_not_keep_the_others() {
        let log = Arc::default();
        let parts = Parts(vec![
            Part::start("ends", PATIENCE, |_| async { Ok(()) }),
            Part::start("hangs", PATIENCE, |_| std::future::pending()),
            recording("judicator", &log),
        ]);
        let error = parts.run(Signals::listen().unwrap()).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "ends ended by itself");
        assert_eq!(*log.lock().unwrap(), ["judicator"]);
    }
}
