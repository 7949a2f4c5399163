use model::{Add, Added, Invalid};
use rpc::CallError;
use sha2::{Digest, Sha256};
use store::NewTask;

use crate::Judicator;
use crate::error::refusal;
use crate::measure::ADDS;

impl Judicator {
    pub(super) async fn on_add(&self, adds: Vec<Add>) -> Result<Vec<Added>, CallError> {
        let many = adds.len() > 1;
        let tasks = adds
            .into_iter()
            .enumerate()
            .map(|(index, add)| {
                self.accept(add).map_err(|invalid| match many {
                    // Among many, say which.
                    true => invalid.within(&format!("tasks[{index}]")),
                    false => invalid,
                })
            })
            .collect::<Result<Vec<_>, Invalid>>()?;
        let added = self.store.add(tasks).await.map_err(refusal)?;
        let new = added.iter().filter(|added| !added.existed).count();
        metrics::counter!(ADDS).increment(new as u64);
        Ok(added)
    }

    fn accept(&self, add: Add) -> Result<NewTask, Invalid> {
        let Add { id, mut spec } = add;
        spec.check(&self.options.bounds)?;
        // The digest is of what was asked: a repeat stays a repeat when the operator changes a default.
        let digest = Sha256::digest(rpc::spec_bytes(&spec)).into();
        self.options.limits.apply(&mut spec)?;
        Ok(NewTask { id, digest, spec })
    }
}
