//! The records in etcd about the replica set, below `/conclave/mongodb/`.
//!
//! | key | value | kept |
//! |---|---|---|
//! | `members/NAME` | address and incarnation of a node | until the node left or was removed |
//! | `left/INCARNATION` | name and address, and whether the set has removed it | for ever |
//! | `initiate` | the node that claims to initiate the set | as long as its daemon renews the lease |
//! | `initiated` | the replica set that is the cluster's | for ever |
//! | `set` | the set as the primary's daemon last saw it | changes with the set |
//!
//! All records are read in one request, so that a decision is based on a consistent snapshot.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) const PREFIX: &str = "/conclave/mongodb/";
pub(crate) const INITIATE: &str = "/conclave/mongodb/initiate";
pub(crate) const INITIATED: &str = "/conclave/mongodb/initiated";
pub(crate) const SET: &str = "/conclave/mongodb/set";

pub(crate) fn member_key(name: &str) -> String {
    format!("{PREFIX}members/{name}")
}

pub(crate) fn left_key(incarnation: &Incarnation) -> String {
    format!("{PREFIX}left/{incarnation}")
}

/// The identity of one mongod data folder from its creation to its loss. A node whose data was lost gets a new
/// incarnation, and is a new member of the replica set even at the same address: as the old member it would vote for
/// writes that it no longer has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(String);

impl Incarnation {
    pub(crate) fn random() -> Incarnation {
        Incarnation(uuid::Uuid::now_v7().simple().to_string())
    }
}

impl From<&str> for Incarnation {
    fn from(text: &str) -> Incarnation {
        Incarnation(text.to_string())
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The registration of a node for the replica set in etcd: the value of `members/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    pub(crate) address: String,
    pub(crate) incarnation: Incarnation,
}

/// The mark in etcd that an incarnation (a data folder) left the replica set: the value of `left/INCARNATION`. Only
/// marked members are removed from the set: a missing registration may also mean that etcd was set up anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftRecord {
    pub(crate) name: String,
    pub(crate) address: String,
    /// Set by the primary's daemon once a config without the member is committed.
    #[serde(rename = "gone")]
    pub(crate) removed: bool,
}

/// The node that claims the right to initiate the replica set: the value of `initiate` in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InitiationClaim {
    pub(crate) name: String,
    pub(crate) incarnation: Incarnation,
}

/// The MongoDB replica set that is the cluster's: the value of `initiated` in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InitiatedRecord {
    /// The name of the set.
    pub(crate) set: String,
    /// The node that initiated it.
    pub(crate) by: String,
    /// mongod's own id of the set. A set with another id is not this cluster's.
    pub(crate) id: String,
}

/// The MongoDB replica set as the daemon of the primary last observed it: the value of `set` in etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObservedSet {
    pub(crate) primary: String,
    pub(crate) members: Vec<ObservedSetMember>,
}

/// A MongoDB replica set member as the daemon of the primary observes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObservedSetMember {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) state: String,
    pub(crate) votes: i64,
}

/// All records in etcd about the MongoDB replica set, read in one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaSetRecords {
    pub(crate) members: BTreeMap<String, MemberRecord>,
    pub(crate) left: BTreeMap<Incarnation, LeftRecord>,
    pub(crate) initiate: Option<InitiationClaim>,
    pub(crate) initiated: Option<InitiatedRecord>,
    pub(crate) set: Option<ObservedSet>,
    /// The id of the etcd cluster that answered.
    pub(crate) cluster: u64,
    /// The etcd revision of each `members/NAME`, for writes on the condition that it has not changed.
    pub(crate) member_revisions: BTreeMap<String, i64>,
}

/// The error that a record in etcd about the replica set cannot be parsed.
#[derive(Debug, Error)]
#[error("could not parse the value of {key} in etcd; a newer version of Conclave may have written it")]
pub struct RecordError {
    key: String,
    #[source]
    source: serde_json::Error,
}

/// An etcd key with its value and revision, from which a record about the replica set is parsed.
pub(crate) struct EtcdEntry<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: &'a [u8],
    pub(crate) mod_revision: i64,
}

impl ReplicaSetRecords {
    /// Fails if the value cannot be parsed: no decision may be based on a part of the records. Unknown keys are
    /// ignored.
    pub(crate) fn add_entry(&mut self, entry: EtcdEntry<'_>) -> Result<(), RecordError> {
        let EtcdEntry {
            key,
            value,
            mod_revision,
        } = entry;
        let unreadable = |source| RecordError {
            key: key.to_string(),
            source,
        };
        let Some(rest) = key.strip_prefix(PREFIX) else {
            return Ok(());
        };
        match rest.split_once('/') {
            Some(("members", name)) => {
                let member = serde_json::from_slice(value).map_err(unreadable)?;
                self.members.insert(name.to_string(), member);
                self.member_revisions.insert(name.to_string(), mod_revision);
            }
            Some(("left", incarnation)) => {
                let left = serde_json::from_slice(value).map_err(unreadable)?;
                self.left.insert(incarnation.into(), left);
            }
            None if key == INITIATE => {
                self.initiate = Some(serde_json::from_slice(value).map_err(unreadable)?);
            }
            None if key == INITIATED => {
                self.initiated = Some(serde_json::from_slice(value).map_err(unreadable)?);
            }
            None if key == SET => self.set = Some(serde_json::from_slice(value).map_err(unreadable)?),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<ReplicaSetRecords, RecordError> {
        let mut records = ReplicaSetRecords::default();
        for (key, value) in entries {
            records.add_entry(EtcdEntry {
                key,
                value: value.as_bytes(),
                mod_revision: 7,
            })?;
        }
        Ok(records)
    }

    #[test]
    fn each_key_is_parsed_into_its_record() {
        let records = read(&[
            (
                "/conclave/mongodb/members/a",
                r#"{"address":"h:1","incarnation":"i1"}"#,
            ),
            (
                "/conclave/mongodb/left/i0",
                r#"{"name":"a","address":"h:1","gone":false}"#,
            ),
            ("/conclave/mongodb/initiate", r#"{"name":"a","incarnation":"i1"}"#),
            (
                "/conclave/mongodb/initiated",
                r#"{"set":"conclave","by":"a","id":"x"}"#,
            ),
            ("/conclave/mongodb/later/words", "?"),
            ("/conclave/leader", "a"),
        ])
        .unwrap();
        assert_eq!(records.members["a"].incarnation, "i1".into());
        assert_eq!(records.member_revisions["a"], 7);
        assert!(!records.left[&Incarnation::from("i0")].removed);
        assert_eq!(records.initiate.unwrap().name, "a");
        assert_eq!(records.initiated.unwrap().id, "x");
        assert_eq!(records.set, None);
    }

    #[test]
    fn the_error_for_a_malformed_value_names_its_key() {
        let error = read(&[("/conclave/mongodb/members/a", "{}")]).unwrap_err();
        assert!(
            error.to_string().contains("/conclave/mongodb/members/a"),
            "{error}"
        );
    }

    #[test]
    fn random_incarnations_differ() {
        assert_ne!(Incarnation::random(), Incarnation::random());
    }
}
