//! Parses the documents of the change stream.

use model::{ExecutorName, TaskStatus, ToolRequirement, UnixTime};
use mongodb::bson::{Bson, Timestamp, deserialize_from_bson};
use serde::Deserialize;

use crate::ChangeEvent;
use crate::mongo::bson_values::task_id;
use crate::mongo::context::{EXECUTORS, GROUPS, timestamp_to_u64};
use crate::mongo::group_counters::StripeId;

/// The store's change events that one document of the MongoDB change stream stands for, with its cluster time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StreamEvent {
    pub(super) cluster_time: u64,
    pub(super) changes: Vec<ChangeEvent>,
    /// The requirement of the task, if it was added to the queue.
    pub(super) queued: Option<ToolRequirement>,
}

/// A document of the MongoDB change stream over the tasks and groups, with the fields that the pipeline in `stream` projects.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangeStreamDocument {
    ns: Option<ChangedCollection>,
    document_key: Option<DocumentKey>,
    cluster_time: Option<Timestamp>,
    full_document: Option<InsertedTask>,
    update_description: Option<UpdateDescription>,
}

/// The field `ns` of a MongoDB change stream document: the collection of the changed document.
#[derive(Debug, Deserialize)]
struct ChangedCollection {
    coll: String,
}

/// The field `documentKey` of a MongoDB change stream document: the id of the changed task, or of a stripe of a group.
#[derive(Debug, Deserialize)]
struct DocumentKey {
    #[serde(rename = "_id")]
    id: Bson,
}

/// The field `fullDocument` of a MongoDB change stream document: the add time and the requirement of an inserted task.
#[derive(Debug, Deserialize)]
struct InsertedTask {
    /// Absent in some documents of groups.
    add_time: Option<Bson>,
    waits_for: Option<Bson>,
}

/// The field `updateDescription` of a MongoDB change stream document: what an update of a task changed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateDescription {
    updated_fields: UpdatedFields,
}

/// The field `updatedFields` of a MongoDB change stream document: the task's fields that an update has set.
#[derive(Debug, Deserialize)]
struct UpdatedFields {
    #[serde(rename = "news")]
    notice: Option<Bson>,
    waits: Option<Bson>,
    waits_for: Option<Bson>,
}

/// The field `news` of a MongoDB task document, from which the change stream tells the task's new status.
/// `transition_batch` writes it with every status.
#[derive(Debug, Deserialize)]
struct TransitionNotice {
    status: String,
    #[serde(rename = "by")]
    reported_by: Option<String>,
    #[serde(rename = "from")]
    revoked_from: Option<String>,
    time: i64,
}

impl ChangeStreamDocument {
    fn is_in(&self, collection: &str) -> bool {
        self.ns.as_ref().is_some_and(|changed| changed.coll == collection)
    }

    /// `None` for a document without a change event, and for an unreadable one: events are hints, which may be lost.
    pub(super) fn into_event(self) -> Option<StreamEvent> {
        let cluster_time = timestamp_to_u64(self.cluster_time?);
        let id = match self.document_key.as_ref()?.id.clone() {
            Bson::Binary(id) => task_id(id.to_uuid().ok()?),
            // The pipeline keeps no other changes of executors.
            Bson::String(name) if self.is_in(EXECUTORS) => {
                return Some(StreamEvent {
                    cluster_time,
                    changes: vec![ChangeEvent::DrainChanged(executor_name(Some(name))?)],
                    queued: None,
                });
            }
            id if self.is_in(GROUPS) => {
                let stripe: StripeId = deserialize_from_bson(id).ok()?;
                return Some(StreamEvent {
                    cluster_time,
                    changes: vec![ChangeEvent::GroupChanged(stripe.key().ok()?)],
                    queued: None,
                });
            }
            _ => return None,
        };
        if let Some(inserted) = self.full_document {
            let added = ChangeEvent::StatusChanged {
                id,
                status: TaskStatus::Pending,
                executor: None,
                time: UnixTime(inserted.add_time?.as_i64()?),
            };
            return Some(StreamEvent {
                cluster_time,
                changes: vec![added],
                queued: match &inserted.waits_for {
                    None => Some(ToolRequirement::default()),
                    Some(key) => requirement(key),
                },
            });
        }
        let fields = self.update_description?.updated_fields;
        let notice: TransitionNotice = deserialize_from_bson(fields.notice?).ok()?;
        let mut changes = vec![ChangeEvent::StatusChanged {
            id,
            status: notice.status.parse().ok()?,
            executor: executor_name(notice.reported_by),
            time: UnixTime(notice.time),
        }];
        changes.extend(executor_name(notice.revoked_from).map(ChangeEvent::AttemptRevoked));
        Some(StreamEvent {
            cluster_time,
            changes,
            queued: match (&fields.waits, &fields.waits_for) {
                (Some(Bson::Boolean(true)), _) => Some(ToolRequirement::default()),
                (_, Some(key)) => requirement(key),
                (_, None) => None,
            },
        })
    }
}

fn requirement(key: &Bson) -> Option<ToolRequirement> {
    key.as_str()?.parse().ok()
}

fn executor_name(text: Option<String>) -> Option<ExecutorName> {
    text.and_then(|text| ExecutorName::new(text).ok())
}
