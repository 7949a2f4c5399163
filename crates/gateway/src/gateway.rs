//! The state that all requests share.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use metrics_exporter_prometheus::PrometheusHandle;
use model::BlobHash;
use rpc::{CallError, Calls};
use tokio_util::sync::CancellationToken;

use crate::GatewayOptions;
use crate::min_rate::MinTransferRate;
use crate::pages::RenderedDocs;
use crate::quota_pool::{LimitedResource, QuotaPool};
use crate::{pages, sign_in, task_loading};

/// The state that all HTTP requests to a gateway share: options, calls to the judicator, and quota pools.
pub(crate) struct Gateway {
    pub(crate) options: GatewayOptions,
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) stop: CancellationToken,
    /// The host name of this machine, if it is known.
    pub(crate) host_name: Option<String>,
    /// Permits for requests that do not wait for a task.
    pub(crate) requests: Arc<QuotaPool>,
    /// Permits for bodies while they arrive, so that slow clients take no permits from requests that can be processed.
    pub(crate) uploads: Arc<QuotaPool>,
    /// Permits for text searches.
    pub(crate) text_searches: Arc<QuotaPool>,
    /// Permits for requests that wait for a task.
    pub(crate) waiting: Arc<QuotaPool>,
    /// Bytes of request bodies, unpacked zips and responses in memory.
    pub(crate) bytes: Arc<QuotaPool>,
    /// Permits for unpacking zips, each of which uses a CPU core.
    pub(crate) unpacking: Arc<QuotaPool>,
    /// Permits for tasks that are loaded and written as JSON.
    pub(crate) loading: Arc<QuotaPool>,
    /// Permits for pages with tables of many tasks, each of which is loaded with a permit of its own.
    pub(crate) tables: Arc<QuotaPool>,
    pub(crate) connections: Arc<QuotaPool>,
    /// Permits for sign-ins. One whose token is not valid holds its permit for a while, which bounds guesses.
    pub(crate) sign_ins: Arc<QuotaPool>,
    /// The OpenAPI document, created at the first request for it.
    pub(crate) openapi_json: OnceLock<Bytes>,
    /// The content of `/api/docs`, created at the first request for it.
    pub(crate) rendered_docs: OnceLock<RenderedDocs>,
}

impl Gateway {
    /// The size of a blob. Fails if the blob does not exist.
    pub(crate) async fn blob_size(&self, hash: BlobHash) -> Result<u64, CallError> {
        let sizes = self.calls.has_blobs(vec![hash]).await?;
        sizes.into_iter().flatten().next().ok_or(CallError::NoBlob(hash))
    }

    pub(crate) fn min_body_rate(&self) -> MinTransferRate {
        MinTransferRate {
            bytes_per_second: self.options.min_bytes_per_second,
            window: self.options.body_stall_timeout,
        }
    }

    pub(crate) fn min_response_rate(&self) -> MinTransferRate {
        MinTransferRate {
            bytes_per_second: self.options.min_bytes_per_second,
            window: self.options.response_stall_timeout,
        }
    }

    pub(crate) fn new(
        options: GatewayOptions,
        calls: Arc<dyn Calls>,
        metrics: PrometheusHandle,
        stop: CancellationToken,
    ) -> Arc<Gateway> {
        let pool = |resource, total| QuotaPool::new(resource, total, options.caller_share_percent);
        Arc::new(Gateway {
            requests: pool(LimitedResource::Requests, options.max_requests as u64),
            uploads: pool(LimitedResource::Uploads, options.max_uploads as u64),
            text_searches: pool(LimitedResource::TextSearches, options.max_text_searches as u64),
            waiting: pool(LimitedResource::Waiting, options.max_waiting as u64),
            bytes: pool(LimitedResource::Bytes, options.max_buffered_bytes),
            unpacking: pool(LimitedResource::Unpacking, options.max_unzips as u64),
            // Without a limit for one caller: each permit is held for a moment only, and callers take turns.
            loading: QuotaPool::new(LimitedResource::Loading, task_loading::MAX_LOADING_TASKS, 100),
            tables: QuotaPool::new(LimitedResource::Loading, pages::MAX_TABLES, 100),
            connections: pool(LimitedResource::Connections, options.max_connections as u64),
            sign_ins: sign_in::guess_pool(options.caller_share_percent),
            openapi_json: OnceLock::new(),
            rendered_docs: OnceLock::new(),
            host_name: host_name(),
            options,
            calls,
            metrics,
            stop,
        })
    }
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_string()).filter(|name| !name.is_empty())
}
