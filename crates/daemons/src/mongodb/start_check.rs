//! Decides whether this node may start mongod, from its state files, the records in etcd and the set's config. Pure: no
//! I/O. Checked before anything is changed.

use std::path::PathBuf;

use thiserror::Error;

use super::config_change::ConfigMember;
use super::local_state::MongodLocalState;
use super::records::{Incarnation, ReplicaSetRecords};
use super::{MongodDaemonOptions, secret};

/// Why the mongod daemon must not start mongod on this node, and what to do about it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MongodStartRefusal {
    #[error(
        "this node has left the cluster; its data is kept in {folder}. To join again, move that folder away first"
    )]
    Left { folder: PathBuf },
    #[error(
        "{folder} holds data, but no member.json of this daemon; move it away, or correct the data folder"
    )]
    NoStateFile { folder: PathBuf },
    #[error(
        "{folder} holds data of the replica set {found}, not of {wanted}; correct mongodb.set or the data folder"
    )]
    OtherSet {
        folder: PathBuf,
        found: String,
        wanted: String,
    },
    #[error("the cluster's replica set is {found}, not {wanted}; correct mongodb.set")]
    SetName { found: String, wanted: String },
    #[error(
        "{folder} holds data of another cluster; correct the data folder or the addresses of etcd. If etcd was set \
         up anew for this data, remove the file `cluster` in it"
    )]
    OtherCluster { folder: PathBuf },
    #[error("{folder} was set up with another cluster secret; correct secrets.cluster_file")]
    FolderSecret { folder: PathBuf },
    #[error(
        "mongod at {address} requires another cluster secret than this node's; correct secrets.cluster_file"
    )]
    Secret { address: String },
    #[error(
        "{address} is registered by the node {by}; choose another mongodb.port, or `conclave remove {by}` if it is gone"
    )]
    Address { address: String, by: String },
    #[error(
        "{address} belongs to another member of the replica set: one whose data was lost, or a node that had this \
         address before. To join again, move {folder} away first"
    )]
    EntryOfAnother { address: String, folder: PathBuf },
    #[error("a node named {name} runs at {address}; give this one another node.name")]
    Name { name: String, address: String },
}

/// Checks the data folder against the options.
pub(crate) fn check_data_folder(
    options: &MongodDaemonOptions,
    state: &MongodLocalState,
) -> Result<(), MongodStartRefusal> {
    let folder = || options.data.clone();
    if state.left {
        return Err(MongodStartRefusal::Left { folder: folder() });
    }
    if !state.has_data {
        return Ok(());
    }
    let Some(member) = &state.member else {
        return Err(MongodStartRefusal::NoStateFile { folder: folder() });
    };
    if member.set != options.set {
        return Err(MongodStartRefusal::OtherSet {
            folder: folder(),
            found: member.set.clone(),
            wanted: options.set.clone(),
        });
    }
    // A folder that was in a confirmed set keeps its secret. Before that an operator may add a secret, or correct a
    // wrong one; whether the new one is right, the other members decide.
    let given = options.secret.as_deref().map(secret::key_file_content);
    match &state.key {
        Some(kept) if member.replica_set.is_some() && given.as_ref() != Some(kept) => {
            Err(MongodStartRefusal::FolderSecret { folder: folder() })
        }
        _ => Ok(()),
    }
}

/// Checks the data folder and the options against the records in etcd.
pub(crate) fn check_records(
    options: &MongodDaemonOptions,
    state: &MongodLocalState,
    records: &ReplicaSetRecords,
) -> Result<(), MongodStartRefusal> {
    let folder = || options.data.clone();
    if let Some(initiated) = &records.initiated
        && initiated.set != options.set
    {
        return Err(MongodStartRefusal::SetName {
            found: initiated.set.clone(),
            wanted: options.set.clone(),
        });
    }
    let address = options.address();
    let other = records
        .members
        .iter()
        .find(|(name, member)| **name != options.name && member.address == address);
    if let Some((by, _)) = other {
        return Err(MongodStartRefusal::Address {
            address,
            by: by.clone(),
        });
    }
    let saved = state.member.as_ref();
    if let Some(member) = saved.filter(|member| state.has_data || !member.started)
        && let Some(left) = records.left.get(&member.incarnation)
        // A member that the set has not removed yet may start: its vote may be needed for the removal.
        && (left.removed || !member.started || records.initiated.is_none())
    {
        return Err(MongodStartRefusal::Left { folder: folder() });
    }
    let Some(member) = saved.filter(|_| state.has_data) else {
        return Ok(());
    };
    let cluster_set = records.initiated.as_ref().map(|initiated| &initiated.id);
    let same_set = match (&member.replica_set, cluster_set) {
        (Some(ours), Some(theirs)) => Some(ours == theirs),
        _ => None,
    };
    let same_etcd = state
        .cluster
        .as_ref()
        .is_none_or(|cluster| *cluster == cluster_id_text(records));
    // The set's id counts more than etcd's: an etcd that was restored from a backup has another id but the same
    // records.
    match same_set.unwrap_or(same_etcd) {
        true => Ok(()),
        false => Err(MongodStartRefusal::OtherCluster { folder: folder() }),
    }
}

/// To which member the replica set's config entry at this node's address belongs. Checked before mongod is started on
/// an empty folder, since the replica set takes that mongod for the member of the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExistingConfigMember {
    /// The entry is for this incarnation, and has no vote before there is data.
    Own,
    /// The entry is for an incarnation whose data is lost, and which has to be marked as left.
    OfLostData(Incarnation),
    /// An operator added the entry by hand, and the primary tagged it with this incarnation, which has never been a
    /// member. This node needs a new incarnation.
    TaggedByMistake,
    /// The entry is for another node; the primary moves or tags it.
    OfAnother,
}

pub(crate) fn classify_config_member(
    own: &Incarnation,
    entry: &ConfigMember,
    records: &ReplicaSetRecords,
) -> ExistingConfigMember {
    match &entry.incarnation {
        Some(incarnation) if incarnation == own && entry.votes == 0 => ExistingConfigMember::Own,
        Some(incarnation) if incarnation == own => ExistingConfigMember::TaggedByMistake,
        // It is registered at another address now, and the primary moves its entry there.
        Some(incarnation)
            if records
                .members
                .values()
                .any(|member| member.incarnation == *incarnation) =>
        {
            ExistingConfigMember::OfAnother
        }
        Some(incarnation) => ExistingConfigMember::OfLostData(incarnation.clone()),
        // The primary tags it with the incarnation that is registered for the address.
        None => ExistingConfigMember::OfAnother,
    }
}

/// The id of the etcd cluster, as in the state file `cluster`.
pub(crate) fn cluster_id_text(records: &ReplicaSetRecords) -> String {
    format!("{:016x}", records.cluster)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::local_state::MemberStateFile;
    use super::super::records::{InitiatedRecord, LeftRecord, MemberRecord};
    use super::*;

    pub(crate) fn options() -> MongodDaemonOptions {
        MongodDaemonOptions {
            name: "a".into(),
            program: "mongod".into(),
            data: "/d".into(),
            host: "h".into(),
            port: 1,
            set: "s".into(),
            tries: 1,
            cache: None,
            secret: Some("secret".into()),
            etcd: registry::etcd::EtcdAccess {
                endpoints: Vec::new(),
                login: None,
                tls: None,
                cluster_id: None,
            },
            lease: std::time::Duration::from_secs(1),
            parent_death_wrapper: Vec::new(),
        }
    }

    /// The state of a healthy member.
    fn state() -> MongodLocalState {
        MongodLocalState {
            has_data: true,
            member: Some(MemberStateFile {
                incarnation: "a1".into(),
                set: "s".into(),
                started: true,
                replica_set: Some("x".into()),
            }),
            cluster: Some("0000000000000007".into()),
            key: Some(secret::key_file_content("secret")),
            left: false,
        }
    }

    fn records() -> ReplicaSetRecords {
        let mut records = ReplicaSetRecords {
            cluster: 7,
            initiated: Some(InitiatedRecord {
                set: "s".into(),
                by: "b".into(),
                id: "x".into(),
            }),
            ..ReplicaSetRecords::default()
        };
        for (name, address) in [("a", "h:1"), ("b", "h:2")] {
            let incarnation = format!("{name}1").as_str().into();
            let address = address.to_string();
            records
                .members
                .insert(name.into(), MemberRecord { address, incarnation });
        }
        records
    }

    fn message(result: Result<(), MongodStartRefusal>) -> String {
        result.map_or_else(|refusal| refusal.to_string(), |()| "ok".into())
    }

    #[test]
    fn the_data_folder_has_to_fit_the_options() {
        let check = |alter: fn(&mut MongodLocalState, &mut MongodDaemonOptions), expected: &str| {
            let (mut state, mut options) = (state(), options());
            alter(&mut state, &mut options);
            let message = message(check_data_folder(&options, &state));
            assert!(
                message.contains(expected),
                "{message} does not contain {expected}"
            );
        };
        check(|_, _| (), "ok");
        check(|state, _| *state = MongodLocalState::default(), "ok");
        check(|state, _| state.left = true, "left the cluster");
        check(|state, _| state.member = None, "no member.json");
        check(|_, options| options.set = "t".into(), "replica set s, not of t");
        check(
            |_, options| options.secret = Some("other".into()),
            "another cluster secret",
        );
        check(|_, options| options.secret = None, "another cluster secret");
        check(|state, _| state.key = None, "ok");
        check(
            |state, options| {
                state.member.as_mut().unwrap().replica_set = None;
                options.secret = Some("corrected".into());
            },
            "ok",
        );
    }

    #[test]
    fn the_data_folder_has_to_fit_the_records_in_etcd() {
        let check = |alter: fn(&mut MongodLocalState, &mut ReplicaSetRecords), expected: &str| {
            let (mut state, mut records) = (state(), records());
            alter(&mut state, &mut records);
            let message = message(check_records(&options(), &state, &records));
            assert!(
                message.contains(expected),
                "{message} does not contain {expected}"
            );
        };
        check(|_, _| (), "ok");
        check(|state, _| *state = MongodLocalState::default(), "ok");
        check(
            |_, records| {
                *records = ReplicaSetRecords {
                    cluster: 7,
                    ..ReplicaSetRecords::default()
                }
            },
            "ok",
        );
        check(
            |_, records| records.initiated.as_mut().unwrap().set = "t".into(),
            "replica set is t, not s",
        );
        check(
            |_, records| records.members.get_mut("b").unwrap().address = "h:1".into(),
            "registered by the node b",
        );
        let mark_left = |records: &mut ReplicaSetRecords, removed: bool| {
            let (name, address) = ("a".into(), "h:1".into());
            let left = LeftRecord {
                name,
                address,
                removed,
            };
            records.left.insert("a1".into(), left);
        };
        // Removed by an operator while it was down.
        let check_left = |removed: bool, expected: &str| {
            let mut records = records();
            mark_left(&mut records, removed);
            let message = message(check_records(&options(), &state(), &records));
            assert!(
                message.contains(expected),
                "{message} does not contain {expected}"
            );
        };
        check_left(true, "left the cluster");
        // The same, but the set has not removed it yet.
        check_left(false, "ok");
        // The folder belongs to another cluster, by the id of its set or of its etcd.
        check(
            |_, records| records.initiated.as_mut().unwrap().id = "y".into(),
            "another cluster",
        );
        check(
            |_, records| {
                *records = ReplicaSetRecords {
                    cluster: 8,
                    ..ReplicaSetRecords::default()
                }
            },
            "another cluster",
        );
        // etcd was restored from a backup: another id, the same records.
        check(|_, records| records.cluster = 8, "ok");
        // etcd was set up anew, and the operator has removed the file `cluster`.
        check(
            |state, records| {
                *records = ReplicaSetRecords {
                    cluster: 8,
                    ..ReplicaSetRecords::default()
                };
                state.cluster = None;
            },
            "ok",
        );
        // A folder without data belongs to no other cluster.
        check(
            |state, records| {
                state.has_data = false;
                records.cluster = 8;
                records.initiated = None;
            },
            "ok",
        );
    }

    #[test]
    fn the_config_entry_at_the_own_address_is_classified() {
        let check = |incarnation: Option<&str>, votes: i64, expected: ExistingConfigMember| {
            let entry = ConfigMember {
                address: "h:1".into(),
                name: None,
                incarnation: incarnation.map(Incarnation::from),
                votes,
            };
            assert_eq!(
                classify_config_member(&"a1".into(), &entry, &records()),
                expected,
                "{entry:?}"
            );
        };
        check(Some("a1"), 0, ExistingConfigMember::Own);
        check(Some("a1"), 1, ExistingConfigMember::TaggedByMistake);
        check(Some("a0"), 1, ExistingConfigMember::OfLostData("a0".into()));
        check(Some("a0"), 0, ExistingConfigMember::OfLostData("a0".into()));
        check(Some("b1"), 1, ExistingConfigMember::OfAnother);
        check(None, 1, ExistingConfigMember::OfAnother);
    }
}
