//! What a judicator is configured with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use model::{Capacity, JudicatorState, LanguageTable, LimitPolicy, TaskSizeLimits};

/// The configuration of one judicator: its name and address, limits for tasks, leases and retention.
#[derive(Clone, Debug)]
pub struct JudicatorOptions {
    pub name: String,
    /// The address of its RPC server, as other nodes reach it.
    pub address: String,
    pub version: String,
    /// The kind of its store, for people to read.
    pub store: String,
    pub limits: LimitPolicy,
    /// The language table.
    pub languages: LanguageTable,
    /// What the executor in the same process can give to a task, if there is one. It applies until an executor has
    /// reported its capacity.
    pub capacity: Option<Capacity>,
    pub task_size_limits: TaskSizeLimits,
    /// How many attempts of a task may be lost before it ends as `system_error`, if the task does not say it.
    pub attempts: u32,
    /// The most attempts that a task may ask for.
    pub max_attempts: u32,
    /// The largest blob, in bytes.
    pub max_blob: u64,
    /// The lease of an executor's session: how long the executor may be silent.
    pub lease: Duration,
    /// How much longer than the lease the leader waits before it ends a silent session.
    pub grace: Duration,
    /// How long done tasks are kept; `None` for ever.
    pub keep_done: Option<Duration>,
    /// How long blobs are kept that no task uses.
    pub keep_blobs: Duration,
    /// How long one scan of all blobs takes.
    pub scan_blobs: Duration,
    /// How long executors that are gone stay on the list.
    pub forget_executors: Duration,
    /// Lists all judicators of the cluster; `None` for a judicator that is alone.
    pub list_judicators: Option<JudicatorLister>,
}

/// A function that lists the judicators of a cluster, for people to read. The process provides it, because the list
/// comes from etcd and MongoDB, which this crate does not know.
#[derive(Clone)]
pub struct JudicatorLister(Arc<dyn Fn() -> BoxFuture<'static, JudicatorListResult> + Send + Sync>);

/// The list of the cluster's judicators that a [`JudicatorLister`] returns, or its error message.
type JudicatorListResult = Result<Vec<JudicatorState>, String>;

impl JudicatorLister {
    pub fn new<F>(list: impl Fn() -> F + Send + Sync + 'static) -> JudicatorLister
    where
        F: Future<Output = JudicatorListResult> + Send + 'static,
    {
        JudicatorLister(Arc::new(move || list().boxed()))
    }

    pub(crate) async fn list(&self) -> JudicatorListResult {
        (self.0)().await
    }
}

impl fmt::Debug for JudicatorLister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JudicatorLister")
    }
}
