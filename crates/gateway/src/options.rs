use std::time::Duration;

use crate::Tokens;

/// Who may read `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsAccess {
    Open,
    /// Everyone who has a token.
    Token,
    Off,
}

/// Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Options {
    /// The largest body of a request, blobs apart.
    pub max_body: u64,
    pub max_blob: u64,
    /// Tasks in one batch.
    pub max_batch: usize,
    /// A longer `?wait=` is cut to this.
    pub max_wait: Duration,
    pub max_connections: usize,
    /// Requests that wait for a task, and event streams, at one time.
    pub max_waiting: usize,
    /// All other requests at one time.
    pub requests_in_flight: usize,
    /// What the zips of one request may hold, all files together.
    pub max_unpacked: u64,
    /// Larger files and inputs travel as blobs beside their task, not in it.
    pub inline_limit: u64,
    pub metrics: MetricsAccess,
    /// Who may call; without, everyone may do everything.
    pub tokens: Option<Tokens>,
    pub version: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_body: 64 << 20,
            max_blob: 1 << 30,
            max_batch: 10_000,
            max_wait: Duration::from_secs(60),
            max_connections: 10_000,
            max_waiting: 4096,
            requests_in_flight: 256,
            max_unpacked: 256 << 20,
            inline_limit: 32 << 10,
            metrics: MetricsAccess::Open,
            tokens: None,
            version: env!("CARGO_PKG_VERSION").to_string(),
        }
    }
}
