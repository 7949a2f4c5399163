//! The replica set's config document.
//!
//! It is kept as the document that mongod returned, so that fields that Conclave does not know are preserved.

use mongodb::bson::{Bson, Document, doc};

use super::config_change::{ConfigChange, ConfigMember};
use super::records::Incarnation;

/// With this, a failover takes about three seconds; about five if the primary hangs, because its connections stay open.
const ELECTION_TIMEOUT_MS: i32 = 2000;
/// A secondary that has just reported its progress to a hung member waits half a minute for the answer, and reports
/// to no other member meanwhile. The new primary learns the progress only from heartbeats, so majority writes wait
/// for them.
const HEARTBEAT_MS: i32 = 200;
const HEARTBEAT_TIMEOUT_SECS: i32 = 2;
/// With majority writes no acknowledged write depends on the catch-up, and a hung member must not delay the new
/// primary.
const CATCH_UP_MS: i32 = 1000;

/// A replica set config, as `replSetGetConfig` returns it and `replSetReconfig` takes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplicaSetConfig(pub(crate) Document);

impl ReplicaSetConfig {
    pub(crate) fn with_one_member(set: &str, entry: &ConfigMember) -> ReplicaSetConfig {
        ReplicaSetConfig(doc! {
            "_id": set,
            "version": 1,
            "members": [document(0, entry, 1)],
            "settings": {
                "electionTimeoutMillis": ELECTION_TIMEOUT_MS,
                "heartbeatIntervalMillis": HEARTBEAT_MS,
                "heartbeatTimeoutSecs": HEARTBEAT_TIMEOUT_SECS,
                "catchUpTimeoutMillis": CATCH_UP_MS,
            },
        })
    }

    pub(crate) fn set_name(&self) -> &str {
        self.0.get_str("_id").unwrap_or_default()
    }

    /// mongod's own id of the set, created when the set was initiated.
    pub(crate) fn id(&self) -> Option<String> {
        let settings = self.0.get_document("settings").ok()?;
        Some(settings.get_object_id("replicaSetId").ok()?.to_hex())
    }

    pub(crate) fn entries(&self) -> Vec<ConfigMember> {
        self.members().filter_map(parse_entry).collect()
    }

    /// The next version of the config, with one change.
    pub(crate) fn with_change(&self, change: &ConfigChange) -> ReplicaSetConfig {
        let mut next = self.clone();
        let mut members: Vec<Document> = self.members().cloned().collect();
        match change {
            ConfigChange::Remove(entry) => members.retain(|member| address(member) != entry.address),
            ConfigChange::Add(entry) => {
                // The id of a member has to be unique within the config.
                let last_id = members
                    .iter()
                    .filter_map(|member| number(member.get("_id")))
                    .max();
                members.push(document(last_id.map_or(0, |id| id + 1), entry, 0));
            }
            ConfigChange::Move { from, to } => update(&mut members, from, doc! { "host": to }),
            ConfigChange::Tag(entry) => {
                update(&mut members, &entry.address, doc! { "tags": tags(entry) });
            }
            ConfigChange::Promote(entry) => {
                let voter = doc! { "votes": 1, "priority": 1 };
                update(&mut members, &entry.address, voter);
            }
        }
        next.0.insert("members", members);
        let version = number(self.0.get("version")).unwrap_or_default();
        next.0.insert("version", version + 1);
        next
    }

    fn members(&self) -> impl Iterator<Item = &Document> {
        let members = self.0.get_array("members").map(Vec::as_slice).unwrap_or_default();
        members.iter().filter_map(Bson::as_document)
    }
}

fn update(members: &mut [Document], host: &str, fields: Document) {
    for member in members.iter_mut().filter(|member| address(member) == host) {
        member.extend(fields.clone());
    }
}

fn document(id: i64, entry: &ConfigMember, votes: i32) -> Document {
    doc! { "_id": id, "host": &entry.address, "votes": votes, "priority": votes, "tags": tags(entry) }
}

fn tags(entry: &ConfigMember) -> Document {
    let mut tags = Document::new();
    if let Some(name) = &entry.name {
        tags.insert("name", name);
    }
    if let Some(incarnation) = &entry.incarnation {
        tags.insert("incarnation", incarnation.to_string());
    }
    tags
}

fn parse_entry(member: &Document) -> Option<ConfigMember> {
    let tag = |key| member.get_document("tags").ok()?.get_str(key).ok();
    Some(ConfigMember {
        address: member.get_str("host").ok()?.to_string(),
        name: tag("name").map(str::to_string),
        incarnation: tag("incarnation").map(Incarnation::from),
        votes: number(member.get("votes")).unwrap_or(1),
    })
}

fn address(member: &Document) -> &str {
    member.get_str("host").unwrap_or_default()
}

/// mongod returns a number in the type in which it was written.
fn number(value: Option<&Bson>) -> Option<i64> {
    match value? {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) => Some(*number as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, votes: i64) -> ConfigMember {
        ConfigMember {
            address: format!("{name}:1"),
            name: Some(name.into()),
            incarnation: Some(Incarnation::from(&*format!("{name}1"))),
            votes,
        }
    }

    #[test]
    fn each_change_changes_one_thing_and_the_version() {
        let first = ReplicaSetConfig::with_one_member("s", &entry("a", 1));
        assert_eq!(first.entries(), [entry("a", 1)]);
        let two = first.with_change(&ConfigChange::Add(entry("b", 0)));
        assert_eq!(two.entries(), [entry("a", 1), entry("b", 0)]);
        assert_eq!(number(two.0.get("version")), Some(2));
        let promoted = two.with_change(&ConfigChange::Promote(entry("b", 0)));
        assert_eq!(promoted.entries(), [entry("a", 1), entry("b", 1)]);
        let moved = promoted.with_change(&ConfigChange::Move {
            from: "b:1".into(),
            to: "b:2".into(),
        });
        assert_eq!(moved.entries()[1].address, "b:2");
        let one = promoted.with_change(&ConfigChange::Remove(entry("a", 1)));
        assert_eq!(one.entries(), [entry("b", 1)]);
        assert_eq!(number(one.0.get("version")), Some(4));
    }

    #[test]
    fn unknown_fields_are_preserved_and_ids_are_unique() {
        let config = ReplicaSetConfig(doc! {
            "_id": "s", "version": 4_i64, "term": 9_i64, "protocolVersion": 1_i64,
            "members": [{ "_id": 5, "host": "a:1", "votes": 1.0, "hidden": true, "tags": {} }],
            "settings": { "chainingAllowed": false },
        });
        let next = config.with_change(&ConfigChange::Add(entry("b", 0)));
        assert_eq!(next.0.get("term"), config.0.get("term"));
        assert_eq!(next.0.get("settings"), config.0.get("settings"));
        let members: Vec<&Document> = next.members().collect();
        assert_eq!(members[0].get("hidden"), Some(&Bson::Boolean(true)));
        assert_eq!(number(members[1].get("_id")), Some(6));
        let tagged = config.with_change(&ConfigChange::Tag(ConfigMember {
            address: "a:1".into(),
            ..entry("a", 1)
        }));
        assert_eq!(tagged.entries()[0].incarnation, Some("a1".into()));
    }
}
