//! A task as it is answered.

use model::{ExecutorName, Moment, Status, TaskId, UserName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Compile, Execute, Files, TaskResult, name, schema};

/// A task with everything known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    #[serde(with = "name::task")]
    #[schema(value_type = schema::Id)]
    pub id: TaskId,
    #[serde(with = "name::user")]
    #[schema(value_type = String)]
    pub user: UserName,
    pub priority: i32,
    #[serde(with = "name::status")]
    #[schema(value_type = schema::Status)]
    pub status: Status,
    /// A task that is done never changes again.
    pub done: bool,
    /// Who holds it now.
    #[serde(with = "name::optional::executor")]
    #[schema(value_type = Option<String>)]
    pub executor: Option<ExecutorName>,
    /// How often it was handed out.
    pub attempt: u32,
    #[serde(with = "name::time")]
    #[schema(value_type = schema::Time)]
    pub add_time: Moment,
    /// When the present or last attempt was handed out.
    #[serde(with = "name::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub start_time: Option<Moment>,
    /// When its executor last said something new of it.
    #[serde(with = "name::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub report_time: Option<Moment>,
    #[serde(with = "name::optional::time")]
    #[schema(value_type = Option<schema::Time>)]
    pub finish_time: Option<Moment>,
    #[schema(value_type = schema::Files)]
    pub source: Files,
    #[schema(value_type = schema::Files)]
    pub data: Files,
    pub compile: Option<Compile>,
    pub execute: Execute,
    /// How its steps ended.
    pub result: Option<TaskResult>,
    /// Why the platform could not run it, where that is so.
    pub trouble: Option<String>,
}

impl From<model::Task> for Task {
    fn from(task: model::Task) -> Task {
        let model::Task {
            id,
            spec,
            status,
            executor,
            session: _,
            attempt,
            add_time,
            start_time,
            report_time,
            finish_time,
            result,
            trouble,
        } = task;
        Task {
            id,
            user: spec.user,
            priority: spec.priority,
            status,
            done: status.done(),
            executor,
            attempt: attempt.0,
            add_time,
            start_time,
            report_time,
            finish_time,
            source: spec.source.into(),
            data: spec.data.into(),
            compile: spec.compile.map(Into::into),
            execute: spec.execute.into(),
            result: result.map(Into::into),
            trouble,
        }
    }
}
