//! Which tasks an executor may claim.

use std::sync::Arc;

use model::{Capacity, Report, TaskForm, TaskState};

use crate::mongo::context::StoreContext;
use crate::mongo::failure::MongoFailure;
use crate::mongo::largest_executors::{self, LargestExecutors};
use crate::tools_cache::DecodedTools;

/// Which tasks of the MongoDB store's queue the executor of a report may claim.
#[derive(Clone, Debug)]
pub(super) struct ClaimScope {
    pub(super) tools: Arc<DecodedTools>,
    /// Both this program and the executor must know the form of the task.
    pub(super) newest_form: TaskForm,
    /// `None` if the executor takes tasks of any size.
    capacity: Option<Capacity>,
    largest: Arc<LargestExecutors>,
}

impl ClaimScope {
    pub(super) fn new(report: &Report, tools: Arc<DecodedTools>) -> ClaimScope {
        ClaimScope {
            tools,
            newest_form: report.executor_info.newest_form.min(TaskForm::NEWEST),
            capacity: report.executor_info.capacity,
            largest: Arc::default(),
        }
    }

    /// Looks for larger executors. Without this the executor takes tasks of any size.
    pub(super) async fn with_larger_executors(
        self,
        context: &StoreContext,
    ) -> Result<ClaimScope, MongoFailure> {
        match self.capacity {
            None => Ok(self),
            Some(_) => Ok(ClaimScope {
                largest: largest_executors::read(context).await?,
                ..self
            }),
        }
    }

    /// If set, tasks with this requirement that need more are left to a larger executor, which has the tools for them.
    pub(super) fn capacity_limit(&self, key: Option<&str>) -> Option<Capacity> {
        let own = self.capacity?;
        self.largest.has_larger(own, key).then(|| own.claim_limit())
    }

    /// Whether the executor has the tools for tasks with this requirement.
    pub(super) fn has_tools_for(&self, key: Option<&str>) -> bool {
        key.is_none_or(|key| self.tools.queue_keys.contains(key))
    }

    pub(super) fn admits(&self, task: &TaskState) -> bool {
        let key = task.requires.queue_key();
        let key = key.as_deref();
        let fits = |limit: Capacity| limit.fits(task.resources);
        task.form <= self.newest_form && self.has_tools_for(key) && self.capacity_limit(key).is_none_or(fits)
    }

    #[cfg(test)]
    pub(super) fn for_test(tools: DecodedTools) -> ClaimScope {
        ClaimScope {
            tools: Arc::new(tools),
            newest_form: TaskForm::NEWEST,
            capacity: None,
            largest: Arc::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_largest(self, largest: LargestExecutors) -> ClaimScope {
        ClaimScope {
            largest: Arc::new(largest),
            ..self
        }
    }
}
