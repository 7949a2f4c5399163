use model::{Health, JudicatorState, Stats, queued_tasks};
use rpc::CallError;

use crate::error::call_error;
use crate::throughput::WINDOW;
use crate::{Judicator, now};

impl Judicator {
    pub(super) async fn on_stats(&self) -> Result<Stats, CallError> {
        let totals = self.store.totals().await.map_err(call_error)?;
        let executors = self.store.executors().await.map_err(call_error)?;
        let oldest = match queued_tasks(&totals.counts, totals.held) {
            0 => None,
            _ => self.store.oldest_queued().await.map_err(call_error)?,
        };
        let alive = || {
            executors
                .iter()
                .filter(|executor| executor.health == Health::Alive)
        };
        Ok(Stats {
            counts: totals.counts,
            executors: alive().count() as u32,
            slots: alive().map(|executor| executor.slots).sum(),
            held: u32::try_from(totals.held).unwrap_or(u32::MAX),
            tasks_per_second: self.throughput.tasks_per_second(),
            window: WINDOW,
            oldest_queued: oldest.map(|added| now().since(added)),
        })
    }

    pub(super) async fn on_judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        match &self.options.list_judicators {
            Some(lister) => {
                let mut judicators = lister.list().await.map_err(CallError::Unavailable)?;
                // This judicator knows its own state better than the registry.
                let own = judicators.iter_mut().find(|one| one.name == self.options.name);
                if let Some(own) = own {
                    own.newer_form = self.store.newer_form();
                }
                Ok(judicators)
            }
            None => Ok(vec![self.own_state()]),
        }
    }

    fn own_state(&self) -> JudicatorState {
        JudicatorState {
            name: self.options.name.clone(),
            address: self.options.address.clone(),
            health: Health::Alive,
            leader: self.leads(),
            store: self.options.store.clone(),
            version: self.options.version.clone(),
            newer_form: self.store.newer_form(),
            since: Some(self.since),
            etcd: None,
            mongodb: None,
        }
    }
}
