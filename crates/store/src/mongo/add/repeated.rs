//! The tasks that new ones repeat. They are marked as retried, in the transaction that adds the new ones.

use std::borrow::Cow;
use std::collections::HashSet;

use futures::TryStreamExt;
use model::TaskId;
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::PreparedTask;
use crate::mongo::bson_values::{ToBson, task_id};
use crate::mongo::context::StoreContext;
use crate::mongo::failure::MongoFailure;
use crate::mongo::retry::COMMAND_TIMEOUT;
use crate::mongo::task_document::{StoredTask, TaskDocument, parse_readable, without_content};
use crate::mongo::transaction::GroupedUpdate;

/// The tasks of the MongoDB store that tasks to add repeat. A task repeats only tasks of its user.
#[derive(Default)]
pub(super) struct RepeatedTasks {
    /// Those in the store that are not marked as retried yet.
    pub(super) stored: Vec<StoredTask>,
    /// The user and the id of all of them. They may be among the tasks to add.
    keys: HashSet<(String, TaskId)>,
}

impl RepeatedTasks {
    pub(super) async fn find(
        context: &StoreContext,
        new_tasks: &[&PreparedTask],
    ) -> Result<RepeatedTasks, MongoFailure> {
        let key = |task: &&PreparedTask| Some((task.document.user.clone(), task.retry_of?));
        let mut repeated = RepeatedTasks {
            stored: vec![],
            keys: new_tasks.iter().filter_map(key).collect(),
        };
        if repeated.keys.is_empty() {
            return Ok(repeated);
        }
        let ids: Vec<_> = repeated.keys.iter().map(|(_, id)| id.to_bson()).collect();
        let found = context
            .tasks()
            .find(doc! { "_id": { "$in": ids } })
            .projection(without_content())
            .read_concern(ReadConcern::local())
            .max_time(COMMAND_TIMEOUT)
            .await?
            .try_collect()
            .await?;
        for document in parse_readable(context, found) {
            if repeated.contains(&document) && document.retried != Some(true) {
                repeated.stored.push(StoredTask::try_from(&document)?);
            }
        }
        Ok(repeated)
    }

    /// The document of a new task, marked if another new task repeats it.
    pub(super) fn mark_new<'t>(&self, task: &'t PreparedTask) -> Cow<'t, TaskDocument> {
        match self.contains(&task.document) {
            false => Cow::Borrowed(&task.document),
            true => Cow::Owned(TaskDocument {
                retried: Some(true),
                ..task.document.clone()
            }),
        }
    }

    /// The updates that mark the tasks in the store, if they have not changed since they were read.
    pub(super) fn updates(&self) -> impl Iterator<Item = GroupedUpdate> {
        self.stored.iter().map(|task| GroupedUpdate {
            ids: vec![task.state.id.to_bson()],
            condition: task.unchanged_condition(),
            change: doc! { "$set": { "retried": true } },
        })
    }

    fn contains(&self, document: &TaskDocument) -> bool {
        // Few tasks repeat others.
        !self.keys.is_empty() && self.keys.contains(&(document.user.clone(), task_id(document.id)))
    }
}
