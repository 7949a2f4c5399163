//! The replica set's config, as mongod gives it and takes it.
//!
//! It is kept as the document it is: what we do not know in it is given back as it came.

use mongodb::bson::{Bson, Document, doc};

use super::diff::{Change, Seat};
use super::records::Incarnation;

/// Fails over in about three seconds; in about five from a member that hangs, which others still wait for.
const ELECTION_TIMEOUT_MS: i32 = 2000;
/// A secondary that had just told a hung member how far it is waits half a minute for the answer, and tells nobody else
/// meanwhile. The new primary learns it from the heartbeats alone, so these are what a majority write waits for.
const HEARTBEAT_MS: i32 = 200;
const HEARTBEAT_TIMEOUT_SECS: i32 = 2;
/// Bounded, because with majority writes nothing acknowledged hangs on catching up, and a hung member must not hold up
/// the new primary.
const CATCH_UP_MS: i32 = 1000;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetConfig(pub(crate) Document);

impl SetConfig {
    /// A set of one member.
    pub(crate) fn first(set: &str, seat: &Seat) -> SetConfig {
        SetConfig(doc! {
            "_id": set,
            "version": 1,
            "members": [member(0, seat, 1)],
            "settings": {
                "electionTimeoutMillis": ELECTION_TIMEOUT_MS,
                "heartbeatIntervalMillis": HEARTBEAT_MS,
                "heartbeatTimeoutSecs": HEARTBEAT_TIMEOUT_SECS,
                "catchUpTimeoutMillis": CATCH_UP_MS,
            },
        })
    }

    pub(crate) fn set(&self) -> &str {
        self.0.get_str("_id").unwrap_or_default()
    }

    /// mongod's own id of the set, made when it was initiated.
    pub(crate) fn id(&self) -> Option<String> {
        let settings = self.0.get_document("settings").ok()?;
        Some(settings.get_object_id("replicaSetId").ok()?.to_hex())
    }

    pub(crate) fn seats(&self) -> Vec<Seat> {
        self.members().filter_map(seat).collect()
    }

    /// The next config, with one thing changed.
    pub(crate) fn with(&self, change: &Change) -> SetConfig {
        let mut next = self.clone();
        let mut members: Vec<Document> = self.members().cloned().collect();
        match change {
            Change::Remove(gone) => members.retain(|member| address(member) != gone.address),
            Change::Add(new) => {
                // mongod tells members apart by their ids; in one config there are no two alike.
                let id = members
                    .iter()
                    .filter_map(|member| number(member.get("_id")))
                    .max();
                members.push(member(id.map_or(0, |id| id + 1), new, 0));
            }
            Change::Move { from, to } => alter(&mut members, from, doc! { "host": to }),
            Change::Name(named) => {
                alter(&mut members, &named.address, doc! { "tags": tags(named) });
            }
            Change::Promote(seat) => alter(&mut members, &seat.address, doc! { "votes": 1, "priority": 1 }),
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

fn alter(members: &mut [Document], whom: &str, fields: Document) {
    for member in members.iter_mut().filter(|member| address(member) == whom) {
        member.extend(fields.clone());
    }
}

fn member(id: i64, seat: &Seat, votes: i32) -> Document {
    doc! { "_id": id, "host": &seat.address, "votes": votes, "priority": votes, "tags": tags(seat) }
}

fn tags(seat: &Seat) -> Document {
    let mut tags = Document::new();
    if let Some(name) = &seat.name {
        tags.insert("name", name);
    }
    if let Some(incarnation) = &seat.incarnation {
        tags.insert("incarnation", incarnation.to_string());
    }
    tags
}

fn seat(member: &Document) -> Option<Seat> {
    let tag = |key| member.get_document("tags").ok()?.get_str(key).ok();
    Some(Seat {
        address: member.get_str("host").ok()?.to_string(),
        name: tag("name").map(str::to_string),
        incarnation: tag("incarnation").map(Incarnation::from),
        votes: number(member.get("votes")).unwrap_or(1),
    })
}

fn address(member: &Document) -> &str {
    member.get_str("host").unwrap_or_default()
}

/// mongod gives numbers in whatever kind they were given to it.
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

    fn seat(name: &str, votes: i64) -> Seat {
        Seat {
            address: format!("{name}:1"),
            name: Some(name.into()),
            incarnation: Some(Incarnation::from(&*format!("{name}1"))),
            votes,
        }
    }

    #[test]
    fn each_change_changes_one_thing_and_the_version() {
        let first = SetConfig::first("s", &seat("a", 1));
        assert_eq!(first.seats(), [seat("a", 1)]);
        let two = first.with(&Change::Add(seat("b", 0)));
        assert_eq!(two.seats(), [seat("a", 1), seat("b", 0)]);
        assert_eq!(number(two.0.get("version")), Some(2));
        let promoted = two.with(&Change::Promote(seat("b", 0)));
        assert_eq!(promoted.seats(), [seat("a", 1), seat("b", 1)]);
        let moved = promoted.with(&Change::Move {
            from: "b:1".into(),
            to: "b:2".into(),
        });
        assert_eq!(moved.seats()[1].address, "b:2");
        let one = promoted.with(&Change::Remove(seat("a", 1)));
        assert_eq!(one.seats(), [seat("b", 1)]);
        assert_eq!(number(one.0.get("version")), Some(4));
    }

    #[test]
    fn what_we_do_not_know_is_kept_and_ids_differ() {
        let config = SetConfig(doc! {
            "_id": "s", "version": 4_i64, "term": 9_i64, "protocolVersion": 1_i64,
            "members": [{ "_id": 5, "host": "a:1", "votes": 1.0, "hidden": true, "tags": {} }],
            "settings": { "chainingAllowed": false },
        });
        let next = config.with(&Change::Add(seat("b", 0)));
        assert_eq!(next.0.get("term"), config.0.get("term"));
        assert_eq!(next.0.get("settings"), config.0.get("settings"));
        let members: Vec<&Document> = next.members().collect();
        assert_eq!(members[0].get("hidden"), Some(&Bson::Boolean(true)));
        assert_eq!(number(members[1].get("_id")), Some(6));
        let named = config.with(&Change::Name(Seat {
            address: "a:1".into(),
            ..seat("a", 1)
        }));
        assert_eq!(named.seats()[0].incarnation, Some("a1".into()));
    }
}
