//! Initiating the replica set: claimed, done and confirmed by one daemon.

use futures::future::join_all;

use super::MongodbError;
use super::admin::{AdminError, Mongod};
use super::config::SetConfig;
use super::diff::Seat;
use super::etcd::Held;
use super::records::{Claim, Initiated, Records};
use super::work::{Pace, Work};
use crate::causes::with_causes;

impl Work {
    pub(super) async fn claim(&mut self) -> Result<Pace, MongodbError> {
        self.say("claiming to initiate the replica set");
        let claim = Claim {
            name: self.options.name.clone(),
            incarnation: self.note.incarnation.clone(),
        };
        self.held = self.etcd.claim(&claim, self.options.lease).await?;
        Ok(Pace::Now)
    }

    pub(super) async fn initiate(&mut self) -> Result<Pace, MongodbError> {
        let records = self.etcd.read().await?;
        if let Some(obstacle) = self.obstacle(&records).await {
            self.say(&format!("initiating the replica set: {obstacle}"));
            return Ok(Pace::Soon);
        }
        self.say("initiating the replica set");
        if !self.held.as_ref().is_some_and(Held::is_ours) {
            return Ok(Pace::Soon);
        }
        let seat = Seat {
            address: self.options.address(),
            name: Some(self.options.name.clone()),
            incarnation: Some(self.note.incarnation.clone()),
            votes: 1,
        };
        self.local
            .initiate(&SetConfig::first(&self.options.set, &seat))
            .await?;
        tracing::info!(set = self.options.set, "replica set initiated");
        Ok(Pace::Now)
    }

    /// Whoever is registered has to say that it is in no set. One that does not answer may be in one.
    async fn obstacle(&self, records: &Records) -> Option<String> {
        let asked =
            records.members.iter().map(
                async |(name, member)| match self.config_at(&member.address).await {
                    Ok(None) => None,
                    Ok(Some(_)) => Some(format!(
                        "{name} is in a replica set already; waiting for it to go on"
                    )),
                    Err(error) => Some(format!(
                        "waiting for {name} to say that it is in none: {}; if it is lost, `conclave remove {name}` \
                         on another node",
                        with_causes(&error)
                    )),
                },
            );
        join_all(asked).await.into_iter().flatten().next()
    }

    pub(super) async fn config_at(&self, address: &str) -> Result<Option<SetConfig>, AdminError> {
        Mongod::at(address, self.options.secret.as_deref())?
            .config()
            .await
    }

    pub(super) async fn confirm(&mut self) -> Result<Pace, MongodbError> {
        let Some(id) = self.local.config().await?.and_then(|config| config.id()) else {
            return Ok(Pace::Soon);
        };
        let initiated = Initiated {
            set: self.options.set.clone(),
            by: self.options.name.clone(),
            id,
        };
        if self.etcd.confirm(&initiated).await? {
            tracing::info!(set = initiated.set, id = initiated.id, "replica set confirmed");
        }
        self.let_go().await;
        Ok(Pace::Now)
    }
}
