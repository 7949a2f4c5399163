//! A task as a person names it: by its id, or by a beginning of the id that no other task has.

use api::{Client, ClientError};
use model::{IdPrefix, NameError, Query, TaskId};
use thiserror::Error;

#[derive(Clone, Debug)]
pub(crate) enum TaskRef {
    Id(TaskId),
    Prefix(IdPrefix),
}

#[derive(Debug, Error)]
pub(crate) enum FindError {
    #[error("no task's id begins with {0}")]
    Nothing(IdPrefix),
    #[error("{prefix} is the beginning of several ids, give more of it: {}{}", list(.found), if *.more { " and more" } else { "" })]
    Several {
        prefix: IdPrefix,
        found: Vec<TaskId>,
        more: bool,
    },
    #[error(transparent)]
    Call(#[from] ClientError),
}

/// How many candidates are named.
const SHOWN: usize = 5;

pub(crate) fn task_ref(text: &str) -> Result<TaskRef, NameError> {
    match text.parse() {
        Ok(id) => Ok(TaskRef::Id(id)),
        Err(_) => text.parse().map(TaskRef::Prefix),
    }
}

impl TaskRef {
    pub(crate) async fn find(&self, client: &Client) -> Result<TaskId, FindError> {
        let prefix = match self {
            TaskRef::Id(id) => return Ok(*id),
            TaskRef::Prefix(prefix) => prefix,
        };
        let mut query = Query {
            id_prefix: Some(prefix.clone()),
            limit: SHOWN + 1,
            ..Query::default()
        };
        let mut found = Vec::new();
        loop {
            let page = client.search(&query).await?;
            // A server of an older version knows no prefixes and answers with any tasks.
            found.extend(
                page.tasks
                    .iter()
                    .map(|task| task.id)
                    .filter(|id| prefix.begins(*id)),
            );
            // A page that looked at a part of the tasks only says nothing about the others.
            query.after = page.next;
            if page.complete || query.after.is_none() || found.len() > SHOWN {
                break;
            }
        }
        let more = found.len() > SHOWN;
        found.truncate(SHOWN);
        match found[..] {
            [] => Err(FindError::Nothing(prefix.clone())),
            [id] => Ok(id),
            _ => Err(FindError::Several {
                prefix: prefix.clone(),
                found,
                more,
            }),
        }
    }
}

impl FindError {
    /// Another task may still be found.
    pub(crate) fn is_about_this_task(&self) -> bool {
        match self {
            FindError::Nothing(_) | FindError::Several { .. } => true,
            FindError::Call(error) => error
                .problem()
                .is_some_and(|problem| matches!(problem.status, 404 | 409)),
        }
    }
}

fn list(ids: &[TaskId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}
