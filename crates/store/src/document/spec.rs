//! The encoded forms of a task's spec.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use model::{
    BlobHash, CompileStep, Content, ExecuteStep, GroupName, KeepPattern, LanguageName, Limits, NetworkName,
    ProblemName, RootName, StepCommand, TaskFile, TaskFiles, TaskId, TaskSpec, UserName, WorkspacePath,
};
use serde::{Deserialize, Serialize};

use super::judging::JudgingDocument;
use super::labels::LabelsDocument;
use super::raw_bytes::RawBytes;

/// Version 6 of the encoded form in which both stores write a `TaskSpec`: adds the cases, and the name of their problem.
#[derive(Serialize, Deserialize)]
pub(super) struct SpecDocumentV6<'a> {
    #[serde(borrow)]
    v5: SpecDocumentV5<'a>,
    judging: Option<JudgingDocument<'a>>,
    problem: Option<&'a str>,
}

/// Version 5 of the encoded form in which both stores write a `TaskSpec`: adds the language and the root.
#[derive(Serialize, Deserialize)]
pub(super) struct SpecDocumentV5<'a> {
    #[serde(borrow)]
    v4: SpecDocumentV4<'a>,
    language: Option<&'a str>,
    root: Option<&'a str>,
}

/// Version 4 of the encoded form in which both stores write a `TaskSpec`: adds files to keep, labels, the group, the
/// number of attempts, and the task that this one repeats.
#[derive(Serialize, Deserialize)]
pub(super) struct SpecDocumentV4<'a> {
    #[serde(borrow)]
    v3: SpecDocumentV3<'a>,
    keep: Vec<&'a str>,
    labels: LabelsDocument<'a>,
    group: Option<&'a str>,
    attempts: Option<u32>,
    retry_of: Option<[u8; 16]>,
}

/// Version 3 of the encoded form in which both stores write a `TaskSpec`: adds the compile step's environment.
#[derive(Serialize, Deserialize)]
pub(super) struct SpecDocumentV3<'a> {
    #[serde(borrow)]
    v2: SpecDocumentV2<'a>,
    compile_env: Vec<(&'a str, &'a str)>,
}

/// Version 2 of the encoded form in which both stores write a `TaskSpec`: adds fields to each step.
#[derive(Serialize, Deserialize)]
pub(super) struct SpecDocumentV2<'a> {
    #[serde(borrow)]
    v1: SpecDocumentV1<'a>,
    compile: StepExtension<'a>,
    execute: StepExtension<'a>,
}

/// The fields of a step that version 2 of the stored task spec added. Empty for a task without a compile step.
#[derive(Default, Serialize, Deserialize)]
struct StepExtension<'a> {
    network: Option<&'a str>,
    file_size: Option<u64>,
    open_files: Option<u32>,
    stack: Option<u64>,
    space: Option<u64>,
}

/// Version 1 of the encoded form in which both stores write a task's specification (`TaskSpec`).
#[derive(Serialize, Deserialize)]
pub(super) struct SpecDocumentV1<'a> {
    user: &'a str,
    priority: i32,
    #[serde(borrow)]
    compile: Option<CompileDocument<'a>>,
    execute: ExecuteDocument<'a>,
    source: Vec<FileDocument<'a>>,
    data: Vec<FileDocument<'a>>,
}

/// The encoded form of the compile step in version 1 of a stored task spec.
#[derive(Serialize, Deserialize)]
struct CompileDocument<'a> {
    #[serde(borrow)]
    command: CommandDocument<'a>,
    limits: LimitsDocument,
}

/// The encoded form of the execute step in version 1 of a stored task spec.
#[derive(Serialize, Deserialize)]
struct ExecuteDocument<'a> {
    #[serde(borrow)]
    command: CommandDocument<'a>,
    args: Vec<&'a str>,
    env: Vec<(&'a str, &'a str)>,
    input: ContentDocument<'a>,
    limits: LimitsDocument,
}

/// The encoded form of a step's command (`StepCommand`) in the task spec that both stores write.
#[derive(Serialize, Deserialize)]
pub(super) enum CommandDocument<'a> {
    Shell(&'a str),
    Argv(#[serde(borrow)] Vec<&'a str>),
}

/// The encoded form of a source or data file (`TaskFile`) and its path in a stored task spec.
#[derive(Serialize, Deserialize)]
pub(super) struct FileDocument<'a> {
    path: &'a str,
    executable: bool,
    #[serde(borrow)]
    content: ContentDocument<'a>,
}

/// The encoded form of a file's content (`Content`) in a stored task spec: the bytes, or the hash of a blob.
#[derive(Serialize, Deserialize)]
pub(super) enum ContentDocument<'a> {
    Inline(#[serde(borrow)] RawBytes<'a>),
    Blob([u8; 32]),
}

/// The encoded form of a step's resource limits in version 1 of a stored task spec.
#[derive(Serialize, Deserialize)]
struct LimitsDocument {
    wall: Option<Duration>,
    cpu: Option<Duration>,
    memory: Option<u64>,
    output: Option<u64>,
    processes: Option<u32>,
}

impl<'a> From<&'a TaskSpec> for SpecDocumentV6<'a> {
    fn from(spec: &'a TaskSpec) -> SpecDocumentV6<'a> {
        SpecDocumentV6 {
            v5: spec.into(),
            judging: spec.judging.as_ref().map(Into::into),
            problem: spec.problem.as_ref().map(ProblemName::as_str),
        }
    }
}

impl<'a> From<SpecDocumentV5<'a>> for SpecDocumentV6<'a> {
    fn from(v5: SpecDocumentV5<'a>) -> SpecDocumentV6<'a> {
        SpecDocumentV6 {
            v5,
            judging: None,
            problem: None,
        }
    }
}

impl<'a> From<&'a TaskSpec> for SpecDocumentV5<'a> {
    fn from(spec: &'a TaskSpec) -> SpecDocumentV5<'a> {
        SpecDocumentV5 {
            v4: spec.into(),
            language: spec.language.as_ref().map(LanguageName::as_str),
            root: spec.root.as_ref().map(RootName::as_str),
        }
    }
}

impl<'a> From<SpecDocumentV4<'a>> for SpecDocumentV5<'a> {
    fn from(v4: SpecDocumentV4<'a>) -> SpecDocumentV5<'a> {
        SpecDocumentV5 {
            v4,
            language: None,
            root: None,
        }
    }
}

impl<'a> From<&'a TaskSpec> for SpecDocumentV4<'a> {
    fn from(spec: &'a TaskSpec) -> SpecDocumentV4<'a> {
        SpecDocumentV4 {
            v3: spec.into(),
            keep: spec.keep.iter().map(KeepPattern::as_str).collect(),
            labels: (&spec.labels).into(),
            group: spec.group.as_ref().map(GroupName::as_str),
            attempts: spec.attempts,
            retry_of: spec.retry_of.map(|id| id.0.into_bytes()),
        }
    }
}

impl<'a> From<SpecDocumentV3<'a>> for SpecDocumentV4<'a> {
    fn from(v3: SpecDocumentV3<'a>) -> SpecDocumentV4<'a> {
        SpecDocumentV4 {
            v3,
            keep: vec![],
            labels: LabelsDocument::default(),
            group: None,
            attempts: None,
            retry_of: None,
        }
    }
}

impl<'a> From<&'a TaskSpec> for SpecDocumentV3<'a> {
    fn from(spec: &'a TaskSpec) -> SpecDocumentV3<'a> {
        let compile_env = spec.compile.iter().flat_map(|step| variables(&step.env));
        SpecDocumentV3 {
            v2: spec.into(),
            compile_env: compile_env.collect(),
        }
    }
}

impl<'a> From<&'a TaskSpec> for SpecDocumentV2<'a> {
    fn from(spec: &'a TaskSpec) -> SpecDocumentV2<'a> {
        let compile = spec.compile.as_ref();
        SpecDocumentV2 {
            v1: spec.into(),
            compile: compile.map_or_else(StepExtension::default, |step| {
                extension(step.network.as_ref(), &step.limits)
            }),
            execute: extension(spec.execute.network.as_ref(), &spec.execute.limits),
        }
    }
}

fn extension<'a>(network: Option<&'a NetworkName>, limits: &Limits) -> StepExtension<'a> {
    StepExtension {
        network: network.map(NetworkName::as_str),
        file_size: limits.file_size,
        open_files: limits.open_files,
        stack: limits.stack,
        space: limits.space,
    }
}

/// Before version 3 the compile step had the environment of the execute step, and such tasks may rely on it.
impl<'a> From<SpecDocumentV2<'a>> for SpecDocumentV3<'a> {
    fn from(v2: SpecDocumentV2<'a>) -> SpecDocumentV3<'a> {
        let SpecDocumentV1 { compile, execute, .. } = &v2.v1;
        let compile_env = compile.as_ref().map(|_| execute.env.clone());
        SpecDocumentV3 {
            compile_env: compile_env.unwrap_or_default(),
            v2,
        }
    }
}

impl<'a> From<SpecDocumentV1<'a>> for SpecDocumentV2<'a> {
    fn from(v1: SpecDocumentV1<'a>) -> SpecDocumentV2<'a> {
        SpecDocumentV2 {
            v1,
            compile: StepExtension::default(),
            execute: StepExtension::default(),
        }
    }
}

impl<'a> From<&'a TaskSpec> for SpecDocumentV1<'a> {
    fn from(spec: &'a TaskSpec) -> SpecDocumentV1<'a> {
        let TaskSpec {
            user,
            priority,
            language: _,
            root: _,
            compile,
            execute,
            source,
            data,
            judging: _,
            problem: _,
            keep: _,
            labels: _,
            group: _,
            attempts: _,
            retry_of: _,
        } = spec;
        SpecDocumentV1 {
            user: user.as_str(),
            priority: *priority,
            compile: compile.as_ref().map(|step| CompileDocument {
                command: (&step.command).into(),
                limits: (&step.limits).into(),
            }),
            execute: ExecuteDocument {
                command: (&execute.command).into(),
                args: execute.args.iter().map(String::as_str).collect(),
                env: variables(&execute.env).collect(),
                input: (&execute.input).into(),
                limits: (&execute.limits).into(),
            },
            source: files(source),
            data: files(data),
        }
    }
}

pub(super) fn variables(env: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    env.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

pub(super) fn into_variables(env: Vec<(&str, &str)>) -> BTreeMap<String, String> {
    env.into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

pub(super) fn files(files: &TaskFiles) -> Vec<FileDocument<'_>> {
    files
        .iter()
        .map(|(path, file)| FileDocument {
            path: path.as_str(),
            executable: file.executable,
            content: (&file.content).into(),
        })
        .collect()
}

impl<'a> From<&'a StepCommand> for CommandDocument<'a> {
    fn from(command: &'a StepCommand) -> CommandDocument<'a> {
        match command {
            StepCommand::Shell(text) => CommandDocument::Shell(text),
            StepCommand::Argv(words) => CommandDocument::Argv(words.iter().map(String::as_str).collect()),
        }
    }
}

impl<'a> From<&'a Content> for ContentDocument<'a> {
    fn from(content: &'a Content) -> ContentDocument<'a> {
        match content {
            Content::Inline(bytes) => ContentDocument::Inline(RawBytes(bytes)),
            Content::Blob(hash) => ContentDocument::Blob(hash.0),
        }
    }
}

impl From<&Limits> for LimitsDocument {
    fn from(limits: &Limits) -> LimitsDocument {
        LimitsDocument {
            wall: limits.wall,
            cpu: limits.cpu,
            memory: limits.memory,
            output: limits.output,
            processes: limits.processes,
        }
    }
}

impl<'a> TryFrom<SpecDocumentV6<'a>> for TaskSpec {
    type Error = postcard::Error;

    fn try_from(document: SpecDocumentV6<'a>) -> Result<TaskSpec, postcard::Error> {
        let SpecDocumentV6 { v5, judging, problem } = document;
        let problem = problem.map(ProblemName::new).transpose();
        Ok(TaskSpec {
            judging: judging.map(TryInto::try_into).transpose()?,
            problem: problem.map_err(|_| postcard::Error::SerdeDeCustom)?,
            ..TaskSpec::try_from(v5)?
        })
    }
}

impl<'a> TryFrom<SpecDocumentV5<'a>> for TaskSpec {
    type Error = postcard::Error;

    fn try_from(document: SpecDocumentV5<'a>) -> Result<TaskSpec, postcard::Error> {
        let SpecDocumentV5 { v4, language, root } = document;
        let SpecDocumentV4 {
            v3,
            keep,
            labels,
            group,
            attempts,
            retry_of,
        } = v4;
        let SpecDocumentV3 { v2, compile_env } = v3;
        let SpecDocumentV2 {
            v1,
            compile: compile_extension,
            execute: execute_extension,
        } = v2;
        let SpecDocumentV1 {
            user,
            priority,
            compile,
            execute,
            source,
            data,
        } = v1;
        let compile_network = compile_extension.network()?;
        Ok(TaskSpec {
            user: UserName::new(user).map_err(|_| postcard::Error::SerdeDeCustom)?,
            priority,
            language: language
                .map(LanguageName::new)
                .transpose()
                .map_err(|_| postcard::Error::SerdeDeCustom)?,
            root: root
                .map(RootName::new)
                .transpose()
                .map_err(|_| postcard::Error::SerdeDeCustom)?,
            compile: compile.map(|step| CompileStep {
                command: step.command.into(),
                env: into_variables(compile_env),
                network: compile_network,
                limits: step.limits.with(&compile_extension),
            }),
            execute: ExecuteStep {
                command: execute.command.into(),
                args: execute.args.into_iter().map(String::from).collect(),
                env: into_variables(execute.env),
                input: execute.input.into(),
                network: execute_extension.network()?,
                limits: execute.limits.with(&execute_extension),
            },
            source: into_files(source)?,
            data: into_files(data)?,
            judging: None,
            problem: None,
            keep: into_patterns(keep)?,
            labels: labels.try_into()?,
            group: group
                .map(GroupName::new)
                .transpose()
                .map_err(|_| postcard::Error::SerdeDeCustom)?,
            attempts,
            retry_of: retry_of.map(|bytes| TaskId(uuid::Uuid::from_bytes(bytes))),
        })
    }
}

fn into_patterns(patterns: Vec<&str>) -> Result<Vec<KeepPattern>, postcard::Error> {
    let patterns: Result<_, _> = patterns.into_iter().map(KeepPattern::new).collect();
    patterns.map_err(|_| postcard::Error::SerdeDeCustom)
}

pub(super) fn into_files(documents: Vec<FileDocument<'_>>) -> Result<TaskFiles, postcard::Error> {
    documents
        .into_iter()
        .map(|document| {
            let FileDocument {
                path,
                executable,
                content,
            } = document;
            let path = WorkspacePath::new(path).map_err(|_| postcard::Error::SerdeDeCustom)?;
            Ok((
                path,
                TaskFile {
                    content: content.into(),
                    executable,
                },
            ))
        })
        .collect()
}

impl From<CommandDocument<'_>> for StepCommand {
    fn from(document: CommandDocument<'_>) -> StepCommand {
        match document {
            CommandDocument::Shell(text) => StepCommand::Shell(text.into()),
            CommandDocument::Argv(words) => StepCommand::Argv(words.into_iter().map(String::from).collect()),
        }
    }
}

impl From<ContentDocument<'_>> for Content {
    fn from(document: ContentDocument<'_>) -> Content {
        match document {
            ContentDocument::Inline(raw) => Content::Inline(Bytes::copy_from_slice(raw.0)),
            ContentDocument::Blob(hash) => Content::Blob(BlobHash(hash)),
        }
    }
}

impl StepExtension<'_> {
    fn network(&self) -> Result<Option<NetworkName>, postcard::Error> {
        let network = self.network.map(NetworkName::new).transpose();
        network.map_err(|_| postcard::Error::SerdeDeCustom)
    }
}

impl LimitsDocument {
    fn with(self, extension: &StepExtension<'_>) -> Limits {
        Limits {
            wall: self.wall,
            cpu: self.cpu,
            memory: self.memory,
            output: self.output,
            processes: self.processes,
            file_size: extension.file_size,
            open_files: extension.open_files,
            stack: extension.stack,
            space: extension.space,
        }
    }
}
