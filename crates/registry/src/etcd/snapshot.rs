//! The registered judicators and the leader, as read from etcd and kept current by its watch events.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etcd_client::{Client, Event, EventType, GetOptions, KeyValue};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::access::with_timeout;
use super::connection::EtcdConnection;
use super::{EtcdAccess, EtcdAccessError, keys};

/// For one read of the whole list.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// A judicator as it is registered in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredJudicator {
    pub name: String,
    /// Where it serves RPC.
    pub address: String,
    pub version: String,
    /// The newest form of tasks that it has met and does not know.
    pub newer_form: Option<u32>,
    /// When it registered, by its own clock.
    pub since: SystemTime,
    pub leads: bool,
}

/// Why the judicators that are registered in etcd could not be listed.
#[derive(Debug, Error)]
pub enum ListJudicatorsError {
    #[error(transparent)]
    Access(#[from] EtcdAccessError),
    #[error("could not read the list of judicators")]
    List(#[source] etcd_client::Error),
}

/// Lists the registered judicators, sorted by name.
pub async fn list_judicators(access: &EtcdAccess) -> Result<Vec<RegisteredJudicator>, ListJudicatorsError> {
    let mut connection = EtcdConnection::fixed(access.clone());
    // A member that accepts connections may be cut off from the quorum, so the next endpoint is tried then.
    for _ in 1..access.endpoints.len() {
        let mut client = connection.client().await?;
        match read_snapshot(&mut client, READ_TIMEOUT).await {
            Ok(snapshot) => return Ok(snapshot.registered()),
            Err(error) => connection.on_error(&error),
        };
    }
    let mut client = connection.client().await?;
    let snapshot = read_snapshot(&mut client, READ_TIMEOUT)
        .await
        .map_err(ListJudicatorsError::List)?;
    Ok(snapshot.registered())
}

/// Reads all judicators and the leader. The read is linearizable, which is the default of etcd.
pub(super) async fn read_snapshot(
    client: &mut Client,
    limit: Duration,
) -> Result<RegistrySnapshot, etcd_client::Error> {
    let (from, to) = keys::range();
    let options = GetOptions::new().with_range(to);
    let answer = with_timeout(limit, client.get(from, Some(options))).await?;
    let mut snapshot = RegistrySnapshot {
        revision: answer.header().map_or(0, |header| header.revision()),
        ..RegistrySnapshot::default()
    };
    for entry in answer.kvs() {
        snapshot.put(RegistryEntry::of(entry));
    }
    Ok(snapshot)
}

/// The value of a judicator's key in etcd: what the judicator publishes about itself. Unknown JSON members are ignored,
/// because a newer version may add some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RegistrationRecord {
    pub(super) address: String,
    pub(super) version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) newer_form: Option<u32>,
    /// Seconds since 1970, for people to read. Nothing is decided by it.
    since: u64,
}

impl RegistrationRecord {
    pub(super) fn new(address: String, version: String, since: SystemTime) -> RegistrationRecord {
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        RegistrationRecord {
            address,
            version,
            newer_form: None,
            since,
        }
    }

    pub(super) fn since(&self) -> SystemTime {
        UNIX_EPOCH
            .checked_add(Duration::from_secs(self.since))
            .unwrap_or(UNIX_EPOCH)
    }

    pub(super) fn read(value: &[u8]) -> Result<RegistrationRecord, serde_json::Error> {
        serde_json::from_slice(value)
    }

    pub(super) fn write(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

/// An etcd key of the registry (a judicator's or the leader's) with its value, lease and revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegistryEntry {
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    /// The lease that the key is bound to; 0 if there is none.
    pub(super) lease: i64,
    /// The revision of its last change.
    pub(super) revision: i64,
}

impl RegistryEntry {
    fn of(entry: &KeyValue) -> RegistryEntry {
        RegistryEntry {
            key: String::from_utf8_lossy(entry.key()).into_owned(),
            value: entry.value().to_vec(),
            lease: entry.lease(),
            revision: entry.mod_revision(),
        }
    }
}

/// A change of one key of the registry, as an etcd watch reports it.
#[derive(Clone, Debug)]
pub(super) enum WatchEvent {
    Put(RegistryEntry),
    Delete { key: String, revision: i64 },
}

impl WatchEvent {
    pub(super) fn of(event: &Event) -> Option<WatchEvent> {
        let entry = RegistryEntry::of(event.kv()?);
        Some(match event.event_type() {
            EventType::Put => WatchEvent::Put(entry),
            EventType::Delete => WatchEvent::Delete {
                key: entry.key,
                revision: entry.revision,
            },
        })
    }

    fn revision(&self) -> i64 {
        match self {
            WatchEvent::Put(entry) => entry.revision,
            WatchEvent::Delete { revision, .. } => *revision,
        }
    }
}

/// The registered judicators and the leader as of one etcd revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RegistrySnapshot {
    pub(super) revision: i64,
    judicators: BTreeMap<String, RegistryEntry>,
    pub(super) leader: Option<RegistryEntry>,
}

impl RegistrySnapshot {
    /// Applies the events of one watch response. Events up to the current revision are skipped: a watch may repeat
    /// events, and an old event must not undo a newer one.
    pub(super) fn merge(&mut self, events: Vec<WatchEvent>) {
        let known = self.revision;
        for event in events {
            let revision = event.revision();
            if revision <= known {
                continue;
            }
            // One revision may have several events, so each is compared with the revision before this response.
            self.revision = self.revision.max(revision);
            match event {
                WatchEvent::Put(entry) => self.put(entry),
                WatchEvent::Delete { key, .. } => self.remove(&key),
            }
        }
    }

    pub(super) fn judicator(&self, name: &str) -> Option<&RegistryEntry> {
        self.judicators.get(name)
    }

    /// Whether both have the same judicators and the same leader. The revisions may differ.
    pub(super) fn has_same_entries(&self, other: &RegistrySnapshot) -> bool {
        self.judicators == other.judicators && self.leader == other.leader
    }

    /// The judicators whose registration can be read.
    pub(super) fn registered(&self) -> Vec<RegisteredJudicator> {
        let leader = self.leader.as_ref().map(|entry| entry.value.as_slice());
        self.judicators
            .iter()
            .filter_map(|(name, entry)| {
                let record = RegistrationRecord::read(&entry.value).ok()?;
                Some(RegisteredJudicator {
                    name: name.clone(),
                    since: record.since(),
                    address: record.address,
                    version: record.version,
                    newer_form: record.newer_form,
                    leads: leader == Some(name.as_bytes()),
                })
            })
            .collect()
    }

    /// The addresses of all judicators, each once.
    pub(super) fn addresses(&self) -> Vec<String> {
        let mut addresses: Vec<_> = self
            .registered()
            .into_iter()
            .map(|judicator| judicator.address)
            .collect();
        addresses.sort();
        addresses.dedup();
        addresses
    }

    /// The judicators whose value cannot be parsed: name, revision of the value, and error.
    pub(super) fn unreadable(&self) -> Vec<(&str, i64, serde_json::Error)> {
        self.judicators
            .iter()
            .filter_map(|(name, entry)| {
                let error = RegistrationRecord::read(&entry.value).err()?;
                Some((name.as_str(), entry.revision, error))
            })
            .collect()
    }

    fn put(&mut self, entry: RegistryEntry) {
        if entry.key == keys::LEADER {
            self.leader = Some(entry);
        } else if let Some(name) = keys::name_of(&entry.key) {
            self.judicators.insert(name.to_owned(), entry);
        }
    }

    fn remove(&mut self, key: &str) {
        if key == keys::LEADER {
            self.leader = None;
        } else if let Some(name) = keys::name_of(key) {
            self.judicators.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(name: &str, address: &str, revision: i64) -> WatchEvent {
        let record = RegistrationRecord::new(address.into(), "1".into(), SystemTime::UNIX_EPOCH);
        entry(keys::judicator(name), record.write().unwrap(), revision)
    }

    fn lead(name: &str, revision: i64) -> WatchEvent {
        entry(keys::LEADER.into(), name.into(), revision)
    }

    fn entry(key: String, value: Vec<u8>, revision: i64) -> WatchEvent {
        WatchEvent::Put(RegistryEntry {
            key,
            value,
            lease: 7,
            revision,
        })
    }

    fn gone(key: String, revision: i64) -> WatchEvent {
        WatchEvent::Delete { key, revision }
    }

    /// Merges events into a snapshot of `a` at `1:1`, leading, as of revision 10. `expected` lists `name address`, with
    /// a star for the leader.
    fn check(events: Vec<WatchEvent>, expected: &[&str]) {
        let mut snapshot = RegistrySnapshot {
            revision: 1,
            ..RegistrySnapshot::default()
        };
        snapshot.merge(vec![put("a", "1:1", 9), lead("a", 10)]);
        snapshot.merge(events.clone());
        let found: Vec<_> = snapshot
            .registered()
            .into_iter()
            .map(|judicator| {
                format!(
                    "{} {}{}",
                    judicator.name,
                    judicator.address,
                    if judicator.leads { "*" } else { "" }
                )
            })
            .collect();
        assert_eq!(found, expected, "{events:?}");
    }

    #[test]
    fn watch_events_are_applied_to_the_snapshot() {
        let a = || keys::judicator("a");
        let leader = || keys::LEADER.to_owned();
        check(vec![], &["a 1:1*"]);
        check(vec![put("b", "2:2", 11)], &["a 1:1*", "b 2:2"]);
        // An address may change under a name.
        check(vec![put("a", "3:3", 11)], &["a 3:3*"]);
        // Both keys go at once when a lease expires.
        check(vec![gone(a(), 11), gone(leader(), 11)], &[]);
        check(vec![gone(leader(), 11)], &["a 1:1"]);
        check(
            vec![
                put("b", "2:2", 11),
                gone(a(), 12),
                gone(leader(), 12),
                lead("b", 13),
            ],
            &["b 2:2*"],
        );
        // Events up to the current revision change nothing.
        check(vec![gone(a(), 10), put("a", "0:0", 3)], &["a 1:1*"]);
        // A key may be deleted and come back.
        check(vec![gone(a(), 11), put("a", "1:1", 12)], &["a 1:1*"]);
        // Unknown keys and unreadable values are skipped.
        check(
            vec![entry(keys::judicator("odd"), b"{".to_vec(), 11)],
            &["a 1:1*"],
        );
        check(
            vec![entry("/conclave/kin".into(), b"{}".to_vec(), 11)],
            &["a 1:1*"],
        );
    }

    #[test]
    fn unreadable_registrations_are_listed() {
        let mut snapshot = RegistrySnapshot::default();
        snapshot.merge(vec![
            put("a", "1:1", 1),
            entry(keys::judicator("odd"), b"[]".to_vec(), 2),
        ]);
        let named: Vec<_> = snapshot
            .unreadable()
            .into_iter()
            .map(|(name, revision, _)| (name, revision))
            .collect();
        assert_eq!(named, [("odd", 2)]);
    }

    #[test]
    fn each_address_is_listed_once() {
        let mut snapshot = RegistrySnapshot::default();
        snapshot.merge(vec![put("b", "1:1", 1), put("a", "2:2", 2), put("c", "1:1", 3)]);
        assert_eq!(snapshot.addresses(), ["1:1", "2:2"]);
    }
}
