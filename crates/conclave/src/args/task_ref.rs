//! A task named on the command line by its id, or by a unique prefix of its id.

use api::{HttpClient, HttpClientError};
use model::{NameError, TaskId, TaskIdPrefix, TaskQuery};
use thiserror::Error;

/// A task on the command line of a client command: its id, or a prefix of the id.
#[derive(Clone, Debug)]
pub(crate) enum TaskRef {
    Id(TaskId),
    Prefix(TaskIdPrefix),
}

/// Why the server has no single task for a [`TaskRef`] of the command line.
#[derive(Debug, Error)]
pub(crate) enum TaskLookupError {
    #[error("no task has an id that begins with {0}")]
    NotFound(TaskIdPrefix),
    #[error("several tasks have an id that begins with {prefix}; give more characters: {}{}", list(.found), if *.more { " and more" } else { "" })]
    Ambiguous {
        prefix: TaskIdPrefix,
        found: Vec<TaskId>,
        more: bool,
    },
    #[error(transparent)]
    Request(#[from] HttpClientError),
}

/// How many of the matching ids the error lists.
const MAX_CANDIDATES_SHOWN: usize = 5;

pub(crate) fn task_ref(text: &str) -> Result<TaskRef, NameError> {
    match text.parse() {
        Ok(id) => Ok(TaskRef::Id(id)),
        Err(_) => text.parse().map(TaskRef::Prefix),
    }
}

impl TaskRef {
    pub(crate) async fn resolve(&self, client: &HttpClient) -> Result<TaskId, TaskLookupError> {
        let prefix = match self {
            TaskRef::Id(id) => return Ok(*id),
            TaskRef::Prefix(prefix) => prefix,
        };
        let mut query = TaskQuery {
            id_prefix: Some(prefix.clone()),
            limit: MAX_CANDIDATES_SHOWN + 1,
            ..TaskQuery::default()
        };
        let mut found = Vec::new();
        loop {
            let page = client.search(&query).await?;
            // A server of an older version ignores the prefix and returns tasks with other ids.
            found.extend(
                page.tasks
                    .iter()
                    .map(|task| task.id)
                    .filter(|id| prefix.matches(*id)),
            );
            // The server scans a bounded number of tasks per page, so an incomplete page says nothing about the rest.
            query.after = page.next;
            if page.complete || query.after.is_none() || found.len() > MAX_CANDIDATES_SHOWN {
                break;
            }
        }
        let more = found.len() > MAX_CANDIDATES_SHOWN;
        found.truncate(MAX_CANDIDATES_SHOWN);
        match found[..] {
            [] => Err(TaskLookupError::NotFound(prefix.clone())),
            [id] => Ok(id),
            _ => Err(TaskLookupError::Ambiguous {
                prefix: prefix.clone(),
                found,
                more,
            }),
        }
    }
}

impl TaskLookupError {
    /// Whether the error concerns this task only, so that commands on other tasks may still succeed.
    pub(crate) fn is_about_this_task(&self) -> bool {
        match self {
            TaskLookupError::NotFound(_) | TaskLookupError::Ambiguous { .. } => true,
            TaskLookupError::Request(error) => error
                .problem()
                .is_some_and(|problem| matches!(problem.status, 404 | 409)),
        }
    }
}

fn list(ids: &[TaskId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}
