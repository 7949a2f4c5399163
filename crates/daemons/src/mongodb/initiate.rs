//! Initiates the replica set: one daemon claims the right to, initiates the set and confirms it.

use error_causes::with_causes;
use futures::future::join_all;

use super::MongodbDaemonError;
use super::admin::{MongodClient, MongodCommandError};
use super::config::ReplicaSetConfig;
use super::config_change::ConfigMember;
use super::controller::{MemberController, RecheckDelay};
use super::record_store::InitiationLease;
use super::records::{InitiatedRecord, InitiationClaim, ReplicaSetRecords};

impl MemberController {
    pub(super) async fn claim_initiation(&mut self) -> Result<RecheckDelay, MongodbDaemonError> {
        self.status
            .activity("claiming the right to initiate the replica set");
        let claim = InitiationClaim {
            name: self.options.name.clone(),
            incarnation: self.member.incarnation.clone(),
        };
        self.claim = self.record_store.claim(&claim, self.options.lease).await?;
        Ok(RecheckDelay::None)
    }

    pub(super) async fn initiate(&mut self) -> Result<RecheckDelay, MongodbDaemonError> {
        let records = self.record_store.read().await?;
        if let Some(reason) = self.reason_not_to_initiate(&records).await {
            self.status
                .activity(&format!("initiating the replica set: {reason}"));
            return Ok(RecheckDelay::Short);
        }
        self.status.activity("initiating the replica set");
        if !self.claim.as_ref().is_some_and(InitiationLease::is_held) {
            return Ok(RecheckDelay::Short);
        }
        let own = ConfigMember {
            address: self.options.address(),
            name: Some(self.options.name.clone()),
            incarnation: Some(self.member.incarnation.clone()),
            votes: 1,
        };
        self.mongod
            .initiate(&ReplicaSetConfig::with_one_member(&self.options.set, &own))
            .await?;
        tracing::info!(set = self.options.set, "initiated the replica set");
        Ok(RecheckDelay::None)
    }

    /// Every registered member has to answer that it is in no replica set. A member that does not answer may be in one.
    async fn reason_not_to_initiate(&self, records: &ReplicaSetRecords) -> Option<String> {
        let queries =
            records.members.iter().map(
                async |(name, member)| match self.config_at(&member.address).await {
                    Ok(None) => None,
                    Ok(Some(_)) => Some(format!(
                        "{name} is already in a replica set; waiting until it has confirmed the set"
                    )),
                    Err(error) => Some(format!(
                        "waiting for {name} to answer that it is in no replica set: {}; if it is lost, \
                         `conclave remove {name}` on another node",
                        with_causes(&error)
                    )),
                },
            );
        join_all(queries).await.into_iter().flatten().next()
    }

    pub(super) async fn config_at(
        &self,
        address: &str,
    ) -> Result<Option<ReplicaSetConfig>, MongodCommandError> {
        MongodClient::at(address, self.options.secret.as_deref())?
            .config()
            .await
    }

    pub(super) async fn confirm_set(&mut self) -> Result<RecheckDelay, MongodbDaemonError> {
        let Some(id) = self.mongod.config().await?.and_then(|config| config.id()) else {
            return Ok(RecheckDelay::Short);
        };
        let initiated = InitiatedRecord {
            set: self.options.set.clone(),
            by: self.options.name.clone(),
            id,
        };
        if self.record_store.confirm(&initiated).await? {
            tracing::info!(
                set = initiated.set,
                id = initiated.id,
                "confirmed the replica set"
            );
        }
        self.release_claim().await;
        Ok(RecheckDelay::None)
    }
}
