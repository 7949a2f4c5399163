//! Who is registered, and who leads: read from etcd, and kept current by its events.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use etcd_client::{Client, Event, EventType, GetOptions, KeyValue};
use thiserror::Error;

use super::access::within;
use super::line::Line;
use super::record::Record;
use super::{Access, AccessError, keys};

/// For one reading of the list.
pub(super) const READ: Duration = Duration::from_secs(3);

/// A judicator as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudicatorSeen {
    pub name: String,
    /// Where it serves RPC.
    pub address: String,
    pub version: String,
    /// When it registered, by its own clock.
    pub since: SystemTime,
    pub leads: bool,
}

#[derive(Debug, Error)]
pub enum RosterError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("could not read the list of judicators")]
    List(#[source] etcd_client::Error),
}

/// Who is registered now, by name.
pub async fn roster(access: &Access) -> Result<Vec<JudicatorSeen>, RosterError> {
    let mut line = Line::fixed(access.clone());
    // One that answers may yet be cut off from the others: then the next is asked.
    for _ in 1..access.endpoints.len() {
        let mut client = line.client().await?;
        match list(&mut client, READ).await {
            Ok(listed) => return Ok(listed.seen()),
            Err(error) => line.on_error(&error),
        };
    }
    let mut client = line.client().await?;
    let listed = list(&mut client, READ).await.map_err(RosterError::List)?;
    Ok(listed.seen())
}

/// Reads the whole of it; linearizable, as etcd's reads are unless told otherwise.
pub(super) async fn list(client: &mut Client, limit: Duration) -> Result<Roster, etcd_client::Error> {
    let (from, to) = keys::range();
    let options = GetOptions::new().with_range(to);
    let answer = within(limit, client.get(from, Some(options))).await?;
    let mut roster = Roster {
        revision: answer.header().map_or(0, |header| header.revision()),
        ..Roster::default()
    };
    for entry in answer.kvs() {
        roster.put(Entry::of(entry));
    }
    Ok(roster)
}

/// A key with its value, and what etcd knows about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    /// 0 where nothing keeps it alive and nothing ends it.
    pub(super) lease: i64,
    /// Of its last change.
    pub(super) revision: i64,
}

impl Entry {
    fn of(entry: &KeyValue) -> Entry {
        Entry {
            key: String::from_utf8_lossy(entry.key()).into_owned(),
            value: entry.value().to_vec(),
            lease: entry.lease(),
            revision: entry.mod_revision(),
        }
    }
}

/// One thing that happened, as a watch tells it.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put(Entry),
    Gone { key: String, revision: i64 },
}

impl Change {
    pub(super) fn of(event: &Event) -> Option<Change> {
        let entry = Entry::of(event.kv()?);
        Some(match event.event_type() {
            EventType::Put => Change::Put(entry),
            EventType::Delete => Change::Gone {
                key: entry.key,
                revision: entry.revision,
            },
        })
    }

    fn revision(&self) -> i64 {
        match self {
            Change::Put(entry) => entry.revision,
            Change::Gone { revision, .. } => *revision,
        }
    }
}

/// The judicators and the leader as of one revision of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roster {
    pub(super) revision: i64,
    judicators: BTreeMap<String, Entry>,
    pub(super) leader: Option<Entry>,
}

impl Roster {
    /// Takes in what a watch told at once. What the list had already is not taken twice: a watch may repeat itself,
    /// and an old event must not undo a newer one.
    pub(super) fn merge(&mut self, changes: Vec<Change>) {
        let known = self.revision;
        for change in changes {
            let revision = change.revision();
            if revision <= known {
                continue;
            }
            // One revision may have several events: all of them are judged by what was known before.
            self.revision = self.revision.max(revision);
            match change {
                Change::Put(entry) => self.put(entry),
                Change::Gone { key, .. } => self.remove(&key),
            }
        }
    }

    pub(super) fn judicator(&self, name: &str) -> Option<&Entry> {
        self.judicators.get(name)
    }

    /// The same judicators and the same leader, at whatever revision.
    pub(super) fn agrees(&self, other: &Roster) -> bool {
        self.judicators == other.judicators && self.leader == other.leader
    }

    /// Everybody who can be understood.
    pub(super) fn seen(&self) -> Vec<JudicatorSeen> {
        let leader = self.leader.as_ref().map(|entry| entry.value.as_slice());
        self.judicators
            .iter()
            .filter_map(|(name, entry)| {
                let record = Record::read(&entry.value).ok()?;
                Some(JudicatorSeen {
                    name: name.clone(),
                    since: record.since(),
                    address: record.address,
                    version: record.version,
                    leads: leader == Some(name.as_bytes()),
                })
            })
            .collect()
    }

    /// Each address once.
    pub(super) fn addresses(&self) -> Vec<String> {
        let mut addresses: Vec<_> = self.seen().into_iter().map(|seen| seen.address).collect();
        addresses.sort();
        addresses.dedup();
        addresses
    }

    /// Whose value makes no sense, with the revision at which it was written and what is wrong with it.
    pub(super) fn unreadable(&self) -> Vec<(&str, i64, serde_json::Error)> {
        self.judicators
            .iter()
            .filter_map(|(name, entry)| {
                let wrong = Record::read(&entry.value).err()?;
                Some((name.as_str(), entry.revision, wrong))
            })
            .collect()
    }

    fn put(&mut self, entry: Entry) {
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

    fn put(name: &str, address: &str, revision: i64) -> Change {
        let record = Record::new(address.into(), "1".into(), SystemTime::UNIX_EPOCH);
        entry(keys::judicator(name), record.write().unwrap(), revision)
    }

    fn lead(name: &str, revision: i64) -> Change {
        entry(keys::LEADER.into(), name.into(), revision)
    }

    fn entry(key: String, value: Vec<u8>, revision: i64) -> Change {
        Change::Put(Entry {
            key,
            value,
            lease: 7,
            revision,
        })
    }

    fn gone(key: String, revision: i64) -> Change {
        Change::Gone { key, revision }
    }

    /// Merges into a list of `a` at `1:1`, leading, as of revision 10; each judicator is then told as
    /// `name address`, with a star where it leads.
    fn check(changes: Vec<Change>, expected: &[&str]) {
        let mut roster = Roster {
            revision: 1,
            ..Roster::default()
        };
        roster.merge(vec![put("a", "1:1", 9), lead("a", 10)]);
        roster.merge(changes.clone());
        let told: Vec<_> = roster
            .seen()
            .into_iter()
            .map(|seen| {
                format!(
                    "{} {}{}",
                    seen.name,
                    seen.address,
                    if seen.leads { "*" } else { "" }
                )
            })
            .collect();
        assert_eq!(told, expected, "{changes:?}");
    }

    #[test]
    fn events_are_merged() {
        let a = || keys::judicator("a");
        let leader = || keys::LEADER.to_owned();
        check(vec![], &["a 1:1*"]);
        check(vec![put("b", "2:2", 11)], &["a 1:1*", "b 2:2"]);
        // An address may change under a name.
        check(vec![put("a", "3:3", 11)], &["a 3:3*"]);
        // Both at once, as when a lease ends.
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
        // Old events change nothing.
        check(vec![gone(a(), 10), put("a", "0:0", 3)], &["a 1:1*"]);
        // What is gone and comes back is there.
        check(vec![gone(a(), 11), put("a", "1:1", 12)], &["a 1:1*"]);
        // Strange keys and values are left out.
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
    fn what_makes_no_sense_is_named() {
        let mut roster = Roster::default();
        roster.merge(vec![
            put("a", "1:1", 1),
            entry(keys::judicator("odd"), b"[]".to_vec(), 2),
        ]);
        let named: Vec<_> = roster
            .unreadable()
            .into_iter()
            .map(|(name, revision, _)| (name, revision))
            .collect();
        assert_eq!(named, [("odd", 2)]);
    }

    #[test]
    fn each_address_is_told_once() {
        let mut roster = Roster::default();
        roster.merge(vec![put("b", "1:1", 1), put("a", "2:2", 2), put("c", "1:1", 3)]);
        assert_eq!(roster.addresses(), ["1:1", "2:2"]);
    }
}
