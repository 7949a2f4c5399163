//! A change of a task's status, as it is streamed.

use model::{ExecutorName, Moment, Status, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{name, schema};

/// A task's status has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    #[serde(with = "name::task")]
    #[schema(value_type = schema::Id)]
    pub id: TaskId,
    #[serde(with = "name::status")]
    #[schema(value_type = schema::Status)]
    pub status: Status,
    pub done: bool,
    #[serde(with = "name::optional::executor")]
    #[schema(value_type = Option<String>)]
    pub executor: Option<ExecutorName>,
    #[serde(with = "name::time")]
    #[schema(value_type = schema::Time)]
    pub time: Moment,
}
