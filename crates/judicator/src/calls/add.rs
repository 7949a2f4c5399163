use std::collections::HashMap;

use model::{Add, Added, BlobHash, Capacity, Content, Invalid, TaskSpec};
use rpc::CallError;
use sha2::{Digest, Sha256};
use store::NewTask;

use crate::Judicator;
use crate::error::refusal;
use crate::measure::ADDS;

/// Blobs that the store is asked for at one time.
const BLOBS: usize = 10_000;

impl Judicator {
    pub(super) async fn on_add(&self, adds: Vec<Add>) -> Result<Vec<Added>, CallError> {
        let many = adds.len() > 1;
        let named = |index: usize, invalid: Invalid| match many {
            // Among many, say which.
            true => invalid.within(&format!("tasks[{index}]")),
            false => invalid,
        };
        let capacity = self.capacity().await;
        let tasks = adds
            .into_iter()
            .enumerate()
            .map(|(index, add)| {
                self.accept(add, &capacity)
                    .map_err(|invalid| named(index, invalid))
            })
            .collect::<Result<Vec<_>, Invalid>>()?;
        let sizes = self.sizes_of_blobs(&tasks).await?;
        for (index, task) in tasks.iter().enumerate() {
            check_space(&task.spec, &sizes).map_err(|invalid| named(index, invalid))?;
        }
        let added = self.store.add(tasks).await.map_err(refusal)?;
        let new = added.iter().filter(|added| !added.existed).count();
        metrics::counter!(ADDS).increment(new as u64);
        Ok(added)
    }

    fn accept(&self, add: Add, capacity: &Capacity) -> Result<NewTask, Invalid> {
        let Add { id, mut spec } = add;
        spec.check(&self.options.bounds)?;
        // The digest is of what was asked: a repeat stays a repeat when the operator changes a default.
        let digest = Sha256::digest(rpc::spec_bytes(&spec)).into();
        self.options.limits.apply(&mut spec, capacity)?;
        Ok(NewTask { id, digest, spec })
    }

    /// Without missing blobs, which the store refuses by itself.
    async fn sizes_of_blobs(&self, tasks: &[NewTask]) -> Result<HashMap<BlobHash, u64>, CallError> {
        let bounded = tasks.iter().filter(|task| task.spec.space().is_some());
        let mut hashes: Vec<_> = bounded.flat_map(|task| task.spec.blobs()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        let mut sizes = HashMap::new();
        for hashes in hashes.chunks(BLOBS) {
            let found = self.store.has_blobs(hashes.to_vec()).await.map_err(refusal)?;
            let found = hashes.iter().zip(found);
            sizes.extend(found.filter_map(|(hash, size)| Some((*hash, size?))));
        }
        Ok(sizes)
    }
}

/// What a task brings is laid out in its space. A blob that is named twice is laid out twice.
fn check_space(spec: &TaskSpec, sizes: &HashMap<BlobHash, u64>) -> Result<(), Invalid> {
    let size = |content: &Content| match content {
        Content::Inline(bytes) => bytes.len() as u64,
        Content::Blob(hash) => sizes.get(hash).copied().unwrap_or(0),
    };
    let brought = spec.contents().map(size).fold(0, u64::saturating_add);
    match spec.space() {
        Some(space) if brought > space => Err(Invalid::beyond(
            "execute.limits.space",
            "is less than the task's files and its input take; raise it, or bring less",
            format!("{space} bytes"),
            format!("{brought} bytes"),
        )),
        _ => Ok(()),
    }
}
