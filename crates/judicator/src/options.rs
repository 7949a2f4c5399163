use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{Bounds, Capacity, JudicatorState, LimitPolicy};

#[derive(Clone, Debug)]
pub struct Options {
    pub name: String,
    /// Where others reach its RPC.
    pub address: String,
    pub version: String,
    /// What it keeps its tasks in, for people to read.
    pub store: String,
    pub limits: LimitPolicy,
    /// What the executor in the same process can give to a task, if there is one. It holds until an executor has told.
    pub capacity: Option<Capacity>,
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
    /// How long it takes to scan all blobs once.
    pub scan_blobs: Duration,
    /// How long executors that are gone stay on the list.
    pub forget_executors: Duration,
    /// Who else keeps tasks; `None` where it stands alone.
    pub roster: Option<Arc<dyn Roster>>,
}

/// The judicators of a cluster, for people to look at.
#[async_trait]
pub trait Roster: fmt::Debug + Send + Sync {
    async fn judicators(&self) -> Result<Vec<JudicatorState>, String>;
}
