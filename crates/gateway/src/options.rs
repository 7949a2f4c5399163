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
    /// How large a task may be, as the judicator has it: told in the description of the API.
    pub bounds: model::Bounds,
    /// Tasks in one batch.
    pub max_batch: usize,
    /// A longer `?wait=` is cut to this.
    pub max_wait: Duration,
    pub max_connections: usize,
    /// Requests that wait for a task, and event streams, at one time.
    pub max_waiting: usize,
    /// Blobs, and bodies of requests that are not small, that come at one time.
    pub max_uploads: usize,
    /// Searches for a text at one time. The store queues 130 for all callers together, far more than one may have here.
    pub max_text_searches: usize,
    /// All other requests at one time.
    pub requests_in_flight: usize,
    /// How much of the connections, uploads, text searches, requests, waits and bytes one caller may have at one time, in percent. A caller
    /// is a token's user; without tokens, an IP address.
    pub share: u32,
    /// Bodies, unpacked zips and answers in memory at one time.
    pub max_bytes: u64,
    /// Bytes per second that a client has to send of a body, or take of an answer, at least.
    pub min_rate: u64,
    /// How long a body may come more slowly than that.
    pub body_stall: Duration,
    /// How long an answer may be taken more slowly than that.
    pub answer_stall: Duration,
    /// Zips that are unpacked at one time.
    pub unpackers: usize,
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
            bounds: model::Bounds::default(),
            max_batch: 10_000,
            max_wait: Duration::from_secs(60),
            max_connections: 10_000,
            max_waiting: 8192,
            max_uploads: 512,
            max_text_searches: 32,
            requests_in_flight: 512,
            share: 50,
            max_bytes: 256 << 20,
            min_rate: 1 << 10,
            body_stall: Duration::from_secs(10),
            answer_stall: Duration::from_secs(30),
            unpackers: 2,
            max_unpacked: 256 << 20,
            inline_limit: 32 << 10,
            metrics: MetricsAccess::Open,
            tokens: None,
            version: env!("CARGO_PKG_VERSION").to_string(),
        }
    }
}
