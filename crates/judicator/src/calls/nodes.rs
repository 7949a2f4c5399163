use model::{Health, JudicatorState, Stats};
use rpc::CallError;

use crate::Judicator;
use crate::error::refusal;
use crate::pace::WINDOW;

impl Judicator {
    pub(super) async fn on_stats(&self) -> Result<Stats, CallError> {
        let totals = self.store.totals().await.map_err(refusal)?;
        let executors = self.store.executors().await.map_err(refusal)?;
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
            tasks_per_second: self.pace.per_second(),
            window: WINDOW,
        })
    }

    pub(super) async fn on_judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        match &self.options.roster {
            Some(roster) => roster.judicators().await.map_err(CallError::Unavailable),
            None => Ok(vec![self.alone()]),
        }
    }

    fn alone(&self) -> JudicatorState {
        JudicatorState {
            name: self.options.name.clone(),
            address: self.options.address.clone(),
            health: Health::Alive,
            leader: self.leads(),
            store: self.options.store.clone(),
            version: self.options.version.clone(),
            since: Some(self.since),
            etcd: None,
            mongodb: None,
        }
    }
}
