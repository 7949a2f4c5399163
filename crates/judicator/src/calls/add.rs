mod source_classes;

use std::collections::{HashMap, HashSet};

use model::{
    AddTask, AddedTask, BlobHash, Capacity, Content, InvalidField, SourceClasses, TaskId, TaskSpec,
    ToolRequirement,
};
use rpc::CallError;
use sha2::{Digest, Sha256};
use store::NewTaskRecord;

use crate::Judicator;
use crate::error::call_error;
use crate::metric_names::ADDS;

/// The number of blobs in one request to the store.
const BLOB_BATCH: usize = 10_000;

/// What a judicator has found out for the tasks of one request: most of them require the same.
#[derive(Default)]
struct AcceptedRequirements {
    offered: HashSet<ToolRequirement>,
    capacities: HashMap<ToolRequirement, Capacity>,
}

impl Judicator {
    pub(super) async fn on_add(&self, adds: Vec<AddTask>) -> Result<Vec<AddedTask>, CallError> {
        let is_batch = adds.len() > 1;
        let in_batch = |index: usize, invalid: InvalidField| match is_batch {
            // In a batch, name the task.
            true => invalid.within(&format!("tasks[{index}]")),
            false => invalid,
        };
        let classes = self.source_classes(&adds).await?;
        let mut accepted_requirements = AcceptedRequirements::default();
        let mut tasks = Vec::with_capacity(adds.len());
        for (index, add) in adds.into_iter().enumerate() {
            let accepted = self.accept(add, &classes, &mut accepted_requirements).await;
            tasks.push(accepted.map_err(|refusal| match refusal {
                CallError::Invalid(invalid) => CallError::Invalid(in_batch(index, invalid)),
                error => error,
            })?);
        }
        let sizes = self.blob_sizes(&tasks).await?;
        for (index, task) in tasks.iter().enumerate() {
            check_space(&task.spec, &sizes).map_err(|invalid| in_batch(index, invalid))?;
        }
        let added = self.store.add(tasks).await.map_err(call_error)?;
        let new = added.iter().filter(|added| !added.existed).count();
        metrics::counter!(ADDS).increment(new as u64);
        Ok(added)
    }

    async fn accept(
        &self,
        mut add: AddTask,
        classes: &SourceClasses,
        accepted: &mut AcceptedRequirements,
    ) -> Result<NewTaskRecord, CallError> {
        add.spec.check(&self.options.task_size_limits)?;
        // The digest covers the request before defaults apply, so that a repeated add still matches after the operator
        // changes a default.
        let digest = add.digest();
        let legacy_digest = rpc::legacy_digest_bytes(&add.spec).map(|bytes| Sha256::digest(bytes).into());
        let language = self.options.languages.fill_in(&mut add, classes)?;
        if language.is_some() {
            // The names of many source files can make a command too long.
            add.spec.check(&self.options.task_size_limits)?;
        }
        let requires = ToolRequirement::of(&add.spec);
        if !requires.is_none() && !add.wait_for_executor && !accepted.offered.contains(&requires) {
            match self.executors_offer(&requires).await {
                Ok(()) => {
                    accepted.offered.insert(requires.clone());
                }
                Err(refusal) => self.refuse_unless_existing(add.id, refusal).await?,
            }
        }
        let capacity = match accepted.capacities.get(&requires) {
            Some(capacity) => *capacity,
            None => {
                let capacity = self.capacity_for(&requires).await;
                accepted.capacities.insert(requires, capacity);
                capacity
            }
        };
        let AddTask { id, mut spec, .. } = add;
        let limits = language.map(|language| &language.limits);
        self.options.limits.apply(&mut spec, limits, &capacity)?;
        self.resolve_attempts(&mut spec)?;
        Ok(NewTaskRecord {
            id,
            digest,
            legacy_digest,
            spec,
        })
    }

    /// Refuses a task that no executor can run. One that exists was accepted before, and a repeated add must find it.
    async fn refuse_unless_existing(&self, id: TaskId, refusal: InvalidField) -> Result<(), CallError> {
        match self.store.get(id).await.map_err(call_error)? {
            Some(_) => Ok(()),
            None => Err(refusal.into()),
        }
    }

    /// Fills in the operator's number of attempts if the task asks for none.
    fn resolve_attempts(&self, spec: &mut TaskSpec) -> Result<(), InvalidField> {
        let max = self.options.max_attempts;
        match spec.attempts {
            Some(attempts) if attempts > max => Err(InvalidField::over_limit(
                "attempts",
                format!("may be up to {max}"),
                max,
                attempts,
            )),
            Some(_) => Ok(()),
            None => {
                spec.attempts = Some(self.options.attempts);
                Ok(())
            }
        }
    }

    /// The sizes of the blobs that exist. The store itself refuses a task with a missing blob.
    async fn blob_sizes(&self, tasks: &[NewTaskRecord]) -> Result<HashMap<BlobHash, u64>, CallError> {
        let bounded = tasks.iter().filter(|task| task.spec.space().is_some());
        let mut hashes: Vec<_> = bounded.flat_map(|task| task.spec.blobs()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut sizes = HashMap::new();
        for hashes in hashes.chunks(BLOB_BATCH) {
            let found = self.store.has_blobs(hashes.to_vec()).await.map_err(call_error)?;
            let found = hashes.iter().zip(found);
            sizes.extend(found.filter_map(|(hash, size)| Some((*hash, size?))));
        }
        Ok(sizes)
    }
}

/// The files and the input of a task must fit into its space. A blob that is used twice counts twice.
fn check_space(spec: &TaskSpec, sizes: &HashMap<BlobHash, u64>) -> Result<(), InvalidField> {
    let size = |content: &Content| match content {
        Content::Inline(bytes) => bytes.len() as u64,
        Content::Blob(hash) => sizes.get(hash).copied().unwrap_or(0),
    };
    let needed = spec.contents().map(size).fold(0, u64::saturating_add);
    match spec.space() {
        Some(space) if needed > space => Err(InvalidField::over_limit(
            "execute.limits.space",
            "is less than the size of the task's files and input; raise it, or send less",
            format!("{space} bytes"),
            format!("{needed} bytes"),
        )),
        _ => Ok(()),
    }
}
