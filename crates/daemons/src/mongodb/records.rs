//! What is written in etcd about the replica set, below `/conclave/mongodb/`.
//!
//! | key | value | there |
//! |---|---|---|
//! | `members/NAME` | address and incarnation of a node | until the node left or was removed |
//! | `left/INCARNATION` | who it was, and whether the replica set is rid of it | for ever |
//! | `initiate` | who is about to initiate the set | as long as that daemon lives |
//! | `initiated` | which set is the cluster's one | for ever |
//! | `set` | what the primary's daemon last saw | changes with the set |
//!
//! All of it is read at once, so that what is decided is decided over one moment.

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

/// One life of a data folder. A folder that was lost and begins anew is another member to the replica set, at
/// whatever address: if it came back as the old one, it would vote on writes that it has forgotten.
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) address: String,
    pub(crate) incarnation: Incarnation,
}

/// The mark of one that left. Nobody is removed from the replica set without it: that a node is not registered may
/// also mean that etcd was set up anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Left {
    pub(crate) name: String,
    pub(crate) address: String,
    /// Set by the primary's daemon, once a config without it is in force.
    pub(crate) gone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) incarnation: Incarnation,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Initiated {
    pub(crate) set: String,
    pub(crate) by: String,
    /// mongod's own id of the set. A set with another one is not this cluster's.
    pub(crate) id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetSeen {
    pub(crate) primary: String,
    pub(crate) members: Vec<SeatSeen>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeatSeen {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) state: String,
    pub(crate) votes: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Records {
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) left: BTreeMap<Incarnation, Left>,
    pub(crate) initiate: Option<Claim>,
    pub(crate) initiated: Option<Initiated>,
    pub(crate) set: Option<SetSeen>,
    /// Which etcd cluster told it.
    pub(crate) cluster: u64,
    /// When `members/NAME` was last written, for writing it again only if nobody else did.
    pub(crate) written: BTreeMap<String, i64>,
}

#[derive(Debug, Error)]
#[error("cannot read {key} in etcd (a newer version of Conclave may have written it)")]
pub struct RecordError {
    key: String,
    #[source]
    source: serde_json::Error,
}

/// A key as etcd tells it.
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: &'a [u8],
    pub(crate) mod_revision: i64,
}

impl Records {
    /// Whole or not at all: a registry of which a part cannot be read is no ground to change anything.
    pub(crate) fn take_up(&mut self, entry: Entry<'_>) -> Result<(), RecordError> {
        let Entry {
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
                self.written.insert(name.to_string(), mod_revision);
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

    fn read(entries: &[(&str, &str)]) -> Result<Records, RecordError> {
        let mut records = Records::default();
        for (key, value) in entries {
            records.take_up(Entry {
                key,
                value: value.as_bytes(),
                mod_revision: 7,
            })?;
        }
        Ok(records)
    }

    #[test]
    fn keys_are_told_apart() {
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
        assert_eq!(records.written["a"], 7);
        assert!(!records.left[&Incarnation::from("i0")].gone);
        assert_eq!(records.initiate.unwrap().name, "a");
        assert_eq!(records.initiated.unwrap().id, "x");
        assert_eq!(records.set, None);
    }

    #[test]
    fn a_key_that_cannot_be_read_is_named() {
        let error = read(&[("/conclave/mongodb/members/a", "{}")]).unwrap_err();
        assert!(
            error.to_string().contains("/conclave/mongodb/members/a"),
            "{error}"
        );
    }

    #[test]
    fn incarnations_differ() {
        assert_ne!(Incarnation::random(), Incarnation::random());
    }
}
