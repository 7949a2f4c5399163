//! A task as a user writes it.

use std::collections::BTreeMap;

use model::{Command, CompileStep, Content, ExecuteStep, NetworkName, TaskId, UserName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::object::objects;
use crate::{Files, Limits, bounds, command, content, name, schema, whole};

/// A task to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct NewTask {
    /// Chosen by the caller, so that adding twice is adding once. Left out, a new one is made.
    #[serde(
        with = "name::optional::task",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::ChosenId>)]
    pub id: Option<TaskId>,
    /// Who owns the task; with tokens, the token's user.
    #[serde(
        with = "name::optional::user",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::User>)]
    pub user: Option<UserName>,
    /// Higher first; among equals, oldest first.
    #[serde(default, deserialize_with = "whole::deserialize")]
    #[schema(minimum = -2147483648, maximum = 2147483647)]
    pub priority: i32,
    /// Files laid out where the commands run.
    #[serde(default, skip_serializing_if = "Files::is_empty")]
    #[schema(value_type = schema::Files)]
    pub source: Files,
    /// Files laid out in `data/` beside the source.
    #[serde(default, skip_serializing_if = "Files::is_empty")]
    #[schema(value_type = schema::Files)]
    pub data: Files,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile: Option<Compile>,
    pub execute: Execute,
}

/// Many tasks to add: all of them or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct NewTasks {
    #[serde(deserialize_with = "bounds::tasks")]
    #[schema(min_items = 1)]
    pub tasks: Vec<NewTask>,
}

/// The step that comes first; when it fails, the task has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Compile {
    #[serde(with = "command")]
    #[schema(value_type = schema::Command)]
    pub command: Command,
    /// Its own variables: it gets none of the execute step's.
    #[serde(default, deserialize_with = "bounds::variables")]
    #[schema(value_type = schema::Environment)]
    pub env: BTreeMap<String, String>,
    /// Which network it may use, by the name that the executors' operator gave it. Left out, none.
    #[serde(with = "name::optional::network", default)]
    #[schema(value_type = Option<schema::Network>)]
    pub network: Option<NetworkName>,
    #[serde(default)]
    pub limits: Limits,
}

/// The step that does the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Execute {
    #[serde(with = "command")]
    #[schema(value_type = schema::Command)]
    pub command: Command,
    /// Further words of the command; those of a shell text come at its end, as they are.
    #[serde(default, deserialize_with = "bounds::words")]
    #[schema(value_type = Vec<schema::Word>)]
    pub args: Vec<String>,
    #[serde(default, deserialize_with = "bounds::variables")]
    #[schema(value_type = schema::Environment)]
    pub env: BTreeMap<String, String>,
    /// Standard input.
    #[serde(with = "content", default = "Content::empty")]
    #[schema(value_type = schema::Content)]
    pub input: Content,
    /// Which network it may use, by the name that the executors' operator gave it. Left out, none.
    #[serde(with = "name::optional::network", default)]
    #[schema(value_type = Option<schema::Network>)]
    pub network: Option<NetworkName>,
    #[serde(default)]
    pub limits: Limits,
}

objects! {
    NewTask: "a task as a JSON object";
    NewTasks: "an object like {\"tasks\": [...]}";
    Compile: "a compile step as a JSON object";
    Execute: "an execute step as a JSON object";
}

impl NewTask {
    /// A task that only runs this; everything else may be set afterwards.
    pub fn new(command: Command) -> NewTask {
        NewTask {
            id: None,
            user: None,
            priority: 0,
            source: Files::default(),
            data: Files::default(),
            compile: None,
            execute: Execute {
                command,
                args: Vec::new(),
                env: BTreeMap::new(),
                input: Content::empty(),
                network: None,
                limits: Limits::default(),
            },
        }
    }
}

impl From<CompileStep> for Compile {
    fn from(step: CompileStep) -> Compile {
        let CompileStep {
            command,
            env,
            network,
            limits,
        } = step;
        Compile {
            command,
            env,
            network,
            limits: limits.into(),
        }
    }
}

impl From<Compile> for CompileStep {
    fn from(step: Compile) -> CompileStep {
        let Compile {
            command,
            env,
            network,
            limits,
        } = step;
        CompileStep {
            command,
            env,
            network,
            limits: limits.into(),
        }
    }
}

impl From<ExecuteStep> for Execute {
    fn from(step: ExecuteStep) -> Execute {
        let ExecuteStep {
            command,
            args,
            env,
            input,
            network,
            limits,
        } = step;
        Execute {
            command,
            args,
            env,
            input,
            network,
            limits: limits.into(),
        }
    }
}

impl From<Execute> for ExecuteStep {
    fn from(step: Execute) -> ExecuteStep {
        let Execute {
            command,
            args,
            env,
            input,
            network,
            limits,
        } = step;
        ExecuteStep {
            command,
            args,
            env,
            input,
            network,
            limits: limits.into(),
        }
    }
}
