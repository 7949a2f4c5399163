//! A program that judges, in JSON: a checker or an interactor.

use std::collections::BTreeMap;

use model::{AddTask, Content, JudgeProtocol, LanguageName, RootName, StepCommand, TaskFiles};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::object::impl_json_objects;
use crate::{CompileStep, FilesOrZip, Limits, command, content, item_limits, schema, serde_text};

/// A program that judges. An interactor talks with the judged program through their standard streams while both run; a
/// checker reads the output when the judged program has ended. Each runs in a cell of its own, without a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct JudgeProgram {
    #[serde(with = "serde_text::protocol")]
    #[schema(value_type = schema::JudgeProtocol)]
    pub protocol: JudgeProtocol,
    /// A language of `GET /languages`, like that of a task.
    #[serde(
        with = "serde_text::optional::language",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::LanguageName>)]
    pub language: Option<LanguageName>,
    /// The root file system in which the program is compiled and runs.
    #[serde(
        with = "serde_text::optional::root",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::RootName>)]
    pub root: Option<RootName>,
    /// One source file, stored under the name that the language gives it.
    #[serde(with = "content::optional", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Content>)]
    pub source_code: Option<Content>,
    #[serde(default, skip_serializing_if = "FilesOrZip::is_empty")]
    #[schema(value_type = schema::Files)]
    pub source: FilesOrZip,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile: Option<CompileStep>,
    /// May be left out if the program has a language.
    #[serde(
        with = "command",
        default = "StepCommand::of_language",
        skip_serializing_if = "StepCommand::is_of_language"
    )]
    #[schema(value_type = schema::Command, required = false)]
    pub command: StepCommand,
    /// More arguments, after those of the protocol.
    #[serde(
        default,
        deserialize_with = "item_limits::words",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Vec<schema::Word>)]
    pub args: Vec<String>,
    #[serde(
        default,
        deserialize_with = "item_limits::variables",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schema(value_type = schema::Environment)]
    pub env: BTreeMap<String, String>,
    /// The limits of each of its runs. They are not part of the judged program's.
    #[serde(default, skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
}

impl_json_objects! {
    JudgeProgram: "a program as a JSON object";
}

impl JudgeProgram {
    /// A program of a language, with these files.
    pub fn new(protocol: JudgeProtocol, language: LanguageName, source: TaskFiles) -> JudgeProgram {
        JudgeProgram {
            protocol,
            language: Some(language),
            root: None,
            source_code: None,
            source: source.into(),
            compile: None,
            command: StepCommand::of_language(),
            args: Vec::new(),
            env: BTreeMap::new(),
            limits: Limits::default(),
        }
    }

    /// Leaves out what says how the program judges.
    pub(crate) fn hide(&mut self) {
        self.source_code = None;
        self.source = FilesOrZip::default();
        self.compile = None;
        self.command = StepCommand::of_language();
        self.args.clear();
        self.env.clear();
    }
}

impl From<model::JudgeProgram> for JudgeProgram {
    fn from(program: model::JudgeProgram) -> JudgeProgram {
        let model::JudgeProgram {
            protocol,
            language,
            root,
            mut source,
            compile,
            execute,
        } = program;
        // The language has not named the file yet in a program that is stored but has not been part of a task.
        let lone = source
            .keys()
            .find(|path| path.as_str() == AddTask::SOURCE_CODE)
            .cloned();
        let source_code = lone
            .filter(|_| language.is_some())
            .and_then(|path| source.remove(&path))
            .map(|file| file.content);
        JudgeProgram {
            protocol,
            language,
            root,
            source_code,
            source: source.into(),
            compile: compile.map(Into::into),
            command: execute.command,
            args: execute.args,
            env: execute.env,
            limits: execute.limits.into(),
        }
    }
}
