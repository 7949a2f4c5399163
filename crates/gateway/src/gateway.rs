//! What every request is handed.

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use model::BlobHash;
use rpc::{CallError, Calls};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::Options;

pub(crate) struct Gateway {
    pub(crate) options: Options,
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) stop: CancellationToken,
    /// The name of this machine, where it can be told.
    pub(crate) machine: Option<String>,
    /// Places for requests that are answered as soon as can be.
    pub(crate) in_flight: Arc<Semaphore>,
    /// Places for requests that wait for a task.
    pub(crate) waiting: Arc<Semaphore>,
    /// The zips of a request may grow to `max_unpacked` in memory: only so many such requests at one time.
    pub(crate) unpacking: Semaphore,
}

const UNPACKING: usize = 2;

impl Gateway {
    /// How large the blob is, which must exist.
    pub(crate) async fn blob_size(&self, hash: BlobHash) -> Result<u64, CallError> {
        let sizes = self.calls.has_blobs(vec![hash]).await?;
        sizes.into_iter().flatten().next().ok_or(CallError::NoBlob(hash))
    }

    pub(crate) fn new(
        options: Options,
        calls: Arc<dyn Calls>,
        metrics: PrometheusHandle,
        stop: CancellationToken,
    ) -> Arc<Gateway> {
        Arc::new(Gateway {
            in_flight: Arc::new(Semaphore::new(options.requests_in_flight)),
            waiting: Arc::new(Semaphore::new(options.max_waiting)),
            unpacking: Semaphore::new(UNPACKING),
            machine: machine(),
            options,
            calls,
            metrics,
            stop,
        })
    }
}

fn machine() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_string()).filter(|name| !name.is_empty())
}
