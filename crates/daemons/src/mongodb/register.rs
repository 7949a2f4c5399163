//! Registers the node in etcd, after checking everything that could prevent its start.

use std::time::Duration;

use error_causes::with_causes;
use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::MongodbDaemonError;
use super::admin::MongodCommandError;
use super::config::ReplicaSetConfig;
use super::controller::MemberController;
use super::local_state::{self, MongodLocalState};
use super::record_store::RecordStoreError;
use super::records::{Incarnation, LeftRecord, MemberRecord, ReplicaSetRecords};
use super::start_check::{
    ExistingConfigMember, MongodStartRefusal, check_records, classify_config_member, cluster_id_text,
};

const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

impl MemberController {
    /// Writes nothing before all checks have passed.
    pub(crate) async fn register(&mut self, state: &MongodLocalState) -> Result<(), MongodbDaemonError> {
        let member = MemberRecord {
            address: self.options.address(),
            incarnation: self.member.incarnation.clone(),
        };
        let name = self.options.name.clone();
        loop {
            let records = match self.record_store.read().await {
                Ok(records) => records,
                Err(error @ RecordStoreError::Record(_)) => return Err(error.into()),
                Err(error) => {
                    self.report_waiting_for_etcd(&error);
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    continue;
                }
            };
            check_records(&self.options, state, &records)?;
            self.refuse_if_name_is_taken(&records).await?;
            self.refuse_if_secret_is_wrong(&records).await?;
            let folder = &self.options.data;
            local_state::create_folders(folder)?;
            local_state::write_member(folder, &self.member)?;
            local_state::write_cluster(folder, &cluster_id_text(&records))?;
            // A node that is leaving is not registered again; it runs only until the set has removed it.
            if records.members.get(&name) == Some(&member) || records.left.contains_key(&member.incarnation) {
                return Ok(());
            }
            match self.record_store.register(&name, &member, &records).await {
                Ok(true) => {
                    let MemberRecord { address, incarnation } = &member;
                    tracing::info!(%address, %incarnation, "registered");
                    return Ok(());
                }
                // The record has changed since it was read, perhaps by our own write whose answer was lost.
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(error = with_causes(&error), "could not register; retrying");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }

    /// Waits until the set has removed the member that had this node's address before its data was lost: otherwise the
    /// set would take the empty mongod for that member. Removing it takes a primary.
    pub(crate) async fn wait_until_predecessor_removed(
        &mut self,
        state: &MongodLocalState,
        records: &mut watch::Receiver<ReplicaSetRecords>,
    ) -> Result<(), MongodbDaemonError> {
        loop {
            // This reads the records again: the watched ones may be older than our own registration.
            match self.reason_to_delay_start(state).await {
                Ok(None) => return Ok(()),
                Ok(Some(reason)) => self.status.activity(&reason),
                Err(MongodbDaemonError::Etcd(error)) => self.report_waiting_for_etcd(&error),
                Err(error) => return Err(error),
            }
            let _ = tokio::time::timeout(RETRY_INTERVAL, records.changed()).await;
        }
    }

    fn report_waiting_for_etcd(&mut self, error: &RecordStoreError) {
        self.status
            .activity(&format!("waiting for etcd: {}", with_causes(error)));
    }

    /// Checks the records and the set's config: an etcd that was set up anew has no records of earlier incarnations.
    async fn reason_to_delay_start(
        &mut self,
        state: &MongodLocalState,
    ) -> Result<Option<String>, MongodbDaemonError> {
        let records = self.record_store.read().await?;
        let address = self.options.address();
        let configs = self.configs_of_others(&records).await?;
        if records.initiated.is_some() && configs.is_empty() {
            return Ok(Some(
                "waiting for a member of the replica set to answer".to_string(),
            ));
        }
        // A set that is not confirmed has only its own node as a member.
        let is_pending = |left: &LeftRecord| left.address == address && !left.removed;
        let mut must_wait = records.initiated.is_some() && records.left.values().any(is_pending);
        let entries = configs.iter().flat_map(ReplicaSetConfig::entries);
        for entry in entries.filter(|entry| entry.address == address) {
            match classify_config_member(&self.member.incarnation, &entry, &records) {
                ExistingConfigMember::Own => continue,
                ExistingConfigMember::OfAnother => {}
                ExistingConfigMember::OfLostData(incarnation) => {
                    let left = LeftRecord {
                        name: entry.name.unwrap_or_else(|| self.options.name.clone()),
                        address: address.clone(),
                        removed: false,
                    };
                    self.record_store.mark_left(&incarnation, &left).await?;
                }
                ExistingConfigMember::TaggedByMistake => {
                    self.member.incarnation = Incarnation::random();
                    self.register(state).await?;
                }
            }
            must_wait = true;
        }
        Ok(must_wait.then(|| {
            format!("waiting until the replica set has removed the member that had {address} before its data was lost")
        }))
    }

    /// Two nodes with one name would overwrite each other's registration for ever.
    async fn refuse_if_name_is_taken(&self, records: &ReplicaSetRecords) -> Result<(), MongodbDaemonError> {
        let Some(other) = records.members.get(&self.options.name) else {
            return Ok(());
        };
        if other.incarnation == self.member.incarnation || other.address == self.options.address() {
            return Ok(());
        }
        match tokio::time::timeout(PROBE_TIMEOUT, TcpStream::connect(&other.address)).await {
            Ok(Ok(_)) => Err(MongodStartRefusal::Name {
                name: self.options.name.clone(),
                address: other.address.clone(),
            }
            .into()),
            _ => Ok(()),
        }
    }

    pub(super) async fn refuse_if_secret_is_wrong(
        &self,
        records: &ReplicaSetRecords,
    ) -> Result<(), MongodbDaemonError> {
        match records.initiated {
            Some(_) => self.configs_of_others(records).await.map(drop),
            None => Ok(()),
        }
    }

    /// The configs of all other members that answer and are in a set. Refuses if none of them accepts our secret and
    /// one of them rejects it: they would not let our mongod in either.
    async fn configs_of_others(
        &self,
        records: &ReplicaSetRecords,
    ) -> Result<Vec<ReplicaSetConfig>, MongodbDaemonError> {
        let others = records
            .members
            .iter()
            .filter(|(name, _)| **name != self.options.name);
        let queries =
            others.map(async |(_, member)| (&member.address, self.config_at(&member.address).await));
        let mut configs = Vec::new();
        let (mut is_accepted, mut rejected_by) = (false, None);
        for (address, answer) in join_all(queries).await {
            match answer {
                Ok(config) => {
                    is_accepted = true;
                    configs.extend(config);
                }
                Err(MongodCommandError::Login { .. }) => rejected_by = Some(address.clone()),
                Err(_) => {}
            }
        }
        match rejected_by {
            // Without a confirmed set, no node's secret is known to be the right one.
            Some(address) if !is_accepted && records.initiated.is_some() => {
                Err(MongodStartRefusal::Secret { address }.into())
            }
            _ => Ok(configs),
        }
    }
}
