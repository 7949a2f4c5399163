//! What every request is handed.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use metrics_exporter_prometheus::PrometheusHandle;
use model::BlobHash;
use rpc::{CallError, Calls};
use tokio_util::sync::CancellationToken;

use crate::Options;
use crate::loaded;
use crate::pace::LeastRate;
use crate::pool::{Pool, Resource};

pub(crate) struct Gateway {
    pub(crate) options: Options,
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) stop: CancellationToken,
    /// The name of this machine, where it can be told.
    pub(crate) machine: Option<String>,
    /// Places for requests that are answered as soon as can be.
    pub(crate) in_flight: Arc<Pool>,
    /// Places for bodies while they come, so that slow senders take no place from requests that can be answered.
    pub(crate) uploads: Arc<Pool>,
    /// Searches for a text that wait for the store or are under way there.
    pub(crate) text_searches: Arc<Pool>,
    /// Places for requests that wait for a task.
    pub(crate) waiting: Arc<Pool>,
    /// Bytes of bodies, unpacked zips and answers in memory.
    pub(crate) bytes: Arc<Pool>,
    /// Unpacking takes a core for as long as it lasts.
    pub(crate) unpacking: Arc<Pool>,
    /// Tasks that are being read and written as JSON.
    pub(crate) loading: Arc<Pool>,
    pub(crate) connections: Arc<Pool>,
    /// The API's description, made when somebody first asks for it.
    pub(crate) openapi_json: OnceLock<Bytes>,
    pub(crate) docs_page: OnceLock<String>,
}

impl Gateway {
    /// How large the blob is, which must exist.
    pub(crate) async fn blob_size(&self, hash: BlobHash) -> Result<u64, CallError> {
        let sizes = self.calls.has_blobs(vec![hash]).await?;
        sizes.into_iter().flatten().next().ok_or(CallError::NoBlob(hash))
    }

    pub(crate) fn body_rate(&self) -> LeastRate {
        LeastRate {
            bytes_per_second: self.options.min_rate,
            window: self.options.body_stall,
        }
    }

    pub(crate) fn answer_rate(&self) -> LeastRate {
        LeastRate {
            bytes_per_second: self.options.min_rate,
            window: self.options.answer_stall,
        }
    }

    pub(crate) fn new(
        options: Options,
        calls: Arc<dyn Calls>,
        metrics: PrometheusHandle,
        stop: CancellationToken,
    ) -> Arc<Gateway> {
        let pool = |resource, total| Pool::new(resource, total, options.share);
        Arc::new(Gateway {
            in_flight: pool(Resource::Requests, options.requests_in_flight as u64),
            uploads: pool(Resource::Uploads, options.max_uploads as u64),
            text_searches: pool(Resource::TextSearches, options.max_text_searches as u64),
            waiting: pool(Resource::Waiting, options.max_waiting as u64),
            bytes: pool(Resource::Bytes, options.max_bytes),
            unpacking: pool(Resource::Unpacking, options.unpackers as u64),
            // No share: each has its place for a moment only, and accounts take turns.
            loading: Pool::new(Resource::Loading, loaded::AT_ONCE, 100),
            connections: pool(Resource::Connections, options.max_connections as u64),
            openapi_json: OnceLock::new(),
            docs_page: OnceLock::new(),
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
