//! What an event of the change stream says has happened.

use model::{ExecutorName, Moment, Status};
use mongodb::bson::{Timestamp, Uuid};
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
    id: Uuid,
}

#[derive(Debug, Deserialize)]
struct Inserted {
    add_time: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Updated {
    updated_fields: Fields,
}

#[derive(Debug, Deserialize)]
struct Fields {
    news: Option<Told>,
    waits: Option<bool>,
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
    /// `None` for what says nothing; hints may be lost.
    pub(super) fn into_event(self) -> Option<Event> {
        let id = task_id(self.document_key?.id);
        let at = order(self.cluster_time?);
        if let Some(inserted) = self.full_document {
            let added = Change::Moved {
                id,
                status: Status::Pending,
                executor: None,
                time: Moment(inserted.add_time),
            };
            return Some(Event {
                at,
                changes: vec![added],
                waits: true,
            });
        }
        let fields = self.update_description?.updated_fields;
        let told = fields.news?;
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
            waits: fields.waits.unwrap_or(false),
        })
    }
}

fn name(text: Option<String>) -> Option<ExecutorName> {
    text.and_then(|text| ExecutorName::new(text).ok())
}
