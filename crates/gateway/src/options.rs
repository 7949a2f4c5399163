//! Options of the gateway.

use std::collections::BTreeSet;
use std::time::Duration;

use model::UserName;

use crate::Tokens;

/// A gateway option: who may read the Prometheus metrics at `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsAccess {
    Open,
    /// Every caller with a valid token.
    Token,
    Off,
}

/// The options of a gateway: limits on requests, uploads and slow clients, tokens, and access to the metrics. Sizes are
/// in bytes.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The largest request body, except for blobs.
    pub max_body: u64,
    pub max_blob: u64,
    /// The limits on the size of a task that the judicator enforces. The gateway only shows them in the OpenAPI document.
    pub task_size_limits: model::TaskSizeLimits,
    /// The judicator's default limits. The gateway only shows them in the form that adds a task.
    pub limits: model::LimitPolicy,
    /// Tasks in one batch.
    pub max_batch: usize,
    /// A longer `?wait=` is reduced to this.
    pub max_wait: Duration,
    pub max_connections: usize,
    /// Concurrent event streams and requests that wait for a task.
    pub max_waiting: usize,
    /// Concurrent uploads of blobs and of request bodies that are not small.
    pub max_uploads: usize,
    /// Concurrent text searches. A store queues up to 130, far more than one caller may have here.
    pub max_text_searches: usize,
    /// Concurrent requests of all other kinds.
    pub max_requests: usize,
    /// The percentage of each of these limits that one caller may use. A caller is a token's user or, without tokens, an
    /// IP address.
    pub caller_share_percent: u32,
    /// Bytes of request bodies, unpacked zips and responses in memory.
    pub max_buffered_bytes: u64,
    /// The minimum rate at which a client must send a request body and read a response.
    pub min_bytes_per_second: u64,
    /// How long a request body may be slower than that.
    pub body_stall_timeout: Duration,
    /// How long a client may read a response more slowly than that.
    pub response_stall_timeout: Duration,
    /// Zips that are unpacked concurrently.
    pub max_unzips: usize,
    /// The limit for the unpacked size of all zips of one request.
    pub max_unpacked: u64,
    /// Larger files and inputs are stored as blobs instead of inside the task.
    pub inline_limit: u64,
    pub metrics: MetricsAccess,
    /// Without tokens, every client may do everything.
    pub tokens: Option<Tokens>,
    /// How long a sign-in with a browser is valid.
    pub sign_in_time: Duration,
    /// With tokens: the users who may operate the cluster, and see the tasks of all users.
    pub operators: BTreeSet<UserName>,
    pub version: String,
}

impl Default for GatewayOptions {
    fn default() -> GatewayOptions {
        GatewayOptions {
            max_body: 64 << 20,
            max_blob: 1 << 30,
            task_size_limits: model::TaskSizeLimits::default(),
            limits: model::LimitPolicy::default(),
            max_batch: 10_000,
            max_wait: Duration::from_secs(60),
            max_connections: 10_000,
            max_waiting: 8192,
            max_uploads: 512,
            max_text_searches: 32,
            max_requests: 512,
            caller_share_percent: 50,
            max_buffered_bytes: 256 << 20,
            min_bytes_per_second: 1 << 10,
            body_stall_timeout: Duration::from_secs(10),
            response_stall_timeout: Duration::from_secs(30),
            max_unzips: 2,
            max_unpacked: 256 << 20,
            inline_limit: 32 << 10,
            metrics: MetricsAccess::Open,
            tokens: None,
            sign_in_time: Duration::from_secs(12 * 60 * 60),
            operators: BTreeSet::new(),
            version: env!("CARGO_PKG_VERSION").to_string(),
        }
    }
}
