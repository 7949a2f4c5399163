use std::time::Duration;

use model::{Bounds, LimitPolicy};

#[derive(Clone, Debug)]
pub struct Options {
    pub name: String,
    /// Where others reach its RPC.
    pub address: String,
    pub version: String,
    /// What it keeps its tasks in, for people to read.
    pub store: String,
    pub limits: LimitPolicy,
    pub bounds: Bounds,
    /// The largest blob, in bytes.
    pub max_blob: u64,
    /// How long an executor may be silent.
    pub lease: Duration,
    /// How much longer the leader waits before it believes that.
    pub grace: Duration,
    /// How long done tasks are kept; `None` for ever.
    pub keep_done: Option<Duration>,
    /// How long blobs are kept that no task uses.
    pub keep_blobs: Duration,
    /// How long executors that are gone stay on the list.
    pub forget_executors: Duration,
}
