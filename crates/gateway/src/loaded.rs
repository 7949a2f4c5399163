//! Tasks in memory, on their way into an answer.

use std::future::Future;

use model::Task;
use rpc::CallError;

use crate::admission::{Admission, PATIENCE};
use crate::gateway::Gateway;
use crate::pool::{Exhausted, Taken};
use crate::refusal::Refusal;

/// How many tasks are read and written as JSON at one time. How large a task is shows only when it is here, so each
/// of them is in memory without being charged: at most this many times the largest task, which the operator bounds
/// with `executor.keep_output`. The answers that come of them are charged before they are written.
///
/// A usual task has its place for a millisecond, so that this many serve thousands of requests in a second.
pub(crate) const AT_ONCE: u64 = 8;

/// A task and its place, which is given back with it. Nobody keeps one while waiting for a client, for bytes or for a
/// task to be done.
pub(crate) struct Loaded {
    pub(crate) task: Task,
    pub(crate) place: Taken,
}

impl Gateway {
    /// Makes a call that answers with a task. Accounts take turns.
    pub(crate) async fn load(
        &self,
        admission: &Admission,
        call: impl Future<Output = Result<Task, CallError>>,
    ) -> Result<Loaded, Refusal> {
        let place = self.place_to_load(admission).await?;
        let task = call.await?;
        Ok(Loaded { task, place })
    }

    pub(crate) async fn place_to_load(&self, admission: &Admission) -> Result<Taken, Exhausted> {
        self.loading.take_within(PATIENCE, admission.account(), 1).await
    }
}
