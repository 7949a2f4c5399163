mod judging;
mod source_classes;
mod space;

use judging::RequestedProblems;
pub(super) use space::check_space;

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use model::{
    AddTask, AddedTask, BlobHash, Capacity, InvalidField, SourceClasses, TaskId, TaskSpec, ToolRequirement,
    UserName,
};
use rpc::CallError;
use sha2::{Digest, Sha256};
use store::NewTaskRecord;
use tokio::time::Instant;

use crate::error::call_error;
use crate::metric_names::ADDS;
use crate::{Judicator, now};

/// The number of blobs in one request to the store.
const BLOB_BATCH: usize = 10_000;
/// How many tasks that would be refused are looked for in the store at a time.
const CONCURRENT_LOOKUPS: usize = 16;

/// What a judicator has found out about the requirements of the tasks of one request: most of them require the same.
struct CheckedRequirements {
    /// When the request came.
    asked: Instant,
    offered: HashMap<ToolRequirement, Result<(), InvalidField>>,
    capacities: HashMap<ToolRequirement, Capacity>,
    /// Whether an executor runs tasks with cases. `None` if no task of the request has any so far.
    judging: Option<Result<(), InvalidField>>,
}

/// What a judicator reads from the store for all tasks of a request.
struct RequestContext {
    classes: SourceClasses,
    problems: RequestedProblems,
}

/// A task of a request, as a judicator would add it.
struct CheckedTask {
    id: TaskId,
    user: UserName,
    digest: [u8; 32],
    legacy_digest: Option<[u8; 32]>,
    /// The task with everything filled in, or why it is refused unless it exists.
    spec: Result<TaskSpec, InvalidField>,
}

impl Judicator {
    pub(super) async fn on_add(&self, adds: Vec<AddTask>) -> Result<Vec<AddedTask>, CallError> {
        let is_batch = adds.len() > 1;
        let mut requirements = CheckedRequirements {
            asked: Instant::now(),
            offered: HashMap::new(),
            capacities: HashMap::new(),
            judging: None,
        };
        let context = RequestContext {
            classes: self.source_classes(judging::programs(&adds)).await?,
            problems: self.read_problems(&adds).await?,
        };
        context.problems.check_number_of_cases(&adds)?;
        let mut tasks = Vec::with_capacity(adds.len());
        for add in adds {
            tasks.push(self.check_task(add, &context, &mut requirements).await);
        }
        self.check_spaces(&mut tasks).await?;
        let records = tasks.into_iter().enumerate().map(async |(index, task)| {
            let record = self.accept_or_find(task).await;
            record.map_err(|refusal| match refusal {
                // In a batch, name the task.
                CallError::Invalid(invalid) if is_batch => invalid.within(&format!("tasks[{index}]")).into(),
                refusal => refusal,
            })
        });
        // In order, so that the first refused task is the one that the answer names.
        let records = stream::iter(records).buffered(CONCURRENT_LOOKUPS);
        let records: Vec<_> = records.try_collect().await?;
        let added = self.store.add(records).await.map_err(call_error)?;
        let new = added.iter().filter(|added| !added.existed).count();
        metrics::counter!(ADDS).increment(new as u64);
        self.history.on_added(now(), new as u64);
        Ok(added)
    }

    async fn check_task(
        &self,
        add: AddTask,
        context: &RequestContext,
        requirements: &mut CheckedRequirements,
    ) -> CheckedTask {
        CheckedTask {
            id: add.id,
            user: add.spec.user.clone(),
            // The digest covers the request before defaults apply, so that a repeated add still matches after the operator
            // changes a default.
            digest: add.digest(),
            legacy_digest: rpc::legacy_digest_bytes(&add.spec).map(|bytes| Sha256::digest(bytes).into()),
            spec: self.resolve(add, context, requirements).await,
        }
    }

    /// Fills in everything that the task leaves out, and refuses a task that breaks a rule of today.
    async fn resolve(
        &self,
        mut add: AddTask,
        context: &RequestContext,
        requirements: &mut CheckedRequirements,
    ) -> Result<TaskSpec, InvalidField> {
        add.spec.check(&self.options.task_size_limits)?;
        let (classes, languages) = (&context.classes, &self.options.languages);
        let language = languages.fill_in(&mut add, classes)?;
        context.problems.fill_in(&mut add.spec)?;
        let (user, problem) = (&add.spec.user, add.spec.problem.clone());
        // The user does not know the parts of a problem, so an error about one of them names the problem.
        let of_problem = |invalid: InvalidField| match problem {
            Some(_) => InvalidField {
                field: "problem".into(),
                ..invalid
            },
            None => invalid,
        };
        if let Some(judging) = &mut add.spec.judging {
            let filled_in = judging.fill_in_program(languages, user, classes);
            filled_in.map_err(of_problem)?;
        }
        if language.is_some() || add.spec.judging.is_some() {
            // The names of many source files can make a command too long.
            add.spec.check(&self.options.task_size_limits)?;
        }
        if add.spec.judging.is_some() && !add.wait_for_executor {
            self.check_executors_judge(&add.spec, requirements).await?;
        }
        let requires = ToolRequirement::of(&add.spec);
        if !requires.is_none() && !add.wait_for_executor {
            self.check_offered(&requires, &add.spec, requirements).await?;
        }
        let capacity = match requirements.capacities.get(&requires) {
            Some(capacity) => *capacity,
            None => {
                let capacity = self.capacity_for(&requires).await;
                requirements.capacities.insert(requires, capacity);
                capacity
            }
        };
        let limits = language.map(|language| &language.limits);
        let mut spec = add.spec;
        self.options.limits.apply(&mut spec, limits, &capacity)?;
        let policy = &self.options.limits;
        let applied = policy.apply_to_program(&mut spec, languages, &capacity);
        applied.map_err(of_problem)?;
        self.resolve_attempts(&mut spec)?;
        Ok(spec)
    }

    /// Refuses a task if no executor has what it requires. The error says whether the task or the program that judges it
    /// is the cause.
    async fn check_offered(
        &self,
        requires: &ToolRequirement,
        spec: &TaskSpec,
        requirements: &mut CheckedRequirements,
    ) -> Result<(), InvalidField> {
        let of_program = |invalid: InvalidField| match &spec.judging {
            Some(judging) if spec.problem.is_none() => invalid.within(judging.program_field()),
            _ => InvalidField {
                field: "problem".into(),
                ..invalid
            },
        };
        let mut parts = vec![requires.of_steps()];
        if requires.judge.is_some() {
            parts.extend([requires.of_judge(), requires.clone()]);
        }
        for (index, part) in parts.into_iter().enumerate() {
            let offered = match requirements.offered.get(&part) {
                Some(offered) => offered.clone(),
                None => {
                    let offered = self.executors_offer(&part, requirements.asked).await;
                    requirements.offered.insert(part, offered.clone());
                    offered
                }
            };
            offered.map_err(|invalid| match index {
                0 => invalid,
                _ => of_program(invalid),
            })?;
        }
        Ok(())
    }

    /// A task that exists was accepted before, and a repeated add must find it, whatever would be refused today. The store
    /// compares the digests.
    async fn accept_or_find(&self, task: CheckedTask) -> Result<NewTaskRecord, CallError> {
        let CheckedTask {
            id,
            user,
            digest,
            legacy_digest,
            spec,
        } = task;
        let spec = match spec {
            Ok(spec) => spec,
            Err(refusal) => match self.store.get(id).await.map_err(call_error)? {
                Some(existing) if existing.spec.user == user => existing.spec,
                _ => return Err(refusal.into()),
            },
        };
        Ok(NewTaskRecord {
            id,
            digest,
            legacy_digest,
            spec,
        })
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

    /// Refuses tasks whose files do not fit into their space.
    async fn check_spaces(&self, tasks: &mut [CheckedTask]) -> Result<(), CallError> {
        let specs = tasks.iter().filter_map(|task| task.spec.as_ref().ok());
        let sizes = self.blob_sizes(specs).await?;
        for task in tasks {
            if let Ok(spec) = &task.spec
                && let Err(invalid) = check_space(spec, &sizes)
            {
                task.spec = Err(invalid);
            }
        }
        Ok(())
    }

    /// The sizes of the blobs that exist. The store itself refuses a task with a missing blob.
    pub(super) async fn blob_sizes<'a>(
        &self,
        specs: impl Iterator<Item = &'a TaskSpec>,
    ) -> Result<HashMap<BlobHash, u64>, CallError> {
        let bounded = specs.filter(|spec| space::has_bound(spec));
        let mut hashes: Vec<_> = bounded.flat_map(TaskSpec::blobs).collect();
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
