//! A task in a request.

use std::collections::BTreeMap;

use model::{
    Content, GroupName, KeepPattern, Labels, LanguageName, NetworkName, ProblemName, RootName, StepCommand,
    StopRule, TaskId, UserName,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::group_rule::{self, GroupRules};
use crate::object::impl_json_objects;
use crate::{
    CasesOrFiles, Check, FilesOrZip, JudgeProgram, Limits, command, content, integer, item_limits, labels,
    schema, serde_text,
};

/// A task to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct NewTask {
    /// Chosen by the caller, so that adding the task twice adds it once. If it is left out, the server generates one.
    #[serde(
        with = "serde_text::optional::task",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::ChosenId>)]
    pub id: Option<TaskId>,
    /// The owner of the task. On a server with tokens, the token's user.
    #[serde(
        with = "serde_text::optional::user",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::User>)]
    pub user: Option<UserName>,
    /// Tasks of higher priority run first; within a priority, the oldest task runs first.
    #[serde(default, deserialize_with = "integer::deserialize")]
    #[schema(minimum = -2147483648, maximum = 2147483647)]
    pub priority: i32,
    /// A language of `GET /languages`, by its name or an alias. It fills in the commands, variables, root and limits that
    /// the task leaves out.
    #[serde(
        with = "serde_text::optional::language",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::LanguageName>)]
    pub language: Option<LanguageName>,
    /// The root file system of the steps, one of `GET /roots`. If it is left out, that of the language, or the executor's
    /// default.
    #[serde(
        with = "serde_text::optional::root",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::RootName>)]
    pub root: Option<RootName>,
    /// Adds the task even if no executor has had its language or root within the last hour. The task waits for one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait_for_executor: bool,
    /// One source file, stored under the name that the language gives it.
    #[serde(with = "content::optional", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Content>)]
    pub source_code: Option<Content>,
    /// Files that are written to the workspace, the directory in which the commands run.
    #[serde(default, skip_serializing_if = "FilesOrZip::is_empty")]
    #[schema(value_type = schema::Files)]
    pub source: FilesOrZip,
    /// Files that are written to `data/` in the workspace.
    #[serde(default, skip_serializing_if = "FilesOrZip::is_empty")]
    #[schema(value_type = schema::Files)]
    pub data: FilesOrZip,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile: Option<CompileStep>,
    /// May be left out if the task has a language.
    #[serde(default = "ExecuteStep::of_language")]
    #[schema(required = false)]
    pub execute: ExecuteStep,
    /// The tests of a program that is judged: the execute step runs once for each, in a cell of its own, on the files as the
    /// compile step has left them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Cases>)]
    pub cases: Option<CasesOrFiles>,
    /// How the output of each case is checked. If it is left out: tokens where any case has an answer, and none where no case
    /// has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Check>)]
    pub check: Option<Check>,
    /// The program that talks with the judged one while both run. It decides alone, so there is no `check` beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interact: Option<JudgeProgram>,
    /// Which cases run when one was not accepted: all (`never`), or none (`first_failure`), which skips the rest.
    #[serde(
        with = "serde_text::optional::stop",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::StopRule>)]
    pub stop: Option<StopRule>,
    #[serde(with = "group_rule", default, skip_serializing_if = "GroupRules::is_empty")]
    #[schema(value_type = schema::GroupRules)]
    pub groups: GroupRules,
    /// The name of a problem that brings the cases, the check and limits.
    #[serde(
        with = "serde_text::optional::problem",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::ProblemName>)]
    pub problem: Option<ProblemName>,
    /// Which files of the workspace are kept when the execute step has ended, also when it failed.
    #[serde(with = "labels::keep", default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::KeepPattern>, max_items = 100, example = json!(["out/*.csv", "report.pdf"]))]
    pub keep: Vec<KeepPattern>,
    /// Pairs of text to search by.
    #[serde(with = "labels", default, skip_serializing_if = "Labels::is_empty")]
    #[schema(value_type = schema::Labels)]
    pub labels: Labels,
    /// The name of a set of tasks of this user that is followed as one.
    #[serde(
        with = "serde_text::optional::group",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::GroupName>)]
    pub group: Option<GroupName>,
    /// How many attempts may be lost, because their executor died or the task brought it down, before the task ends as
    /// `system_error`. The operator has a default and a maximum.
    #[serde(
        default,
        deserialize_with = "integer::deserialize_optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 4294967295i64)]
    pub attempts: Option<u32>,
}

/// A batch of tasks: either all are added or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct NewTasks {
    #[serde(deserialize_with = "item_limits::tasks")]
    #[schema(min_items = 1)]
    pub tasks: Vec<NewTask>,
}

/// The step that runs first. If it fails, the task ends as `compile_failed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schema(as = Compile)]
pub struct CompileStep {
    /// May be left out if the task has a language.
    #[serde(
        with = "command",
        default = "StepCommand::of_language",
        skip_serializing_if = "StepCommand::is_of_language"
    )]
    #[schema(value_type = schema::Command, required = false)]
    pub command: StepCommand,
    /// Environment variables. The compile step does not get those of the execute step.
    #[serde(default, deserialize_with = "item_limits::variables")]
    #[schema(value_type = schema::Environment)]
    pub env: BTreeMap<String, String>,
    /// The network that the step may use, by its name in the executors' configuration. If it is left out, none.
    #[serde(with = "serde_text::optional::network", default)]
    #[schema(value_type = Option<schema::Network>)]
    pub network: Option<NetworkName>,
    #[serde(default)]
    pub limits: Limits,
}

/// The step that runs the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schema(as = Execute)]
pub struct ExecuteStep {
    /// May be left out if the task has a language.
    #[serde(
        with = "command",
        default = "StepCommand::of_language",
        skip_serializing_if = "StepCommand::is_of_language"
    )]
    #[schema(value_type = schema::Command, required = false)]
    pub command: StepCommand,
    /// More arguments. They are appended to a shell command as `"$@"`, so the shell does not expand them.
    #[serde(default, deserialize_with = "item_limits::words")]
    #[schema(value_type = Vec<schema::Word>)]
    pub args: Vec<String>,
    #[serde(default, deserialize_with = "item_limits::variables")]
    #[schema(value_type = schema::Environment)]
    pub env: BTreeMap<String, String>,
    /// Standard input.
    #[serde(with = "content", default = "Content::empty")]
    #[schema(value_type = schema::Content)]
    pub input: Content,
    /// The network that the step may use, by its name in the executors' configuration. If it is left out, none.
    #[serde(with = "serde_text::optional::network", default)]
    #[schema(value_type = Option<schema::Network>)]
    pub network: Option<NetworkName>,
    #[serde(default)]
    pub limits: Limits,
}

impl_json_objects! {
    NewTask: "a task as a JSON object";
    NewTasks: "an object like {\"tasks\": [...]}";
    CompileStep: "a compile step as a JSON object";
    ExecuteStep: "an execute step as a JSON object";
}

impl NewTask {
    /// A task with this execute command and no files, input or limits.
    pub fn new(command: StepCommand) -> NewTask {
        NewTask {
            id: None,
            user: None,
            priority: 0,
            language: None,
            root: None,
            wait_for_executor: false,
            source_code: None,
            source: FilesOrZip::default(),
            data: FilesOrZip::default(),
            compile: None,
            execute: ExecuteStep {
                command,
                ..ExecuteStep::of_language()
            },
            cases: None,
            check: None,
            interact: None,
            stop: None,
            groups: GroupRules::new(),
            problem: None,
            keep: Vec::new(),
            labels: Labels::default(),
            group: None,
            attempts: None,
        }
    }
}

impl ExecuteStep {
    /// A step that the task's language fills in.
    pub fn of_language() -> ExecuteStep {
        ExecuteStep {
            command: StepCommand::of_language(),
            args: Vec::new(),
            env: BTreeMap::new(),
            input: Content::empty(),
            network: None,
            limits: Limits::default(),
        }
    }
}

impl From<model::CompileStep> for CompileStep {
    fn from(step: model::CompileStep) -> CompileStep {
        let model::CompileStep {
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

impl From<CompileStep> for model::CompileStep {
    fn from(step: CompileStep) -> model::CompileStep {
        let CompileStep {
            command,
            env,
            network,
            limits,
        } = step;
        model::CompileStep {
            command,
            env,
            network,
            limits: limits.into(),
        }
    }
}

impl From<model::ExecuteStep> for ExecuteStep {
    fn from(step: model::ExecuteStep) -> ExecuteStep {
        let model::ExecuteStep {
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

impl From<ExecuteStep> for model::ExecuteStep {
    fn from(step: ExecuteStep) -> model::ExecuteStep {
        let ExecuteStep {
            command,
            args,
            env,
            input,
            network,
            limits,
        } = step;
        model::ExecuteStep {
            command,
            args,
            env,
            input,
            network,
            limits: limits.into(),
        }
    }
}
