//! On the primary: changes the replica set's config to what is registered, one change at a time.

use super::MongodbDaemonError;
use super::admin::{MongodCommandError, SetMemberStatus};
use super::config::ReplicaSetConfig;
use super::config_change::{ConfigChange, ConfigMember, PrimaryView, has_member_to_promote, pending_changes};
use super::controller::{MemberController, RecheckDelay};
use super::records::{Incarnation, ObservedSet, ObservedSetMember, ReplicaSetRecords};

/// Applies at most one change: the first that mongod accepts.
pub(crate) async fn reconcile_once(
    controller: &mut MemberController,
) -> Result<RecheckDelay, MongodbDaemonError> {
    // The records are read before the config. So if a member is not in this config, it cannot be added later unless it
    // registers again.
    let records = controller.record_store.read().await?;
    let (config, is_committed) = controller.mongod.config_and_commitment().await?;
    let status = controller.mongod.status().await?;
    let entries = config.entries();
    publish_observed_set(controller, &records, &entries, &status).await?;
    if !is_committed {
        return Ok(RecheckDelay::Short);
    }
    mark_removed(controller, &records, &entries).await?;
    let secondaries: Vec<String> = status
        .into_iter()
        .filter(|member| member.state == "secondary")
        .map(|member| member.address)
        .collect();
    let own = controller.member.incarnation.clone();
    let view = PrimaryView {
        entries: &entries,
        records: &records,
        secondaries: &secondaries,
        own: &own,
    };
    let changes = pending_changes(&view);
    let mut refused = Vec::new();
    for change in &changes {
        match apply(controller, &config, change).await {
            Err(MongodCommandError::Refused { code, message, .. }) => {
                refused.push(format!("mongod refuses to {change}: {message} (code {code})"));
            }
            result => {
                result?;
                return Ok(RecheckDelay::None);
            }
        }
    }
    controller.report_refused_changes(refused);
    Ok(match (changes.is_empty(), has_member_to_promote(&view)) {
        (false, _) => RecheckDelay::AfterRefusal,
        (true, true) => RecheckDelay::Short,
        (true, false) => RecheckDelay::Idle,
    })
}

/// Never forces a config on the set: without the agreement of a majority it could be lost again.
async fn apply(
    controller: &MemberController,
    config: &ReplicaSetConfig,
    change: &ConfigChange,
) -> Result<(), MongodCommandError> {
    controller.mongod.reconfigure(&config.with_change(change)).await?;
    match change {
        ConfigChange::Remove(entry) => {
            tracing::info!(address = entry.address, "removed from the replica set")
        }
        ConfigChange::Add(entry) => tracing::info!(address = entry.address, "added to the replica set"),
        ConfigChange::Promote(entry) => tracing::info!(address = entry.address, "gave a vote to the member"),
        ConfigChange::Tag(entry) => tracing::info!(address = entry.address, "tagged the member"),
        ConfigChange::Move { from, to } => tracing::info!(from, to, "changed the address of the member"),
    }
    Ok(())
}

/// Marks members that left and are in no committed config as removed, for the commands that wait for it. They cannot
/// get into a config again.
async fn mark_removed(
    controller: &mut MemberController,
    records: &ReplicaSetRecords,
    entries: &[ConfigMember],
) -> Result<(), MongodbDaemonError> {
    let is_in_config = |incarnation: &Incarnation| {
        entries
            .iter()
            .any(|entry| entry.incarnation.as_ref() == Some(incarnation))
    };
    for (incarnation, left) in &records.left {
        if !left.removed && !is_in_config(incarnation) {
            controller.record_store.mark_removed(incarnation, left).await?;
        }
    }
    Ok(())
}

async fn publish_observed_set(
    controller: &mut MemberController,
    records: &ReplicaSetRecords,
    entries: &[ConfigMember],
    status: &[SetMemberStatus],
) -> Result<(), MongodbDaemonError> {
    let state_of = |address: &str| {
        let member = status.iter().find(|member| member.address == address);
        member.map_or("unknown".to_string(), |member| member.state.clone())
    };
    let members = entries
        .iter()
        .map(|entry| ObservedSetMember {
            name: entry.name.clone().unwrap_or_default(),
            address: entry.address.clone(),
            incarnation: entry.incarnation.clone(),
            state: state_of(&entry.address),
            votes: entry.votes,
        })
        .collect();
    let observed = ObservedSet {
        primary: controller.options.name.clone(),
        members,
    };
    if records.set.as_ref() != Some(&observed) {
        controller.record_store.publish(&observed).await?;
    }
    Ok(())
}
