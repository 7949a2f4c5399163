//! What an event of the change stream says has happened.

use model::{ExecutorName, Moment, Status};
use mongodb::bson::{Bson, Timestamp, deserialize_from_bson};
use serde::Deserialize;

use crate::Change;
use crate::mongo::base::order;
use crate::mongo::field::task_id;

/// What one event tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// When it was, as the replica set counts.
    pub(super) at: u64,
    pub(super) changes: Vec<Change>,
    /// One task more waits.
    pub(super) waits: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    document_key: Option<Key>,
    cluster_time: Option<Timestamp>,
    full_document: Option<Inserted>,
    update_description: Option<Updated>,
}

#[derive(Debug, Deserialize)]
struct Key {
    #[serde(rename = "_id")]
    id: Bson,
}

#[derive(Debug, Deserialize)]
struct Inserted {
    add_time: Bson,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Updated {
    updated_fields: Fields,
}

#[derive(Debug, Deserialize)]
struct Fields {
    news: Option<Bson>,
    waits: Option<Bson>,
}

/// As `table` writes it.
#[derive(Debug, Deserialize)]
struct Told {
    status: String,
    by: Option<String>,
    from: Option<String>,
    time: i64,
}

impl Document {
    /// `None` for what says nothing, or nothing that can be read; hints may be lost.
    pub(super) fn into_event(self) -> Option<Event> {
        let id = match self.document_key?.id {
            Bson::Binary(id) => task_id(id.to_uuid().ok()?),
            _ => return None,
        };
        let at = order(self.cluster_time?);
        if let Some(inserted) = self.full_document {
            let added = Change::Moved {
                id,
                status: Status::Pending,
                executor: None,
                time: Moment(inserted.add_time.as_i64()?),
            };
            return Some(Event {
                at,
                changes: vec![added],
                waits: true,
            });
        }
        let fields = self.update_description?.updated_fields;
        let told: Told = deserialize_from_bson(fields.news?).ok()?;
        let mut changes = vec![Change::Moved {
            id,
            status: told.status.parse().ok()?,
            executor: name(told.by),
            time: Moment(told.time),
        }];
        changes.extend(name(told.from).map(Change::Withdrawn));
        Some(Event {
            at,
            changes,
            waits: fields.waits.as_ref().and_then(Bson::as_bool).unwrap_or(false),
        })
    }
}

fn name(text: Option<String>) -> Option<ExecutorName> {
    text.and_then(|text| ExecutorName::new(text).ok())
}
